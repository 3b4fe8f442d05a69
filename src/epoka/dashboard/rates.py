"""Records a second, in and out: how far ends and committed offsets have moved since they were last looked at.

`Meter` is plain arithmetic. `Sampler` looks every other second at a bounded number of partitions and groups;
a larger cluster is looked at in turns, and a rate is then that of the time between two turns.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from epoka.client.errors import ClientError
from epoka.client.groups import committed, list_groups
from epoka.dashboard.asking import Asking
from epoka.dashboard.feed import Feed
from epoka.dashboard.offsets import ends
from epoka.model.image import ClusterImage
from epoka.model.ledger_outbox import TOPIC as LEDGER

T = TypeVar("T")

STEP_S: Final = 2.0
MOST_POINTS: Final = 150
"""Five minutes."""
PARTITIONS_A_ROUND: Final = 2_000
GROUPS_A_ROUND: Final = 20
INTERNAL: Final = ("__consumer_offsets", LEDGER)
"""Nobody's records but the cluster's own."""


class Point(msgspec.Struct, frozen=True):
    at_ms: int
    produced: float
    consumed: float


class Meter:
    """The sum of what many counters do in a second."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[int, int]] = {}
        self._rates: dict[Hashable, float] = {}

    def look(self, counts: Mapping[Any, int], at_ms: int, asked: Iterable[Any] = ()) -> None:
        """Where some counters stand. One that went back, because a log was cut, counts from there; one that
        was asked for and is not among them does not move until it is seen again."""
        self._forget([key for key in asked if key not in counts])
        for key, count in counts.items():
            before = self._seen.get(key)
            if before is not None and at_ms > before[1]:
                self._rates[key] = max(0, count - before[0]) * 1000 / (at_ms - before[1])
            self._seen[key] = (count, at_ms)

    def keep(self, exists: Callable[[Any], bool]) -> None:
        """Forget counters that are no more."""
        self._forget([key for key in self._seen if not exists(key)])

    def _forget(self, keys: Iterable[Any]) -> None:
        for key in keys:
            self._seen.pop(key, None)
            self._rates.pop(key, None)

    @property
    def per_second(self) -> float:
        return round(sum(self._rates.values()), 1)


class Turns:
    """Goes round something long, a part at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._at = 0

    def next(self, all_: list[T]) -> list[T]:
        if len(all_) <= self._most:
            self._at = 0
            return all_
        begin = self._at if self._at < len(all_) else 0
        part = all_[begin : begin + self._most]
        self._at = begin + len(part)
        return part


class Sampler:
    """Keeps the last minutes; whoever listens is told of each new point."""

    def __init__(self, asking: Asking, feed: Feed, image: Callable[[], ClusterImage | None]) -> None:
        self._asking = asking
        self._feed = feed
        self._image = image
        self._points: deque[Point] = deque(maxlen=MOST_POINTS)
        self._produced, self._consumed = Meter(), Meter()
        self._partitions: tuple[int, list[tuple[str, int]]] = (-1, [])
        self._partition_turns = Turns(PARTITIONS_A_ROUND)
        self._group_turns = Turns(GROUPS_A_ROUND)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="epoka-dashboard-rates", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1)

    def points(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(each) for each in self._points.copy()]

    def _go_on(self) -> None:
        while not self._stop.is_set():
            image = self._image()
            if image is not None:
                # When nobody answers, the page says so, and here a gap does.
                with suppress(ClientError):
                    self._look(image)
            self._stop.wait(STEP_S)

    def _look(self, image: ClusterImage) -> None:
        partitions = self._partition_turns.next(self._all_partitions(image))
        with self._asking.client() as client:
            found = ends(client, image, partitions)
            at_ms = int(time.time() * 1000)
            self._produced.look(found, at_ms, partitions)
            lines = [line.group for line in list_groups(client)]
            asked = self._group_turns.next(lines)
            told: set[tuple[str, str, int]] = set()
            for group in asked:
                offsets = {(group, *each): offset for each, offset in committed(client, group).items()}
                self._consumed.look(offsets, int(time.time() * 1000))
                told |= offsets.keys()
        self._produced.keep(lambda key: image.partition(*key) is not None)
        known = {*lines}
        # A group that was asked and tells of an offset no more has none: its topic was deleted.
        self._consumed.keep(lambda key: key in told or (key[0] in known and key[0] not in asked))
        self._add(Point(at_ms, self._produced.per_second, self._consumed.per_second))

    def _add(self, point: Point) -> None:
        self._points.append(point)
        if self._feed.listeners:
            self._feed.publish("rates", msgspec.to_builtins(point))

    def _all_partitions(self, image: ClusterImage) -> list[tuple[str, int]]:
        if self._partitions[0] != image.offset:
            self._partitions = (image.offset, list(_named(image)))
        return self._partitions[1]


def _named(image: ClusterImage) -> Iterable[tuple[str, int]]:
    table = image.partitions
    for row in image.all_rows().tolist():
        name = image.topic_in(table.topic.item(row)).name
        if name not in INTERNAL:
            yield name, table.index.item(row)

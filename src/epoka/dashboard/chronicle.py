"""The ledger in memory, bounded and sorted into what the pages ask for. Decides nothing.

One thread adds, any thread reads. When there is too much, the oldest quarter is forgotten, but for the last
word on every partition and on every broker: without those the past could not be told.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from epoka.ledger.telling import sentence
from epoka.ledger.why import HEARD, PLACEMENT, STANDING, Answer, History, Step
from epoka.model.ledger import LedgerEvent

MOST_EVENTS: Final = 200_000
MOST_CAUSED: Final = 50
"""Changes of one partition whose causes are looked for; older ones are told without."""
MOST_LATE: Final = 1_000
"""Nodes write at their own pace: the oldest event is among the first so many."""
REFUSALS: Final = ("refused", "ignored")
LIFE: Final = frozenset(
    {
        "registered",
        "unregistered",
        "fenced",
        "unfenced",
        HEARD,
        "stopping",
        "ended",
        "stale",
        "self-fenced",
        "self-unfenced",
        "active",
        "fault",
        "storage-failed",
    }
)
"""Kinds that the time line is drawn from."""


class Placement(msgspec.Struct, frozen=True):
    """A partition at one moment, as far as the ledger tells."""

    event: LedgerEvent
    """The last change before that moment."""
    members: tuple[int, ...]
    """Brokers that had been in sync."""

    @property
    def out(self) -> tuple[int, ...]:
        """Those that were not any more."""
        return tuple(each for each in self.members if each not in self.event.isr)


class Chronicle:
    def __init__(self, most_events: int = MOST_EVENTS) -> None:
        self._most = most_events
        self._lock = threading.Lock()
        self._events: list[LedgerEvent] = []
        self._asking = threading.Lock()
        self._placing = threading.Lock()
        self._history: History | None = None
        self._told_of = 0
        """So many of the events are in the history; it is extended when somebody asks, under `_asking`."""
        self._placed: tuple[int, int, dict[tuple[str, int], Placement]] | None = None
        self._last_ms = 0
        self._last_placements: dict[str, dict[int, Placement]] = {}
        self._last_lives: dict[tuple[str, int], LedgerEvent] = {}
        """Of what was forgotten: the last word on every partition, and on every broker and the controller."""
        self._sort_anew([])
        self.forgotten = 0
        self.version = 0
        """Grows with every change."""

    def add(self, events: Sequence[LedgerEvent]) -> None:
        if not events:
            return
        with self._lock:
            self._events.extend(events)
            self._last_ms = max(self._last_ms, *(event.time_ms for event in events))
            self.version += 1
            if len(self._events) > self._most:
                kept = self._events[-self._most * 3 // 4 :]
                gone = self._events[: len(self._events) - len(kept)]
                self.forgotten += len(gone)
                self._sum_up(gone)
                self._sort_anew(kept)
                self._told_of = -1
            else:
                self._sort(events)

    def __len__(self) -> int:
        return len(self._events)

    def life_events(self, until_ms: int | None = None) -> list[LedgerEvent]:
        """What the time line is drawn from, oldest first."""
        with self._lock:
            told_of = [*self._last_lives.values(), *self._life]
        if until_ms is not None:
            told_of = [event for event in told_of if event.time_ms <= until_ms]
        return sorted(told_of, key=lambda each: (each.time_ms, each.node, each.event_id))

    def first_ms(self) -> int | None:
        """Before this moment nothing is known."""
        with self._lock:
            return min((event.time_ms for event in self._events[:MOST_LATE]), default=None)

    def events(
        self, fits: Callable[[LedgerEvent], bool], page: int, size: int
    ) -> tuple[list[LedgerEvent], int]:
        """One page of the events of any kind that fit, newest first, and how many fit."""
        with self._lock:
            newest = self._events[::-1]
        found = [event for event in newest if fits(event)]
        return found[page * size : (page + 1) * size], len(found)

    def neighbours(self, at_ms: int, fits: Callable[[LedgerEvent], bool]) -> tuple[int | None, int | None]:
        """When the last thing before a moment happened, and the first thing after it."""
        with self._lock:
            events = list(self._events)
        times = [event.time_ms for event in events if event.time_ms != at_ms and fits(event)]
        return (
            max((each for each in times if each < at_ms), default=None),
            min((each for each in times if each > at_ms), default=None),
        )

    def placements(self, until_ms: int) -> dict[tuple[str, int], Placement]:
        """Every partition that existed at a moment."""
        with self._placing:
            with self._lock:
                key = (self.version, min(until_ms, self._last_ms))
            if self._placed is None or self._placed[:2] != key:
                self._placed = (*key, self._place(until_ms))
            return self._placed[2]

    def _place(self, until_ms: int) -> dict[tuple[str, int], Placement]:
        with self._lock:
            found = {
                (topic, index): placement
                for topic, partitions in self._last_placements.items()
                for index, placement in partitions.items()
                if placement.event.time_ms <= until_ms
            }
            for key, changes in self._placements.items():
                for placement in reversed(changes):
                    if placement.event.time_ms <= until_ms:
                        found[key] = placement
                        break
            deleted = {
                topic: max((each for each in times if each <= until_ms), default=-1)
                for topic, times in self._deleted.items()
            }
        return {
            key: placement
            for key, placement in found.items()
            if placement.event.time_ms > deleted.get(key[0], -1)
        }

    def last_standing(self) -> dict[int, LedgerEvent]:
        """The controller's last word on every broker."""
        with self._lock:
            return dict(self._standing)

    def verdicts(
        self, fits: Callable[[LedgerEvent], bool], page: int, size: int
    ) -> tuple[list[LedgerEvent], int]:
        """One page of the verdicts that fit, newest first, and how many fit."""
        with self._lock:
            newest = list(reversed(self._verdicts))
        found = [event for event in newest if fits(event)]
        return found[page * size : (page + 1) * size], len(found)

    def rules(self) -> list[str]:
        """Every rule that a verdict names."""
        with self._lock:
            return sorted({event.rule for event in self._verdicts if event.rule})

    def refusals(self) -> int:
        with self._lock:
            return self._refusals

    def find(self, node: int, event_id: int) -> LedgerEvent | None:
        with self._lock:
            newest = self._events[::-1]
        return next((each for each in newest if (each.node, each.event_id) == (node, event_id)), None)

    def why(self, event: LedgerEvent) -> list[Step]:
        with self._asking:
            return list(self._told().chain(event))

    def why_broker(self, broker: int) -> Answer:
        with self._asking:
            return self._told().why_broker(broker)

    def partition_history(
        self, topic: str, partition: int, most: int = 200
    ) -> list[tuple[LedgerEvent, list[Step]]]:
        """Every change of a partition, newest first, the first ones with the chain that led to each."""
        with self._lock:
            changes = self._placements.get((topic, partition), ())
            newest = [placement.event for placement in islice(reversed(changes), most)]
        with self._asking:
            history = self._told()
            return [
                (event, list(history.chain(event))[1:] if at < MOST_CAUSED else [])
                for at, event in enumerate(newest)
            ]

    def _told(self) -> History:
        with self._lock:
            anew = self._history is None or self._told_of < 0
            fresh = self._events[0 if anew else self._told_of :]
            self._told_of = len(self._events)
        if self._history is None or anew:
            self._history = History(fresh)
        else:
            self._history.add(fresh)
        return self._history

    def _sort_anew(self, events: list[LedgerEvent]) -> None:
        self._events = events
        self._life: deque[LedgerEvent] = deque()
        self._verdicts: list[LedgerEvent] = []
        self._placements: dict[tuple[str, int], list[Placement]] = {}
        self._standing: dict[int, LedgerEvent] = {
            event.broker: event for event in self._last_lives.values() if event.kind in STANDING
        }
        self._deleted: dict[str, list[int]] = {}
        self._refusals = 0
        self._sort(events)

    def _forgotten_placement(self, event: LedgerEvent) -> Placement | None:
        return self._last_placements.get(event.topic, {}).get(event.partition)

    def _sum_up(self, events: Iterable[LedgerEvent]) -> None:
        for event in events:
            if event.kind in PLACEMENT:
                last = self._last_placements.setdefault(event.topic, {})
                last[event.partition] = _placed(last.get(event.partition), event)
            elif event.kind == "topic-deleted":
                self._last_placements.pop(event.topic, None)
            elif event.kind == "registered":
                self._last_lives["registered", event.broker] = event
                self._last_lives.pop(("standing", event.broker), None)
            elif event.kind in STANDING:
                self._last_lives["standing", event.broker] = event
            elif event.kind == HEARD:
                self._last_lives.setdefault(("standing", event.broker), event)
            elif event.kind == "active":
                self._last_lives["active", -1] = event

    def _sort(self, events: Iterable[LedgerEvent]) -> None:
        for event in events:
            if event.kind == "verdict":
                self._verdicts.append(event)
                self._refusals += event.verdict in REFUSALS
            elif event.kind in PLACEMENT:
                changes = self._placements.setdefault((event.topic, event.partition), [])
                last = changes[-1] if changes else self._forgotten_placement(event)
                changes.append(_placed(last, event))
            elif event.kind in LIFE:
                self._life.append(event)
                if event.kind in STANDING:
                    self._standing[event.broker] = event
            elif event.kind == "topic-deleted":
                self._deleted.setdefault(event.topic, []).append(event.time_ms)


def _placed(before: Placement | None, event: LedgerEvent) -> Placement:
    """Where a partition is after one more change."""
    # The ledger names no replicas. Who was in sync is one, until a reassignment says otherwise.
    anew = event.kind == "reassignment" or "reassignment" in event.detail or not event.isr_before
    if anew or (before is None and event.isr_before == event.isr):
        return Placement(event, event.isr)
    members = event.isr_before if before is None else before.members
    more = [each for each in event.isr if each not in members]
    return Placement(event, (*members, *more) if more else members)


def told(event: LedgerEvent) -> dict[str, Any]:
    """An event for the page: its fields and its sentence. Kinds that nobody knows are told as they are."""
    return {**msgspec.to_builtins(event), "text": sentence(event)}


def told_steps(steps: Iterable[Step]) -> list[dict[str, Any]]:
    return [{"depth": step.depth, **told(step.event)} for step in steps]

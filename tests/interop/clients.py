"""The four clients behind one face, so that a scenario reads the same for each.

A `Member` polls in the background for as long as it lives, as a real application does; the test looks at what
it owns and what it has read. Whatever goes wrong in the background is raised where the test looks next.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import ClassVar, NamedTuple

from tests.waiting import wait_until

Headers = tuple[tuple[str, bytes], ...]


class Message(NamedTuple):
    """What an application sends."""

    value: bytes
    key: bytes | None = None
    headers: Headers = ()


class Place(NamedTuple):
    """Where the broker says a message is."""

    partition: int
    offset: int


class Record(NamedTuple):
    """What an application reads."""

    place: Place
    message: Message


class Member(ABC):
    """One consumer in a group."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._partitions: frozenset[int] = frozenset()
        self._failure: BaseException | None = None
        self.rebalances: list[frozenset[int]] = []
        """What it has owned, one entry a change."""

    @property
    def partitions(self) -> frozenset[int]:
        """What it owns now."""
        self.check()
        return self._partitions

    @property
    def records(self) -> list[Record]:
        """Everything it has read so far."""
        self.check()
        return list(self._records)

    def check(self) -> None:
        if self._failure is not None:
            raise AssertionError(f"the member failed: {self._failure!r}") from self._failure

    def read(self, total: int) -> list[Record]:
        """Wait until it has read this many records in all."""
        wait_until(
            lambda: len(self.records) >= total, lambda: f"{total} records; there are {len(self._records)}"
        )
        return self.records

    def owns(self, partitions: Sequence[int] | range) -> None:
        """Wait until it owns exactly these partitions."""
        wanted = frozenset(partitions)
        wait_until(
            lambda: self.partitions == wanted, lambda: f"{set(wanted)} owned, not {set(self._partitions)}"
        )

    @abstractmethod
    def commit(self) -> None:
        """Commit everything it has read."""

    @abstractmethod
    def leave(self) -> None:
        """Leave the group and end; nothing is committed by that."""

    def _now_owns(self, partitions: frozenset[int]) -> None:
        if partitions != self._partitions:
            self._partitions = partitions
            self.rebalances.append(partitions)


class PollingMember(Member):
    """A member whose consumer lives in a thread of its own; only that thread ever touches the consumer."""

    def __init__(self) -> None:
        super().__init__()
        self._orders: SimpleQueue[tuple[Callable[[], None], threading.Event]] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._leaving = False

    def start(self) -> None:
        self._thread.start()

    def commit(self) -> None:
        self._order(self._commit)

    def leave(self) -> None:
        if self._thread.is_alive():
            self._leaving = True
            self._thread.join(60)
            assert not self._thread.is_alive(), "the member did not leave"
        self.check()

    def _order(self, work: Callable[[], None]) -> None:
        done = threading.Event()
        self._orders.put((work, done))
        wait_until(lambda: done.is_set() or self.check(), "the member to obey")
        self.check()

    def _live(self) -> None:
        try:
            self._open()
            while not self._leaving:
                self._poll()
                try:
                    work, done = self._orders.get_nowait()
                except Empty:
                    continue
                work()
                done.set()
            self._close()
        except BaseException as failure:
            self._failure = failure

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _poll(self) -> None:
        """Take what is there, wait at most a moment for it, and note what is owned."""

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...


class Client(ABC):
    """One Kafka client."""

    name: ClassVar[str]
    codecs: ClassVar[tuple[str, ...]] = ("none", "gzip", "snappy", "lz4", "zstd")
    outlives_its_broker: ClassVar[bool] = True
    """Whether a consumer waits for a broker that is gone to come back."""
    knows_static_members: ClassVar[bool] = True

    @abstractmethod
    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = None,
    ) -> list[Place]:
        """Send all messages and return where each was acknowledged."""

    @abstractmethod
    def join(self, bootstrap: str, topic: str, group: str, *, instance: str | None = None) -> Member:
        """A new member, on its way into the group; begins at the first record when nothing is committed."""


def by_partition(records: Sequence[Record]) -> dict[int, list[Record]]:
    """The records of each partition, in the order in which they were read."""
    found: defaultdict[int, list[Record]] = defaultdict(list)
    for record in records:
        found[record.place.partition].append(record)
    return dict(found)

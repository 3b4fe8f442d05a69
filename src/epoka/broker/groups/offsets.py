"""The offsets of one group: those committed, and those on their way to the log.

A commit counts once its record is committed, and so does a removal, whose record is a tombstone. Several
records of the same partition may be on their way together: the last one in the log wins, in whatever order
they are heard of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

TopicPartition = tuple[str, int]


class CommittedOffset(msgspec.Struct, frozen=True):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    """Set by old clients only, which name a retention of their own; -1 otherwise."""


class GroupOffsets:
    __slots__ = ("_applied", "_committed", "_pending")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        self._pending: dict[TopicPartition, list[int]] = {}
        """The tickets of records on their way."""
        self._applied: dict[TopicPartition, int] = {}
        """The greatest ticket heard of, while there are others on their way."""

    def __bool__(self) -> bool:
        return bool(self._committed or self._pending)

    def get(self, partition: TopicPartition) -> CommittedOffset | None:
        return self._committed.get(partition)

    def is_pending(self, partition: TopicPartition) -> bool:
        return partition in self._pending

    @property
    def partitions(self) -> list[TopicPartition]:
        """All partitions with a committed offset."""
        return list(self._committed)

    @property
    def known(self) -> list[TopicPartition]:
        """All partitions with a record in the log, those whose record is on its way included."""
        return list(dict.fromkeys([*self._committed, *self._pending]))

    def load(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        self._committed[partition] = offset

    def begin(self, ticket: int, partitions: Iterable[TopicPartition]) -> None:
        """Records of these partitions go to the log."""
        for partition in partitions:
            self._pending.setdefault(partition, []).append(ticket)

    def finish(
        self, ticket: int, records: Mapping[TopicPartition, CommittedOffset | None], is_stored: bool
    ) -> None:
        """Those records were stored, tombstones among them, or they were not."""
        for partition, offset in records.items():
            tickets = self._pending[partition]
            tickets.remove(ticket)
            if is_stored and ticket > self._applied.get(partition, 0):
                self._applied[partition] = ticket
                if offset is None:
                    self._committed.pop(partition, None)
                else:
                    self._committed[partition] = offset
            if not tickets:
                del self._pending[partition]
                self._applied.pop(partition, None)

    def expired(
        self,
        now: int,
        retention_ms: int,
        since: Callable[[CommittedOffset], int],
        kept_topics: frozenset[str] = frozenset(),
    ) -> list[TopicPartition]:
        """Partitions whose offset is too old, counted from `since`."""
        return [
            partition
            for partition, offset in self._committed.items()
            if partition[0] not in kept_topics
            and partition not in self._pending
            and (
                now >= offset.expire_timestamp
                if offset.expire_timestamp >= 0
                else now - since(offset) >= retention_ms
            )
        ]

"""The offsets of one group: those committed, and those on their way to the log.

An offset counts once its record is committed, and never before. Two commits of the same partition may be on
their way together: the later record wins, whichever is heard of first. An offset that is removed while a
commit of it is on its way stays removed, because the tombstone stands behind the commit in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

TopicPartition = tuple[str, int]


class CommittedOffset(msgspec.Struct, frozen=True):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    """Set by old clients only, which name a retention of their own; -1 otherwise."""
    sequence: int = 0
    """The ticket its record was stored under: greater is later in the log. 0 when it was loaded."""


class GroupOffsets:
    __slots__ = ("_committed", "_pending")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        self._pending: dict[TopicPartition, list[int]] = {}

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
        for partition in partitions:
            self._pending.setdefault(partition, []).append(ticket)

    def finish(self, ticket: int, partition: TopicPartition, offset: CommittedOffset | None) -> None:
        """The record of a commit was stored; without an offset, it failed."""
        tickets = self._pending.get(partition)
        if tickets is None or ticket not in tickets:
            return
        tickets.remove(ticket)
        if not tickets:
            del self._pending[partition]
        if offset is not None:
            current = self._committed.get(partition)
            if current is None or current.sequence < offset.sequence:
                self._committed[partition] = offset

    def remove(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        """Forget offsets; returns all that need a tombstone, with what was committed."""
        removed: dict[TopicPartition, CommittedOffset | None] = {}
        for partition in partitions:
            if partition in self._committed or partition in self._pending:
                self._pending.pop(partition, None)
                removed[partition] = self._committed.pop(partition, None)
        return removed

    def restore(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        """The tombstone of an offset could not be written, so the offset is still there."""
        self._committed.setdefault(partition, offset)

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

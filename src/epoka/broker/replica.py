"""One partition as this broker holds it: its log, its high watermark, and the role it plays now."""

from __future__ import annotations

import uuid

from epoka.broker.leadership import Leadership
from epoka.broker.waiting import PartitionWaits
from epoka.log.partition_log import PartitionLog


class Replica:
    __slots__ = (
        "high_watermark",
        "index",
        "leader_epoch",
        "leader_id",
        "leadership",
        "log",
        "min_isr",
        "partition_epoch",
        "topic",
        "topic_id",
        "unseen_bytes",
        "waits",
    )

    def __init__(
        self, topic: str, topic_id: uuid.UUID, index: int, log: PartitionLog, high_watermark: int
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.end_offset)
        self.leader_id = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.leadership: Leadership | None = None
        """There while this broker leads the partition."""
        self.min_isr = 1
        self.unseen_bytes = 0
        """Appended, but not yet below the high watermark."""
        self.waits = PartitionWaits()

    @property
    def key(self) -> tuple[uuid.UUID, int]:
        return (self.topic_id, self.index)

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def last_record_epoch(self) -> int:
        """The leader epoch of the last record; one that was begun and never written to does not count."""
        log = self.log
        return log.epochs.epoch_of(log.end_offset - 1) if log.end_offset > log.log_start_offset else -1

    def appended(self, size: int) -> None:
        """Bytes were added at the end of the log: whoever follows may come for them."""
        self.unseen_bytes += size
        for wait in list(self.waits.tail):
            wait.arrived(size)

    def raise_log_start(self, offset: int) -> None:
        """Forget what is below; followers that poll hear of it now."""
        before = self.log.log_start_offset
        if self.log.delete_records_before(offset) > before:
            for wait in list(self.waits.tail):
                wait.end()

    def raise_high_watermark(self, offset: int) -> bool:
        """Move the high watermark up, and with it whoever waits for it; never down in a leader epoch."""
        before = self.high_watermark
        if offset <= before:
            return False
        self.high_watermark = offset
        end = self.log.end_offset
        if offset >= end:
            size, self.unseen_bytes = self.unseen_bytes, 0
        else:
            size = self.unseen_bytes * (offset - before) // max(end - before, 1)
            self.unseen_bytes -= size
        self.waits.high_watermark_reached(offset)
        for wait in list(self.waits.committed):
            wait.arrived(max(size, 1))
        return True

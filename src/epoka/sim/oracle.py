"""What has been committed, seen from outside of all nodes, and who has lost some of it.

Whatever a leader's high watermark has passed counts as committed; the oracle remembers those batches by
offset, leader epoch and checksum. It also knows which brokers have lost a part of their disk and not got it
back, which is what the nemesis' budget is counted in.

The stated exception (KIP-903, "last replica standing"): when the only ISR member that is left has lost its
tail, or another process with an empty disk has got its id, it leads again without. That is not hidden: the
oracle counts it, forgives exactly what was lost, and goes on. Lost with it is what a leader of an earlier
epoch, who has not heard yet, commits afterwards and counted on that disk for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from epoka.log.partition_log import PartitionLog
from epoka.wire import records

if TYPE_CHECKING:
    from epoka.sim.process import Process

Key = tuple[UUID, int]
ALL = 1 << 24


class Batch:
    """One committed batch."""

    __slots__ = ("base", "crc", "epoch", "next")

    def __init__(self, base: int, end: int, epoch: int, crc: int) -> None:
        self.base = base
        self.next = end
        self.epoch = epoch
        self.crc = crc

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Batch)
            and self.base == other.base
            and self.next == other.next
            and self.epoch == other.epoch
            and self.crc == other.crc
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.base}..{self.next - 1} of epoch {self.epoch} ({self.crc:08x})"


class Takeover:
    """The last replica standing leads, and its disk had lost something."""

    __slots__ = ("brought", "end", "epoch")

    def __init__(self, epoch: int, end: int, brought: list[Batch]) -> None:
        self.epoch = epoch
        self.end = end
        """How much was committed then."""
        self.brought = brought
        """What it has behind that."""


class Committed:
    """One partition's committed batches, in order."""

    __slots__ = ("batches", "end", "excused_from", "key", "takeover")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.batches: list[Batch] = []
        self.end = 0
        self.excused_from: int | None = None
        """The lowest offset that the last-replica exception has ever taken."""
        self.takeover: Takeover | None = None

    def add(self, batches: list[Batch]) -> str | None:
        """Take in what a leader calls committed; the contradiction, if it is one."""
        for batch in batches:
            if batch.next <= self.end:
                known = self.at(batch.base)
                if known != batch:
                    return f"committed before: {known}, committed now: {batch}"
            elif batch.base == self.end:
                self.batches.append(batch)
                self.end = batch.next
            else:
                return f"{batch} does not continue what is committed up to {self.end}"
        return None

    def at(self, base: int) -> Batch | None:
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle].base < base:
                low = middle + 1
            else:
                high = middle
        found = self.batches[low] if low < len(self.batches) else None
        return found if found is not None and found.base == base else None

    def lacking(self, log: PartitionLog) -> int | None:
        """The first committed offset that the log does not hold, by its end and its epochs; None for none."""
        if log.end_offset >= self.end and (
            not self.batches or log.epochs.epoch_of(self.end - 1) == self.batches[-1].epoch
        ):
            return None
        for batch in self.batches:
            if log.end_offset < batch.next or log.epochs.epoch_of(batch.base) != batch.epoch:
                return batch.base
        return None

    def differing(self, log: PartitionLog) -> int | None:
        """The same by every byte: the checksum of each batch."""
        held = {batch.base: batch for batch in batches_of(log, log.log_start_offset, log.end_offset)}
        for batch in self.batches:
            if held.get(batch.base) != batch:
                return batch.base
        return None

    def forget_from(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.next <= offset]
        self.end = self.batches[-1].next if self.batches else 0
        self.excuse_from(self.end)

    def excuse_from(self, offset: int) -> None:
        self.excused_from = offset if self.excused_from is None else min(self.excused_from, offset)


class Oracle:
    def __init__(self) -> None:
        self.partitions: dict[Key, Committed] = {}
        self.names: dict[Key, str] = {}
        self.dirty: dict[tuple[int, Key], None] = {}
        """Address and partition: a disk that lost some of its log, or a new one under an old id, and has not
        got back what is committed. The budget counts them."""
        self.lost: dict[tuple[int, Key], None] = {}
        """The same until the replica has been taken into the ISR again. The exception asks for them."""
        self.exceptions = 0
        self.replica: Callable[[Process, Key], Any] = lambda process, key: None
        """How a broker's replica is found; the checkers know."""
        self.on_excused: Callable[[Key, int], None] | None = None

    def committed(self, key: Key) -> Committed:
        found = self.partitions.get(key)
        if found is None:
            found = self.partitions[key] = Committed(key)
        return found

    def lost_data(self, address: int, hosted: list[Key]) -> None:
        for key in hosted:
            self.dirty[address, key] = None
            self.lost[address, key] = None

    def is_dirty(self, address: int, key: Key, process: Process | None) -> bool:
        """Whether that disk still lacks what it lost; looks at the log, and forgets the loss if it can."""
        if (address, key) not in self.dirty:
            return False
        if process is not None:
            replica = self.replica(process, key)
            if replica is not None and self.committed(key).lacking(replica.log) is None:
                del self.dirty[address, key]
                return False
        return True

    def is_gone(self, address: int) -> None:
        """A disk that nobody will see again."""
        for marks in (self.dirty, self.lost):
            for place in [each for each in marks if each[0] == address]:
                del marks[place]

    def excuse(self, key: Key, offset: int) -> None:
        """The last replica standing has lost what is from here on."""
        self.exceptions += 1
        self.committed(key).forget_from(offset)
        if self.on_excused is not None:
            self.on_excused(key, self.committed(key).end)

    def taken_over(self, key: Key, leader_epoch: int, log: PartitionLog) -> None:
        """The last replica standing leads with what its disk has left."""
        committed = self.committed(key)
        brought = batches_of(log, committed.end, log.end_offset)
        committed.takeover = Takeover(leader_epoch, committed.end, brought)

    def commits_late(self, key: Key, log: PartitionLog, mark: int) -> None:
        """A leader from before the takeover calls something committed."""
        committed = self.committed(key)
        takeover = committed.takeover
        assert takeover is not None
        for batch in batches_of(log, takeover.end, mark):
            if batch not in takeover.brought:
                self.exceptions += 1
                committed.excuse_from(batch.base)
                if self.on_excused is not None:
                    self.on_excused(key, batch.base)
                return
            if batch.base == committed.end:
                committed.add([batch])

    def forget(self, key: Key) -> None:
        """The topic is gone."""
        self.partitions.pop(key, None)
        for marks in (self.dirty, self.lost):
            for place in [each for each in marks if each[1] == key]:
                del marks[place]


def batches_of(log: PartitionLog, start: int, end: int) -> list[Batch]:
    """The batches between two offsets as they lie in the log."""
    if start >= end:
        return []
    content: Any = log.read(start, ALL, end)
    if not content:
        return []
    return [
        Batch(header.base_offset, header.next_offset, header.partition_leader_epoch, header.crc)
        for _, header in records.headers(content)
    ]

"""The port to the metadata log: the one thing a controller core calls directly, because an append is an
answer and not a wish.

What `append` has returned is durable: it survives the loss of power. An append that fails raises
`MetadataLogFailed`, is never tried again, and ends the controller. Batches are atomic: after a crash either
all records of an append are there or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from epoka.model.image import ClusterImage
from epoka.model.records import encode_record
from epoka.wire.messages.metadata_records import PartitionChangeRecord


class MetadataLogFailed(Exception):
    """The log could not make a batch durable, or could not be read. The message names the file."""


class Unwritable(MetadataLogFailed):
    """These records can't be written, and none was: the controller refuses who asked and goes on."""


class Overtaken(MetadataLogFailed):
    """A leader changed a partition before this append did (zookeeper mode, below level `heartbeats`).

    The first `written` records are durable from `base_offset` on and are to be replayed; the others changed
    nothing. `take_partition` tells what the leader wrote; then the controller decides again.
    """

    def __init__(self, topic: str, partition: int, base_offset: int, written: int) -> None:
        super().__init__(f"partition {topic}-{partition} was changed by its leader first")
        self.topic = topic
        self.partition = partition
        self.base_offset = base_offset
        self.written = written


class Loaded(msgspec.Struct, frozen=True):
    """What a log holds when it is opened: a snapshot, and every record behind it."""

    snapshot: Sequence[bytes] = ()
    snapshot_offset: int = -1
    """The offset of the last record that the snapshot contains; -1 without one."""
    tail: Sequence[bytes] = ()
    """The records from `snapshot_offset + 1` on."""
    notes: tuple[str, ...] = ()
    """What had to be cut, in words."""
    image: ClusterImage | None = None
    """What all of these records lead to, if the log has it at hand: to be copied, it is the log's own."""


class MetadataLog(Protocol):
    @property
    def start_offset(self) -> int:
        """The first offset that can be read; what came before is in the snapshot only."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    def load(self) -> Loaded: ...

    def append(self, records: Sequence[bytes]) -> int:
        """Make the records durable, all or none; the offset of the first."""
        ...

    def read(self, from_offset: int, max_bytes: int) -> list[bytes]:
        """Records from that offset on, at least one if there is one, about `max_bytes` in all."""
        ...

    def snapshot(self, image: ClusterImage) -> None:
        """Keep the whole image, so that the records before the previous snapshot may be forgotten."""
        ...


class SharedMetadataLog(MetadataLog, Protocol):
    """A log beside which others write too: in zookeeper mode leaders change ISRs below `heartbeats`."""

    def take_isr_changes(self) -> tuple[int, Sequence[PartitionChangeRecord]]:
        """What leaders wrote since the last look, as records to replay, with the offset of the first."""
        ...

    def take_partition(self, topic: str, partition: int) -> tuple[int, Sequence[PartitionChangeRecord]]:
        """The same for one partition, after `Overtaken`."""
        ...


class MemoryMetadataLog:
    """A log in memory, for tests and for the simulator. What was appended survives the core that wrote it."""

    def __init__(self) -> None:
        self._snapshot: tuple[bytes, ...] = ()
        self._snapshot_offset = -1
        self._records: list[bytes] = []
        self._start_offset = 0
        self.fail_with: str | None = None
        """Set it, and the next append fails for that reason."""

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self._start_offset + len(self._records)

    def load(self) -> Loaded:
        tail = self._records[self._snapshot_offset + 1 - self._start_offset :]
        return Loaded(self._snapshot, self._snapshot_offset, tuple(tail))

    def append(self, records: Sequence[bytes]) -> int:
        if self.fail_with is not None:
            raise MetadataLogFailed(self.fail_with)
        base_offset = self.end_offset
        self._records.extend(records)
        return base_offset

    def read(self, from_offset: int, max_bytes: int) -> list[bytes]:
        return take(self._records, from_offset - self._start_offset, max_bytes)

    def snapshot(self, image: ClusterImage) -> None:
        forget = self._snapshot_offset + 1
        self._snapshot = tuple(encode_record(record) for record in image.iter_records())
        self._snapshot_offset = image.offset
        del self._records[: forget - self._start_offset]
        self._start_offset = forget


def take(records: Sequence[bytes], position: int, max_bytes: int) -> list[bytes]:
    """Records from a position on, at least one if there is one, until `max_bytes` are reached."""
    taken: list[bytes] = []
    size = 0
    for at in range(position, len(records)):
        size += len(records[at])
        if taken and size > max_bytes:
            break
        taken.append(records[at])
    return taken

"""The metadata log on a store: batches with checksums, flushed before `append` returns, and snapshots.

    metadata-<base offset>.log       batches, one file from snapshot to snapshot
    snapshot-<last offset>.image     a whole image, in one batch of the same form

A batch is a header (magic, base offset, count, length and checksum of the payload, its own checksum) and
a payload of length-prefixed records. Because a batch is flushed before the next is written, a crash can only
leave the last one torn: that one is cut off, and said. Anything else that is wrong is damage: the log is not
opened, nothing is overwritten, and the message names the file and the position.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from epoka.controller.metadata_log import Loaded, MetadataLogFailed, take
from epoka.log.store import Blob, StorageError, Store
from epoka.model.image import ClusterImage
from epoka.model.records import encode_record

MAGIC: Final = 0xE90CA001
_HEADER: Final = struct.Struct(">IqIII")
_CHECKSUM: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">I")
HEADER_SIZE: Final = _HEADER.size + _CHECKSUM.size

_LOG_PREFIX: Final = "metadata-"
_LOG_SUFFIX: Final = ".log"
_SNAPSHOT_PREFIX: Final = "snapshot-"
_SNAPSHOT_SUFFIX: Final = ".image"


class MetadataLogCorrupt(MetadataLogFailed):
    """What is on the disk is not what was written. The log is left as it is."""


class _Batch(NamedTuple):
    base_offset: int
    records: list[bytes]
    end: int
    """The position behind the batch."""


class _Damage(NamedTuple):
    """A batch that can't be read, and whether a torn write explains it."""

    position: int
    reason: str
    torn: bool


class StoredMetadataLog:
    """A metadata log in a folder of its own. Opening it reads and checks all of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._notes: list[str] = []
        try:
            self._snapshot: list[bytes] | None
            self._snapshot, self._snapshot_offset = self._read_snapshot()
            self._segments = self._numbered(_LOG_PREFIX, _LOG_SUFFIX)
            self._start_offset = self._segments[0] if self._segments else self._snapshot_offset + 1
            self._records = self._read_segments()
            if self.end_offset <= self._snapshot_offset:
                raise MetadataLogCorrupt(
                    f"{self._place}: the snapshot reaches offset {self._snapshot_offset}, "
                    f"the log ends at {self.end_offset}"
                )
            if self._start_offset > self._snapshot_offset + 1:
                raise MetadataLogCorrupt(
                    f"{self._place}: the log begins at offset {self._start_offset}, "
                    f"the snapshot reaches {self._snapshot_offset} only"
                )
            if not self._segments:
                self._segments.append(self._start_offset)
            self._blob: Blob = store.open(_log_name(self._segments[-1]))
            # The process before may have been killed between write and flush. Brokers act on what they are
            # told of the tail, so it must last.
            self._blob.flush()
        except StorageError as error:
            raise MetadataLogFailed(f"{self._place}: {error}") from error

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self._start_offset + len(self._records)

    def load(self) -> Loaded:
        # The snapshot is as large as the image and is needed once, so it is not kept.
        snapshot = self._read_snapshot()[0] if self._snapshot is None else self._snapshot
        self._snapshot = None
        tail = self._records[self._snapshot_offset + 1 - self._start_offset :]
        return Loaded(snapshot, self._snapshot_offset, tail, tuple(self._notes))

    def append(self, records: Sequence[bytes]) -> int:
        base_offset = self.end_offset
        try:
            self._blob.append([encode_batch(base_offset, records)])
            self._blob.flush()
        except StorageError as error:
            raise MetadataLogFailed(f"{self._place}: {error}") from error
        self._records.extend(records)
        return base_offset

    def read(self, from_offset: int, max_bytes: int) -> list[bytes]:
        return take(self._records, from_offset - self._start_offset, max_bytes)

    def snapshot(self, image: ClusterImage) -> None:
        """Write the snapshot, begin a new file, and forget what the snapshot before the last one covered.

        The files between the last two snapshots stay: brokers a little behind go on reading records.
        """
        if image.offset != self.end_offset - 1:
            raise MetadataLogFailed(
                f"{self._place}: a snapshot at {image.offset}, but the log ends at {self.end_offset}"
            )
        records = [encode_record(record) for record in image.iter_records()]
        try:
            self._store.replace(_snapshot_name(image.offset), encode_batch(image.offset, records))
            self._blob.close()
            if self._segments[-1] != self.end_offset:
                self._segments.append(self.end_offset)
            self._blob = self._store.open(_log_name(self._segments[-1]))
            self._forget(before=self._snapshot_offset + 1, keep_snapshot=image.offset)
        except StorageError as error:
            raise MetadataLogFailed(f"{self._place}: {error}") from error
        self._snapshot, self._snapshot_offset = None, image.offset

    def close(self) -> None:
        self._blob.close()

    # Files.

    @property
    def _place(self) -> str:
        return self._store.place

    def _forget(self, *, before: int, keep_snapshot: int) -> None:
        """Delete files that hold nothing from `before` on, oldest first, so that a crash leaves no gap."""
        while len(self._segments) > 1 and self._segments[1] <= before:
            self._store.delete(_log_name(self._segments.pop(0)))
            del self._records[: self._segments[0] - self._start_offset]
            self._start_offset = self._segments[0]
        for offset in self._numbered(_SNAPSHOT_PREFIX, _SNAPSHOT_SUFFIX):
            if offset < keep_snapshot:
                self._store.delete(_snapshot_name(offset))

    def _numbered(self, prefix: str, suffix: str) -> list[int]:
        numbers = []
        for name in self._store.names():
            number = name.removeprefix(prefix).removesuffix(suffix)
            if name.startswith(prefix) and name.endswith(suffix) and number.isdigit():
                numbers.append(int(number))
        return sorted(numbers)

    def _read_snapshot(self) -> tuple[list[bytes], int]:
        offsets = self._numbered(_SNAPSHOT_PREFIX, _SNAPSHOT_SUFFIX)
        if not offsets:
            return [], -1
        # A snapshot is put in place whole, so the newest one is good or the disk is damaged.
        name = _snapshot_name(offsets[-1])
        content = self._store.read_all(name) or b""
        found = read_batch(content, 0)
        if isinstance(found, _Damage) or found.end != len(content) or found.base_offset != offsets[-1]:
            reason = found.reason if isinstance(found, _Damage) else "it does not hold what its name says"
            raise MetadataLogCorrupt(f"{self._place}: {name} at position 0: {reason}")
        return found.records, offsets[-1]

    def _read_segments(self) -> list[bytes]:
        records: list[bytes] = []
        for segment in self._segments:
            name = _log_name(segment)
            if segment != self._start_offset + len(records):
                raise MetadataLogCorrupt(
                    f"{self._place}: before {name}: a file is missing, "
                    f"the one before ends at offset {self._start_offset + len(records)}"
                )
            for batch in self._read_segment(name, last=segment == self._segments[-1]):
                expected = self._start_offset + len(records)
                if batch.base_offset != expected:
                    raise MetadataLogCorrupt(
                        f"{self._place}: {name} before position {batch.end}: a batch at offset "
                        f"{batch.base_offset} where {expected} should be"
                    )
                records += batch.records
        return records

    def _read_segment(self, name: str, *, last: bool) -> Iterator[_Batch]:
        content = self._store.read_all(name) or b""
        position = 0
        while position < len(content):
            found = read_batch(content, position)
            if isinstance(found, _Damage):
                if not (found.torn and last):
                    raise MetadataLogCorrupt(f"{self._place}: {name} at position {position}: {found.reason}")
                self._cut(name, position, len(content), found.reason)
                return
            yield found
            position = found.end

    def _cut(self, name: str, position: int, size: int, reason: str) -> None:
        blob = self._store.open(name)
        blob.truncate(position)
        blob.flush()
        blob.close()
        self._notes.append(
            f"{name}: the last {size - position} bytes, from position {position} on, were cut off: {reason}"
        )


def encode_batch(base_offset: int, records: Sequence[bytes]) -> bytes:
    payload = b"".join(part for record in records for part in (_LENGTH.pack(len(record)), record))
    header = _HEADER.pack(MAGIC, base_offset, len(records), len(payload), crc32c(payload))
    return header + _CHECKSUM.pack(crc32c(header)) + payload


def read_batch(content: bytes, position: int) -> _Batch | _Damage:
    """The batch at that position, or what is wrong with it."""
    header = _read_header(content, position)
    if header is None:
        # A torn write ends the file. A good batch further on means that this one was whole once.
        torn = not _any_batch_behind(content, position + 1)
        return _Damage(position, "the bytes are not a batch header", torn)
    base_offset, count, length, checksum = header
    start = position + HEADER_SIZE
    payload = content[start : start + length]
    if len(payload) < length:
        return _Damage(position, f"the batch at offset {base_offset} ends early", True)
    if crc32c(payload) != checksum:
        torn = start + length == len(content)
        return _Damage(position, f"the checksum of the batch at offset {base_offset} is wrong", torn)
    records = _split(payload)
    if len(records) != count:
        return _Damage(position, f"the batch at offset {base_offset} does not hold {count} records", False)
    return _Batch(base_offset, records, start + length)


def _read_header(content: bytes, position: int) -> tuple[int, int, int, int] | None:
    header = content[position : position + _HEADER.size]
    check = content[position + _HEADER.size : position + HEADER_SIZE]
    if len(check) < _CHECKSUM.size or _CHECKSUM.unpack(check)[0] != crc32c(header):
        return None
    magic, base_offset, count, length, checksum = _HEADER.unpack(header)
    return (base_offset, count, length, checksum) if magic == MAGIC else None


def _any_batch_behind(content: bytes, position: int) -> bool:
    magic = MAGIC.to_bytes(4, "big")
    while (position := content.find(magic, position)) >= 0:
        if _read_header(content, position) is not None:
            return True
        position += 1
    return False


def _split(payload: bytes) -> list[bytes]:
    records = []
    position = 0
    while position < len(payload):
        (length,) = _LENGTH.unpack_from(payload, position)
        position += _LENGTH.size
        records.append(payload[position : position + length])
        position += length
    return records


def _log_name(base_offset: int) -> str:
    return f"{_LOG_PREFIX}{base_offset:020d}{_LOG_SUFFIX}"


def _snapshot_name(last_offset: int) -> str:
    return f"{_SNAPSHOT_PREFIX}{last_offset:020d}{_SNAPSHOT_SUFFIX}"


__all__ = ["MetadataLogCorrupt", "StoredMetadataLog"]

"""One segment of a log: a run of record batches with a sparse index of offsets and timestamps.

Decides where in its file the batch that holds an offset begins. It must never serve bytes that do not
begin with a batch header, so an index that leads astray is thrown away and made again from the batches.

An index entry says three things: the batch that begins at this offset is at this position, and no batch
before that position has a timestamp above this one. Entries are at least `index_interval_bytes` apart and
grow in all three. The index lives in memory; `.index` and `.timeindex` are its copy on disk, which may be
missing, shorter or wrong without harm: what is missing is read from the batches, what is wrong is made
again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from struct import Struct
from threading import Lock

import numpy as np

from epoka.log.store import Blob, Buffer, StorageError, Store
from epoka.wire.errors import WireError
from epoka.wire.records import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, decode_batch, read_header

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
NO_TIMESTAMP = -1
MAX_RELATIVE_OFFSET = (1 << 31) - 1

_SCAN_BYTES = 64 << 10
_REMEMBERED_BOUNDARIES = 512
_HEAD = Struct(">qiib")
_INDEX_DTYPE = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_DTYPE = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


class BrokenBatch(StorageError):
    """The bytes at a position are no batch that could follow what is before them."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position
        self.reason = reason


def segment_name(base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    return f"{base_offset:020d}{suffix}"


class Segment:
    __slots__ = (
        "_boundaries",
        "_indexed_to",
        "_loaded",
        "_loading",
        "_max_timestamp",
        "_next_offset",
        "_offsets",
        "_persisted",
        "_positions",
        "_store",
        "_timestamps",
        "base_offset",
        "blob",
        "flushed_size",
        "index_interval_bytes",
        "last_append_ms",
    )

    def __init__(self, store: Store, base_offset: int, index_interval_bytes: int, *, now: int) -> None:
        self._store = store
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.last_append_ms = now
        self.flushed_size = 0
        # Opened once: by the time it were opened again, its name might stand for nothing or for another file.
        self.blob: Blob = store.open(self.name)
        self._offsets = array("i")
        self._positions = array("i")
        self._timestamps = array("q")
        self._persisted = 0
        self._indexed_to = 0
        self._loaded = False
        self._loading = Lock()
        self._next_offset = base_offset
        self._max_timestamp = NO_TIMESTAMP
        self._boundaries: dict[int, int] = {}

    # what is there

    @property
    def name(self) -> str:
        return segment_name(self.base_offset)

    @property
    def size(self) -> int:
        return self.blob.size

    @property
    def next_offset(self) -> int:
        """One more than the last offset in it; the base offset if it is empty."""
        if not self._loaded:
            self._load_once()
        return self._next_offset

    @property
    def max_timestamp(self) -> int:
        if not self._loaded:
            self._load_once()
        return self._max_timestamp

    @property
    def index_entries(self) -> list[tuple[int, int, int]]:
        """Offset, position and the greatest timestamp before it, of every entry."""
        if not self._loaded:
            self._load_once()
        return [
            (self.base_offset + offset, position, timestamp)
            for offset, position, timestamp in zip(self._offsets, self._positions, self._timestamps)
        ]

    # loading: from the index files as far as they are right, from the batches for the rest

    def load(self, *, trust_below: int | None = None, keep_what_is_whole: bool = False) -> None:
        """Makes the index whole. Stored entries at or above the offset `trust_below` are not believed.

        Raises BrokenBatch where the batches end before the file does. Only recovery may go on with what is
        whole before it: a reader that did would skip the rest without a word.
        """
        self._loaded = keep_what_is_whole
        start = self._load_index_files(trust_below)
        self._next_offset = self.base_offset
        self._max_timestamp = self._timestamps[-1] if self._timestamps else NO_TIMESTAMP
        for position, header in self.scan(start):
            self._note(position, header)
        self._loaded = True

    def _load_once(self) -> None:
        """A reader and a compaction in another thread may both be the first: one waits for the other, or it
        would take an index that is half made again for all there is."""
        with self._loading:
            if not self._loaded:
                self.load()

    def _load_index_files(self, trust_below: int | None) -> int:
        """Loads the stored entries that can be right; the position from which the batches are to be read."""
        self._clear_index()
        content = self._store.read_all(segment_name(self.base_offset, INDEX_SUFFIX))
        times = self._store.read_all(segment_name(self.base_offset, TIME_INDEX_SUFFIX))
        if not content or not times:
            return 0
        entries = np.frombuffer(content, _INDEX_DTYPE, len(content) // _INDEX_DTYPE.itemsize)
        stamps = np.frombuffer(times, _TIME_DTYPE, len(times) // _TIME_DTYPE.itemsize)
        count = min(len(entries), len(stamps))
        offsets = entries["offset"][:count].astype(np.int64)
        positions = entries["position"][:count].astype(np.int64)
        timestamps = stamps["timestamp"][:count].astype(np.int64)
        inside = int(np.searchsorted(positions, self.size, side="left")) if count else 0
        if trust_below is not None and count:
            inside = min(inside, int(np.searchsorted(offsets, trust_below - self.base_offset, side="left")))
        offsets, positions, timestamps = offsets[:inside], positions[:inside], timestamps[:inside]
        if inside == 0:
            return 0
        grows = (
            offsets[0] >= 0
            and positions[0] == 0
            and bool(np.all(np.diff(offsets) > 0))
            and bool(np.all(np.diff(positions) >= HEADER_SIZE))
            and bool(np.all(np.diff(timestamps) >= 0))
            and bool(np.array_equal(offsets, stamps["offset"][:inside]))
        )
        last = int(positions[-1])
        if not grows or self._base_offset_at(last) != self.base_offset + int(offsets[-1]):
            return 0
        self._offsets = array("i", offsets.astype(np.int32).tobytes())
        self._positions = array("i", positions.astype(np.int32).tobytes())
        self._timestamps = array("q", timestamps.tobytes())
        self._persisted = inside if inside == len(entries) == len(stamps) else 0
        self._indexed_to = last
        return last

    def _base_offset_at(self, position: int) -> int | None:
        head = self.blob.read(position, _HEAD.size)
        if len(head) < _HEAD.size:
            return None
        base_offset, _length, _epoch, magic = _HEAD.unpack(head)
        return base_offset if magic == 2 else None

    def _clear_index(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")
        self._timestamps = array("q")
        self._persisted = 0
        self._indexed_to = 0
        self._boundaries.clear()

    def rebuild_index(self) -> None:
        """Throws the index away and makes it again from the batches."""
        self._delete_index_files()
        self.load()

    def _delete_index_files(self) -> None:
        self._store.delete(segment_name(self.base_offset, INDEX_SUFFIX))
        self._store.delete(segment_name(self.base_offset, TIME_INDEX_SUFFIX))
        self._persisted = 0

    def scan(self, position: int = 0, stop: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of the batches from `position` on; BrokenBatch where they end early.

        Offsets must grow from batch to batch. Bodies are neither read nor checked.
        """
        blob = self.blob
        end = blob.size if stop is None else stop
        expected = self.base_offset
        chunk = b""
        chunk_start = position
        step = _SCAN_BYTES
        while position < end:
            at = position - chunk_start
            if at + HEADER_SIZE > len(chunk):
                chunk = blob.read(position, min(step, blob.size - position))
                chunk_start, at = position, 0
            try:
                header = read_header(chunk, at)
            except WireError as error:
                raise BrokenBatch(position, str(error)) from None
            if header.base_offset < expected:
                raise BrokenBatch(position, f"a batch at offset {header.base_offset} behind {expected - 1}")
            if header.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
                raise BrokenBatch(position, f"a batch at offset {header.base_offset}, far too high")
            size = LOG_OVERHEAD + header.batch_length
            if position + size > blob.size:
                raise BrokenBatch(
                    position, f"a batch of {size} bytes, of which {blob.size - position} are there"
                )
            yield position, header
            expected = header.next_offset
            position += size
            step = _SCAN_BYTES if size < _SCAN_BYTES // 4 else HEADER_SIZE

    # growing and shrinking

    def append(self, content: Buffer, placed: list[tuple[int, BatchHeader]], now: int) -> None:
        """Writes batches with one call. `placed` has where each is in `content` and its final header."""
        start = self.blob.append((content,))
        self.last_append_ms = now
        for at, header in placed:
            self._note(start + at, header)

    def _note(self, position: int, header: BatchHeader) -> None:
        base_offset = header.base_offset
        if position == 0 or position - self._indexed_to >= self.index_interval_bytes:
            relative = base_offset - self.base_offset
            if not self._offsets or relative > self._offsets[-1]:
                self._offsets.append(relative)
                self._positions.append(position)
                self._timestamps.append(self._max_timestamp)
                self._indexed_to = position
        boundaries = self._boundaries
        boundaries[base_offset] = position
        if len(boundaries) > _REMEMBERED_BOUNDARIES:
            del boundaries[next(iter(boundaries))]
        self._next_offset = base_offset + header.last_offset_delta + 1
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp

    def truncate_at(self, position: int) -> int:
        """Cuts the file at the beginning of a batch; the bytes that went."""
        before = self.size
        if position >= before:
            return 0
        self.blob.truncate(position)
        self.flushed_size = min(self.flushed_size, position)
        kept = bisect_left(self._positions, position)
        del self._offsets[kept:]
        del self._positions[kept:]
        del self._timestamps[kept:]
        self._boundaries.clear()
        if self._persisted > kept or self._persisted == 0:
            self._delete_index_files()
        self._indexed_to = self._positions[-1] if kept else 0
        self._max_timestamp = self._timestamps[-1] if kept else NO_TIMESTAMP
        self._next_offset = self.base_offset
        self._loaded = True
        for at, header in self.scan(self._indexed_to):
            self._note(at, header)
        return before - position

    def has_room(self, size: int, last_offset: int, segment_bytes: int) -> bool:
        """Whether batches may be added: a segment takes its first ones whatever their size."""
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return False
        return self.size + size <= segment_bytes or self.size == 0

    # finding

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that ends at or after `offset`; the size if there is none."""
        if not self._loaded:
            self._load_once()
        if offset >= self._next_offset:
            return self.size
        known = self._boundaries.get(offset)
        if known is not None:
            return known
        relative = offset - self.base_offset
        found = bisect_right(self._offsets, relative) - 1
        if found < 0:
            return 0
        if self._offsets[found] == relative:
            return self._positions[found]
        return self._scan_for(offset, found)

    def _scan_for(self, offset: int, entry: int) -> int:
        """The position of an offset, from an index entry below it on; BrokenBatch if the entry is wrong."""
        start = self._positions[entry]
        for position, header in self.scan(start):
            if position == start and header.base_offset - self.base_offset != self._offsets[entry]:
                raise BrokenBatch(start, f"a batch at offset {header.base_offset}, the index says another")
            if header.last_offset >= offset:
                return position
        return self.size

    def end_before(self, position: int) -> int:
        """The offset behind the last batch before a position: where the segment ends if it is cut there."""
        if position >= self.size:
            return self.next_offset
        entry = bisect_left(self._positions, position) - 1
        end = self.base_offset
        for _position, header in self.scan(self._positions[entry] if entry >= 0 else 0, position):
            end = header.next_offset
        return end

    def span(self, start: int, stop: int, max_bytes: int, min_one: bool) -> int:
        """How many bytes from the batch at `start` on, at most `max_bytes`, end with a whole batch."""
        available = stop - start
        if available <= max_bytes:
            return max(available, 0)
        limit = start + max_bytes
        found = bisect_right(self._positions, limit) - 1
        if found >= 0 and self._positions[found] > start:
            return self._positions[found] - start
        reached = start
        for position, header in self.scan(start, stop):
            following = position + LOG_OVERHEAD + header.batch_length
            if following > limit:
                if reached == start and min_one:
                    reached = following
                break
            reached = following
        return reached - start

    def read(self, offset: int, position: int, length: int) -> bytes | None:
        """The bytes, or None if they do not begin with a batch that may come first for `offset`."""
        content = self.blob.read(position, length)
        if len(content) >= _HEAD.size:
            base_offset, batch_length, _epoch, magic = _HEAD.unpack_from(content)
            if magic == 2 and batch_length > 0 and self.base_offset <= base_offset < self._next_offset:
                if base_offset <= offset:
                    return content
                # Compaction may have taken the batch that held the offset, or the index is wrong.
                before = bisect_left(self._offsets, offset - self.base_offset) - 1
                if before < 0 or self._scan_for(offset, before) == position:
                    return content
        return None

    def offset_for_timestamp(
        self, timestamp: int, from_offset: int, up_to: int
    ) -> tuple[int, int, int] | None:
        """The first record at or after a time: its offset, timestamp and leader epoch."""
        if self.max_timestamp < timestamp:
            return None
        found = bisect_left(self._timestamps, timestamp) - 1
        start = self._positions[found] if found >= 0 else 0
        for position, header in self.scan(start):
            if header.base_offset >= up_to:
                return None
            if header.max_timestamp < timestamp or header.last_offset < from_offset:
                continue
            for offset, stamp in self._stamps(position, header):
                if stamp >= timestamp and from_offset <= offset < up_to:
                    return offset, stamp, header.partition_leader_epoch
        return None

    def _stamps(self, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
        """The offset and the timestamp of each record of a batch, none later than its header says.

        Nobody looks inside a batch when it comes. Where its records cannot be read, its header is all that is
        known of them.
        """
        latest = header.max_timestamp
        try:
            records = decode_batch(self.blob.read(position, header.size), 0, header)
        except WireError:
            yield from ((offset, latest) for offset in range(header.base_offset, header.last_offset + 1))
            return
        yield from ((record.offset, min(record.timestamp, latest)) for record in records)

    # keeping

    def flush(self) -> int:
        """Everything that was appended is on the disk afterwards; how many bytes, for `flushed_up_to`."""
        size = self.size
        if self.flushed_size < size or size == 0:
            self.blob.flush()
        return size

    def flushed_up_to(self, size: int) -> None:
        """Notes a flush that no truncation came into. The index is written, not flushed."""
        self.flushed_size = size
        self.save_index()

    def save_index(self) -> None:
        # Flushes may run beside appends: the timestamp is the last part of an entry to be there.
        count = len(self._timestamps)
        if not self._loaded or self._persisted == count:
            return
        if self._persisted == 0:
            self._delete_index_files()
        index = np.empty(count - self._persisted, _INDEX_DTYPE)
        index["offset"] = self._offsets[self._persisted : count]
        index["position"] = self._positions[self._persisted : count]
        stamps = np.empty(count - self._persisted, _TIME_DTYPE)
        stamps["offset"] = index["offset"]
        stamps["timestamp"] = self._timestamps[self._persisted : count]
        try:
            for suffix, entries in ((INDEX_SUFFIX, index), (TIME_INDEX_SUFFIX, stamps)):
                blob = self._store.open(segment_name(self.base_offset, suffix))
                try:
                    blob.append((entries.tobytes(),))
                finally:
                    blob.close()
        except StorageError:
            # An index can be made again: a full disk must not turn a flushed log into a failed one.
            self._persisted = 0
            return
        self._persisted = count

    def seal(self) -> None:
        """Nothing more will be appended; what only speeds up the tail is let go."""
        self.save_index()
        self._boundaries.clear()

    def close(self) -> None:
        self.blob.close()

    def delete(self) -> None:
        """Takes the files away. Whoever still holds the blob can go on reading it."""
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._store.delete(segment_name(self.base_offset, suffix))

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, bytes]]:
        """Position, header and bytes of each batch from `position` on."""
        for at, header in self.scan(position):
            yield at, header, self.blob.read(at, header.size)

"""One partition's log: the only door to its segments, producers and epochs.

Decides the offset of every record, whether an append is made, and what a reader may have. It must never
hand out an offset twice, serve half a batch, or answer an append that is not in the file. A refusal is a
value; only the disk's own failures are exceptions, and a failed flush makes the log refuse every append
for good.

Appends and reads belong to one thread. Flushing, retention and compaction may run in another: the list of
segments is replaced as a whole and under a lock, never changed in place.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from uuid import UUID

import msgspec

from epoka.log import compaction
from epoka.log.compaction import Cleaner, CompactionStats
from epoka.log.config import LogConfig
from epoka.log.epochs import EpochHistory
from epoka.log.producers import ProducerStates, Refused, RememberedBatch
from epoka.log.recovery import Recovery, recover
from epoka.log.retention import Deleted, expired_segments
from epoka.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    TIME_INDEX_SUFFIX,
    BrokenBatch,
    Segment,
)
from epoka.log.store import Blob, Buffer, StorageError, Store
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import WireError
from epoka.wire.records import (
    BatchHeader,
    assign,
    crc_ok,
    payload_of,
    raw_records,
    read_header,
)
from epoka.wire.records import (
    headers as batch_headers,
)

__all__ = ["Appended", "LogConfig", "PartitionLog", "Refused", "Span"]

START_OFFSET_FILE = "log-start-offset"
KEPT_SNAPSHOTS = 3
_READ_AHEAD_BYTES = 1 << 20


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where an append went. A duplicate names the offsets the records have had since the first time."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class Span(msgspec.Struct, frozen=True):
    """Whole batches in one file: what a read would return, for whoever can send it without reading it."""

    blob: Blob
    position: int
    length: int


class PartitionLog:
    __slots__ = (
        "_active",
        "_bases",
        "_failure",
        "_interruptions",
        "_lock",
        "_now",
        "_on_recovery_point_lowered",
        "_recovery_point",
        "_segment_born_ms",
        "_segments",
        "_store",
        "config",
        "end_offset",
        "epochs",
        "high_watermark",
        "log_start_offset",
        "producers",
        "recovery",
        "topic_id",
    )

    _active: Segment
    recovery: Recovery

    def __init__(self, store: Store, config: LogConfig, topic_id: UUID | None) -> None:
        self._store = store
        self.config = config
        self.topic_id = topic_id
        self.epochs = EpochHistory(store)
        self.producers = ProducerStates(store)
        self.high_watermark = 0
        self._segments: list[Segment] = []
        self.end_offset = 0
        """The offset that the next record gets. This and the next are read everywhere and set here alone."""
        self.log_start_offset = 0
        self._recovery_point = 0
        self._interruptions = 0
        """How often the log was truncated or closed, which a flush in another thread has to notice."""
        self._failure: str | None = None
        self._lock = threading.RLock()
        self._now = 0
        self._segment_born_ms = 0
        self._on_recovery_point_lowered: Callable[[int], None] | None = None

    # opening

    @classmethod
    def open(
        cls,
        store: Store,
        config: LogConfig,
        *,
        recovery_point: int,
        clean: bool,
        now: int,
        topic_id: UUID | None = None,
        high_watermark: int = 0,
        on_recovery_point_lowered: Callable[[int], None] | None = None,
    ) -> PartitionLog:
        """Makes the log ready; `.recovery` says what was checked and what was cut.

        `on_recovery_point_lowered` is called before a truncation below the recovery point, and must make the
        lower one durable: a stale one would hide unflushed bytes from the next recovery.
        """
        log = cls(store, config, topic_id)
        log._now = now
        log._on_recovery_point_lowered = on_recovery_point_lowered
        compaction.finish_interrupted(store)
        log._open_segments(now)
        epochs_known = log.epochs.load()
        first_base = log._segments[0].base_offset
        log.log_start_offset = max(first_base, _read_start_offset(store))

        def relearn(header: BatchHeader) -> None:
            log.epochs.begin(header.partition_leader_epoch, header.base_offset)

        if not clean:
            # What the checkpoint says above the recovery point may belong to records that are gone.
            log.epochs.truncate_from_end(max(recovery_point, first_base))
        log.recovery = recover(
            log._segments,
            recovery_point=recovery_point,
            clean=clean,
            compacted_up_to=compaction.load_state(store).begun_up_to,
            on_batch=relearn,
        )
        log._set_segments(log._segments)
        log.end_offset = log._active.next_offset
        log._recovery_point = min(recovery_point, log.end_offset)
        if log.log_start_offset > log.end_offset:
            log._start_over(log.log_start_offset)
        if epochs_known:
            log.epochs.truncate_from_end(log.end_offset)
        else:
            log._relearn_epochs()
        log.epochs.truncate_from_start(log.log_start_offset)
        log._load_producers(now)
        log._segment_born_ms = log._birth_of(log._active, now)
        log.high_watermark = max(log.log_start_offset, min(high_watermark, log.end_offset))
        return log

    def _open_segments(self, now: int) -> None:
        names = self._store.names()
        bases = sorted(int(name[:20]) for name in names if _is_segment_file(name, LOG_SUFFIX))
        known = set(bases)
        for name in names:
            orphaned = any(_is_segment_file(name, suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
            if (orphaned and int(name[:20]) not in known) or name.endswith(".tmp"):
                self._store.delete(name)
        if not bases:
            bases = [max(0, _read_start_offset(self._store))]
        interval = self.config.index_interval_bytes
        self._segments = [Segment(self._store, base, interval, now=now) for base in bases]

    def _relearn_epochs(self) -> None:
        self.epochs.clear()
        for segment in self._segments:
            for _position, header in segment.scan():
                self.epochs.begin(header.partition_leader_epoch, header.base_offset)

    def _load_producers(self, now: int) -> None:
        start = self.producers.load_latest(self.log_start_offset, self.end_offset, now)
        for index, segment in enumerate(self._segments):
            if segment is not self._active and self._bases[index + 1] <= start:
                continue
            for _position, header in segment.scan(segment.position_of(start)):
                if header.producer_id >= 0 and header.base_offset >= start:
                    self.producers.appended(header, header.base_offset, now)

    def _birth_of(self, segment: Segment, now: int) -> int:
        for _position, header in segment.scan():
            if 0 <= header.max_timestamp <= now:
                return header.max_timestamp
            break
        return now

    def _set_segments(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]

    # what is there

    @property
    def recovery_point(self) -> int:
        """Everything below it is on the disk."""
        return self._recovery_point

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def last_epoch(self) -> int:
        return self.epochs.last_epoch

    @property
    def failure(self) -> str | None:
        """Why the log refuses appends for good, if it does."""
        return self._failure

    @property
    def segment_bases(self) -> list[int]:
        return list(self._bases)

    # appending

    def append_as_leader(
        self, batches: bytearray | memoryview, headers: list[BatchHeader], leader_epoch: int, now: int
    ) -> Appended | Refused:
        """Numbers validated batches in place and writes them with one call."""
        if self._failure is not None:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, self._failure)
        self._now = now
        config = self.config
        if len(batches) > config.segment_bytes:
            return Refused(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{len(batches)} bytes at once, segment.bytes is {config.segment_bytes}",
            )
        if leader_epoch < self.epochs.last_epoch:
            return Refused(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"leader epoch {leader_epoch}, the log has one of {self.epochs.last_epoch}",
            )
        append_time = now if config.message_timestamp_type == "LogAppendTime" else None
        offset = self.end_offset
        position = 0
        placed: list[tuple[int, BatchHeader]] = []
        for header in headers:
            if header.producer_id >= 0:
                verdict = self.producers.check(header)
                if verdict is not None:
                    if type(verdict) is RememberedBatch:
                        return self._repeated(verdict)
                    assert isinstance(verdict, Refused)
                    return verdict
            refused = self._refuses(batches, position, header, append_time, now)
            if refused is not None:
                return refused
            assign(batches, position, offset, leader_epoch, append_time)
            if append_time is None:
                placed.append((position, BatchHeader(offset, header[1], leader_epoch, *header[3:])))
            else:
                placed.append((position, read_header(batches, position)))
            offset += header.last_offset_delta + 1
            position += header.size
        if position != len(batches) or not placed:
            raise ValueError(f"headers of {position} bytes for batches of {len(batches)} bytes")
        base_offset = self.end_offset
        refused = self._write(batches, placed, now)
        if refused is not None:
            return refused
        return Appended(
            base_offset, offset - 1, -1 if append_time is None else append_time, self.log_start_offset
        )

    def _repeated(self, batch: RememberedBatch) -> Appended:
        append_time = batch.timestamp if self.config.message_timestamp_type == "LogAppendTime" else -1
        return Appended(batch.first_offset, batch.last_offset, append_time, self.log_start_offset, True)

    def _refuses(
        self,
        batches: bytearray | memoryview,
        position: int,
        header: BatchHeader,
        append_time: int | None,
        now: int,
    ) -> Refused | None:
        config = self.config
        if header.size > config.max_message_bytes:
            return Refused(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {header.size} bytes, max.message.bytes is {config.max_message_bytes}",
            )
        if append_time is None and (
            header.max_timestamp - now > config.message_timestamp_after_max_ms
            or now - header.base_timestamp > config.message_timestamp_before_max_ms
        ):
            return Refused(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamps from {header.base_timestamp} to {header.max_timestamp}, the time is {now}",
            )
        if config.compacts and not header.is_control:
            try:
                payload = payload_of(batches, position, header)
                keyless = any(record.key is None for record in raw_records(payload, header.records_count))
            except WireError as error:
                return Refused(ErrorCode.INVALID_RECORD, str(error))
            if keyless:
                return Refused(ErrorCode.INVALID_RECORD, "a record without a key in a compacted topic")
        return None

    def append_as_follower(self, batches: Buffer, now: int | None = None) -> Appended | Refused:
        """Appends batches as the leader numbered them. They must go on where the log ends.

        A batch that is cut off at the end of the buffer is left out: a fetch response may end with one.
        """
        if self._failure is not None:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, self._failure)
        if now is not None:
            self._now = now
        placed: list[tuple[int, BatchHeader]] = []
        expected = self.end_offset
        # An epoch that this broker began as leader and never wrote in says nothing about the present leader,
        # whose older records may still be missing here.
        self.epochs.truncate_from_end(expected)
        epoch = self.epochs.last_epoch
        length = 0
        try:
            for position, header in batch_headers(batches):
                if header.base_offset < expected:
                    return Refused(
                        ErrorCode.OFFSET_OUT_OF_RANGE,
                        f"a batch at offset {header.base_offset}, the log ends at {expected}",
                    )
                if not crc_ok(batches, position, header):
                    return Refused(
                        ErrorCode.CORRUPT_MESSAGE,
                        f"the batch at offset {header.base_offset} does not match its checksum",
                    )
                if 0 <= header.partition_leader_epoch < epoch:
                    return Refused(
                        ErrorCode.FENCED_LEADER_EPOCH,
                        f"a batch of leader epoch {header.partition_leader_epoch} behind one of {epoch}",
                    )
                epoch = max(epoch, header.partition_leader_epoch)
                expected = header.next_offset
                length = position + header.size
                placed.append((position, header))
        except WireError as error:
            return Refused(ErrorCode.CORRUPT_MESSAGE, str(error))
        if not placed:
            return Refused(ErrorCode.CORRUPT_MESSAGE, f"no whole batch in {len(batches)} bytes")
        refused = self._write(memoryview(batches)[:length], placed, self._now)
        if refused is not None:
            return refused
        return Appended(placed[0][1].base_offset, expected - 1, -1, self.log_start_offset)

    def _write(self, content: Buffer, placed: list[tuple[int, BatchHeader]], now: int) -> Refused | None:
        first, last = placed[0][1], placed[-1][1]
        config = self.config
        try:
            with self._lock:
                active = self._active
                full = not active.has_room(len(content), last.last_offset, config.segment_bytes)
                if full or (now - self._segment_born_ms >= config.segment_ms and active.size):
                    # Segments join without a gap, which is how recovery knows that none lost its end.
                    near = last.last_offset - self.end_offset <= MAX_RELATIVE_OFFSET
                    active = self._roll(now, self.end_offset if near else first.base_offset)
                active.append(content, placed, now)
                self.end_offset = last.next_offset
        except StorageError as error:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        for _position, header in placed:
            if header.partition_leader_epoch > self.epochs.last_epoch:
                self.epochs.begin(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self.producers.appended(header, header.base_offset, now)
        if self.end_offset - self._recovery_point >= config.flush_messages:
            try:
                self.flush()
            except StorageError as error:
                return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return None

    def _roll(self, now: int, base_offset: int) -> Segment:
        with self._lock:
            old = self._active
            if old.size == 0 and old.base_offset == base_offset:
                return old
            self.producers.take_snapshot(self.end_offset)
            # The file is made here, so that a full disk refuses the append before anything changed.
            fresh = Segment(self._store, base_offset, self.config.index_interval_bytes, now=now)
            fresh.load()
            old.seal()
            self._set_segments([*self._segments, fresh])
            self._segment_born_ms = now
            for offset in sorted(self.producers.snapshot_offsets())[:-KEPT_SNAPSHOTS]:
                self.producers.delete_snapshots(below=offset + 1)
            return fresh

    def begin_epoch(self, leader_epoch: int) -> bool:
        """Says that this log has a leader of a new epoch from its end on; False if a later one is known."""
        return self.epochs.begin(leader_epoch, self.end_offset)

    # reading

    def locate(
        self, offset: int, max_bytes: int, up_to_offset: int | None = None, min_one: bool = True
    ) -> Span | None:
        """Where the batches are that a read would return; None if the offset is out of range."""
        found = self._find(offset, max_bytes, up_to_offset, min_one)
        if found is None:
            return None
        segment, position, length = found
        return Span(segment.blob, position, length)

    def read(
        self, offset: int, max_bytes: int, up_to_offset: int | None = None, min_one: bool = True
    ) -> bytes | None:
        """Whole batches from the one that holds `offset` on, all below `up_to_offset`; None if out of range.

        With `min_one` the first batch comes even if it is larger than `max_bytes`.
        """
        for _attempt in range(2):
            found = self._find(offset, max_bytes, up_to_offset, min_one)
            if found is None:
                return None
            segment, position, length = found
            if length == 0:
                return b""
            content = segment.read(offset, position, length)
            if content is not None:
                return content
            segment.rebuild_index()
        raise StorageError(f"{segment.name} has no batch at byte {position}, where offset {offset} should be")

    def _find(
        self, offset: int, max_bytes: int, up_to_offset: int | None, min_one: bool
    ) -> tuple[Segment, int, int] | None:
        end = self.end_offset
        if offset < self.log_start_offset or offset > end:
            return None
        limit = end if up_to_offset is None or up_to_offset > end else up_to_offset
        segments = self._segments
        if offset >= limit:
            return self._active, self._active.size, 0
        index = self._segment_index(segments, offset)
        rebuilt = False
        while index < len(segments):
            segment = segments[index]
            try:
                start = segment.position_of(offset)
                if start >= segment.size:
                    # Compaction took everything from here to the end of this segment.
                    index += 1
                    continue
                stop = segment.size if limit >= segment.next_offset else segment.position_of(limit)
                return segment, start, segment.span(start, stop, max_bytes, min_one)
            except BrokenBatch:
                if rebuilt:
                    raise
                segment.rebuild_index()
                rebuilt = True
        return self._active, self._active.size, 0

    def _segment_index(self, segments: list[Segment], offset: int) -> int:
        if offset >= segments[-1].base_offset:
            return len(segments) - 1
        return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)

    def batches(self, from_offset: int) -> Iterator[tuple[memoryview, BatchHeader]]:
        """Every batch from the one that holds `from_offset` to the end, bytes and header."""
        offset = max(from_offset, self.log_start_offset)
        while offset < self.end_offset:
            content = self.read(offset, _READ_AHEAD_BYTES)
            if not content:
                return
            view = memoryview(content)
            before = offset
            for position, header in batch_headers(content):
                if header.last_offset >= offset:
                    yield view[position : position + header.size], header
                    offset = header.next_offset
            if offset == before:
                return

    def offset_for_timestamp(self, timestamp: int, up_to: int | None = None) -> tuple[int, int, int] | None:
        """Offset, timestamp and leader epoch of the first record at or after a time."""
        limit = self.end_offset if up_to is None else min(up_to, self.end_offset)
        for segment in self._segments:
            if segment.base_offset >= limit:
                break
            found = segment.offset_for_timestamp(timestamp, self.log_start_offset, limit)
            if found is not None:
                return found
        return None

    def max_timestamp_offset(self, up_to: int | None = None) -> tuple[int, int, int] | None:
        """Offset, timestamp and leader epoch of the first record with the greatest timestamp."""
        limit = self.end_offset if up_to is None else min(up_to, self.end_offset)
        greatest = max(
            (segment.max_timestamp for segment in self._segments if segment.base_offset < limit), default=-1
        )
        if greatest < 0:
            return None
        found = self.offset_for_timestamp(greatest, limit)
        if found is not None:
            return found
        # The greatest one lies outside what may be seen, so every batch inside has to be asked.
        greatest = -1
        for _batch, header in self.batches(self.log_start_offset):
            if header.next_offset > limit:
                break
            greatest = max(greatest, header.max_timestamp)
        return self.offset_for_timestamp(greatest, limit) if greatest >= 0 else None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The greatest known epoch not above `epoch` and the offset where it ends."""
        return self.epochs.end_offset_for_epoch(epoch, self.end_offset)

    # shrinking

    def truncate_to(self, offset: int) -> int:
        """Takes off everything from `offset` on; the new end, which is lower if a batch spans `offset`."""
        if offset >= self.end_offset:
            return self.end_offset
        with self._lock:
            if offset <= self._segments[0].base_offset or offset < self.log_start_offset:
                self.truncate_fully(offset)
                return self.end_offset
            kept = [segment for segment in self._segments if segment.base_offset <= offset]
            cut = kept[-1].position_of(offset)
            # Where the log will end, not where it was asked to: what lies between is written anew, unflushed.
            self._before_truncation(kept[-1].end_before(cut))
            for segment in reversed(self._segments[len(kept) :]):
                segment.delete()
            self._set_segments(kept)
            self._active.truncate_at(cut)
            self.end_offset = self._active.next_offset
            if self.end_offset < self.log_start_offset:
                # The batch that spans the offset also spans the log start, and nothing visible is left.
                self._start_over(self.log_start_offset)
            self._after_truncation()
            return self.end_offset

    def truncate_fully(self, start_offset: int) -> None:
        """Throws everything away; the log goes on at `start_offset`."""
        with self._lock:
            self._before_truncation(start_offset)
            self._start_over(start_offset)
            self._after_truncation()

    def _start_over(self, start_offset: int) -> None:
        self._store.replace(START_OFFSET_FILE, str(start_offset).encode())
        for segment in reversed(self._segments):
            segment.delete()
        fresh = Segment(self._store, start_offset, self.config.index_interval_bytes, now=self._now)
        fresh.load()
        self._set_segments([fresh])
        self.log_start_offset = self.end_offset = start_offset
        # The history of what is gone would be told as that of what is not there.
        self.epochs.clear()
        self._recovery_point = min(self._recovery_point, start_offset)
        self._segment_born_ms = self._now
        self.producers.delete_snapshots(below=start_offset, above=start_offset - 1)

    def _after_truncation(self) -> None:
        end = self.end_offset
        self._recovery_point = min(self._recovery_point, end)
        self.high_watermark = min(self.high_watermark, end)
        self.epochs.truncate_from_end(end)
        # Written even if nothing changed: it also makes the deletion of segments durable, and one that came
        # back after a crash would be taken for the log's own.
        self.epochs.save(always=True)
        compaction.truncate_state(self._store, end)
        self._load_producers(self._now)
        self._segment_born_ms = self._birth_of(self._active, self._now)

    def _before_truncation(self, offset: int) -> None:
        self._interruptions += 1
        if offset < self._recovery_point:
            self._recovery_point = offset
            if self._on_recovery_point_lowered is not None:
                self._on_recovery_point_lowered(offset)

    def delete_records_before(self, offset: int) -> int:
        """Moves the log start up to `offset`, at most to the end. Files go with retention."""
        target = min(offset, self.end_offset)
        if target > self.log_start_offset:
            self._store.replace(START_OFFSET_FILE, str(target).encode())
            self.log_start_offset = target
            self.epochs.truncate_from_start(target)
        return self.log_start_offset

    def apply_retention(self, now: int, high_watermark: int) -> list[Deleted]:
        """Deletes segments whose time is over, and forgets producers that were silent for too long."""
        self._now = max(self._now, now)
        self.producers.expire(now, self.config.producer_id_expiration_ms)
        with self._lock:
            doomed = expired_segments(
                self._segments,
                self.config,
                now=now,
                high_watermark=high_watermark,
                log_start_offset=self.log_start_offset,
            )
            if not doomed:
                return []
            if doomed[-1][0] is self._active:
                self._roll(now, self.end_offset)
            self._set_segments(self._segments[len(doomed) :])
            self.log_start_offset = max(self.log_start_offset, self._segments[0].base_offset)
            self.epochs.truncate_from_start(self.log_start_offset)
            for segment, _deleted in doomed:
                segment.delete()
            self.producers.delete_snapshots(below=self._segments[0].base_offset)
            return [deleted for _segment, deleted in doomed]

    def compact(
        self, now: int, up_to: int, *, always: bool = False, max_keys: int = compaction.MAX_KEYS
    ) -> CompactionStats | None:
        """Cleans the sealed segments below `up_to`; None if there is nothing or too little to clean."""
        if not self.config.compacts:
            return None
        # A record may only go once the later one of its key cannot be lost any more.
        self.flush_sealed()
        with self._lock:
            segments = self._segments
            if self._recovery_point < segments[-1].base_offset:
                # A truncation came into the flush, or another segment was sealed since: the next time, then.
                return None
        chosen = compaction.plan(
            segments, self.config, compaction.load_state(self._store), now=now, up_to=up_to, always=always
        )
        if chosen is None:
            return None
        cleaner = Cleaner(
            self._store, self.config, chosen, max_keys=max_keys, keeps_sequences=self._is_last_of_producer
        )
        bytes_before = sum(segment.size for segment in chosen.segments)
        cleaner.remember_keys()
        cleaner.announce()
        groups = cleaner.groups()
        for group in groups:
            following = segments[segments.index(group[-1]) + 1].base_offset
            cleaned = cleaner.clean(group, following)
            if not self._swap(cleaned, now):
                return None
        compaction.save_state(self._store, cleaner.finished_state(now))
        untouched = sum(s.size for s in chosen.segments if s.base_offset >= cleaner.limit)
        return CompactionStats(
            cleaner.limit,
            cleaner.records_before,
            cleaner.records_kept,
            cleaner.tombstones_kept,
            bytes_before,
            cleaner.bytes_after + untouched,
            sum(len(group) for group in groups),
            len(groups),
        )

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        entry = self.producers.get(header.producer_id) if header.producer_id >= 0 else None
        return (
            entry is not None and bool(entry.batches) and entry.batches[-1].last_offset == header.last_offset
        )

    def _swap(self, cleaned: compaction.Cleaned, now: int) -> bool:
        with self._lock:
            current = self._segments
            try:
                first = current.index(cleaned.group[0])
            except ValueError:
                first = -1
            length = len(cleaned.group)
            same = first >= 0 and tuple(current[first : first + length]) == cleaned.group
            if not same or first + length >= len(current):
                # The log was truncated or deleted from in the meantime: what was cleaned is no longer true.
                self._store.delete(cleaned.swap)
                return False
            base_offset = compaction.finish_swap(self._store, cleaned.swap)
            fresh = Segment(
                self._store,
                base_offset,
                self.config.index_interval_bytes,
                now=max(segment.last_append_ms for segment in cleaned.group),
            )
            fresh.load()
            fresh.flushed_size = fresh.size
            fresh.seal()
            self._set_segments([*current[:first], fresh, *current[first + length :]])
            return True

    # keeping

    def flush(self) -> None:
        """Everything appended so far is on the disk afterwards. StorageError makes the log refuse appends."""
        with self._lock:
            end, segments, interruptions = self.end_offset, self._segments, self._interruptions
        self._flush(segments, end, interruptions)

    def flush_sealed(self) -> bool:
        """Flushes all but the active segment, so that a recovery never has to check more than that one.

        For the runtime to call now and then: a roll does not wait for the disk. False if there was nothing.
        """
        with self._lock:
            end, segments, interruptions = self._active.base_offset, self._segments[:-1], self._interruptions
        if self._recovery_point >= end:
            return False
        self._flush(segments, end, interruptions)
        return True

    def _flush(self, segments: list[Segment], end: int, interruptions: int) -> None:
        """Flushes without the lock. After a truncation in between, what was flushed may be gone and unflushed
        records in its place, so nothing more counts as flushed; after a close the files are not ours."""
        if self._failure is not None:
            raise StorageError(self._failure)
        try:
            for segment in segments:
                if segment is segments[-1] or segment.flushed_size < segment.size:
                    size = segment.flush()
                    with self._lock:
                        if self._interruptions != interruptions:
                            return
                        segment.flushed_up_to(size)
            self.epochs.save()
        except StorageError as error:
            self._failure = f"a flush failed, the log takes no more records until it is recovered: {error}"
            raise
        with self._lock:
            if self._interruptions == interruptions:
                self._recovery_point = max(self._recovery_point, end)

    def close(self, clean: bool = True) -> None:
        """Lets go of the files. A clean close flushes and writes what makes the next opening quick."""
        if clean:
            if self._recovery_point < self.end_offset or self._failure is not None:
                self.flush()
            self._active.save_index()
            self.epochs.save()
            self.producers.take_snapshot(self.end_offset)
        with self._lock:
            self._interruptions += 1
            for segment in self._segments:
                segment.close()


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _is_segment_file(name: str, suffix: str) -> bool:
    return len(name) == 20 + len(suffix) and name.endswith(suffix) and name[:20].isdigit()


def _read_start_offset(store: Store) -> int:
    content = store.read_all(START_OFFSET_FILE)
    try:
        return int(content) if content else 0
    except ValueError:
        return 0

"""What is done to a log before it is used again.

Decides where a log ends after a crash. Below the recovery point everything was flushed and is believed;
from there on every batch is checked against its CRC, and at the first one that is torn, flipped or out of
order the log is cut. What was cut is always said: offset, bytes and reason. Nothing behind a bad batch is
ever kept, because an offset that was handed out twice is worse than one that was lost.

A segment that was sealed but not flushed may have lost its end while the next one is there. Segments join
without a gap when they are made, so a gap above the recovery point is such a loss; only compaction makes
gaps between segments, and it says how far it went before it makes any.

An empty segment within the one before it holds nothing and would end or hide what is there. It is dropped.

After a clean shutdown nothing is checked; only a file that ends within a batch is cut even then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from epoka.log.segment import BrokenBatch, Segment
from epoka.wire.records import HEADER_SIZE, BatchHeader, crc_ok

_CHUNK_BYTES = 4 << 20


class Cut(msgspec.Struct, frozen=True):
    """What was taken off the end of a log. `offset` is where the log ends now."""

    offset: int
    bytes: int
    reason: str
    segment: str
    position: int


class Recovery(msgspec.Struct, frozen=True):
    """What opening a log found."""

    clean: bool
    from_offset: int
    checked_batches: int = 0
    checked_bytes: int = 0
    cut: Cut | None = None

    def __str__(self) -> str:
        if self.cut is not None:
            return (
                f"cut {self.cut.bytes} bytes from offset {self.cut.offset} on "
                f"({self.cut.segment} byte {self.cut.position}): {self.cut.reason}"
            )
        if self.clean:
            return "clean shutdown, nothing to check"
        return f"{self.checked_batches} batches from offset {self.from_offset} on checked, nothing to cut"


def recover(
    segments: list[Segment],
    *,
    recovery_point: int,
    clean: bool,
    compacted_up_to: int,
    on_batch: Callable[[BatchHeader], None],
) -> Recovery:
    """Loads what has to be loaded and cuts what has to be cut; `segments` is shortened if need be.

    Below `compacted_up_to` there may be gaps between segments.

    `on_batch` is told of every batch that was checked, so that what was not yet checkpointed is known again.
    """
    _drop_empty_within_others(segments, recovery_point)
    batches = checked = 0
    cut: Cut | None = None
    for index, segment in enumerate(segments):
        is_last = index == len(segments) - 1
        if not is_last and (clean or segments[index + 1].base_offset <= recovery_point):
            segment.flushed_size = segment.size
            continue
        broken: BrokenBatch | None = None
        try:
            segment.load(trust_below=None if clean else recovery_point, keep_what_is_whole=True)
        except BrokenBatch as error:
            broken = error
        if clean:
            segment.flushed_size = segment.size
        else:
            stop = segment.size if broken is None else broken.position
            start = min(segment.position_of(recovery_point), stop)
            segment.flushed_size = start
            try:
                for header in _checked(segment, start, stop):
                    on_batch(header)
                    batches += 1
                    checked += header.size
            except BrokenBatch as error:
                broken = error
        if broken is None and not is_last:
            following = segments[index + 1].base_offset
            gap = segment.next_offset < following and following > compacted_up_to
            if gap or segment.next_offset > following:
                broken = BrokenBatch(
                    segment.size,
                    f"it ends before offset {segment.next_offset}, the next segment begins at {following}",
                )
        if broken is not None:
            lost = segment.truncate_at(broken.position)
            for later in segments[index + 1 :]:
                lost += later.size
                later.close()
                later.delete()
            del segments[index + 1 :]
            cut = Cut(segment.next_offset, lost, broken.reason, segment.name, broken.position)
            break
    return Recovery(clean, recovery_point, batches, checked, cut)


def _drop_empty_within_others(segments: list[Segment], recovery_point: int) -> None:
    """Only below the recovery point: above it, the bytes before the empty segment are what is in doubt."""
    kept = segments[:1]
    for segment in segments[1:]:
        if segment.size == 0 and segment.base_offset < recovery_point and _reaches_beyond(kept[-1], segment):
            segment.close()
            segment.delete()
        else:
            kept.append(segment)
    segments[:] = kept


def _reaches_beyond(segment: Segment, following: Segment) -> bool:
    try:
        return segment.next_offset > following.base_offset
    except BrokenBatch:
        return False


def _checked(segment: Segment, start: int, stop: int) -> Iterator[BatchHeader]:
    """The headers of the batches between two positions; BrokenBatch at the first whose checksum is wrong."""
    blob = segment.blob
    chunk = b""
    chunk_start = start
    for position, header in segment.scan(start, stop):
        at = position - chunk_start
        if at + header.size > len(chunk):
            chunk = blob.read(position, max(min(_CHUNK_BYTES, stop - position), header.size))
            chunk_start, at = position, 0
        if len(chunk) - at < HEADER_SIZE or not crc_ok(chunk, at, header):
            raise BrokenBatch(
                position, f"the batch at offset {header.base_offset} does not match its checksum"
            )
        yield header

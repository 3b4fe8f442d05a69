"""Which segments have had their time.

Decides what may be deleted from the front of a log: what lies below the log start, what is older than
`retention_ms`, and what is more than `retention_bytes`. Never anything at or above the high watermark,
and always from the oldest on, so that a log has no hole.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from epoka.log.config import LogConfig
from epoka.log.segment import BrokenBatch, Segment


class Deleted(msgspec.Struct, frozen=True):
    """A segment that retention took: the offsets from `base_offset` up to `next_offset`."""

    base_offset: int
    next_offset: int
    bytes: int
    reason: str


def expired_segments(
    segments: Sequence[Segment], config: LogConfig, *, now: int, high_watermark: int, log_start_offset: int
) -> list[tuple[Segment, Deleted]]:
    """The segments to delete, oldest first. If the active one is among them, all are."""
    found: list[tuple[Segment, Deleted]] = []
    total = sum(segment.size for segment in segments)
    for index, segment in enumerate(segments):
        is_active = index == len(segments) - 1
        next_offset = segment.next_offset if is_active else segments[index + 1].base_offset
        reason: str | None = None
        if next_offset > high_watermark or (is_active and segment.size == 0):
            break
        if next_offset <= log_start_offset and not is_active:
            reason = f"below the log start offset {log_start_offset}"
        elif config.deletes:
            newest = _newest_ms(segment)
            if config.retention_ms >= 0 and newest + config.retention_ms < now:
                reason = f"its newest record is {now - newest} ms old, retention.ms is {config.retention_ms}"
            elif 0 <= config.retention_bytes <= total - segment.size and not is_active:
                reason = f"the log has {total} bytes, retention.bytes is {config.retention_bytes}"
        if reason is None:
            break
        total -= segment.size
        found.append((segment, Deleted(segment.base_offset, next_offset, segment.size, reason)))
    return found


def _newest_ms(segment: Segment) -> int:
    try:
        newest = segment.max_timestamp
    except BrokenBatch:
        # A damaged segment must not keep all the ones behind it for ever.
        newest = -1
    return newest if newest >= 0 else segment.last_append_ms

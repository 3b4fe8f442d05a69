"""The decoder in numpy, for where numba is not installed: only record lengths are walked one by one.

All other numbers of a batch's records are read at once, byte by byte of the longest of them, and strings are
copied by one gather. It must agree with `kernels` in every byte and in every refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from epoka.client.columns import Target

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
KEY, VALUE, HEADERS = 1, 2, 4
MIN_RECORD = 6


class _Damaged(Exception):
    pass


def fill(payload: Bytes, batches: Longs, first: int, end: int, fields: int, target: Target) -> int:
    """Append the batches' records to `target`; the base offset of a batch that is damaged, or -1."""
    for start, stop, count, *about in batches.tolist():
        try:
            _fill_batch(payload, start, stop, count, about, first, end, fields, target)
        except _Damaged:
            return int(about[0])
    return -1


def _fill_batch(
    payload: Bytes,
    start: int,
    stop: int,
    count: int,
    about: list[int],
    first: int,
    end: int,
    fields: int,
    target: Target,
) -> None:
    base_offset, base_timestamp, append_time, last_offset = about
    starts, ends = _boundaries(payload, start, stop, count)
    timestamp_deltas, at = _varints(payload, starts + 1, ends)
    offset_deltas, at = _varints(payload, at, ends)
    if (offset_deltas < 0).any() or (offset_deltas > last_offset - base_offset).any():
        raise _Damaged
    offsets = base_offset + offset_deltas
    key_at, key_lengths, at = _strings(payload, at, ends)
    value_at, value_lengths, at = _strings(payload, at, ends)
    header_counts, at = _varints(payload, at, ends)
    if (header_counts < 0).any() or (header_counts > (ends - at) // 2).any():
        raise _Damaged
    headers = _walk_headers(payload, at, ends, header_counts)
    kept = np.flatnonzero((offsets >= first) & (offsets < end))
    rows, row = len(kept), target.rows
    fresh = slice(row, row + rows)
    target.offsets[fresh] = offsets[kept]
    if append_time >= 0:
        target.timestamps_us[fresh] = append_time * 1000
        target.timestamp_types[fresh] = 1
    else:
        target.timestamps_us[fresh] = (base_timestamp + timestamp_deltas[kept]) * 1000
        target.timestamp_types[fresh] = 0
    ends_of = slice(row + 1, row + rows + 1)
    if fields & KEY:
        target.key_valid[fresh] = key_lengths[kept] >= 0
        target.key_size = _copy(
            payload,
            key_at[kept],
            key_lengths[kept],
            target.key_content,
            target.key_ends[ends_of],
            target.key_size,
        )
    if fields & VALUE:
        target.value_valid[fresh] = value_lengths[kept] >= 0
        target.value_size = _copy(
            payload,
            value_at[kept],
            value_lengths[kept],
            target.value_content,
            target.value_ends[ends_of],
            target.value_size,
        )
    if fields & HEADERS:
        _copy_headers(payload, headers, header_counts, kept, target, ends_of)
    target.rows = row + rows


def _boundaries(payload: Bytes, start: int, stop: int, count: int) -> tuple[Longs, Longs]:
    """Where the inside of every record begins and ends."""
    data = payload[start:stop].tobytes()
    starts, ends = [], []
    at, size = 0, len(data)
    for _ in range(count):
        raw = shift = 0
        while True:
            if at >= size or shift > 63:
                raise _Damaged
            byte = data[at]
            at += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        raw &= (1 << 64) - 1
        length = raw >> 1
        if raw & 1 or length < MIN_RECORD or length > size - at:
            raise _Damaged
        starts.append(at)
        at += length
        ends.append(at)
    if at != size:
        raise _Damaged
    return np.array(starts, np.int64) + start, np.array(ends, np.int64) + start


def _varints(payload: Bytes, at: Longs, ends: Longs) -> tuple[Longs, Longs]:
    """The number at every position, and the positions behind them."""
    raw = np.zeros(len(at), np.uint64)
    following = at.copy()
    open_ = np.arange(len(at))
    for shift in range(0, 70, 7):
        if not len(open_):
            break
        where = following[open_]
        if (where >= ends[open_]).any():
            raise _Damaged
        byte = payload[where]
        raw[open_] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        following[open_] += 1
        open_ = open_[byte >= 0x80]
    if len(open_):
        raise _Damaged
    numbers = (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
    return numbers, following


def _strings(payload: Bytes, at: Longs, ends: Longs, least: int = -1) -> tuple[Longs, Longs, Longs]:
    """Where strings begin, how long they are (-1 for null), and the positions behind them."""
    lengths, at = _varints(payload, at, ends)
    if (lengths < least).any() or (lengths > ends - at).any():
        raise _Damaged
    return at, lengths, at + np.maximum(lengths, 0)


def _copy(
    payload: Bytes, at: Longs, lengths: Longs, content: Bytes, ends: npt.NDArray[np.int32], size: int
) -> int:
    """Append strings to `content` and their ends to `ends`; the new size of the content."""
    lengths = np.maximum(lengths, 0)
    following = size + np.cumsum(lengths)
    ends[:] = following
    total = int(lengths.sum())
    if total:
        begins = np.repeat(at - (following - lengths - size), lengths)
        content[size : size + total] = payload[begins + np.arange(total)]
    return size + total


class _Headers:
    """All headers of a batch: whose they are, and where their names and values lie."""

    def __init__(self, found: list[tuple[Longs, Longs, Longs, Longs, Longs]]) -> None:
        empty = np.zeros(0, np.int64)
        self.owner, self.name_at, self.name_length, self.value_at, self.value_length = (
            np.concatenate([empty, *column]) for column in (zip(*found) if found else [[]] * 5)
        )


def _walk_headers(payload: Bytes, at: Longs, ends: Longs, counts: Longs) -> _Headers:
    """Step through the first header of every record, then through the second, until there are no more."""
    found = []
    at = at.copy()
    for index in range(int(counts.max(initial=0))):
        owner = np.flatnonzero(counts > index)
        name_at, name_length, following = _strings(payload, at[owner], ends[owner], least=0)
        value_at, value_length, following = _strings(payload, following, ends[owner])
        at[owner] = following
        found.append((owner, name_at, name_length, value_at, value_length))
    if (at != ends).any():
        raise _Damaged
    return _Headers(found)


def _copy_headers(
    payload: Bytes, headers: _Headers, counts: Longs, kept: Longs, target: Target, ends_of: slice
) -> None:
    order = np.argsort(headers.owner, kind="stable")
    mask = np.zeros(len(counts), bool)
    mask[kept] = True
    order = order[mask[headers.owner[order]]]
    count, total = target.header_count, len(order)
    target.header_ends[ends_of] = count + np.cumsum(counts[kept])
    target.name_size = _copy(
        payload,
        headers.name_at[order],
        headers.name_length[order],
        target.name_content,
        target.name_ends[count + 1 : count + total + 1],
        target.name_size,
    )
    target.header_value_valid[count : count + total] = headers.value_length[order] >= 0
    target.header_value_size = _copy(
        payload,
        headers.value_at[order],
        headers.value_length[order],
        target.header_value_content,
        target.header_value_ends[count + 1 : count + total + 1],
        target.header_value_size,
    )
    target.header_count = count + total

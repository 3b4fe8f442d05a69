"""The compiled decoder: every record of a fetch in one pass. Needs numba; `vectors` is its equal in numpy.

Every length is compared with the bytes that are left before it is believed. The machine code is kept on disk
beside this file or in the user's cache, so only the first process of an installation compiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from epoka.client.columns import Target

KEY, VALUE, HEADERS = 1, 2, 4
BAD = -(1 << 62)


def _compile(function: Any) -> Any:
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere to keep the code
        return numba.njit(nogil=True)(function)


def fill(
    payload: npt.NDArray[np.uint8],
    batches: npt.NDArray[np.int64],
    first: int,
    end: int,
    fields: int,
    target: Target,
) -> int:
    """Append the batches' records to `target`; the base offset of a batch that is damaged, or -1."""
    sizes = np.array(
        (
            target.rows,
            target.key_size,
            target.value_size,
            target.header_count,
            target.name_size,
            target.header_value_size,
        ),
        dtype=np.int64,
    )
    wrong = _fill(
        payload,
        batches,
        first,
        end,
        fields,
        sizes,
        target.offsets,
        target.timestamps_us,
        target.timestamp_types,
        target.key_ends,
        target.key_valid,
        target.key_content,
        target.value_ends,
        target.value_valid,
        target.value_content,
        target.header_ends,
        target.name_ends,
        target.name_content,
        target.header_value_ends,
        target.header_value_valid,
        target.header_value_content,
    )
    (
        target.rows,
        target.key_size,
        target.value_size,
        target.header_count,
        target.name_size,
        target.header_value_size,
    ) = (int(size) for size in sizes)
    return int(wrong)


def _varint(data: Any, at: int, end: int) -> Any:
    """A zigzag number and the position behind it; position BAD if it is cut off or too long."""
    raw = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        byte = data[at]
        at += 1
        raw |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at
        shift += np.uint64(7)
        if shift > np.uint64(63):
            return 0, BAD
    return 0, BAD


_varint = _compile(_varint)


def _copy(target: Any, at: int, source: Any, start: int, length: int) -> None:
    # Indices into slices of known length cannot be negative, and only then is this loop made of wide moves:
    # ten to thirty times as fast as the same loop over the whole arrays.
    into = target[at : at + length]
    out_of = source[start : start + length]
    for i in range(length):
        into[i] = out_of[i]


_copy = _compile(_copy)


def _fill(
    data: Any,
    batches: Any,
    first: int,
    last: int,
    fields: int,
    sizes: Any,
    offsets: Any,
    timestamps: Any,
    timestamp_types: Any,
    key_ends: Any,
    key_valid: Any,
    key_content: Any,
    value_ends: Any,
    value_valid: Any,
    value_content: Any,
    header_ends: Any,
    name_ends: Any,
    name_content: Any,
    header_value_ends: Any,
    header_value_valid: Any,
    header_value_content: Any,
) -> Any:
    row = sizes[0]
    key_size = sizes[1]
    value_size = sizes[2]
    header_count = sizes[3]
    name_size = sizes[4]
    header_value_size = sizes[5]
    for b in range(batches.shape[0]):
        at = batches[b, 0]
        end = batches[b, 1]
        base_offset = batches[b, 3]
        base_timestamp = batches[b, 4]
        append_time = batches[b, 5]
        last_offset = batches[b, 6]
        for _ in range(batches[b, 2]):
            length, at = _varint(data, at, end)
            if at < 0 or length < 6 or length > end - at:
                return base_offset
            record_end = at + length
            timestamp_delta, at = _varint(data, at + 1, record_end)
            if at < 0:
                return base_offset
            offset_delta, at = _varint(data, at, record_end)
            if at < 0:
                return base_offset
            if offset_delta < 0 or offset_delta > last_offset - base_offset:
                return base_offset
            offset = base_offset + offset_delta
            key_length, at = _varint(data, at, record_end)
            if at < 0 or key_length < -1 or key_length > record_end - at:
                return base_offset
            key_at = at
            if key_length > 0:
                at += key_length
            value_length, at = _varint(data, at, record_end)
            if at < 0 or value_length < -1 or value_length > record_end - at:
                return base_offset
            value_at = at
            if value_length > 0:
                at += value_length
            headers, at = _varint(data, at, record_end)
            if at < 0 or headers < 0 or headers > (record_end - at) // 2:
                return base_offset
            wanted = first <= offset < last
            keep_headers = wanted and (fields & HEADERS) != 0
            for _h in range(headers):
                name_length, at = _varint(data, at, record_end)
                if at < 0 or name_length < 0 or name_length > record_end - at:
                    return base_offset
                if keep_headers:
                    _copy(name_content, name_size, data, at, name_length)
                    name_size += name_length
                    name_ends[header_count + 1] = name_size
                at += name_length
                content_length, at = _varint(data, at, record_end)
                if at < 0 or content_length < -1 or content_length > record_end - at:
                    return base_offset
                if keep_headers:
                    header_value_valid[header_count] = content_length >= 0
                    if content_length > 0:
                        _copy(header_value_content, header_value_size, data, at, content_length)
                        header_value_size += content_length
                    header_value_ends[header_count + 1] = header_value_size
                    header_count += 1
                if content_length > 0:
                    at += content_length
            if at != record_end:
                return base_offset
            if not wanted:
                continue
            offsets[row] = offset
            if append_time >= 0:
                timestamps[row] = append_time * 1000
                timestamp_types[row] = 1
            else:
                timestamps[row] = (base_timestamp + timestamp_delta) * 1000
                timestamp_types[row] = 0
            if fields & KEY:
                key_valid[row] = key_length >= 0
                if key_length > 0:
                    _copy(key_content, key_size, data, key_at, key_length)
                    key_size += key_length
                key_ends[row + 1] = key_size
            if fields & VALUE:
                value_valid[row] = value_length >= 0
                if value_length > 0:
                    _copy(value_content, value_size, data, value_at, value_length)
                    value_size += value_length
                value_ends[row + 1] = value_size
            if fields & HEADERS:
                header_ends[row + 1] = header_count
            row += 1
        if at != end:
            return base_offset
    sizes[0] = row
    sizes[1] = key_size
    sizes[2] = value_size
    sizes[3] = header_count
    sizes[4] = name_size
    sizes[5] = header_value_size
    return -1


_fill = _compile(_fill)


# From columns to batches.


def _murmur2(content: Any, ends: Any, valid: Any, out: Any) -> None:
    for row in range(ends.shape[0] - 1):
        if valid.shape[0] and not valid[row]:
            out[row] = -1
            continue
        start = ends[row]
        length = ends[row + 1] - start
        h = np.uint32(0x9747B28C) ^ np.uint32(length)
        words = length // 4
        for word in range(words):
            at = start + 4 * word
            k = (
                np.uint32(content[at])
                | (np.uint32(content[at + 1]) << np.uint32(8))
                | (np.uint32(content[at + 2]) << np.uint32(16))
                | (np.uint32(content[at + 3]) << np.uint32(24))
            )
            k = np.uint32(k * np.uint32(0x5BD1E995))
            k ^= k >> np.uint32(24)
            k = np.uint32(k * np.uint32(0x5BD1E995))
            h = np.uint32(h * np.uint32(0x5BD1E995)) ^ k
        tail = start + 4 * words
        left = length - 4 * words
        if left == 3:
            h ^= np.uint32(content[tail + 2]) << np.uint32(16)
        if left >= 2:
            h ^= np.uint32(content[tail + 1]) << np.uint32(8)
        if left >= 1:
            h ^= np.uint32(content[tail])
            h = np.uint32(h * np.uint32(0x5BD1E995))
        h ^= h >> np.uint32(13)
        h = np.uint32(h * np.uint32(0x5BD1E995))
        h ^= h >> np.uint32(15)
        out[row] = np.int64(h & np.uint32(0x7FFFFFFF))


_murmur2 = _compile(_murmur2)


def _varint_size(number: int) -> Any:
    raw = np.uint64((number << 1) ^ (number >> 63))
    size = 1
    while raw > np.uint64(0x7F):
        raw >>= np.uint64(7)
        size += 1
    return size


_varint_size = _compile(_varint_size)


def _write_varint(out: Any, at: int, number: int) -> Any:
    raw = np.uint64((number << 1) ^ (number >> 63))
    while raw > np.uint64(0x7F):
        out[at] = np.uint8(raw & np.uint64(0x7F)) | np.uint8(0x80)
        raw >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(raw)
    return at + 1


_write_varint = _compile(_write_varint)


def _write_string(out: Any, at: int, content: Any, start: int, length: int) -> Any:
    """A string with its length before it, -1 for null."""
    at = _write_varint(out, at, length)
    if length > 0:
        _copy(out, at, content, start, length)
        at += length
    return at


_write_string = _compile(_write_string)


def _write(
    rows: Any,
    out: Any,
    key_ends: Any,
    key_valid: Any,
    key_content: Any,
    value_ends: Any,
    value_valid: Any,
    value_content: Any,
    header_ends: Any,
    name_ends: Any,
    name_content: Any,
    header_value_ends: Any,
    header_value_valid: Any,
    header_value_content: Any,
) -> Any:
    at = 0
    for delta in range(rows.shape[0]):
        row = rows[delta]
        key_length = -1
        if key_ends.shape[0] and (key_valid.shape[0] == 0 or key_valid[row]):
            key_length = key_ends[row + 1] - key_ends[row]
        value_length = -1
        if value_valid.shape[0] == 0 or value_valid[row]:
            value_length = value_ends[row + 1] - value_ends[row]
        size = 2 + _varint_size(delta) + _varint_size(key_length) + max(key_length, 0)
        size += _varint_size(value_length) + max(value_length, 0)
        first = 0
        last = 0
        if header_ends.shape[0]:
            first = header_ends[row]
            last = header_ends[row + 1]
        size += _varint_size(last - first)
        for h in range(first, last):
            length = name_ends[h + 1] - name_ends[h]
            size += _varint_size(length) + length
            length = header_value_ends[h + 1] - header_value_ends[h]
            if header_value_valid.shape[0] and not header_value_valid[h]:
                length = -1
            size += _varint_size(length) + max(length, 0)
        at = _write_varint(out, at, size)
        out[at] = 0
        out[at + 1] = 0
        at = _write_varint(out, at + 2, delta)
        key_at = key_ends[row] if key_length > 0 else 0
        at = _write_string(out, at, key_content, key_at, key_length)
        value_at = value_ends[row] if value_length > 0 else 0
        at = _write_string(out, at, value_content, value_at, value_length)
        at = _write_varint(out, at, last - first)
        for h in range(first, last):
            at = _write_string(out, at, name_content, name_ends[h], name_ends[h + 1] - name_ends[h])
            length = header_value_ends[h + 1] - header_value_ends[h]
            if header_value_valid.shape[0] and not header_value_valid[h]:
                length = -1
            at = _write_string(out, at, header_value_content, header_value_ends[h], length)
    return at


_write = _compile(_write)


def murmur2(content: npt.NDArray[np.uint8], ends: Any, valid: Any) -> npt.NDArray[np.int64]:
    found = np.empty(len(ends) - 1, np.int64)
    _murmur2(content, ends, _or_none(valid), found)
    return found


def write(rows: npt.NDArray[np.int64], out: npt.NDArray[np.uint8], columns: Any) -> int:
    """Write the records of some rows one behind the other; how many bytes they took."""
    keys, values, headers = columns.keys, columns.values, columns.headers
    nothing, nowhere = np.zeros(0, np.uint8), np.zeros(0, np.int32)
    return int(
        _write(
            rows,
            out,
            nowhere if keys is None else keys.ends,
            nothing if keys is None else _or_none(keys.valid),
            nothing if keys is None else keys.content,
            values.ends,
            _or_none(values.valid),
            values.content,
            nowhere if headers is None else headers.ends,
            nowhere if headers is None else headers.names.ends,
            nothing if headers is None else headers.names.content,
            nowhere if headers is None else headers.values.ends,
            nothing if headers is None else _or_none(headers.values.valid),
            nothing if headers is None else headers.values.content,
        )
    )


def _or_none(valid: npt.NDArray[np.uint8] | None) -> npt.NDArray[np.uint8]:
    return np.zeros(0, np.uint8) if valid is None else valid

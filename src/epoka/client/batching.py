"""Columns as record batches: which partition a row goes to, and the bytes that a broker stores.

Decides by Kafka's own partitioner: a row with a key goes where Kafka's clients would send it, murmur2 of the
key. Compiled by numba where it is installed; the slow way gives the same bytes.
"""

from __future__ import annotations

from types import ModuleType

import msgspec
import numpy as np

from epoka.client.columns import BytesColumn, HeaderColumns, Longs, compiled
from epoka.wire import records as wire
from epoka.wire.compression import Codec, compress
from epoka.wire.records import HEADER_SIZE, LOG_OVERHEAD, BatchHeader

RECORD_OVERHEAD = 40
"""More than lengths, deltas and attributes of one record can take."""
HEADER_OVERHEAD = 10
_SLOW = ModuleType("slow")


class Rows(msgspec.Struct, frozen=True):
    """Rows to be written: values, and keys and headers if there are any."""

    values: BytesColumn
    keys: BytesColumn | None = None
    headers: HeaderColumns | None = None

    def __len__(self) -> int:
        return len(self.values.ends) - 1


class Identity(msgspec.Struct, frozen=True):
    """Whose batches they are, so that a broker knows one that comes twice."""

    producer_id: int = -1
    producer_epoch: int = -1


def partition_numbers(keys: BytesColumn, kernel: ModuleType | None = None) -> Longs:
    """Kafka's positive murmur2 of each key, -1 for null; a partition is this modulo their number."""
    chosen = kernel or compiled()
    if chosen is not None and chosen is not _SLOW:
        found: Longs = chosen.murmur2(keys.content, keys.ends, keys.valid)
        return found
    numbers = []
    for row in range(len(keys.ends) - 1):
        key = keys[row]
        numbers.append(-1 if key is None else murmur2(key) & 0x7FFFFFFF)
    return np.array(numbers, np.int64)


def murmur2(key: bytes) -> int:
    """The hash of Kafka's clients, as an unsigned number."""
    size = len(key)
    h = 0x9747B28C ^ size
    for at in range(0, size - 3, 4):
        k = int.from_bytes(key[at : at + 4], "little") * 0x5BD1E995 & 0xFFFFFFFF
        k = (k ^ k >> 24) * 0x5BD1E995 & 0xFFFFFFFF
        h = h * 0x5BD1E995 & 0xFFFFFFFF ^ k
    tail = key[size & ~3 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * 0x5BD1E995 & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0x5BD1E995 & 0xFFFFFFFF
    return h ^ h >> 15


def sizes_of(rows: Rows) -> Longs:
    """At most how many bytes each row takes in a batch."""
    sizes: Longs = np.diff(rows.values.ends).astype(np.int64) + RECORD_OVERHEAD
    if rows.keys is not None:
        sizes += np.diff(rows.keys.ends)
    if rows.headers is not None:
        found = rows.headers
        sizes += HEADER_OVERHEAD * np.diff(found.ends)
        names = np.append(found.names.ends, 0)[found.ends]
        values = np.append(found.values.ends, 0)[found.ends]
        sizes += np.diff(names) + np.diff(values)
    return sizes


def batch_of(
    rows: Rows,
    chosen: Longs,
    *,
    timestamp_ms: int,
    codec: Codec = Codec.NONE,
    identity: Identity | None = None,
    base_sequence: int = -1,
    most_bytes: int | None = None,
    kernel: ModuleType | None = None,
) -> bytearray:
    """One record batch of some of the rows, all with one time; `most_bytes` saves reckoning their size."""
    compiled_kernel = kernel or compiled()
    if compiled_kernel is not None and compiled_kernel is not _SLOW:
        if most_bytes is None:
            most_bytes = int(sizes_of(rows)[chosen].sum())
        space = np.empty(most_bytes + 16, np.uint8)
        payload = space.data[: compiled_kernel.write(chosen, space, rows)]
    else:
        payload = memoryview(_write_slowly(rows, chosen))
    body = compress(codec, payload)
    who = identity or Identity()
    header = BatchHeader(
        0,
        HEADER_SIZE - LOG_OVERHEAD + len(body),
        -1,
        2,
        0,
        int(codec),
        len(chosen) - 1,
        timestamp_ms,
        timestamp_ms,
        who.producer_id,
        who.producer_epoch,
        base_sequence,
        len(chosen),
    )
    return wire._batch(header, body)


def _write_slowly(rows: Rows, chosen: Longs) -> bytearray:
    body = bytearray()
    for delta, row in enumerate(chosen.tolist()):
        found: list[tuple[str, bytes | None]] = []
        if rows.headers is not None:
            for at in range(rows.headers.ends[row], rows.headers.ends[row + 1]):
                found.append(((rows.headers.names[at] or b"").decode(), rows.headers.values[at]))
        key = None if rows.keys is None else rows.keys[row]
        wire._append_record(body, wire.Record(delta, 0, key, rows.values[row], tuple(found)), delta, 0)
    return body

"""Records as columns: what a fetch brought, decoded straight from its record batches into Arrow's buffers.

Decides which records of a batch belong to the range that was asked for, and refuses a batch that is damaged:
CRC32C, lengths and counts are all checked, nothing is skipped in silence. Control batches and, for
`read_committed`, records of aborted transactions are left out, as every consumer leaves them out.

Two decoders fill the same buffers: one compiled by numba where it is installed, one in numpy. They must agree
on every byte and on what they refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby, pairwise, repeat
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from epoka.client import vectors
from epoka.client.errors import CorruptBatch
from epoka.wire.errors import WireError
from epoka.wire.messages.fetch import FetchPartitionResponse
from epoka.wire.records import (
    CODEC_MASK,
    HEADER_SIZE,
    MIN_RECORD_SIZE,
    BatchHeader,
    Record,
    crc_ok,
    headers,
    payload_of,
)

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

CHUNK_BYTES = 1 << 20
"""About as much as one batch of columns should hold: where handing it to Spark costs least."""

KEY, VALUE, HEADERS = 1, 2, 4
ALL_FIELDS = KEY | VALUE | HEADERS


class BytesColumn(msgspec.Struct, frozen=True):
    """Byte strings one behind the other: string `i` is `content[ends[i]:ends[i + 1]]`."""

    ends: Ints
    content: Bytes
    valid: Bytes | None = None
    """One byte a row, 0 for null; None when no row is null."""

    def __getitem__(self, row: int) -> bytes | None:
        if self.valid is not None and not self.valid[row]:
            return None
        return self.content[self.ends[row] : self.ends[row + 1]].tobytes()

    def strings(self) -> list[bytes | None]:
        """All of them, a good deal cheaper than one by one."""
        content = self.content.tobytes()
        found: list[bytes | None] = [content[start:end] for start, end in pairwise(self.ends.tolist())]
        if self.valid is not None:
            for row in np.flatnonzero(self.valid == 0).tolist():
                found[row] = None
        return found


class HeaderColumns(msgspec.Struct, frozen=True):
    """The headers of row `i` are those from `ends[i]` to `ends[i + 1]`."""

    ends: Ints
    names: BytesColumn
    values: BytesColumn

    def texts(self) -> list[str]:
        """All names; what is not UTF-8 in one is replaced, as Kafka's Java client replaces it."""
        return [(name or b"").decode(errors="replace") for name in self.names.strings()]

    def rows(self) -> Iterator[tuple[tuple[str, bytes | None], ...]]:
        """The headers of each row."""
        if not self.ends[-1]:
            return repeat((), len(self.ends) - 1)
        pairs = tuple(zip(self.texts(), self.values.strings(), strict=True))
        return (pairs[start:end] for start, end in pairwise(self.ends.tolist()))


class Columns(msgspec.Struct, frozen=True):
    """Records of one partition, in the order of their offsets."""

    offsets: Longs
    timestamps_us: Longs
    timestamp_types: Ints
    keys: BytesColumn | None = None
    values: BytesColumn | None = None
    headers: HeaderColumns | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def records(self) -> Iterator[Record]:
        """The rows as records, for whoever wants them one by one; a column that was left out is null."""
        return map(
            Record,
            self.offsets.tolist(),
            (self.timestamps_us // 1000).tolist(),
            repeat(None) if self.keys is None else self.keys.strings(),
            repeat(None) if self.values is None else self.values.strings(),
            repeat(()) if self.headers is None else self.headers.rows(),
        )


class AbortedTransaction(msgspec.Struct, frozen=True):
    producer_id: int
    first_offset: int


def aborted_in(answer: FetchPartitionResponse) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()
    ]


@cache
def compiled() -> ModuleType | None:
    """The compiled kernels, or None where numba is not installed."""
    try:
        from epoka.client import kernels
    except ImportError:
        return None
    return kernels


def next_offset_of(records: memoryview, offset: int) -> int:
    """Where to fetch next: behind the last whole batch, or `offset` if there is none."""
    following = offset
    for _, header in headers(records):
        following = header.next_offset
    return following


def decode(
    records: memoryview,
    first: int,
    end: int,
    *,
    about: str,
    fields: int = ALL_FIELDS,
    aborted: Sequence[AbortedTransaction] = (),
    committed_only: bool = False,
    kernel: ModuleType | None = None,
) -> Iterator[Columns]:
    """The records of a fetch with offsets from `first` to before `end`, in chunks of about CHUNK_BYTES."""
    filling: list[_Batch] = []
    size = 0
    hidden = _Aborted(aborted) if committed_only else None
    plain = np.frombuffer(records, np.uint8) if len(records) else np.zeros(0, np.uint8)
    try:
        found = list(headers(records))
    except WireError as error:
        raise CorruptBatch(f"{about}, from offset {first}: {error}") from error
    for position, header in found:
        if header.next_offset <= first:
            continue
        if header.base_offset >= end:
            break
        if not crc_ok(records, position, header):
            raise _corrupt(about, header, "it does not match its checksum")
        if header.is_control:
            if hidden is not None:
                hidden.ended(header)
            continue
        if hidden is not None and hidden.hides(header):
            continue
        if header.attributes & CODEC_MASK:
            try:
                payload = np.frombuffer(payload_of(records, position, header), np.uint8)
            except WireError as error:
                raise _corrupt(about, header, str(error)) from error
            batch = _Batch(payload, 0, len(payload), header)
        else:
            batch = _Batch(plain, position + HEADER_SIZE, position + header.size, header)
        filling.append(batch)
        size += batch.end - batch.start
        if size >= CHUNK_BYTES:
            yield from _filled(filling, first, end, fields, about, kernel)
            filling, size = [], 0
    if filling:
        yield from _filled(filling, first, end, fields, about, kernel)


class _Batch(NamedTuple):
    """A batch whose records are `payload[start:end]`."""

    payload: Bytes
    start: int
    end: int
    header: BatchHeader


class _Aborted:
    """Which producers are inside a transaction that was aborted, as offsets pass by."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._inside: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        self._advance(header.last_offset)
        return header.is_transactional and header.producer_id in self._inside

    def ended(self, header: BatchHeader) -> None:
        self._advance(header.last_offset)
        self._inside.discard(header.producer_id)

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            self._inside.add(self._coming.pop().producer_id)


def _corrupt(about: str, header: BatchHeader, why: str) -> CorruptBatch:
    return CorruptBatch(f"{about}: the batch at offset {header.base_offset} is damaged: {why}")


def _filled(
    filling: list[_Batch], first: int, end: int, fields: int, about: str, kernel: ModuleType | None
) -> Iterator[Columns]:
    chosen = kernel or compiled() or vectors
    for batch in filling:
        if batch.header.records_count * MIN_RECORD_SIZE > batch.end - batch.start:
            raise _corrupt(about, batch.header, f"it cannot hold {batch.header.records_count} records")
    rows = sum(batch.header.records_count for batch in filling)
    target = Target(rows, sum(batch.end - batch.start for batch in filling), fields)
    # One call for all batches that lie in one buffer is what makes small batches cheap.
    for _, group in groupby(filling, key=lambda batch: id(batch.payload)):
        batches = list(group)
        wrong = chosen.fill(batches[0].payload, _rows(batches), first, end, fields, target)
        if wrong >= 0:
            raise CorruptBatch(f"{about}: the batch at offset {wrong} is damaged: its records do not add up")
    if target.rows:
        yield target.columns()


def _rows(batches: list[_Batch]) -> Longs:
    """For each batch: start, end, records, base offset, base timestamp, append time or -1, last offset."""
    return np.array(
        [
            (
                batch.start,
                batch.end,
                batch.header.records_count,
                batch.header.base_offset,
                batch.header.base_timestamp,
                batch.header.max_timestamp if batch.header.log_append_time else -1,
                batch.header.last_offset,
            )
            for batch in batches
        ],
        dtype=np.int64,
    )


class Target:
    """The buffers that decoders fill, wide enough for everything that the payloads can hold."""

    def __init__(self, rows: int, space: int, fields: int) -> None:
        self.fields = fields
        self.offsets = np.empty(rows, np.int64)
        self.timestamps_us = np.empty(rows, np.int64)
        self.timestamp_types = np.empty(rows, np.int32)
        self.key_ends = _ends(rows)
        self.value_ends = _ends(rows)
        self.header_ends = _ends(rows)
        self.key_valid = np.empty(rows, np.uint8)
        self.value_valid = np.empty(rows, np.uint8)
        # Pages that are never touched cost nothing, so every buffer may be as large as all of them together.
        self.key_content = np.empty(space if fields & KEY else 0, np.uint8)
        self.value_content = np.empty(space if fields & VALUE else 0, np.uint8)
        most_headers = space // 2 if fields & HEADERS else 0
        self.name_ends = _ends(most_headers)
        self.name_content = np.empty(space if fields & HEADERS else 0, np.uint8)
        self.header_value_ends = _ends(most_headers)
        self.header_value_valid = np.empty(most_headers, np.uint8)
        self.header_value_content = np.empty(space if fields & HEADERS else 0, np.uint8)
        self.rows = 0
        self.key_size = 0
        self.value_size = 0
        self.header_count = 0
        self.name_size = 0
        self.header_value_size = 0

    def columns(self) -> Columns:
        rows = self.rows
        keys = values = found = None
        if self.fields & KEY:
            keys = _bytes_column(self.key_ends, self.key_content, self.key_valid, rows)
        if self.fields & VALUE:
            values = _bytes_column(self.value_ends, self.value_content, self.value_valid, rows)
        if self.fields & HEADERS:
            found = HeaderColumns(
                self.header_ends[: rows + 1],
                BytesColumn(self.name_ends[: self.header_count + 1], self.name_content[: self.name_size]),
                _bytes_column(
                    self.header_value_ends,
                    self.header_value_content,
                    self.header_value_valid,
                    self.header_count,
                ),
            )
        return Columns(
            self.offsets[:rows], self.timestamps_us[:rows], self.timestamp_types[:rows], keys, values, found
        )


def _ends(rows: int) -> Ints:
    ends = np.empty(rows + 1, np.int32)
    ends[0] = 0
    return ends


def _bytes_column(ends: Ints, content: Bytes, valid: Bytes, rows: int) -> BytesColumn:
    mask: Any = valid[:rows]
    return BytesColumn(ends[: rows + 1], content[: ends[rows]], None if mask.all() else mask)

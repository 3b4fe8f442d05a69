"""Records come out of their batches as they went in, whichever decoder serves; no damage is passed over."""

from __future__ import annotations

import itertools
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoka.client import columns, vectors
from epoka.client.errors import CorruptBatch
from epoka.wire.records import HEADER_SIZE, ControlType, Record, encode_batch, encode_end_transaction_marker

KERNELS = [pytest.param(vectors, id="numpy")]
if columns.compiled() is not None:
    KERNELS.append(pytest.param(columns.compiled(), id="numba"))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Row = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]


def rows_of(buffer: bytes | bytearray, first: int, end: int, **more: object) -> list[tuple[object, ...]]:
    found = columns.decode(memoryview(buffer), first, end, about="t-0", **more)  # type: ignore[arg-type]
    return [
        (each.offset, each.timestamp, each.key, each.value, [*each.headers])
        for chunk in found
        for each in chunk.records()
    ]


def batch(rows: list[Row], **more: object) -> bytearray:
    return encode_batch([(key, value, time, headers) for key, value, time, headers in rows], **more)  # type: ignore[arg-type]


some_bytes = st.none() | st.binary(max_size=200)
some_headers = st.lists(st.tuples(st.text(max_size=8), some_bytes), max_size=4).map(tuple)
some_rows = st.lists(
    st.tuples(some_bytes, some_bytes, st.integers(0, 2**41), some_headers), min_size=1, max_size=30
)


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.tuples(some_rows, st.sampled_from(CODECS)), max_size=4),
    ends=st.tuples(*[st.integers(0, 130)] * 2),
)
def test_any_records_in_any_codec_come_back_within_the_range_asked_for(
    kernel: ModuleType, batches: list[tuple[list[Row], str]], ends: tuple[int, int]
) -> None:
    buffer = bytearray()
    expected = []
    offset = 0
    for rows, codec in batches:
        buffer += batch(rows, base_offset=offset, codec=codec)
        for key, value, time, headers in rows:
            expected.append((offset, time, key, value, list(headers)))
            offset += 1
    first, end = min(ends), max(ends)
    assert rows_of(buffer, first, end, kernel=kernel) == [row for row in expected if first <= row[0] < end]


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=300, deadline=None)
@given(
    rows=some_rows,
    harm=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_both_decoders_refuse_the_same_damage(
    kernel: ModuleType, rows: list[Row], harm: list[tuple[int, int]]
) -> None:
    buffer = batch(rows)
    for at, byte in harm:
        buffer[HEADER_SIZE + at % (len(buffer) - HEADER_SIZE)] = byte

    def outcome(chosen: ModuleType) -> object:
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(columns, "crc_ok", lambda *_: True)
                return rows_of(buffer, 0, 1000, kernel=chosen)
        except CorruptBatch:
            return "refused"

    assert outcome(kernel) == outcome(vectors)


@pytest.mark.parametrize("kernel", KERNELS)
def test_numbers_of_the_greatest_size_are_read(kernel: ModuleType) -> None:
    rows: list[Row] = [(None, b"v", 0, ()), (b"", None, 2**53, ()), (b"k", b"", -1, ())]
    assert rows_of(batch(rows), 0, 3, kernel=kernel) == [
        (0, 0, None, b"v", []),
        (1, 2**53, b"", None, []),
        (2, -1, b"k", b"", []),
    ]


@pytest.mark.parametrize("kernel", KERNELS)
def test_gaps_of_a_compacted_log_stay_gaps(kernel: ModuleType) -> None:
    records = [Record(offset, 5, b"k", b"v") for offset in (3, 7, 8)]
    buffer = encode_batch(records, base_offset=2, keep_offsets=True)
    assert [row[0] for row in rows_of(buffer, 0, 100, kernel=kernel)] == [3, 7, 8]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_header_name_that_is_not_text_is_read_as_kafka_s_client_reads_it(
    kernel: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = batch([(None, b"v", 1, (("a", b"1"), ("n?", b"2")))]).replace(b"n?", b"n\xe9")
    monkeypatch.setattr(columns, "crc_ok", lambda *_: True)
    assert rows_of(buffer, 0, 1, kernel=kernel) == [(0, 1, None, b"v", [("a", b"1"), ("n\ufffd", b"2")])]


@pytest.mark.parametrize("kernel", KERNELS)
def test_append_time_replaces_the_records_own(kernel: ModuleType) -> None:
    buffer = batch([(b"k", b"v", 17, ())], log_append_time_ms=99)
    (chunk,) = columns.decode(memoryview(buffer), 0, 1, about="t-0", kernel=kernel)
    assert chunk.timestamps_us.tolist() == [99_000]
    assert chunk.timestamp_types.tolist() == [1]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "fields", [0, columns.KEY, columns.VALUE, columns.HEADERS, columns.KEY | columns.VALUE]
)
def test_only_the_fields_asked_for_are_copied(kernel: ModuleType, fields: int) -> None:
    buffer = batch([(b"k", b"v", 1, (("h", b"x"),))] * 3)
    (chunk,) = columns.decode(memoryview(buffer), 0, 3, about="t-0", fields=fields, kernel=kernel)
    assert chunk.offsets.tolist() == [0, 1, 2]
    assert (chunk.keys is not None, chunk.values is not None, chunk.headers is not None) == (
        bool(fields & columns.KEY),
        bool(fields & columns.VALUE),
        bool(fields & columns.HEADERS),
    )


def test_a_batch_that_fails_its_checksum_is_named() -> None:
    buffer = batch([(b"k", b"value", 1, ())], base_offset=40)
    buffer[-3] ^= 1
    with pytest.raises(CorruptBatch, match=r"t-0: the batch at offset 40 is damaged.*checksum"):
        rows_of(buffer, 0, 100)


def test_a_batch_that_claims_more_records_than_it_can_hold_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "crc_ok", lambda *_: True)
    buffer = batch([(b"k", b"value", 1, ())])
    buffer[57:61] = (1 << 30).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="cannot hold"):
        rows_of(buffer, 0, 100)


def test_a_cut_off_tail_is_left_for_the_next_fetch() -> None:
    whole = batch([(b"k", b"v", 1, ())])
    tail = batch([(b"k", b"v", 1, ())], base_offset=1)
    assert len(rows_of(whole + tail[:-1], 0, 10)) == 1
    assert columns.next_offset_of(memoryview(whole + tail[:-1]), 0) == 1


def test_control_batches_and_aborted_transactions_are_not_records() -> None:
    buffer = bytearray()
    offsets = itertools.count()

    def write(producer: int, value: bytes) -> None:
        nonlocal buffer
        buffer += encode_batch(
            [(None, value, 1)],
            base_offset=next(offsets),
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    def end(producer: int, kind: ControlType) -> None:
        nonlocal buffer
        buffer += encode_end_transaction_marker(
            kind,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=1,
            base_offset=next(offsets),
        )

    write(1, b"aborted")
    write(2, b"kept")
    end(1, ControlType.ABORT)
    end(2, ControlType.COMMIT)
    write(1, b"kept too")
    end(1, ControlType.COMMIT)
    aborted = [columns.AbortedTransaction(1, 0)]
    read = rows_of(buffer, 0, 100, aborted=aborted, committed_only=True)
    assert [row[3] for row in read] == [b"kept", b"kept too"]
    assert [row[3] for row in rows_of(buffer, 0, 100)] == [b"aborted", b"kept", b"kept too"]


def test_chunks_are_about_a_megabyte() -> None:
    buffer = bytearray()
    for number in range(40):
        buffer += batch([(None, bytes(1000), 1, ())] * 100, base_offset=100 * number)
    sizes = [
        chunk.values.content.nbytes for chunk in columns.decode(memoryview(buffer), 0, 4000, about="t-0")
    ]
    assert sum(sizes) == 4_000_000
    assert max(sizes) < 2 * columns.CHUNK_BYTES


def test_arrays_carry_no_mask_when_nothing_is_null() -> None:
    (chunk,) = columns.decode(memoryview(batch([(b"k", b"v", 1, ())])), 0, 1, about="t-0")
    assert chunk.keys.valid is None
    assert chunk.keys.ends.dtype == np.int32

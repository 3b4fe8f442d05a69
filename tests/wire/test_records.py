"""Record batches: what is taken, what is refused and with which code, and whether others read ours."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import struct
import tracemalloc

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as PyBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as PyBuilder
from kio.records.readers import read_batch

from epoka.wire.compression import Codec, compress, decompress
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import Malformed, Truncated, WireError
from epoka.wire.records import (
    HEADER_SIZE,
    BatchHeader,
    ControlType,
    Record,
    RecordError,
    assign,
    control_type,
    crc_ok,
    decode_batch,
    encode_batch,
    encode_end_transaction_marker,
    headers,
    payload_of,
    raw_records,
    read_header,
    validate,
    with_records,
)

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = [
    Record(0, 1_000, b"k0", b"v0"),
    Record(1, 1_005, None, b"v1" * 400, (("trace", b"\x01"), ("empty", None), ("", b""))),
    Record(2, 998, b"k2", None),
]
LIMIT = 1 << 20

records_strategy = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 1 << 45),
        key=st.none() | st.binary(max_size=40),
        value=st.none() | st.binary(max_size=300),
        headers=st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=9)), max_size=3).map(
            tuple
        ),
    ),
    min_size=1,
    max_size=20,
)


def patched(batch: bytearray, at: int, layout: str, value: int) -> bytearray:
    """The batch with one header field changed and its checksum made right again."""
    struct.pack_into(layout, batch, at, value)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


def refusal(buffer: bytes | bytearray, **options: int) -> ErrorCode:
    with pytest.raises(RecordError) as refused:
        validate(buffer, max_batch_bytes=options.get("max_batch_bytes", LIMIT))
    return refused.value.code


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_comes_back_as_it_was(codec: str) -> None:
    batch = encode_batch(RECORDS, codec=codec, producer_id=7, producer_epoch=1, base_sequence=0)
    (header,) = validate(batch, max_batch_bytes=LIMIT)
    assert decode_batch(batch, 0, header) == RECORDS
    assert (header.size, header.last_offset, header.next_offset) == (len(batch), 2, 3)
    assert (header.codec, header.last_sequence, header.max_timestamp) == (Codec[codec.upper()], 2, 1_005)


@given(records=records_strategy, codec=st.sampled_from(CODECS))
@settings(max_examples=60, deadline=None)
def test_any_records_survive_the_way_through_a_batch(records: list[Record], codec: str) -> None:
    batch = encode_batch(records, base_offset=41, codec=codec)
    found = decode_batch(batch)
    assert [(r.timestamp, r.key, r.value, r.headers) for r in found] == [
        (r.timestamp, r.key, r.value, r.headers) for r in records
    ]
    assert [r.offset for r in found] == list(range(41, 41 + len(records)))


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_and_epoka_read_each_others_batches(codec: str) -> None:
    builder = AioBuilder(
        magic=2,
        compression_type=Codec[codec.upper()],
        is_transactional=0,
        producer_id=5,
        producer_epoch=2,
        base_sequence=9,
        batch_size=1 << 16,
    )
    for index, record in enumerate(RECORDS):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    theirs = bytes(builder.build())
    (header,) = validate(theirs, max_batch_bytes=LIMIT)
    assert decode_batch(theirs, 0, header) == RECORDS
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, 9)

    ours = encode_batch(RECORDS, codec=codec)
    seen = AioBatch(bytes(ours))
    assert seen.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in seen] == [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in RECORDS
    ]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_kafka_python_and_epoka_read_each_others_batches(codec: str) -> None:
    builder = PyBuilder(
        magic=2,
        compression_type=Codec[codec.upper()],
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 16,
    )
    for index, record in enumerate(RECORDS):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    theirs = bytes(builder.build())
    assert decode_batch(theirs, 0, validate(theirs, max_batch_bytes=LIMIT)[0]) == RECORDS

    seen = PyBatch(bytes(encode_batch(RECORDS, codec=codec)))
    assert seen.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in seen] == [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in RECORDS
    ]


def test_kio_reads_our_batches() -> None:
    plain = [Record(4 + index, 1_000 + index, b"k%d" % index, b"v") for index in range(3)]
    batch = encode_batch(
        plain, base_offset=4, leader_epoch=3, producer_id=1, producer_epoch=0, base_sequence=0
    )
    seen, size = read_batch(bytes(batch), 0)
    assert size == len(batch)
    assert [(record.key, record.value) for record in seen.records] == [(r.key, r.value) for r in plain]
    assert (seen.base_offset, seen.partition_leader_epoch, seen.producer_id) == (4, 3, 1)


def test_raw_and_framed_snappy_both_decode() -> None:
    payload = os.urandom(500) + b"x" * 90_000
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(payload)))) == payload
    framed = compress(Codec.SNAPPY, payload)
    assert framed[:8] == b"\x82SNAPPY\x00"
    assert bytes(decompress(Codec.SNAPPY, framed)) == payload


def test_our_lz4_frames_have_independent_blocks_as_java_requires() -> None:
    payload = b"abcdefgh" * 30_000 + os.urandom(70_000)
    frame = bytes(compress(Codec.LZ4, payload))
    assert frame[4] & 0x20
    assert bytes(cramjam.lz4.decompress(frame)) == payload


def test_gzip_written_by_others_decodes() -> None:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as file:
        file.write(b"hello" * 1000)
    assert bytes(decompress(Codec.GZIP, out.getvalue())) == b"hello" * 1000


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_honest_zeros_below_the_floor_are_taken_and_a_bomb_is_not(codec: Codec) -> None:
    assert len(decompress(codec, compress(codec, bytes(8 << 20)))) == 8 << 20
    bomb = compress(codec, bytes(20 << 20))
    with pytest.raises(RecordError) as refused:
        decompress(codec, bomb, max_ratio=1)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(RecordError):
        decompress(codec, bomb, max_bytes=1 << 20)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@given(damage=st.data())
@settings(max_examples=40, deadline=None)
def test_a_damaged_payload_raises_the_typed_error_or_decodes(codec: Codec, damage: st.DataObject) -> None:
    whole = bytearray(compress(codec, b"some text to squeeze " * 50))
    cut = damage.draw(st.integers(0, len(whole)))
    broken = whole[:cut]
    if broken:
        broken[damage.draw(st.integers(0, cut - 1))] ^= damage.draw(st.integers(1, 255))
    try:
        decompress(codec, bytes(broken), max_bytes=1 << 20)
    except RecordError as error:
        assert error.code in (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)


def test_a_snappy_block_longer_than_what_is_left_is_refused_before_allocation() -> None:
    with pytest.raises(RecordError):
        decompress(Codec.SNAPPY, b"\x82SNAPPY\x00" + b"\0\0\0\1" * 2 + b"\x7f\xff\xff\xff" + b"x")
    with pytest.raises(RecordError) as refused:
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f")
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_old_message_formats_are_named_as_such() -> None:
    for magic in (0, 1):
        message = struct.pack(">qiIbb", 0, 22, 1, magic, 0) + b"\xff" * 20
        assert refusal(message) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize(
    ("at", "layout", "value", "code"),
    [
        (0, ">q", 5, ErrorCode.INVALID_RECORD),
        (0, ">q", -1, ErrorCode.INVALID_RECORD),
        (8, ">i", -1, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", 10, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", 1 << 30, ErrorCode.CORRUPT_MESSAGE),
        (16, ">b", 3, ErrorCode.CORRUPT_MESSAGE),
        (21, ">h", 0x20, ErrorCode.INVALID_RECORD),
        (21, ">h", 0x05, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (21, ">h", 0x01, ErrorCode.INVALID_RECORD),
        (21, ">h", 0x10, ErrorCode.INVALID_RECORD),
        (23, ">i", 7, ErrorCode.INVALID_RECORD),
        (23, ">i", -1, ErrorCode.INVALID_RECORD),
        (43, ">q", 9, ErrorCode.INVALID_RECORD),
        (57, ">i", -3, ErrorCode.INVALID_RECORD),
        (57, ">i", 0, ErrorCode.INVALID_RECORD),
        (57, ">i", 1 << 30, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_nonsense_header_field_gets_its_code(at: int, layout: str, value: int, code: ErrorCode) -> None:
    assert refusal(patched(encode_batch(RECORDS), at, layout, value)) is code


def test_a_count_that_agrees_with_its_delta_but_not_with_the_bytes_is_refused() -> None:
    batch = patched(encode_batch(RECORDS), 23, ">i", 999_999)
    assert refusal(patched(batch, 57, ">i", 1_000_000)) is ErrorCode.INVALID_RECORD


def test_a_compressed_count_that_does_not_match_the_payload_is_refused() -> None:
    for count in (2, 4):
        batch = patched(encode_batch(RECORDS, codec="zstd"), 23, ">i", count - 1)
        assert refusal(patched(batch, 57, ">i", count)) is ErrorCode.INVALID_RECORD


def test_a_flipped_bit_anywhere_under_the_checksum_is_noticed() -> None:
    batch = encode_batch(RECORDS)
    for at in (17, 22, 30, 50, len(batch) - 1):
        flipped = bytearray(batch)
        flipped[at] ^= 0x40
        assert refusal(flipped) is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_over_the_limit_is_too_large_and_one_at_the_limit_is_not() -> None:
    batch = encode_batch([(None, b"x" * 1000)])
    assert refusal(batch, max_batch_bytes=len(batch) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    assert validate(batch, max_batch_bytes=len(batch))


def test_trailing_bytes_are_refused() -> None:
    assert refusal(encode_batch(RECORDS) + b"\0" * 5) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(b"") is ErrorCode.INVALID_RECORD


def test_an_idempotent_producer_may_send_one_batch_only() -> None:
    plain = encode_batch(RECORDS)
    idempotent = encode_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=0)
    assert len(validate(plain + plain, max_batch_bytes=LIMIT)) == 2
    assert refusal(idempotent + plain) is ErrorCode.INVALID_RECORD


def test_offsets_and_epoch_are_assigned_in_place_without_touching_the_checksum() -> None:
    buffer = encode_batch(RECORDS) + encode_batch(RECORDS)
    second = len(buffer) // 2
    assign(buffer, second, 900, 4)
    header = read_header(buffer, second)
    assert (header.base_offset, header.partition_leader_epoch) == (900, 4)
    assert crc_ok(buffer, second, header)
    assert [r.offset for r in decode_batch(buffer, second)] == [900, 901, 902]
    assert read_header(buffer).base_offset == 0


def test_log_append_time_is_set_for_every_record_and_sealed() -> None:
    batch = encode_batch(RECORDS)
    assign(batch, 0, 10, 1, log_append_time_ms=77_000)
    header = read_header(batch)
    assert header.log_append_time
    assert crc_ok(batch, 0, header)
    assert {r.timestamp for r in decode_batch(batch)} == {77_000}


def test_headers_stop_at_a_truncated_tail() -> None:
    batch = encode_batch(RECORDS)
    whole = bytes(batch + batch + batch)
    for cut in (0, 1, 30, 61, len(batch) - 1):
        assert [at for at, _ in headers(whole[: 2 * len(batch) + cut])] == [0, len(batch)]


def test_a_header_is_truncated_or_malformed_but_never_guessed() -> None:
    batch = encode_batch(RECORDS)
    with pytest.raises(Truncated):
        read_header(batch[:60])
    with pytest.raises(Malformed):
        read_header(patched(bytearray(batch), 8, ">i", -5))
    with pytest.raises(Malformed):
        read_header(patched(bytearray(batch), 57, ">i", -5))
    with pytest.raises(Malformed):
        read_header(patched(bytearray(batch), 16, ">b", 1))


@given(noise=st.binary(max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_bytes_behind_a_right_checksum_decode_or_raise_a_wire_error(noise: bytes) -> None:
    batch = encode_batch(RECORDS)[:HEADER_SIZE] + noise
    patched(batch, 8, ">i", len(batch) - 12)
    with contextlib.suppress(WireError):
        decode_batch(batch)


@given(noise=st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_bytes_validate_or_raise_a_record_error(noise: bytes) -> None:
    with pytest.raises(RecordError):
        validate(noise, max_batch_bytes=LIMIT)


def test_sequences_go_on_at_zero_after_the_greatest_one() -> None:
    batch = encode_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=(1 << 31) - 2)
    assert read_header(batch).last_sequence == 0


def test_control_batches_are_recognised() -> None:
    marker = encode_end_transaction_marker(
        ControlType.COMMIT, producer_id=4, producer_epoch=2, coordinator_epoch=8, timestamp=5
    )
    header = read_header(marker)
    assert header.is_control
    assert header.is_transactional
    assert control_type(decode_batch(marker)[0]) is ControlType.COMMIT
    assert next(iter(PyBatch(bytes(marker)))).commit
    assert refusal(marker) is ErrorCode.INVALID_RECORD
    leader_change = encode_batch([(struct.pack(">hh", 0, 2), b"")], control=True)
    assert control_type(decode_batch(leader_change)[0]) is ControlType.LEADER_CHANGE
    assert control_type(Record(0, 0, struct.pack(">hh", 0, 99), None)) is ControlType.UNKNOWN


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_with_records_taken_out_keeps_its_offsets(codec: str) -> None:
    batch = encode_batch(
        RECORDS, base_offset=50, codec=codec, producer_id=3, producer_epoch=0, base_sequence=8
    )
    header = read_header(batch)
    payload = payload_of(batch, 0, header)
    raw = raw_records(payload, header.records_count)
    thinner = with_records(header, payload, [raw[0], raw[2]])
    found: BatchHeader = read_header(thinner)
    assert crc_ok(thinner, 0, found)
    assert [(r.offset, r.key, r.value) for r in decode_batch(thinner)] == [
        (50, b"k0", b"v0"),
        (52, b"k2", None),
    ]
    assert (found.last_offset, found.base_sequence, found.max_timestamp) == (52, 8, 1_000)


def test_validating_a_megabyte_copies_nothing() -> None:
    batch = encode_batch([(None, os.urandom(1000), 5) for _ in range(1000)])
    validate(batch, max_batch_bytes=1 << 21)
    tracemalloc.start()
    try:
        validate(batch, max_batch_bytes=1 << 21)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < len(batch) / 10

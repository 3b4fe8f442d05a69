"""Record batches, magic 2: read, checked, numbered in place, decoded and made.

Decides whether a producer's bytes are batches that a log may keep, and with which Kafka code they are
refused. It must never walk the records of an uncompressed batch on the produce path: there the header and one
CRC32C are all that is looked at. Nothing here allocates by a number that a peer has written without comparing
it with the bytes that are there.

The CRC covers neither the base offset nor the leader epoch: `assign` writes both in place, and so an append
is one `writev` of the producer's own bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

import msgspec
from crc32c import crc32c

from epoka.wire.compression import (
    MAX_DECOMPRESSED_BYTES,
    Buffer,
    Codec,
    RecordError,
    codec_named,
    compress,
    decompress,
)
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import Malformed, Truncated

__all__ = [
    "HEADER_SIZE",
    "BatchHeader",
    "ControlType",
    "Record",
    "RecordError",
    "assign",
    "control_type",
    "crc_ok",
    "decode_batch",
    "encode_batch",
    "encode_end_transaction_marker",
    "headers",
    "read_header",
    "validate",
    "with_records",
]

HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""Base offset and batch length: the bytes that the batch length does not count."""

MIN_RECORD_SIZE = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length, header count."""

MAX_WALKED_RECORDS = 50_000
"""A check looks at no more records than these, so that millions of empty ones cannot hold the node up. An
uncompressed batch is not walked at all; whoever decodes a batch checks every record of it."""

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

_HEADER = Struct(">qiibIhiqqqhii")
_CRC_START = 21
_OFFSET = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT16 = Struct(">h")
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_CONTROL_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_MAX_SEQUENCE = (1 << 31) - 1


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        return Codec(self.attributes & CODEC_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; sequences go on at zero after the greatest int32."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & _MAX_SEQUENCE


class ControlType(IntEnum):
    """What a control batch says, from the key of its one record."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class Record(msgspec.Struct, frozen=True, gc=False):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; Truncated if it is cut off, Malformed if it cannot be a header.

    The body may be missing: compare `position + header.size` with the length of the buffer.
    """
    if len(buffer) - position < HEADER_SIZE:
        if len(buffer) - position > 16 and buffer[position + 16] != 2:
            raise Malformed(f"a record batch of magic {buffer[position + 16]}, only 2 is known")
        raise Truncated(f"a record batch header needs {HEADER_SIZE} bytes, {len(buffer) - position} are left")
    # As `_make`, without its detour through Python.
    header = tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, position))
    if header.magic != 2:
        raise Malformed(f"a record batch of magic {header.magic}, only 2 is known")
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise Malformed(f"a record batch of {header.batch_length} bytes is shorter than its header")
    if header.last_offset_delta < 0 or header.records_count < 0:
        raise Malformed(
            f"a batch of {header.records_count} records with last offset delta {header.last_offset_delta}"
        )
    return header


def headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; stops at a truncated tail, as fetches have."""
    position = 0
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        following = position + LOG_OVERHEAD + header.batch_length
        if following > end:
            return
        yield position, header
        position = following


def validate(buffer: Buffer, *, max_batch_bytes: int, check_compressed: bool = True) -> list[BatchHeader]:
    """The headers of what a producer sent for one partition, or RecordError: then nothing may be written.

    An idempotent producer may send one batch only, since one answer carries one base offset.
    """
    found: list[BatchHeader] = []
    view = memoryview(buffer)
    position = 0
    end = len(view)
    if end == 0:
        raise RecordError(ErrorCode.INVALID_RECORD, "no record batch")
    while position < end:
        header = _validate_header(view, position, end, max_batch_bytes)
        following = position + LOG_OVERHEAD + header.batch_length
        if crc32c(view[position + _CRC_START : following]) != header.crc:
            raise RecordError(
                ErrorCode.CORRUPT_MESSAGE, f"the batch at byte {position} does not match its checksum"
            )
        codec = header.attributes & CODEC_MASK
        if codec == 0:
            payload_size = following - position - HEADER_SIZE
            if header.records_count * MIN_RECORD_SIZE > payload_size:
                raise RecordError(
                    ErrorCode.INVALID_RECORD,
                    f"{header.records_count} records cannot fit into {payload_size} bytes",
                )
        elif codec > Codec.ZSTD:
            raise RecordError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression type {codec}")
        elif check_compressed:
            payload = decompress(Codec(codec), view[position + HEADER_SIZE : following])
            _walk(payload, header.records_count)
        found.append(header)
        position = following
    if len(found) > 1 and any(header.producer_id >= 0 for header in found):
        raise RecordError(
            ErrorCode.INVALID_RECORD,
            f"{len(found)} batches at once from an idempotent producer, one is allowed",
        )
    return found


def _validate_header(view: memoryview, position: int, end: int, max_batch_bytes: int) -> BatchHeader:
    left = end - position
    if left > 16 and view[position + 16] != 2:
        magic = view[position + 16]
        if magic < 2:
            raise RecordError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"message format {magic}, only format 2 is taken"
            )
        raise RecordError(ErrorCode.CORRUPT_MESSAGE, f"message format {magic} does not exist")
    if left < HEADER_SIZE:
        raise RecordError(ErrorCode.CORRUPT_MESSAGE, f"{left} bytes at byte {position} are no batch header")
    header = BatchHeader._make(_HEADER.unpack_from(view, position))
    (
        base_offset,
        batch_length,
        _leader_epoch,
        _magic,
        _crc,
        attributes,
        last_offset_delta,
        _base_timestamp,
        _max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    ) = header
    if batch_length < HEADER_SIZE - LOG_OVERHEAD or LOG_OVERHEAD + batch_length > left:
        raise RecordError(
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch at byte {position} says {LOG_OVERHEAD + batch_length} bytes, {left} are there",
        )
    if LOG_OVERHEAD + batch_length > max_batch_bytes:
        raise RecordError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {LOG_OVERHEAD + batch_length} bytes, {max_batch_bytes} are allowed",
        )
    # Only a first batch of a request is bound to start at zero; a second one may count on from it.
    if base_offset != 0 and (position == 0 or base_offset < 0):
        raise RecordError(ErrorCode.INVALID_RECORD, f"base offset {base_offset}, a producer sends 0")
    if records_count <= 0 or last_offset_delta != records_count - 1:
        raise RecordError(
            ErrorCode.INVALID_RECORD,
            f"{records_count} records with last offset delta {last_offset_delta}",
        )
    if attributes & CONTROL:
        raise RecordError(ErrorCode.INVALID_RECORD, "a client may not write control records")
    if producer_id >= 0:
        if base_sequence < 0 or producer_epoch < 0:
            raise RecordError(
                ErrorCode.INVALID_RECORD,
                f"producer {producer_id} sends epoch {producer_epoch} and sequence {base_sequence}",
            )
    elif attributes & TRANSACTIONAL:
        raise RecordError(ErrorCode.INVALID_RECORD, "a transactional batch without a producer id")
    return header


def _walk(payload: Buffer, count: int) -> None:
    """Checks that `count` records fill the payload: from length to length, without looking inside."""
    end = len(payload)
    if count * MIN_RECORD_SIZE > end:
        raise RecordError(ErrorCode.INVALID_RECORD, f"{count} records cannot fit into {end} bytes")
    position = 0
    try:
        for _ in range(min(count, MAX_WALKED_RECORDS)):
            byte = payload[position]
            position += 1
            if byte < 0x80:
                raw = byte
            else:
                raw = byte & 0x7F
                shift = 7
                while True:
                    byte = payload[position]
                    position += 1
                    raw |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
                    if shift > 28:
                        raise RecordError(ErrorCode.INVALID_RECORD, "a record length of more than five bytes")
            if raw & 1 or raw < (MIN_RECORD_SIZE - 1) << 1:
                raise RecordError(ErrorCode.INVALID_RECORD, f"a record of {(raw >> 1) ^ -(raw & 1)} bytes")
            position += raw >> 1
    except IndexError:
        position = end + 1
    if position > end or (count <= MAX_WALKED_RECORDS and position != end):
        raise RecordError(
            ErrorCode.INVALID_RECORD, f"{count} records do not end where the payload of {end} bytes does"
        )


def assign(
    buffer: bytearray | memoryview,
    position: int,
    base_offset: int,
    leader_epoch: int,
    log_append_time_ms: int | None = None,
) -> None:
    """Writes what the leader decides into a batch; the CRC is redone only if the time is set."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + 12, leader_epoch)
    if log_append_time_ms is not None:
        (attributes,) = _INT16.unpack_from(buffer, position + _ATTRIBUTES_AT)
        _INT16.pack_into(buffer, position + _ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
        _OFFSET.pack_into(buffer, position + _MAX_TIMESTAMP_AT, log_append_time_ms)
        (batch_length,) = _INT32.unpack_from(buffer, position + 8)
        _seal(buffer, position, LOG_OVERHEAD + batch_length)


def _seal(buffer: bytearray | memoryview, position: int, size: int) -> None:
    with memoryview(buffer) as view:
        crc = crc32c(view[position + _CRC_START : position + size])
    _UINT32.pack_into(buffer, position + 17, crc)


def crc_ok(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    end = position + LOG_OVERHEAD + header.batch_length
    if end > len(buffer):
        return False
    return bool(crc32c(memoryview(buffer)[position + _CRC_START : end]) == header.crc)


def payload_of(
    buffer: Buffer, position: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Buffer:
    """The records of a batch as bytes, decompressed."""
    end = position + LOG_OVERHEAD + header.batch_length
    if end > len(buffer):
        raise Truncated(f"a record batch of {header.size} bytes, {len(buffer) - position} are left")
    codec = header.attributes & CODEC_MASK
    if codec > Codec.ZSTD:
        raise RecordError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression type {codec}")
    return decompress(Codec(codec), memoryview(buffer)[position + HEADER_SIZE : end], max_bytes=max_bytes)


def decode_batch(
    buffer: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """Every record of the batch at `position`, checked to the last byte; the CRC is the caller's to check."""
    if header is None:
        header = read_header(buffer, position)
    payload = bytes(payload_of(buffer, position, header, max_bytes=max_bytes))
    if header.records_count * MIN_RECORD_SIZE > len(payload):
        raise RecordError(
            ErrorCode.INVALID_RECORD, f"{header.records_count} records cannot fit into {len(payload)} bytes"
        )
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    records: list[Record] = []
    at = 0
    try:
        for _ in range(header.records_count):
            length, at = _varint(payload, at)
            record_end = at + length
            if length < MIN_RECORD_SIZE - 1 or record_end > len(payload):
                raise _bad_record(f"a record of {length} bytes, {len(payload) - at} are left")
            at += 1
            timestamp_delta, at = _varint(payload, at)
            offset_delta, at = _varint(payload, at)
            key, at = _nullable_bytes(payload, at, record_end)
            value, at = _nullable_bytes(payload, at, record_end)
            header_count = payload[at]
            found: tuple[tuple[str, bytes | None], ...] = ()
            if header_count == 0:
                at += 1
            else:
                found, at = _headers(payload, at, record_end)
            if at != record_end:
                raise _bad_record(f"a record ends at byte {at}, its length says {record_end}")
            records.append(
                Record(
                    base_offset + offset_delta,
                    base_timestamp + timestamp_delta if append_time is None else append_time,
                    key,
                    value,
                    found,
                )
            )
    except IndexError:
        raise _bad_record("a record goes on past the end of its batch") from None
    if at != len(payload):
        raise _bad_record(f"{len(payload) - at} bytes behind the last record")
    return records


def _bad_record(reason: str) -> RecordError:
    return RecordError(ErrorCode.INVALID_RECORD, reason)


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    byte = payload[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    raw = byte & 0x7F
    shift = 7
    while True:
        at += 1
        byte = payload[at]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + 1
        shift += 7
        if shift > 63:
            raise _bad_record("a variable-length number of more than ten bytes")


def _nullable_bytes(payload: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = _varint(payload, at)
    if length < 0:
        if length != -1:
            raise _bad_record(f"a length of {length} bytes")
        return None, at
    if at + length > end:
        raise _bad_record(f"a field of {length} bytes, {end - at} are left")
    return payload[at : at + length], at + length


def _headers(payload: bytes, at: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = _varint(payload, at)
    if count < 0 or count * 2 > end - at:
        raise _bad_record(f"{count} record headers in {end - at} bytes")
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _nullable_bytes(payload, at, end)
        if name is None:
            raise _bad_record("a record header without a name")
        value, at = _nullable_bytes(payload, at, end)
        try:
            found.append((name.decode(), value))
        except UnicodeDecodeError:
            raise _bad_record("a record header whose name is not UTF-8") from None
    return tuple(found), at


class RawRecord(NamedTuple):
    """One record where it stands in a decompressed payload: enough to keep or drop it without decoding it."""

    start: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


def raw_records(payload: Buffer, count: int) -> list[RawRecord]:
    body = bytes(payload)
    found: list[RawRecord] = []
    at = 0
    try:
        for _ in range(count):
            start = at
            length, at = _varint(body, at)
            record_end = at + length
            if length < MIN_RECORD_SIZE - 1 or record_end > len(body):
                raise _bad_record(f"a record of {length} bytes, {len(body) - at} are left")
            timestamp_delta, at = _varint(body, at + 1)
            offset_delta, at = _varint(body, at)
            key, at = _nullable_bytes(body, at, record_end)
            value_length, at = _varint(body, at)
            found.append(RawRecord(start, record_end, offset_delta, timestamp_delta, key, value_length >= 0))
            at = record_end
    except IndexError:
        raise _bad_record("a record goes on past the end of its batch") from None
    return found


def with_records(header: BatchHeader, payload: Buffer, kept: Sequence[RawRecord]) -> bytearray:
    """The batch of `header` with only the kept records of its decompressed payload.

    Base offset, last offset delta, base timestamp, producer and sequences stay: offsets and duplicates of a
    compacted log must read as before. The greatest timestamp becomes that of what is kept.
    """
    with memoryview(payload) as view:
        body = compress(header.codec, b"".join(view[record.start : record.end] for record in kept))
    max_timestamp = header.max_timestamp
    if kept and not header.log_append_time:
        greatest = header.base_timestamp + max(record.timestamp_delta for record in kept)
        # Nobody has looked at the records' own: what they add up to may be no timestamp at all.
        max_timestamp = max(min(greatest, header.max_timestamp), -1)
    return _batch(
        header._replace(
            batch_length=HEADER_SIZE - LOG_OVERHEAD + len(body),
            max_timestamp=max_timestamp,
            records_count=len(kept),
        ),
        body,
    )


def _batch(header: BatchHeader, body: Buffer) -> bytearray:
    batch = bytearray(HEADER_SIZE + len(body))
    _HEADER.pack_into(batch, 0, *header)
    batch[HEADER_SIZE:] = body
    _seal(batch, 0, len(batch))
    return batch


def encode_batch(
    records: Sequence[Record | tuple[object, ...]],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: str | Codec = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp: int = -1,
    log_append_time_ms: int | None = None,
    keep_offsets: bool = False,
) -> bytearray:
    """One batch of `records`, each a Record or a tuple (key, value[, timestamp[, headers]]).

    Offsets count on from `base_offset`; with `keep_offsets` those of the Records are kept, gaps and all.
    `timestamp` is for tuples that have none.
    """
    chosen = codec_named(codec) if isinstance(codec, str) else codec
    items = [_as_record(record, base_offset + index, timestamp) for index, record in enumerate(records)]
    base_timestamp = items[0].timestamp if items else timestamp
    max_timestamp = max((item.timestamp for item in items), default=timestamp)
    body = bytearray()
    last_delta = max(len(items) - 1, 0)
    for index, item in enumerate(items):
        delta = item.offset - base_offset if keep_offsets else index
        last_delta = delta
        _append_record(body, item, delta, item.timestamp - base_timestamp)
    attributes = int(chosen)
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms
    payload = compress(chosen, body)
    return _batch(
        BatchHeader(
            base_offset,
            HEADER_SIZE - LOG_OVERHEAD + len(payload),
            leader_epoch,
            2,
            0,
            attributes,
            last_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(items),
        ),
        payload,
    )


def _as_record(record: Record | tuple[object, ...], offset: int, timestamp: int) -> Record:
    if isinstance(record, Record):
        return record
    key, value = record[0], record[1]
    when = record[2] if len(record) > 2 else timestamp
    extra = record[3] if len(record) > 3 else ()
    return Record(offset, when, key, value, extra)  # type: ignore[arg-type]


def _append_varint(body: bytearray, number: int) -> None:
    raw = (number << 1) ^ (number >> 63)
    while raw > 0x7F:
        body.append(raw & 0x7F | 0x80)
        raw >>= 7
    body.append(raw)


def _append_nullable(body: bytearray, field: Buffer | None) -> None:
    if field is None:
        body.append(1)
    else:
        _append_varint(body, len(field))
        body += field


def _append_record(body: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    inner = bytearray(1)
    _append_varint(inner, timestamp_delta)
    _append_varint(inner, offset_delta)
    _append_nullable(inner, record.key)
    _append_nullable(inner, record.value)
    _append_varint(inner, len(record.headers))
    for name, value in record.headers:
        _append_nullable(inner, name.encode())
        _append_nullable(inner, value)
    _append_varint(body, len(inner))
    body += inner


def control_type(record: Record) -> ControlType:
    """What the record of a control batch says; UNKNOWN is of a later version and to be skipped."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise _bad_record("a control record without a control key")
    version, kind = _CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise _bad_record(f"a control record of version {version}")
    try:
        return ControlType(kind)
    except ValueError:
        return ControlType.UNKNOWN


def encode_end_transaction_marker(
    kind: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The control batch that ends a transaction on one partition."""
    record = (_CONTROL_KEY.pack(0, kind), _MARKER_VALUE.pack(0, coordinator_epoch), timestamp)
    return encode_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )

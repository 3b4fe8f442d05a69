"""Metadata records as bytes: frame version, record key and record version as varints, then the body.

The one place that knows which record types a metadata log may hold. Bytes that are not a record raise the
wire's own error; nothing is skipped.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from epoka.wire import codec
from epoka.wire.errors import Malformed, Truncated
from epoka.wire.messages import metadata_records as m

MetadataRecord = (
    m.RegisterBrokerRecord
    | m.UnregisterBrokerRecord
    | m.TopicRecord
    | m.PartitionRecord
    | m.ConfigRecord
    | m.PartitionChangeRecord
    | m.RemoveTopicRecord
    | m.FeatureLevelRecord
    | m.ProducerIdsRecord
    | m.BrokerRegistrationChangeRecord
    | m.NoOpRecord
)

FRAME_VERSION: Final = 1

_TYPES: Final[dict[int, Any]] = {each.RECORD_KEY: each for each in MetadataRecord.__args__}


def encode_record(record: MetadataRecord) -> bytes:
    """The record at its newest version."""
    prefix = _PREFIXES[type(record)]
    return prefix + codec.encode(record, record.MAX_VERSION)


def decode_record(buffer: bytes | bytearray | memoryview) -> MetadataRecord:
    return _remembered(buffer) if type(buffer) is bytes else _decode(buffer)


def _decode(buffer: bytes | bytearray | memoryview) -> MetadataRecord:
    if len(buffer) >= 3 and buffer[0] < 0x80 and buffer[1] < 0x80 and buffer[2] < 0x80:
        # All three are one byte long, as they are in every record there is today.
        frame_version, key, version, position = buffer[0], buffer[1], buffer[2], 3
    else:
        frame_version, position = _varint(buffer, 0)
        key, position = _varint(buffer, position)
        version, position = _varint(buffer, position)
    if frame_version != FRAME_VERSION:
        raise Malformed(f"metadata record frame version {frame_version}, expected {FRAME_VERSION}")
    kind = _TYPES.get(key)
    if kind is None:
        raise Malformed(f"metadata record key {key} is unknown")
    if not kind.MIN_VERSION <= version <= kind.MAX_VERSION:
        raise Malformed(f"{kind.NAME} version {version} is unknown")
    record: MetadataRecord = codec.decode(kind, version, buffer, position=position)
    return record


# Brokers that share a process read the same records one after the other, and records are values. Whoever
# reads each but once does not notice: a miss costs nothing that can be measured.
_remembered = lru_cache(maxsize=1_024)(_decode)


def _varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(5):
        if position >= len(buffer):
            raise Truncated("a metadata record ends inside its frame")
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise Malformed("a varint of a metadata record is too long")


def _write_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_PREFIXES: Final[dict[type, bytes]] = {
    each: _write_varint(FRAME_VERSION) + _write_varint(each.RECORD_KEY) + _write_varint(each.MAX_VERSION)
    for each in _TYPES.values()
}

"""The four codecs of record batches, through one library.

Decides how a batch payload is compressed and how far a stranger's payload may grow. It must never allocate
more than the limit it is given, and never hand back a partial payload.

Two limits guard decompression. `max_bytes` is absolute. `max_ratio` only counts above `RATIO_FLOOR_BYTES`:
a batch of zeros honestly shrinks ten-thousandfold, so a ratio alone would refuse honest producers, while a
payload that fits below the floor is no threat at any ratio. Breaking either limit is MESSAGE_TOO_LARGE,
because a producer that is told so splits its batch and succeeds; a payload that does not decode is
INVALID_RECORD, because the checksum was right and sending the same bytes again cannot help.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

import cramjam
import numpy as np

from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import WireError

Buffer = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES = 64 << 20
RATIO_FLOOR_BYTES = 16 << 20
MAX_RATIO = 100

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES = 32 << 10
_INT32 = Struct(">i")

# Version 1, independent blocks, no checksums, 64 KiB blocks, and the descriptor's own checksum. The frame is
# written here because the library's encoder links its blocks, which Java consumers cannot read.
_LZ4_FRAME_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 << 10
_LZ4_STORED = 1 << 31
_UINT32_LE = Struct("<I")


class RecordError(WireError):
    """A record batch that cannot be taken, with the Kafka error code a producer is told."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(f"{code.name}: {reason}")
        self.code = code
        self.reason = reason


class Codec(IntEnum):
    """The compression types of the attributes field of a record batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def codec_named(name: str) -> Codec:
    """The codec of a configuration value such as `zstd`; ValueError if there is none."""
    try:
        return Codec[name.upper()]
    except KeyError:
        raise ValueError(f"no such compression type: {name}") from None


def compress(codec: Codec, payload: Buffer) -> Buffer:
    match codec:
        case Codec.NONE:
            return payload
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(payload))
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(payload, level=3))
        case Codec.SNAPPY:
            return _compress_xerial(memoryview(payload))
        case Codec.LZ4:
            return _compress_lz4(memoryview(payload))


def decompress(
    codec: Codec,
    payload: Buffer,
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
    max_ratio: int = MAX_RATIO,
) -> Buffer:
    """The whole payload, or RecordError. At most `max_bytes` come into being."""
    if codec is Codec.NONE:
        return payload
    limit = min(max_bytes, max(RATIO_FLOOR_BYTES, max_ratio * len(payload)))
    if codec is Codec.SNAPPY:
        return _decompress_snappy(memoryview(payload), limit)
    if codec is Codec.LZ4:
        decompress_into = cramjam.lz4.decompress_into
    elif codec is Codec.ZSTD:
        decompress_into = cramjam.zstd.decompress_into
    else:
        decompress_into = cramjam.gzip.decompress_into
    # Untouched pages of an empty array cost nothing, so the limit itself is the right size to ask for.
    output = np.empty(limit, np.uint8).data
    try:
        size = decompress_into(payload, output)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise _too_large(codec, len(payload), limit) from None
        raise _undecodable(codec, str(error)) from None
    return output[:size]


def _too_large(codec: Codec, compressed: int, limit: int) -> RecordError:
    return RecordError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"{compressed} bytes of {codec.name.lower()} decompress to more than the limit of {limit} bytes",
    )


def _undecodable(codec: Codec, why: str) -> RecordError:
    return RecordError(ErrorCode.INVALID_RECORD, f"the {codec.name.lower()} payload does not decode: {why}")


def _compress_xerial(payload: memoryview) -> bytes:
    parts: list[Buffer] = [_XERIAL_HEADER]
    for start in range(0, len(payload), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(payload[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(payload: memoryview, limit: int) -> memoryview:
    blocks: list[memoryview] = []
    if payload[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
        position = len(_XERIAL_HEADER)
        end = len(payload)
        while position < end:
            if position + 4 > end:
                raise _undecodable(Codec.SNAPPY, "a block length is cut off")
            (size,) = _INT32.unpack_from(payload, position)
            position += 4
            if size < 0 or position + size > end:
                raise _undecodable(Codec.SNAPPY, f"a block of {size} bytes, {end - position} are left")
            blocks.append(payload[position : position + size])
            position += size
    else:
        blocks.append(payload)
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        total = sum(sizes)
        if total > limit:
            raise _too_large(Codec.SNAPPY, len(payload), limit)
        output = np.empty(total, np.uint8).data
        position = 0
        for block, size in zip(blocks, sizes):
            written = cramjam.snappy.decompress_raw_into(block, output[position : position + size])
            if written != size:
                raise _undecodable(Codec.SNAPPY, f"a block holds {written} of {size} bytes")
            position += size
    except cramjam.DecompressionError as error:
        raise _undecodable(Codec.SNAPPY, str(error)) from None
    return output


def _compress_lz4(payload: memoryview) -> bytes:
    parts: list[Buffer] = [_LZ4_FRAME_HEADER]
    for start in range(0, len(payload), _LZ4_BLOCK_BYTES):
        plain = payload[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts.append(_UINT32_LE.pack(len(block)))
            parts.append(block)
        else:
            parts.append(_UINT32_LE.pack(len(plain) | _LZ4_STORED))
            parts.append(plain)
    parts.append(_UINT32_LE.pack(0))
    return b"".join(parts)

"""Unsigned varints: seven bits a byte, least significant first, at most five bytes and 32 bits."""

from __future__ import annotations

from epoka.wire.errors import EncodeError, Malformed

Buffer = bytes | bytearray | memoryview

ONE_BYTE: tuple[bytes, ...] = tuple(bytes([value]) for value in range(128))


def write_uvarint(value: int) -> bytes:
    if 0 <= value < 128:
        return ONE_BYTE[value]
    if not 0 <= value <= 0xFFFF_FFFF:
        raise EncodeError(f"{value} does not fit an unsigned varint of 32 bits")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The value at a position and the position behind it; IndexError where the buffer ends too early."""
    first = buffer[position]
    if first < 128:
        return first, position + 1
    return read_more(buffer, position + 1, first)


def read_more(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte announced more."""
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFF_FFFF:
                raise Malformed("an unsigned varint of more than 32 bits")
            return value, position
    raise Malformed("an unsigned varint of more than five bytes")

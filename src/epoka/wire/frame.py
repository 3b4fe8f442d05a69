"""Frames and headers: what surrounds a message on a connection.

A frame is a size of four bytes and as many bytes. `FrameReader` cuts a stream into frames without doing any
I/O and without ever holding more memory than the peer has sent bytes for, give or take one step of growth.
Headers of requests and responses are read and written here, including their oddities: the client id of a
request header is never compact, and the response to ApiVersions always has the oldest header, because a
client that does not know the broker's versions yet must be able to read it.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from epoka.wire import codec
from epoka.wire.apis import APIS, Api
from epoka.wire.decoder import skip_tags
from epoka.wire.encoded import Encoded
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import (
    Malformed,
    NotKafka,
    RequestHeader,
    TooLarge,
    Truncated,
    UnknownApi,
    UnsupportedVersion,
    WireError,
)
from epoka.wire.varint import Buffer

__all__ = [
    "FrameReader",
    "RequestHeader",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode_request",
    "encode_response",
]

Part = bytes | memoryview

API_VERSIONS = 18
CONTROLLED_SHUTDOWN = 7

SCRATCH_BYTES = 64 * 1024
# A frame larger than this gets a buffer of its own as soon as its size is known.
OWN_BUFFER_FROM = 16 * 1024
# A frame's buffer starts no larger than this, so that a size alone does not cost memory.
FIRST_STEP_BYTES = 1024 * 1024
GROWTH = 4

_SIZE = struct.Struct(">i")
_REQUEST_HEADER = struct.Struct(">hhi")
_CLIENT_ID_LENGTH = struct.Struct(">h")
_CORRELATION_ID = struct.Struct(">i")
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")

_OTHER_PROTOCOLS = {
    b"GET ": "HTTP",
    b"HEAD": "HTTP",
    b"POST": "HTTP",
    b"PUT ": "HTTP",
    b"DELE": "HTTP",
    b"OPTI": "HTTP",
    b"PATC": "HTTP",
    b"CONN": "HTTP",
    b"TRAC": "HTTP",
    b"PRI ": "HTTP/2",
    b"HTTP": "HTTP",
    b"SSH-": "SSH",
}


class FrameReader:
    """Cuts the bytes of one connection into frames.

    Receive into `get_buffer()`, then tell `received(n)` how many bytes came; it gives the frames that are
    complete. Small frames come through a scratch buffer, so that many of them cost one receive; a large
    frame is received into its own buffer, which is then handed out without a copy. After an error the
    reader is of no more use.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._scratch = bytearray(SCRATCH_BYTES)
        self._filled = 0
        self._frame: bytearray | None = None
        self._frame_size = 0
        self._frame_filled = 0
        self._fresh = True

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished frame have been received."""
        return self._filled if self._frame is None else self._frame_filled

    def get_buffer(self) -> memoryview:
        """Where to receive next; never empty."""
        if self._frame is None:
            return memoryview(self._scratch)[self._filled :]
        if self._frame_filled == len(self._frame):
            self._grow()
        return memoryview(self._frame)[self._frame_filled :]

    def received(self, count: int) -> list[bytearray]:
        """The frames that the last `count` bytes have completed."""
        if self._frame is None:
            self._filled += count
            return self._split()
        self._frame_filled += count
        if self._frame_filled < self._frame_size:
            return []
        frame = self._frame
        self._frame = None
        return [frame]

    def feed(self, data: Buffer) -> list[bytearray]:
        """As if the bytes had been received."""
        frames: list[bytearray] = []
        rest = memoryview(data)
        while len(rest):
            buffer = self.get_buffer()
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            buffer.release()
            frames += self.received(count)
            rest = rest[count:]
        return frames

    def _split(self) -> list[bytearray]:
        frames: list[bytearray] = []
        scratch, filled = self._scratch, self._filled
        position = 0
        while filled - position >= 4:
            (size,) = _SIZE.unpack_from(scratch, position)
            if self._fresh or not 0 <= size <= self.max_bytes:
                self._check(size, bytes(scratch[position : position + 4]))
            start = position + 4
            if filled - start < size:
                if size > OWN_BUFFER_FROM:
                    self._own_buffer(size, start)
                    return frames
                break
            frames.append(scratch[start : start + size])
            position = start + size
        if position:
            scratch[: filled - position] = scratch[position:filled]
            self._filled = filled - position
        return frames

    def _check(self, size: int, first: bytes) -> None:
        """Raises for a size that no Kafka client would send here."""
        if self._fresh:
            other = "TLS" if first[:2] == b"\x16\x03" else _OTHER_PROTOCOLS.get(first)
            if other is not None:
                raise NotKafka(f"the peer speaks {other}, but this listener expects plain Kafka frames")
            self._fresh = False
        if size < 0:
            raise Malformed(f"a frame of {size} bytes")
        if size > self.max_bytes:
            raise TooLarge(f"a frame of {size} bytes; the most is {self.max_bytes}")

    def _own_buffer(self, size: int, start: int) -> None:
        """Moves the beginning of a large frame out of the scratch buffer, which it is the last to be in."""
        there = self._filled - start
        frame = bytearray(min(size, FIRST_STEP_BYTES))
        frame[:there] = memoryview(self._scratch)[start : self._filled]
        self._frame, self._frame_size, self._frame_filled = frame, size, there
        self._filled = 0

    def _grow(self) -> None:
        frame = self._frame
        assert frame is not None
        more = min(self._frame_size, len(frame) * GROWTH) - len(frame)
        try:
            frame += bytes(more)
        except BufferError:
            # Somebody still holds the view received into last, so the buffer cannot move.
            self._frame = frame[:] + bytes(more)


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request and the position of its body.

    UnknownApi and UnsupportedVersion carry the header, as far as it could be read.
    """
    try:
        key, version, correlation_id = _REQUEST_HEADER.unpack_from(frame)
    except struct.error:
        raise Truncated(f"a request of {len(frame)} bytes has no header") from None
    position = _REQUEST_HEADER.size
    if key not in APIS:
        header = _best_header(frame, key, version, correlation_id)
        raise UnknownApi(f"no API has the key {key}", header)
    known = APIS[key]
    if not known.min_version <= version <= known.max_version:
        header = _best_header(frame, key, version, correlation_id)
        raise UnsupportedVersion(
            f"{known.name} v{version}; versions {known.min_version} to {known.max_version} are known", header
        )
    if key == CONTROLLED_SHUTDOWN and version == 0:
        return RequestHeader(key, version, correlation_id), position
    header = RequestHeader(key, version, correlation_id)
    try:
        client_id, position = _client_id(frame, position)
        header = RequestHeader(key, version, correlation_id, client_id)
        if known.flexible_at(version):
            tags = frame[position]
            position += 1
            if tags:
                position = skip_tags(frame, position, len(frame), tags)
    except IndexError:
        raise Truncated("the request ends within its header", header) from None
    except WireError as error:
        error.header = header
        raise
    return header, position


def _client_id(frame: Buffer, position: int) -> tuple[str | None, int]:
    try:
        (length,) = _CLIENT_ID_LENGTH.unpack_from(frame, position)
    except struct.error:
        raise Truncated("the request ends within its header") from None
    position += 2
    if length == -1:
        return None, position
    if length < 0:
        raise Malformed(f"a client id of {length} bytes")
    stop = position + length
    if stop > len(frame):
        raise Truncated("the request ends within its client id")
    try:
        return str(frame[position:stop], "utf-8"), stop
    except UnicodeDecodeError:
        raise Malformed("the client id is not UTF-8") from None


def _best_header(frame: Buffer, key: int, version: int, correlation_id: int) -> RequestHeader:
    """The header of a request that cannot be understood; its client id is a guess and may be missing."""
    try:
        client_id, _ = _client_id(frame, _REQUEST_HEADER.size)
    except WireError:
        client_id = None
    return RequestHeader(key, version, correlation_id, client_id)


def decode_request(
    frame: Buffer, *, max_elements: int = codec.DEFAULT_MAX_ELEMENTS
) -> tuple[RequestHeader, Any]:
    """The header and the message of a request; a WireError carries the header if that much was readable.

    Bytes behind the message are ignored: librdkafka leaves three there when it asks for the metadata of all
    topics (its issue 5049), and Kafka's brokers have never minded.
    """
    header, position = decode_request_header(frame)
    known = APIS[header.api_key]
    try:
        return header, codec.decode(
            known.request,
            header.api_version,
            frame,
            position=position,
            max_elements=max_elements,
            whole=False,
        )
    except WireError as error:
        error.header = header
        raise


def decode_response(
    api_key: int, version: int, frame: Buffer, *, max_elements: int = 10 * codec.DEFAULT_MAX_ELEMENTS
) -> tuple[int, Any]:
    """The correlation id and the message of a response to a request of this version.

    A broker that does not know the version of ApiVersions it was asked in says so in version 0 (KIP-511), or
    in a form of its own; only the code is read of such an answer. Bytes behind the message are ignored, as
    Kafka's own clients do; librdkafka's mock brokers leave one behind the metadata, which they end twice.
    """
    known = _known(api_key)
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        position = _CORRELATION_ID.size
        if known.flexible_at(version) and api_key != API_VERSIONS:
            tags = frame[position]
            position += 1
            if tags:
                position = skip_tags(frame, position, len(frame), tags)
    except (struct.error, IndexError):
        raise Truncated(f"a response of {len(frame)} bytes has no header") from None
    if api_key == API_VERSIONS and frame[position : position + 2] == _UNSUPPORTED_VERSION:
        return correlation_id, known.response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    message = codec.decode(
        known.response, version, frame, position=position, max_elements=max_elements, whole=False
    )
    return correlation_id, message


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, message: msgspec.Struct | Encoded
) -> list[Part]:
    """A whole frame: size, request header and message."""
    known = _known(api_key)
    header = _REQUEST_HEADER.pack(api_key, version, correlation_id)
    if not (api_key == CONTROLLED_SHUTDOWN and version == 0):
        if client_id is None:
            header += b"\xff\xff"
        else:
            name = client_id.encode()
            header += _CLIENT_ID_LENGTH.pack(len(name)) + name
        if known.flexible_at(version):
            header += b"\0"
    return _framed(header, message, version)


def encode_response(api_key: int, version: int, correlation_id: int, message: msgspec.Struct) -> list[Part]:
    """A whole frame: size, response header and message."""
    header = _CORRELATION_ID.pack(correlation_id)
    if api_key != API_VERSIONS and _known(api_key).flexible_at(version):
        header += b"\0"
    return _framed(header, message, version)


def _framed(header: bytes, message: msgspec.Struct | Encoded, version: int) -> list[Part]:
    parts = codec.encode_parts(message, version)
    size = len(header) + sum(map(len, parts))
    start = _SIZE.pack(size) + header
    if parts and len(parts[0]) <= codec.SEPARATE_FROM:
        parts[0] = b"".join((start, parts[0]))
    else:
        parts.insert(0, start)
    return parts


def _known(api_key: int) -> Api:
    try:
        return APIS[api_key]
    except KeyError:
        raise UnknownApi(f"no API has the key {api_key}") from None

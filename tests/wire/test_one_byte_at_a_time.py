"""Every message of every API and version arrives the same however the network cuts it up."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from epoka.wire import codec
from epoka.wire.frame import (
    FrameReader,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

MAX_BYTES = 1 << 20


def request_bytes(shape: Any, message: Any) -> bytes:
    return b"".join(encode_request(shape.cls.API_KEY, shape.version, 7, "client", message))


def response_bytes(shape: Any, message: Any) -> bytes:
    return b"".join(encode_response(shape.cls.API_KEY, shape.version, 7, message))


def drip(written: bytes) -> bytearray:
    """The one frame that comes out when bytes go in singly; it must come with the last byte and no sooner."""
    reader = FrameReader(MAX_BYTES)
    for position in range(len(written) - 1):
        assert reader.feed(written[position : position + 1]) == []
    (frame,) = reader.feed(written[-1:])
    return frame


def test_a_request_fed_one_byte_at_a_time(request_shape: Any, sample_of: Callable[..., Any]) -> None:
    message = sample_of(request_shape)
    header, decoded = decode_request(drip(request_bytes(request_shape, message)))
    assert header == RequestHeader(request_shape.cls.API_KEY, request_shape.version, 7, "client")
    assert decoded == message


def test_a_response_fed_one_byte_at_a_time(response_shape: Any, sample_of: Callable[..., Any]) -> None:
    message = sample_of(response_shape)
    frame = drip(response_bytes(response_shape, message))
    assert decode_response(response_shape.cls.API_KEY, response_shape.version, frame) == (7, message)


def test_a_stream_of_every_request_in_pieces_of_any_size(
    every_shape: tuple[Any, ...], sample_of: Callable[..., Any]
) -> None:
    shapes = [shape for shape in every_shape if shape.section.kind == "request"]
    messages = [sample_of(shape, "stream") for shape in shapes]
    stream = b"".join(request_bytes(shape, message) for shape, message in zip(shapes, messages, strict=True))
    for seed in range(4):
        random = Random(seed)
        reader = FrameReader(MAX_BYTES)
        frames: list[bytearray] = []
        position = 0
        while position < len(stream):
            size = random.choice((1, 2, 3, 5, 64, 700, 9000))
            frames += reader.feed(stream[position : position + size])
            position += size
        assert [decode_request(frame)[1] for frame in frames] == messages


def test_a_frame_read_into_the_readers_own_buffer(
    every_shape: tuple[Any, ...], sample_of: Callable[..., Any]
) -> None:
    shape = next(shape for shape in every_shape if repr(shape) == "ProduceRequest-v9")
    message = sample_of(shape, longest=6)
    stream = request_bytes(shape, message) * 3
    reader = FrameReader(MAX_BYTES)
    frames: list[bytearray] = []
    while stream:
        room = reader.get_buffer()
        size = min(len(room), len(stream), 11)
        room[:size] = stream[:size]
        stream = stream[size:]
        frames += reader.received(size)
    assert [decode_request(frame)[1] for frame in frames] == [message] * 3


def test_every_kind_of_buffer_gives_the_same_message(shape: Any, sample_of: Callable[..., Any]) -> None:
    message = sample_of(shape, "buffer", stretch=True)
    written = codec.encode(message, shape.version)
    assert b"".join(codec.encode_parts(message, shape.version)) == written
    for buffer in (written, bytearray(written), memoryview(written), memoryview(bytearray(written))):
        assert codec.decode(shape.cls, shape.version, buffer) == message
    embedded = b"before" + written + b"behind"
    found, end = codec.decode_prefix(shape.cls, shape.version, embedded, 6)
    assert (found, end) == (message, 6 + len(written))

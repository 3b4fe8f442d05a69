"""Whatever a peer sends, the answer is a message or a WireError, in memory that the frame's size bounds.

The corpus is built here: valid messages cut short at every byte, with bytes changed, with every length and
count replaced by lies, and hand-made frames for what a mutation would hardly find.
"""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from epoka.wire import codec
from epoka.wire.errors import (
    Malformed,
    NotKafka,
    TooLarge,
    Truncated,
    UnknownApi,
    UnsupportedVersion,
    WireError,
)
from epoka.wire.frame import FrameReader, decode_request, decode_response, encode_request
from epoka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from epoka.wire.messages.delete_groups import DeleteGroupsRequest
from epoka.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from epoka.wire.messages.fetch import FetchRequest, ReplicaState
from epoka.wire.messages.heartbeat import HeartbeatRequest
from epoka.wire.messages.metadata import MetadataRequest
from epoka.wire.messages.produce import ProduceRequest
from epoka.wire.messages.stop_replica import StopReplicaRequest

# A small frame may cost this much and no more, whatever it claims to hold.
MEMORY_BOUND = 256 * 1024
HUGE_INT32 = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x00\x0f\xff\xff",
)
HUGE_INT16 = (b"\x7f\xff", b"\x80\x00", b"\xff\xff", b"\xff\xfe")
HUGE_VARINT = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
    b"\xff\xff\x03",
)


def body_of(shape: Any, message: Any) -> bytes:
    return codec.encode(message, shape.version)


def decode_or_refuse(cls: Any, version: int, body: bytes) -> Any:
    """The message, or the WireError as a value; anything else that is raised fails the test."""
    try:
        return codec.decode(cls, version, body)
    except WireError as error:
        return error


def mutations(body: bytes, random: Random, count: int) -> Iterator[bytes]:
    """`body` with a byte or a few of them changed, put in, taken out or repeated."""
    for _ in range(count):
        mutant = bytearray(body)
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            position = random.randrange(len(mutant) + 1)
            match random.randrange(6):
                case 0:
                    mutant[position : position + 1] = bytes([random.randrange(256)])
                case 1:
                    mutant[position : position + 4] = random.choice(HUGE_INT32)
                case 2:
                    mutant[position : position + 2] = random.choice(HUGE_INT16)
                case 3:
                    mutant[position : position + 1] = random.choice(HUGE_VARINT)
                case 4:
                    del mutant[position : position + random.randrange(1, 5)]
                case 5:
                    mutant[position:position] = mutant[position : position + random.randrange(1, 9)]
        yield bytes(mutant)


def lies(body: bytes) -> Iterator[bytes]:
    """`body` with every place that might be a length or a count claiming something absurd."""
    for position in range(len(body)):
        yield body[:position] + HUGE_INT32[position % len(HUGE_INT32)] + body[position + 4 :]
        yield body[:position] + HUGE_INT16[position % len(HUGE_INT16)] + body[position + 2 :]
        yield body[:position] + HUGE_VARINT[position % len(HUGE_VARINT)] + body[position + 1 :]


def peak_memory_of(work: Callable[[], object]) -> int:
    """The process may have threads, whose memory is counted as well."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_message_cut_short_anywhere_is_refused(shape: Any, sample_of: Callable[..., Any]) -> None:
    body = body_of(shape, sample_of(shape, "cut", longest=2))
    for length in range(len(body)):
        with pytest.raises(WireError):
            codec.decode(shape.cls, shape.version, body[:length])


def test_a_message_with_something_behind_it_is_refused(shape: Any, sample_of: Callable[..., Any]) -> None:
    body = body_of(shape, sample_of(shape, "tail", longest=1))
    with pytest.raises(WireError):
        codec.decode(shape.cls, shape.version, body + b"\x00")


def test_a_mutant_is_a_message_or_a_wire_error(shape: Any, sample_of: Callable[..., Any]) -> None:
    random = Random(zlib.crc32(repr(shape).encode()))
    body = body_of(shape, sample_of(shape, "mutant", longest=2))
    for mutant in mutations(body, random, 40):
        outcome = decode_or_refuse(shape.cls, shape.version, mutant)
        assert isinstance(outcome, (shape.cls, WireError))


def test_a_mutant_that_decodes_can_be_written_and_read_again(
    shape: Any, sample_of: Callable[..., Any]
) -> None:
    random = Random(zlib.crc32(repr(shape).encode()) + 1)
    body = body_of(shape, sample_of(shape, "again", longest=1))
    for mutant in mutations(body, random, 15):
        outcome = decode_or_refuse(shape.cls, shape.version, mutant)
        if not isinstance(outcome, WireError):
            written = codec.encode(outcome, shape.version)
            assert codec.decode(shape.cls, shape.version, written) == outcome


def test_long_arrays_cut_short_or_changed_are_no_different(shape: Any, sample_of: Callable[..., Any]) -> None:
    random = Random(zlib.crc32(repr(shape).encode()) + 3)
    body = body_of(shape, sample_of(shape, "long", longest=2, stretch=True))
    for length in random.sample(range(len(body)), min(len(body), 25)):
        with pytest.raises(WireError):
            codec.decode(shape.cls, shape.version, body[:length])
    for mutant in mutations(body, random, 12):
        outcome = decode_or_refuse(shape.cls, shape.version, mutant)
        assert isinstance(outcome, (shape.cls, WireError))


def test_a_lie_about_a_length_costs_no_memory(shape: Any, sample_of: Callable[..., Any]) -> None:
    body = body_of(shape, sample_of(shape, "lie", longest=1))[:160]
    decode_or_refuse(shape.cls, shape.version, body)  # so that the decoder itself is not counted

    def decode_all() -> None:
        for lie in lies(body):
            outcome = decode_or_refuse(shape.cls, shape.version, lie)
            assert isinstance(outcome, (shape.cls, WireError))

    assert any(peak_memory_of(decode_all) < MEMORY_BOUND for _ in range(3))


def test_the_number_of_elements_is_bounded_over_the_whole_message() -> None:
    # A thousand topics of a thousand partitions: no single array is long, all of them together are.
    topic = b"\x00\x01t" + struct.pack(">i", 1000) + struct.pack(">1000i", *range(1000))
    body = struct.pack(">iiq?", 1, 5, 77, False) + struct.pack(">i", 1000) + topic * 1000
    with pytest.raises(TooLarge):
        codec.decode(StopReplicaRequest, 1, body, max_elements=100_000)
    assert len(codec.decode(StopReplicaRequest, 1, body, max_elements=2_000_000).topics) == 1000


@pytest.mark.parametrize("count", [-2, -(1 << 31), 1 << 30, (1 << 31) - 1])
def test_an_array_count_that_cannot_be_is_refused_at_once(count: int) -> None:
    body = struct.pack(">i", count) + b"\x00" * 64
    assert peak_memory_of(lambda: decode_or_refuse(MetadataRequest, 1, body)) < MEMORY_BOUND
    with pytest.raises(WireError):
        codec.decode(MetadataRequest, 1, body)


def test_a_null_array_is_refused_where_none_may_be() -> None:
    with pytest.raises(Malformed):
        codec.decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert codec.decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None


@pytest.mark.parametrize("length", [-1, -2, -32768, 32767])
def test_a_text_length_that_cannot_be_is_refused(length: int) -> None:
    with pytest.raises(WireError):
        codec.decode(HeartbeatRequest, 0, struct.pack(">h", length) + b"group" + b"\x00" * 16)


def test_a_compact_null_is_refused_where_none_may_be() -> None:
    with pytest.raises(Malformed):
        codec.decode(ApiVersionsRequest, 3, b"\x00\x02v\x00")


@pytest.mark.parametrize("text", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"ok\xe2\x82"])
@pytest.mark.parametrize("flexible", [False, True])
def test_a_text_that_is_not_utf8_is_refused(text: bytes, flexible: bool) -> None:
    with pytest.raises(Malformed):
        if flexible:
            codec.decode(DeleteGroupsRequest, 2, b"\x02" + bytes([len(text) + 1]) + text + b"\x00")
        else:
            body = struct.pack(">ih", 1, len(text)) + text
            codec.decode(DeleteGroupsRequest, 1, body)


@pytest.mark.parametrize(
    "varint", [b"\x80", b"\xff" * 5, b"\xff" * 10 + b"\x01", b"\xff\xff\xff\xff\x7f", b"\x80" * 64]
)
def test_a_varint_that_does_not_end_or_is_too_large_is_refused(varint: bytes) -> None:
    with pytest.raises(WireError):
        codec.decode(DeleteGroupsRequest, 2, varint)


def tagged(*tags: tuple[int, bytes], count: int | None = None) -> bytes:
    """An ApiVersions request whose only content is these tagged fields."""
    head = b"\x02a\x02b"
    body = b"".join(bytes([tag, len(content)]) + content for tag, content in tags)
    return head + bytes([len(tags) if count is None else count]) + body


def test_an_unknown_tag_is_skipped() -> None:
    assert codec.decode(ApiVersionsRequest, 3, tagged((9, b"whatever"), (10, b""))) == ApiVersionsRequest(
        "a", "b"
    )


def test_many_unknown_tags_are_skipped_in_little_memory() -> None:
    count = 20_000
    body = (
        b"\x02a\x02b"
        + b"\xa0\x9c\x01"
        + b"".join(
            bytes([number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14, 0])
            for number in range(count)
        )
    )
    outcome = None

    def decode() -> None:
        nonlocal outcome
        outcome = decode_or_refuse(ApiVersionsRequest, 3, body)

    assert peak_memory_of(decode) < MEMORY_BOUND
    assert outcome == ApiVersionsRequest("a", "b")


@pytest.mark.parametrize(
    "body",
    [
        tagged((9, b"x"), count=2),
        tagged(count=127),
        b"\x02a\x02b\xff\xff\xff\xff\x0f",
        b"\x02a\x02b\x01\x09\x7f",
        b"\x02a\x02b\x01\x09\xff\xff\xff\xff\x0f",
        b"\x02a\x02b\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00",
    ],
    ids=["one missing", "all missing", "huge count", "too long", "huge", "bad tag"],
)
def test_tagged_fields_that_no_correct_peer_writes_are_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        codec.decode(ApiVersionsRequest, 3, body)


def fetch_with_replica_state(size: int, content: bytes) -> bytes:
    plain = codec.encode(FetchRequest(), 15)
    assert plain.endswith(b"\x00")
    return plain[:-1] + b"\x01\x01" + bytes([size]) + content


def test_a_known_tag_must_be_as_long_as_it_says() -> None:
    state = struct.pack(">iq", 2, 77) + b"\x00"
    good = codec.decode(FetchRequest, 15, fetch_with_replica_state(13, state))
    assert good.replica_state == ReplicaState(2, 77)
    for size in (0, 1, 12, 14, 127):
        with pytest.raises(WireError):
            codec.decode(FetchRequest, 15, fetch_with_replica_state(size, state))
    with pytest.raises(WireError):
        codec.decode(FetchRequest, 15, fetch_with_replica_state(14, state + b"\x00"))


def test_a_known_tag_that_comes_twice_is_refused() -> None:
    state = struct.pack(">iq", 2, 77) + b"\x00"
    plain = codec.encode(FetchRequest(), 15)
    with pytest.raises(Malformed):
        codec.decode(FetchRequest, 15, plain[:-1] + b"\x02" + (b"\x01\x0d" + state) * 2)


@pytest.mark.parametrize("marker", [0, 1, 2, 127])
def test_a_nullable_struct_that_is_announced_and_does_not_come_is_refused(marker: int) -> None:
    written = bytearray(codec.encode(DescribeTopicPartitionsRequest(), 0))
    assert written[-2] == 0xFF
    written[-2] = marker
    with pytest.raises(WireError):
        codec.decode(DescribeTopicPartitionsRequest, 0, written)


def test_a_frame_shorter_than_a_header_is_refused() -> None:
    whole = b"".join(encode_request(18, 3, 7, "client", ApiVersionsRequest("a", "b")))[4:]
    for length in range(len(whole)):
        with pytest.raises(WireError):
            decode_request(whole[:length])


def test_an_unknown_api_is_named_with_its_header() -> None:
    with pytest.raises(UnknownApi) as caught:
        decode_request(struct.pack(">hhih", 999, 0, 7, -1))
    assert caught.value.header.api_key == 999
    assert caught.value.header.correlation_id == 7


@pytest.mark.parametrize(("key", "version"), [(1, 18), (1, 3), (1, -1), (3, 32767), (18, 99), (10000, 1)])
def test_an_unknown_version_is_named_with_its_header(key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        decode_request(struct.pack(">hhih", key, version, 7, 2) + b"me" + b"\x00" * 32)
    assert (caught.value.header.api_key, caught.value.header.api_version) == (key, version)
    assert caught.value.header.correlation_id == 7


@pytest.mark.parametrize("length", [-2, -32768, 32767])
def test_a_client_id_that_cannot_be_is_refused(length: int) -> None:
    with pytest.raises(WireError):
        decode_request(struct.pack(">hhih", 3, 1, 7, length) + b"\x00" * 8)


def test_a_client_id_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(WireError):
        decode_request(struct.pack(">hhih", 3, 1, 7, 2) + b"\xff\xfe" + struct.pack(">i", 0))


@pytest.mark.parametrize("frame", [b"", b"\x00", b"\x00\x00\x00", b"\x00\x00\x00\x07\x01"])
def test_a_response_that_breaks_off_is_refused(frame: bytes) -> None:
    with pytest.raises(WireError):
        decode_response(18, 3, frame)


def test_a_mutated_frame_is_a_request_or_a_wire_error(
    request_shape: Any, sample_of: Callable[..., Any]
) -> None:
    random = Random(zlib.crc32(repr(request_shape).encode()) + 2)
    message = sample_of(request_shape, "frame", longest=1)
    frame = b"".join(encode_request(request_shape.cls.API_KEY, request_shape.version, 7, "me", message))[4:]
    for mutant in mutations(frame, random, 25):
        with contextlib.suppress(WireError):
            decode_request(mutant)


@pytest.mark.parametrize("size", [-1, -2, -(1 << 31), 1 << 20, (1 << 31) - 1])
def test_a_frame_size_that_cannot_be_is_refused_before_anything_is_kept(size: int) -> None:
    reader = FrameReader((1 << 20) - 1)

    def feed() -> None:
        with pytest.raises(WireError):
            reader.feed(struct.pack(">i", size))

    assert peak_memory_of(feed) < 2 * MEMORY_BOUND


def test_a_large_frame_is_not_paid_for_before_it_arrives() -> None:
    reader = FrameReader(1 << 30)
    assert peak_memory_of(lambda: reader.feed(struct.pack(">i", 1 << 29) + b"x" * 100)) < 4 << 20


FOREIGN = {
    "http get": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "http post": b"POST /topics HTTP/1.1\r\n\r\n",
    "http put": b"PUT /x HTTP/1.1\r\n\r\n",
    "http head": b"HEAD / HTTP/1.1\r\n\r\n",
    "http options": b"OPTIONS * HTTP/1.1\r\n\r\n",
    "tls 1.0 record": bytes.fromhex("1603010200010001fc0303") + b"\x00" * 40,
    "tls 1.2 record": bytes.fromhex("1603030200010001fc0303") + b"\x00" * 40,
}


@pytest.mark.parametrize("bytes_", FOREIGN.values(), ids=FOREIGN.keys())
@pytest.mark.parametrize("piece", [1, 3, 1000])
@pytest.mark.parametrize("limit", [1 << 20, (1 << 31) - 1])
def test_another_protocol_is_recognised_by_its_first_bytes(bytes_: bytes, piece: int, limit: int) -> None:
    reader = FrameReader(limit)
    with pytest.raises(NotKafka):
        for position in range(0, len(bytes_), piece):
            reader.feed(bytes_[position : position + piece])


def test_random_bytes_never_hurt() -> None:
    random = Random(2024)
    for _ in range(3000):
        frame = random.randbytes(random.choice((0, 1, 7, 8, 9, 12, 30, 200)))
        with contextlib.suppress(WireError):
            decode_request(frame)
        with contextlib.suppress(WireError):
            FrameReader(1 << 20).feed(frame)


def test_records_that_are_null_empty_or_longer_than_the_frame() -> None:
    def produce(length: int, content: bytes) -> bytes:
        return (
            b"\xff\xff"
            + struct.pack(">hi", 1, 30000)
            + struct.pack(">ih", 1, 1)
            + b"t"
            + struct.pack(">iii", 1, 0, length)
            + content
        )

    def records(body: bytes) -> Any:
        return codec.decode(ProduceRequest, 3, body).topic_data[0].partition_data[0].records

    assert records(produce(-1, b"")) is None
    assert records(produce(0, b"")) == b""
    assert records(produce(3, b"abc")) == b"abc"
    for length, content in ((4, b"abc"), (-2, b""), ((1 << 31) - 1, b"abc"), (-(1 << 31), b"abc")):
        with pytest.raises(WireError):
            records(produce(length, content))


def test_a_truncated_response_says_that_bytes_are_missing() -> None:
    body = codec.encode(ApiVersionsResponse(), 3)
    with pytest.raises(Truncated):
        codec.decode(ApiVersionsResponse, 3, body[:-1])

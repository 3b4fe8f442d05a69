"""Frames and headers."""

import struct
from random import Random

import pytest

from epoka.wire import frame
from epoka.wire.errors import (
    Malformed,
    NotKafka,
    RequestHeader,
    TooLarge,
    Truncated,
    UnknownApi,
    UnsupportedVersion,
)
from epoka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from epoka.wire.messages.fetch import FetchableTopicResponse, FetchPartitionResponse, FetchResponse
from epoka.wire.messages.metadata import MetadataRequest, MetadataResponse

MAX = 100 * 1024 * 1024


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def receive(reader: frame.FrameReader, data: bytes) -> tuple[list[bytearray], int]:
    """Frames and how many receives they took, when the socket always fills the buffer."""
    frames: list[bytearray] = []
    receives = 0
    while data:
        buffer = reader.get_buffer()
        assert len(buffer)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        frames += reader.received(count)
        data = data[count:]
        receives += 1
    return frames, receives


# Cutting a stream


@pytest.mark.parametrize("seed", range(20))
def test_frames_come_out_whole_however_the_stream_is_cut(seed: int) -> None:
    rng = Random(seed)
    sizes = [rng.choice([0, 1, 5, 300, 16_000, 17_000, 70_000, 1_200_000]) for _ in range(12)]
    bodies = [rng.randbytes(size) for size in sizes]
    stream = b"".join(map(framed, bodies))
    reader = frame.FrameReader(MAX)
    frames: list[bytearray] = []
    while stream:
        count = rng.choice([1, 3, 4, 100, 5_000, 65_536, 500_000])
        frames += reader.feed(stream[:count])
        stream = stream[count:]
    assert frames == bodies
    assert reader.pending == 0


def test_many_small_frames_cost_one_receive() -> None:
    bodies = [bytes([number]) * 100 for number in range(200)]
    frames, receives = receive(frame.FrameReader(MAX), b"".join(map(framed, bodies)))
    assert frames == bodies
    assert receives == 1


def test_a_large_frame_is_received_into_the_buffer_that_is_handed_out() -> None:
    reader = frame.FrameReader(MAX)
    assert reader.feed(framed(bytes(500_000))[:4]) == []
    view = reader.get_buffer()
    assert len(view) == 500_000
    view[:3] = b"abc"
    owner = view.obj
    (done,) = reader.received(500_000)
    assert done is owner
    assert done[:4] == b"abc\0"


def test_a_large_frame_grows_while_the_last_view_is_still_held() -> None:
    body = Random(1).randbytes(9_000_000)
    data = framed(body)
    reader = frame.FrameReader(MAX)
    frames: list[bytearray] = []
    held = []
    position = 0
    while position < len(data):
        buffer = reader.get_buffer()
        held.append(buffer)
        count = min(len(buffer), len(data) - position)
        buffer[:count] = data[position : position + count]
        frames += reader.received(count)
        position += count
    assert frames == [body]


def test_frames_are_independent_of_the_reader() -> None:
    reader = frame.FrameReader(MAX)
    (first,) = reader.feed(framed(b"first"))
    reader.feed(framed(b"other"))
    assert first == b"first"
    first.extend(b"!")


def test_pending_says_whether_a_frame_is_unfinished() -> None:
    reader = frame.FrameReader(MAX)
    reader.feed(framed(b"abc") + b"\0\0")
    assert reader.pending == 2
    reader.feed(b"\0\1x")
    assert reader.pending == 0


def test_sizes_at_the_limit() -> None:
    assert frame.FrameReader(10).feed(framed(bytes(10))) == [bytes(10)]
    with pytest.raises(TooLarge, match="11 bytes; the most is 10"):
        frame.FrameReader(10).feed(framed(bytes(11)))
    with pytest.raises(Malformed, match="-1 bytes"):
        frame.FrameReader(10).feed(struct.pack(">i", -1))


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"POST /x HTTP/1.1\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"SSH-2.0-OpenSSH", "SSH"),
    ],
)
def test_another_protocol_is_named_even_if_its_size_would_be_allowed(first: bytes, name: str) -> None:
    with pytest.raises(NotKafka, match=f"speaks {name}"):
        frame.FrameReader(0x7FFFFFFF).feed(first)


def test_a_later_frame_may_have_any_size() -> None:
    size = struct.unpack(">i", b"\x16\x03\x01\x00")[0]
    reader = frame.FrameReader(0x7FFFFFFF)
    reader.feed(framed(b"hello"))
    assert reader.feed(struct.pack(">i", size)) == []


# Headers


def joined(parts: list[bytes | memoryview]) -> bytes:
    data = b"".join(parts)
    assert struct.unpack_from(">i", data)[0] == len(data) - 4
    return data[4:]


def test_the_bytes_of_request_headers() -> None:
    request = MetadataRequest(topics=None)
    old = joined(frame.encode_request(3, 1, 42, "me", request))
    assert old[:12] == bytes.fromhex("0003 0001 0000002a 0002") + b"me"
    new = joined(frame.encode_request(3, 9, 42, None, request))
    assert new[:11] == bytes.fromhex("0003 0009 0000002a ffff 00")


@pytest.mark.parametrize("version", [1, 8, 9, 12])
@pytest.mark.parametrize("client_id", [None, "", "Größe"])
def test_a_request_is_read_again(version: int, client_id: str | None) -> None:
    request = MetadataRequest(topics=None)
    data = joined(frame.encode_request(3, version, -7, client_id, request))
    header = RequestHeader(3, version, -7, client_id)
    assert frame.decode_request(bytearray(data)) == (header, request)
    found, position = frame.decode_request_header(data)
    assert found == header
    assert position == 10 + len((client_id or "").encode()) + (1 if version >= 9 else 0)


@pytest.mark.parametrize("version", [1, 8, 9, 12])
def test_a_response_is_read_again(version: int) -> None:
    response = MetadataResponse(controller_id=5)
    data = joined(frame.encode_response(3, version, 9, response))
    assert data.startswith(b"\0\0\0\x09" + (b"\0" if version >= 9 else b""))
    assert frame.decode_response(3, version, data) == (9, response)


def test_tagged_fields_in_headers_are_skipped() -> None:
    data = joined(frame.encode_request(3, 9, 1, None, MetadataRequest()))
    tagged = data[:10] + b"\x01\x05\x02hi" + data[11:]
    assert frame.decode_request(tagged)[1] == MetadataRequest()
    data = joined(frame.encode_response(3, 9, 1, MetadataResponse()))
    assert frame.decode_response(3, 9, data[:4] + b"\x01\x05\x02hi" + data[5:]) == (1, MetadataResponse())


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_response_to_api_versions_always_has_the_oldest_header(version: int) -> None:
    data = joined(frame.encode_response(18, version, 9, ApiVersionsResponse(error_code=42)))
    assert data[:6] == b"\0\0\0\x09\0\x2a"
    assert frame.decode_response(18, version, data) == (9, ApiVersionsResponse(error_code=42))
    request = joined(frame.encode_request(18, version, 9, "x", ApiVersionsRequest()))
    assert frame.decode_request(request)[1] == ApiVersionsRequest()


@pytest.mark.parametrize(
    "rest",
    ["00000001001200000002", "0100120000000200000000"],
    ids=["in version 0", "librdkafka's mock broker"],
)
def test_a_broker_that_does_not_know_a_version_of_api_versions_is_understood(rest: str) -> None:
    refusal = bytes.fromhex("000000090023" + rest)
    assert frame.decode_response(18, 3, refusal) == (9, ApiVersionsResponse(error_code=35))


def test_large_records_are_not_copied_into_a_frame() -> None:
    records = memoryview(bytes(100_000))
    partition = FetchPartitionResponse(records=records)
    response = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(partition,)),))
    for version in (4, 12, 17):
        parts = frame.encode_response(1, version, 3, response)
        assert any(part is records for part in parts)
        assert len(parts) <= 3
        correlation_id, again = frame.decode_response(1, version, joined(parts))
        assert correlation_id == 3
        assert again.responses[0].partitions[0].records == records


def test_a_version_nobody_knows_is_refused_with_the_header() -> None:
    with pytest.raises(UnsupportedVersion, match="ApiVersions v99; versions 0 to") as caught:
        frame.decode_request(struct.pack(">hhih", 18, 99, 5, 2) + b"me" + b"whatever")
    assert caught.value.header == RequestHeader(18, 99, 5, "me")


def test_an_unreadable_client_id_does_not_hide_an_unknown_version() -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        frame.decode_request(struct.pack(">hhih", 18, 99, 5, 2000))
    assert caught.value.header == RequestHeader(18, 99, 5, None)


def test_an_api_nobody_knows_is_refused_with_the_header() -> None:
    with pytest.raises(UnknownApi, match="key 999") as caught:
        frame.decode_request(struct.pack(">hhih", 999, 1, 5, -1))
    assert caught.value.header == RequestHeader(999, 1, 5, None)


def test_a_body_that_is_wrong_is_refused_with_the_header() -> None:
    data = joined(frame.encode_request(3, 9, 1, "me", MetadataRequest()))
    with pytest.raises(Truncated) as caught:
        frame.decode_request(data[:-1])
    assert caught.value.header == RequestHeader(3, 9, 1, "me")


def test_the_three_bytes_that_librdkafka_leaves_behind_a_request_for_all_topics_are_ignored() -> None:
    head = struct.pack(">hhih", 3, 12, 5, 7) + b"rdkafka" + b"\0"
    header, request = frame.decode_request(head + bytes.fromhex("00000000010000"))
    assert header == RequestHeader(3, 12, 5, "rdkafka")
    assert request == MetadataRequest(topics=None, allow_auto_topic_creation=False)


def test_the_byte_that_librdkafka_s_mock_brokers_leave_behind_their_metadata_is_ignored() -> None:
    data = joined(frame.encode_response(3, 9, 1, MetadataResponse()))
    assert frame.decode_response(3, 9, data + b"\0") == (1, MetadataResponse())

"""The doors of a node, over real sockets: order, limits, and peers that misbehave."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from epoka.model.events import Disconnected, Hangup, Request, Respond
from epoka.node import connection
from epoka.node.connection import MIN_READ_BYTES
from epoka.node.server import NO_LIMIT, Listener, ServerLimits
from epoka.wire import frame as wire
from epoka.wire.frame import SCRATCH_BYTES
from epoka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from epoka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from epoka.wire.messages.metadata import MetadataRequest, MetadataResponse
from epoka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Lines = Callable[[], list[str]]
Kit = SimpleNamespace


async def test_answers_leave_in_the_order_of_the_requests_whatever_order_the_core_answers_in(
    kit: Kit,
) -> None:
    async with kit.open_door() as door:
        door.core.react = door.core.answer_later
        client = await door.connect()
        client.heartbeats(0, 1, 2, 3)
        await kit.eventually(lambda: len(door.core.requests) == 4)
        first, second, third, fourth = door.core.requests
        for request in (third, first, fourth, second):
            door.respond(request)
        assert [await client.answer() for _ in range(4)] == [
            (number, HeartbeatResponse(error_code=number)) for number in range(4)
        ]


async def test_a_later_answer_waits_for_an_earlier_one(kit: Kit) -> None:
    async with kit.open_door() as door:
        door.core.react = door.core.answer_later
        client, other = await door.connect(), await door.connect()
        client.heartbeats(1, 2)
        await kit.eventually(lambda: len(door.core.requests) == 2)
        door.respond(door.core.requests[1])
        door.core.react = door.core.answer_at_once
        assert await other.round_trip() == 7
        assert not client.reader._buffer  # type: ignore[attr-defined]
        door.respond(door.core.requests[0])
        assert [(await client.answer())[1].error_code for _ in range(2)] == [1, 2]


async def test_requests_reach_the_core_in_the_order_of_their_arrival(kit: Kit) -> None:
    async with kit.open_door() as door:
        client = await door.connect()
        client.heartbeats(*range(200))
        for number in range(200):
            assert (await client.answer())[1].error_code == number
        assert [request.message.generation_id for request in door.core.requests] == list(range(200))


async def test_a_request_without_an_answer_does_not_hold_up_the_next(kit: Kit) -> None:
    async with kit.open_door() as door:
        door.core.react = lambda event, now: (
            [Respond(event.token, None)]
            if event.message.generation_id == 1
            else door.core.answer_at_once(event, now)
        )
        client = await door.connect()
        client.heartbeats(1, 2, 1, 3)
        assert [await client.answer() for _ in range(2)] == [
            (1, HeartbeatResponse(error_code=2)),
            (3, HeartbeatResponse(error_code=3)),
        ]
        assert door.runtime.waiting == 0


async def test_frames_may_come_one_byte_at_a_time(kit: Kit) -> None:
    async with kit.open_door() as door:
        client = await door.connect()
        client.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        message = HeartbeatRequest("group", 5, "member")
        for byte in b"".join(wire.encode_request(12, 4, 9, "slow", message)):
            client.writer.write(bytes([byte]))
            await client.writer.drain()
        assert await client.answer(version=4) == (9, HeartbeatResponse(error_code=5))
        assert door.core.requests[0].message == message


async def test_a_request_tells_who_sent_it_and_through_which_door(kit: Kit) -> None:
    async with kit.open_door(control=True) as door:
        client = await door.connect()
        client.send(HeartbeatRequest(), client_id="one")
        client.send(HeartbeatRequest(), client_id=None)
        await client.answer()
        await client.answer()
        first, second = (request.peer for request in door.core.requests)
        assert (first.control, first.host, first.client_id) == (True, "127.0.0.1", "one")
        assert (second.client_id, second.connection) == (None, first.connection)
        assert list(door.listener.connections) == [first.connection]


async def test_the_records_of_a_produce_are_not_copied_and_can_be_written_to(kit: Kit) -> None:
    async with kit.open_door() as door:
        door.core.react = lambda event, now: [Respond(event.token, None)]
        client = await door.connect()
        records = bytes(300_000)
        message = ProduceRequest(
            acks=0, topic_data=(TopicProduceData("t", (PartitionProduceData(0, records),)),)
        )
        client.send(message, version=8)
        await kit.eventually(lambda: door.core.requests)
        view = door.core.requests[0].message.topic_data[0].partition_data[0].records
        assert isinstance(view, memoryview) and isinstance(view.obj, bytearray)
        assert len(view) == 300_000 < len(view.obj) < 301_000
        view[0] = 1


async def test_an_unknown_apiversions_version_is_answered_in_version_0_and_in_its_turn(kit: Kit) -> None:
    async with kit.open_door() as door:
        door.core.react = door.core.answer_later
        client = await door.connect()
        client.heartbeats(4)
        client.writer.write(struct.pack(">ihhih", 10, 18, 99, 77, -1))
        client.send(ApiVersionsRequest("c", "1"), version=3, first_id=5)
        await kit.eventually(lambda: len(door.core.requests) == 2)
        for request in door.core.requests:
            door.respond(request)
        assert await client.answer() == (0, HeartbeatResponse(error_code=4))
        frame = await client.frame()
        assert frame == struct.pack(">ihihhh", 77, 35, 1, 18, 0, 3)
        assert await client.answer(18, 3) == (5, ApiVersionsResponse())


def _tls_hello() -> bytes:
    out = ssl.MemoryBIO()
    context = ssl.create_default_context()
    wrapped = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        wrapped.do_handshake()
    return out.read()


HOSTILE = {
    "a negative size": (struct.pack(">i", -1), "a frame of -1 bytes"),
    "the smallest size": (struct.pack(">i", -(2**31)), "bytes"),
    "too large a size": (struct.pack(">i", 1_000_001), "a frame of 1000001 bytes; the most is 1000000"),
    "an HTTP request": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "speaks HTTP"),
    "a TLS handshake": (_tls_hello(), "speaks TLS"),
    "an SSH banner": (b"SSH-2.0-OpenSSH_9.6\r\n", "speaks SSH"),
    "an empty frame": (struct.pack(">i", 0), "a request of 0 bytes is too short for a header"),
    "a frame without a header": (struct.pack(">i", 4) + b"abcd", "too short for a header"),
    "an unknown API": (struct.pack(">ihhih", 10, 999, 0, 1, -1), "API key 999 is not served here"),
    "a negative API": (struct.pack(">ihhih", 10, -5, 0, 1, -1), "API key -5 is not served here"),
    "an API that is known and not served": (
        struct.pack(">ihhih", 10, 20, 1, 1, -1),
        "API key 20 is not served",
    ),
    "too new a version": (
        struct.pack(">ihhih", 10, 12, 5, 1, -1),
        "Heartbeat version 5 is not served, only 0",
    ),
    "a negative version": (struct.pack(">ihhih", 10, 12, -1, 1, -1), "Heartbeat version -1 is not served"),
    "too old a version": (
        struct.pack(">ihhih", 10, 0, 2, 1, -1),
        "Produce version 2 is not served, only 3 to 11",
    ),
    "a body that ends too early": (
        struct.pack(">ihhih", 10, 12, 0, 1, -1),
        "Heartbeat version 0 cannot be read",
    ),
    "an array larger than the frame": (
        struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
        "Metadata version 1 cannot be read",
    ),
    "a client id past the end": (struct.pack(">ihhih", 10, 12, 0, 1, 30_000), "cannot be read"),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_peer_that_breaks_the_protocol_is_closed_with_one_line_and_others_go_on(
    what: str, kit: Kit, lines: Lines
) -> None:
    data, complaint = HOSTILE[what]
    async with kit.open_door(limits=ServerLimits(max_frame_bytes=1_000_000)) as door:
        bystander = await door.connect()
        assert await bystander.round_trip(1) == 1
        client = await door.connect()
        client.writer.write(data)
        assert await client.closed() == b""
        (line,) = lines()
        assert line.startswith("closed the connection of 127.0.0.1:") and complaint in line
        assert "\n" not in line
        assert len(door.core.requests) == 1
        assert await bystander.round_trip(2) == 2
        await kit.eventually(lambda: len(door.listener.connections) == 1)


async def test_good_requests_before_a_bad_one_are_answered(kit: Kit, lines: Lines) -> None:
    async with kit.open_door() as door:
        client = await door.connect()
        client.heartbeats(1, 2)
        client.writer.write(struct.pack(">ihhih", 10, 999, 0, 1, -1))
        client.heartbeats(3)
        answers = await client.closed()
        assert answers.count(struct.pack(">ii", 6, 0)) == 1 and len(answers) == 2 * 10
        assert [request.message.generation_id for request in door.core.requests] == [1, 2]
        assert len(lines()) == 1


async def test_a_defect_in_the_decoder_costs_one_connection_and_not_the_node(
    kit: Kit, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with kit.open_door() as door:
        with monkeypatch.context() as patch:
            patch.setattr(connection, "decode_request", lambda frame, max_elements: 1 // 0)
            client = await door.connect()
            client.heartbeats(1)
            assert await client.closed() == b""
        assert any("a defect in the decoder: Heartbeat version 0" in line for line in lines())
        assert await (await door.connect()).round_trip() == 7
        assert door.runtime.ending is None


async def test_an_answer_that_cannot_be_written_costs_one_connection_and_not_the_node(
    kit: Kit, lines: Lines
) -> None:
    async with kit.open_door() as door:
        bystander, client = await door.connect(), await door.connect()
        assert await bystander.round_trip(1) == 1
        door.core.react = lambda event, now: (
            [Respond(event.token, MetadataResponse(cluster_id="c" * 40_000))]
            if isinstance(event, Request)
            else []
        )
        client.send(MetadataRequest(), version=4)
        assert await client.closed() == b""
        defect, line = lines()
        assert defect == "a defect in an answer: Metadata version 4 cannot be written"
        assert line.endswith("listener PLAINTEXT: the answer to Metadata version 4 cannot be written")
        door.core.react = door.core.answer_at_once
        assert await bystander.round_trip(2) == 2
        await kit.eventually(lambda: len(door.listener.connections) == 1)
        assert (door.runtime.ending, door.runtime.waiting, door.listener.queued_bytes) == (None, 0, 0)


async def test_a_core_that_hangs_up_closes_the_connection_with_its_reason(kit: Kit, lines: Lines) -> None:
    async with kit.open_door() as door:
        door.core.react = lambda event, now: (
            [Hangup(event.token, "not for you")] if not isinstance(event, Disconnected) else []
        )
        client = await door.connect()
        client.heartbeats(1)
        assert await client.closed() == b""
        (line,) = lines()
        assert "('test') to listener PLAINTEXT: not for you" in line
        await kit.eventually(lambda: not door.listener.connections)
        assert (door.runtime.waiting, door.listener.queued_bytes) == (0, 0)


async def test_the_core_hears_of_a_lost_connection_and_a_late_answer_goes_nowhere(
    kit: Kit, lines: Lines
) -> None:
    async with kit.open_door() as door:
        door.core.react = door.core.answer_later
        client = await door.connect()
        client.heartbeats(1, 2)
        await kit.eventually(lambda: len(door.core.requests) == 2)
        assert door.listener.queued_bytes > 0
        number = door.core.requests[0].peer.connection
        client.close()
        await kit.eventually(lambda: Disconnected(number) in door.core.events)
        assert (door.runtime.waiting, door.listener.queued_bytes) == (0, 0)
        door.respond(door.core.requests[0])
        assert (door.listener.queued_bytes, lines()) == (0, [])
        assert door.runtime.ending is None


async def test_no_more_than_the_limit_of_unanswered_requests_is_taken_from_a_connection(kit: Kit) -> None:
    async with kit.open_door(limits=ServerLimits(max_in_flight=3)) as door:
        door.core.react = door.core.answer_later
        client, other = await door.connect(), await door.connect()
        client.heartbeats(*range(10))
        await kit.eventually(lambda: len(door.core.requests) == 3)
        other.heartbeats(99)
        await kit.eventually(lambda: len(door.core.requests) == 4)
        assert [request.message.generation_id for request in door.core.requests] == [0, 1, 2, 99]
        for number in range(10):
            await kit.eventually(
                lambda number=number: any(r.message.generation_id == number for r in door.core.requests)
            )
            request = next(r for r in door.core.requests if r.message.generation_id == number)
            assert sum(r.message.generation_id < 99 for r in door.core.requests) <= number + 3
            door.respond(request)
            assert (await client.answer())[0] == number


async def test_a_peer_that_does_not_read_is_not_read_from(kit: Kit) -> None:
    async with kit.open_door() as door:
        client, other = await door.connect(limit=2**16), await door.connect()
        client.writer.transport.pause_reading()
        asked = 2000
        client.send(*[MetadataRequest()] * asked, version=4)
        settled = 0
        # Every answer has 30 kB, so 2000 of them are far beyond what the sockets can hold.
        while settled < 5:
            before = len(door.core.requests)
            assert await other.round_trip() == 7
            settled = settled + 1 if len(door.core.requests) == before + 1 else 0
        taken = sum(isinstance(request.message, MetadataRequest) for request in door.core.requests)
        assert 0 < taken < asked / 2
        client.writer.transport.resume_reading()
        for number in range(asked):
            assert (await client.answer(3, 4))[0] == number


async def test_answers_that_wait_for_an_earlier_one_stop_the_reading(kit: Kit) -> None:
    async with kit.open_door(limits=ServerLimits(max_in_flight=1000)) as door:
        door.core.react = lambda event, now: (
            [] if isinstance(event.message, HeartbeatRequest) else door.core.answer_at_once(event, now)
        )
        client = await door.connect()
        client.heartbeats(5)
        client.send(*[MetadataRequest()] * 200, version=4, first_id=1)
        await kit.eventually(lambda: door.core.requests)
        (inside,) = door.listener.connections.values()
        await kit.eventually(lambda: inside._reading_paused)
        # Every answer has 30 kB.
        assert len(door.core.requests) < 1 + 1024 * 1024 / 30_000 + 1
        door.respond(door.core.requests[0])
        assert await client.answer() == (0, HeartbeatResponse(error_code=5))
        for number in range(1, 201):
            assert (await client.answer(3, 4))[0] == number
        assert door.listener.arriving_bytes == 0


async def test_bytes_of_unanswered_requests_are_bounded_over_all_clients(kit: Kit) -> None:
    async with kit.open_door(limits=ServerLimits(max_queued_bytes=1000)) as door:
        door.core.react = door.core.answer_later
        greedy, other = await door.connect(), await door.connect()
        greedy.send(HeartbeatRequest("g" * 2000, 1, "m"))
        await kit.eventually(lambda: len(door.core.requests) == 1)
        assert door.listener.full
        greedy.heartbeats(2)
        other.heartbeats(3)
        third = await door.connect()
        await kit.eventually(lambda: len(door.listener._held_back) >= 2)
        # What has been read goes to the core, where it takes no more memory; but nothing more is read.
        assert [request.message.generation_id for request in door.core.requests] == [1, 3]
        other.heartbeats(4)
        door.respond(door.core.requests[0])
        await kit.eventually(lambda: len(door.core.requests) == 4)
        assert not door.listener.full
        door.core.react = door.core.answer_at_once
        assert await third.round_trip() == 7


def _padded(generation: int, size: int) -> bytes:
    """A heartbeat in a frame of `size` bytes; nobody minds what follows the message."""
    frame = b"".join(wire.encode_request(12, 0, generation, None, HeartbeatRequest("g", generation, "m")))
    return struct.pack(">i", size) + frame[4:].ljust(size, b"\0")


async def test_nothing_more_arrives_while_too_many_requests_wait_for_their_answers(kit: Kit) -> None:
    async with kit.open_door(limits=ServerLimits(max_queued_bytes=1_000_000)) as door:
        door.core.react = door.core.answer_later
        for number in range(4):
            (await door.connect()).writer.write(_padded(number, 300_000))
        await kit.eventually(lambda: len(door.core.requests) == 4)
        others = [await door.connect() for _ in range(10)]
        for client in others:
            client.writer.write(_padded(4, 300_000))
        # The one that has filled the listener is held back as well.
        await kit.eventually(lambda: len(door.listener._held_back) == len(others) + 1)
        assert len(door.core.requests) == 4
        for request in door.core.requests:
            door.respond(request)
        door.core.react = door.core.answer_at_once
        assert [(await client.answer())[1].error_code for client in others] == [4] * len(others)


async def test_requests_that_are_still_arriving_count_and_yet_they_all_arrive(kit: Kit, lines: Lines) -> None:
    limit, size, count = 1_000_000, 2_000_000, 20
    async with kit.open_door(limits=ServerLimits(max_queued_bytes=limit)) as door:
        clients = [await door.connect() for _ in range(count)]
        for client in clients:
            client.writer.write(_padded(7, size)[:-1])
        await kit.eventually(lambda: len(door.listener._held_back) == count - 1)
        assert limit <= door.listener.arriving_bytes < limit + size + count * SCRATCH_BYTES
        for client in clients:
            client.writer.write(b"\0")
        assert [(await client.answer())[1].error_code for client in clients] == [7] * count
        assert (door.listener.queued_bytes, door.listener.arriving_bytes, lines()) == (0, 0, [])


async def test_a_request_that_never_arrives_counts_until_its_connection_is_lost(kit: Kit) -> None:
    async with kit.open_door() as door:
        client = await door.connect()
        client.heartbeats(1)
        client.writer.write(_padded(2, 300_000)[:-1])
        await kit.eventually(lambda: door.listener.arriving_bytes == 299_999)
        client.close()
        await kit.eventually(lambda: not door.listener.connections)
        assert door.listener.arriving_bytes == 0


SHORT = ServerLimits(max_queued_bytes=1000, max_full_ms=40, max_idle_ms=NO_LIMIT)
"""A listener that is soon full, and not for long."""


@pytest.mark.parametrize("missing", [0, 1], ids=["waits for its answer", "is still arriving"])
async def test_when_others_wait_too_long_for_room_the_connection_that_holds_the_most_is_closed(
    missing: int, kit: Kit, lines: Lines
) -> None:
    async with kit.open_door(limits=SHORT) as door:
        door.core.react = door.core.answer_later
        modest, greedy, other = [await door.connect() for _ in range(3)]
        modest.writer.write(_padded(1, 900))
        await kit.eventually(lambda: len(door.core.requests) == 1)
        greedy.writer.write(_padded(2, 20_000)[: 20_004 - missing])
        await kit.eventually(lambda: door.listener.full)
        door.core.react = door.core.answer_at_once
        assert [await other.round_trip(3), await other.round_trip(4)] == [3, 4]
        assert await greedy.closed() == b""
        (line,) = lines()
        assert f"PLAINTEXT: it holds {20_000 - missing} bytes, and others have waited 40 ms for room" in line
        assert door.listener._ahead is None
        door.respond(door.core.requests[0])
        assert (await modest.answer())[1].error_code == 1


async def test_nobody_is_closed_for_room_that_others_have_not_waited_for_long(kit: Kit) -> None:
    async with kit.open_door(limits=ServerLimits(max_queued_bytes=1000, max_idle_ms=40)) as door:
        door.core.react = door.core.answer_later
        greedy, other = await door.connect(), await door.connect()
        greedy.writer.write(_padded(1, 2000))
        other.heartbeats(2)
        await kit.eventually(lambda: len(door.core.requests) == 2)
        await kit.eventually(lambda: door.listener._held_back)
        # Others come and go for being idle meanwhile, so the sweep has passed several times.
        for _ in range(4):
            await (await door.connect()).closed()
        for request in door.core.requests:
            door.respond(request)
        assert (await greedy.answer())[1].error_code == 1
        assert (await other.answer())[1].error_code == 2


async def test_room_is_made_even_by_a_peer_that_does_not_read_its_answers(kit: Kit) -> None:
    async with kit.open_door(limits=SHORT) as door:
        greedy, other = await door.connect(limit=2**16), await door.connect()
        greedy.writer.transport.pause_reading()
        greedy.send(*[MetadataRequest()] * 2000, version=4)
        await kit.eventually(lambda: door.listener.full)
        assert [await other.round_trip(3), await other.round_trip(4)] == [3, 4]
        await kit.eventually(lambda: len(door.listener.connections) == 1)


async def test_the_control_listener_is_never_held_back_for_want_of_bytes(kit: Kit) -> None:
    async with kit.open_door(control=True, limits=ServerLimits(max_queued_bytes=1000)) as door:
        door.core.react = door.core.answer_later
        client = await door.connect()
        client.send(*[HeartbeatRequest("g" * 2000, 1, "m")] * 3)
        await kit.eventually(lambda: len(door.core.requests) == 3)


async def test_too_many_connections_are_refused_and_a_free_place_is_given_again(
    kit: Kit, lines: Lines
) -> None:
    async with kit.open_door(limits=ServerLimits(max_connections=2)) as door:
        first, second = await door.connect(), await door.connect()
        assert (await first.round_trip(), await second.round_trip()) == (7, 7)
        third = await door.connect()
        assert await third.closed() == b""
        (line,) = lines()
        assert line == (
            "refused a connection to listener PLAINTEXT from 127.0.0.1: "
            "there are 2 connections already (max.connections)"
        )
        assert await first.round_trip() == 7
        second.close()
        await kit.eventually(lambda: len(door.listener.connections) == 1)
        assert await (await door.connect()).round_trip() == 7


async def test_too_many_connections_from_one_address_are_refused(kit: Kit, lines: Lines) -> None:
    async with kit.open_door(limits=ServerLimits(max_connections_per_ip=1)) as door:
        first = await door.connect()
        assert await first.round_trip() == 7
        assert await (await door.connect()).closed() == b""
        assert "there are 1 connections from there already (max.connections.per.ip)" in lines()[0]
        first.close()
        await kit.eventually(lambda: not door.listener.connections)
        assert await (await door.connect()).round_trip() == 7


async def test_an_idle_connection_is_closed(kit: Kit) -> None:
    async with kit.open_door(limits=ServerLimits(max_idle_ms=40)) as door:
        silent = await door.connect()
        assert await silent.closed() == b""
        half = await door.connect()
        half.writer.write(struct.pack(">ih", 100, 12))
        assert await half.closed() == b""


async def test_a_connection_that_waits_for_its_answer_is_not_idle(kit: Kit) -> None:
    async with kit.open_door(limits=ServerLimits(max_idle_ms=40)) as door:
        door.core.react = door.core.answer_later
        waiting = await door.connect()
        waiting.heartbeats(3)
        await kit.eventually(lambda: door.core.requests)
        # Others come and go for being idle meanwhile, so the sweep has passed several times.
        for _ in range(4):
            await (await door.connect()).closed()
        door.respond(door.core.requests[0])
        assert (await waiting.answer())[1].error_code == 3


async def test_a_peer_that_never_reads_its_answers_is_closed_in_the_end(kit: Kit) -> None:
    async with kit.open_door(limits=ServerLimits(max_idle_ms=100)) as door:
        client = await door.connect(limit=2**16)
        client.writer.transport.pause_reading()
        client.send(*[MetadataRequest()] * 1000, version=4)
        await kit.eventually(lambda: door.core.requests)
        await kit.eventually(lambda: not door.listener.connections)


async def test_a_peer_that_reads_slowly_and_steadily_is_not_idle(kit: Kit) -> None:
    async with kit.open_door(limits=ServerLimits(max_idle_ms=200, max_in_flight=1000)) as door:
        door.core.react = door.core.answer_later
        client = await door.connect(limit=2**16)
        client.writer.transport.pause_reading()
        client.send(*[MetadataRequest()] * 800, version=4)
        await kit.eventually(lambda: len(door.core.requests) == 800)
        (connection,) = door.listener.connections.values()
        for request in door.core.requests:
            door.respond(request)
        client.writer.transport.resume_reading()
        for _ in range(3):
            # Two megabytes between two looks, and nothing else: no answer ends, no request comes.
            before = connection.last_active
            for _ in range(2 * MIN_READ_BYTES // 2**15):
                await client.reader.readexactly(2**15)
            await kit.eventually(
                lambda before=before: connection.last_active > before or not door.listener.connections
            )
            assert door.listener.connections


async def test_a_peer_that_never_reads_is_closed_even_while_the_core_owes_it_an_answer(kit: Kit) -> None:
    async with kit.open_door(limits=ServerLimits(max_idle_ms=100, max_in_flight=1000)) as door:
        door.core.react = door.core.answer_later
        client = await door.connect(limit=2**16)
        client.writer.transport.pause_reading()
        client.send(*[MetadataRequest()] * 800, version=4)
        await kit.eventually(lambda: len(door.core.requests) == 800)
        for request in door.core.requests[:-1]:
            door.respond(request)
        assert door.runtime.waiting == 1
        await kit.eventually(lambda: not door.listener.connections)
        assert door.runtime.waiting == 0


async def test_too_many_unread_answers_cost_whoever_has_left_the_most_of_them(kit: Kit, lines: Lines) -> None:
    limit = 8 * 1024 * 1024
    async with kit.open_door(limits=ServerLimits(max_unread_bytes=limit, max_in_flight=1000)) as door:
        door.core.react = door.core.answer_later
        modest, greedy, other = [await door.connect(limit=2**16) for _ in range(3)]
        for client, count in (modest, 300), (greedy, 600):
            client.writer.transport.pause_reading()
            client.send(*[MetadataRequest()] * count, version=4)
        await kit.eventually(lambda: len(door.core.requests) == 900)
        for request in door.core.requests:
            door.respond(request)
        assert door.listener.unread_bytes > limit
        await kit.eventually(lambda: len(door.listener.connections) == 2)
        (line,) = lines()
        assert "listener PLAINTEXT: it has not read" in line
        assert "(queued.max.response.bytes)" in line
        assert 0 < door.listener.unread_bytes <= limit
        door.core.react = door.core.answer_at_once
        assert await other.round_trip(3) == 3
        modest.writer.transport.resume_reading()
        assert [(await modest.answer(3, 4))[0] for _ in range(300)] == list(range(300))
        assert door.listener.unread_bytes == 0


async def test_answers_that_wait_for_an_earlier_one_count_as_unread(kit: Kit) -> None:
    async with kit.open_door(limits=ServerLimits(max_unread_bytes=100_000)) as door:
        door.core.react = door.core.answer_later
        blocked, other = await door.connect(), await door.connect()
        blocked.send(*[MetadataRequest()] * 6, version=4)
        await kit.eventually(lambda: len(door.core.requests) == 6)
        for request in door.core.requests[1:4]:
            door.respond(request)
        assert 90_000 < door.listener.unread_bytes <= 100_000
        for request in door.core.requests[4:]:
            door.respond(request)
        await kit.eventually(lambda: len(door.listener.connections) == 1)
        assert door.listener.unread_bytes == 0
        door.core.react = door.core.answer_at_once
        assert await other.round_trip(3) == 3


async def test_answers_that_leave_in_time_cost_nobody_their_connection(kit: Kit, lines: Lines) -> None:
    async with kit.open_door(limits=ServerLimits(max_unread_bytes=100_000, max_in_flight=1000)) as door:
        door.core.react = door.core.answer_later
        client = await door.connect()
        client.send(*[MetadataRequest()] * 20, version=4)
        await kit.eventually(lambda: len(door.core.requests) == 20)
        for request in reversed(door.core.requests[1:]):
            door.respond(request)
        assert door.listener.unread_bytes > 100_000
        door.respond(door.core.requests[0])
        assert [(await client.answer(3, 4))[0] for _ in range(20)] == list(range(20))
        await kit.eventually(lambda: door.listener._relief is None)
        assert (lines(), door.listener.unread_bytes, len(door.listener.connections)) == ([], 0, 1)


async def test_followers_may_leave_unread_what_they_like(kit: Kit) -> None:
    async with kit.open_door(control=True, limits=ServerLimits(max_unread_bytes=1000)) as door:
        client = await door.connect()
        client.send(*[MetadataRequest()] * 20, version=4)
        assert [(await client.answer(3, 4))[0] for _ in range(20)] == list(range(20))
        assert door.listener._relief is None


async def test_many_connections_are_served_side_by_side(kit: Kit) -> None:
    async with kit.open_door() as door:
        clients = [await door.connect() for _ in range(300)]
        answers = await asyncio.gather(*(client.round_trip(n) for n, client in enumerate(clients)))
        assert answers == list(range(300))
        assert len({request.peer.connection for request in door.core.requests}) == 300


async def test_two_cores_behind_one_door_each_get_their_own_apis(kit: Kit) -> None:
    controller, broker = kit.FakeCore(), kit.FakeCore()
    controller.served = {12: (0, 4)}
    broker.served = {3: (0, 12), 12: (0, 4)}
    runtimes = [kit.new_runtime(controller), kit.new_runtime(broker)]
    listener = Listener((), control=True)
    _, port = await listener.bind("127.0.0.1", 0)
    await listener.serve(runtimes)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = kit.Client(reader, writer)
    client.send(MetadataRequest(), HeartbeatRequest(), version=4)
    assert (await client.answer(3, 4))[0] == 0
    assert (await client.answer(12, 4))[0] == 1
    assert [type(request.message) for request in controller.requests] == [HeartbeatRequest]
    assert [type(request.message) for request in broker.requests] == [MetadataRequest]
    client.close()
    await listener.close()


async def test_closing_lets_what_is_written_leave_and_takes_nobody_new(kit: Kit) -> None:
    async with kit.open_door() as door:
        client = await door.connect()
        client.send(*[MetadataRequest()] * 3, version=4)
        await kit.eventually(lambda: len(door.core.requests) == 3)
        closing = asyncio.ensure_future(door.listener.close(grace_s=5))
        for number in range(3):
            assert (await client.answer(3, 4))[0] == number
        assert await client.closed() == b""
        await closing
        with pytest.raises(ConnectionRefusedError):
            await door.connect()


async def test_a_storm_of_bad_peers_does_not_fill_the_log(kit: Kit, lines: Lines) -> None:
    async with kit.open_door() as door:
        for _ in range(100):
            client = await door.connect()
            client.writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await client.closed() == b""
        assert 1 <= len(lines()) < 100

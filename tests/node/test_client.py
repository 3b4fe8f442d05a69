"""Connections to other nodes: pipelining, timeouts, reconnecting, and peers that lie."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from epoka.model.events import Send
from epoka.node.client import Address, ClientLimits, Links
from epoka.wire.frame import encode_response
from epoka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

Kit = SimpleNamespace
Lines = Callable[[], list[str]]
QUICK = ClientLimits(backoff_ms=5, backoff_max_ms=20, connect_timeout_ms=5_000)


class Caller:
    """A node that sends; its replies are kept by token."""

    def __init__(self, kit: Kit, *addresses: Address, limits: ClientLimits = QUICK) -> None:
        self.kit = kit
        self.addresses = list(addresses)
        self.resolved = 0
        self.replies: list[tuple[int, Any]] = []
        self.links = Links(
            node_id=1,
            client_id="node-1",
            resolve=self._resolve,
            reply=lambda token, message: self.replies.append((token, message)),
            limits=limits,
        )

    def _resolve(self, to: int) -> list[Address]:
        self.resolved += 1
        return self.addresses

    def send(self, token: int, generation: int = 0, *, timeout_ms: int = 30_000, lane: int = 0) -> None:
        self.links.send(Send(2, token, HeartbeatRequest("g", generation, "m"), 0, timeout_ms, lane))

    async def replied(self, *expected: tuple[int, int | None]) -> None:
        await self.kit.eventually(lambda: len(self.replies) >= len(expected))
        got = [(token, None if message is None else message.error_code) for token, message in self.replies]
        assert got == list(expected)
        self.replies.clear()


@contextlib.asynccontextmanager
async def peer(
    behave: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[tuple[Address, list[asyncio.StreamWriter]]]:
    """A listener whose side of every connection is the function `behave`."""
    writers: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await behave(reader, writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[:2], writers
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


async def test_a_request_is_carried_and_its_answer_brought_back(kit: Kit) -> None:
    async with kit.open_door(control=True) as door:
        caller = Caller(kit, ("127.0.0.1", door.port))
        caller.send(11, 3)
        await caller.replied((11, 3))
        assert door.core.requests[0].peer.client_id == "node-1"
        caller.links.close()


async def test_requests_are_pipelined_on_one_connection_in_order(kit: Kit) -> None:
    async with kit.open_door() as door:
        caller = Caller(kit, ("127.0.0.1", door.port))
        door.core.react = door.core.answer_later
        for token in range(50):
            caller.send(token, token)
        await kit.eventually(lambda: len(door.core.requests) == 50)
        for request in reversed(door.core.requests):
            door.respond(request)
        await caller.replied(*((token, token) for token in range(50)))
        assert len({request.peer.connection for request in door.core.requests}) == 1
        caller.links.close()


async def test_a_lane_that_waits_does_not_hold_up_another(kit: Kit) -> None:
    async with kit.open_door() as door:
        caller = Caller(kit, ("127.0.0.1", door.port))
        door.core.react = door.core.answer_later
        caller.send(1, 1, lane=1)
        await kit.eventually(lambda: door.core.requests)
        door.core.react = door.core.answer_at_once
        caller.send(2, 2, lane=0)
        await caller.replied((2, 2))
        door.respond(door.core.requests[0])
        await caller.replied((1, 1))
        caller.links.close()


async def test_a_node_that_is_not_there_answers_none_and_is_tried_again_with_growing_pauses(
    kit: Kit, lines: Lines
) -> None:
    async with kit.open_door() as door:
        nowhere = ("127.0.0.1", door.port)
    loop = asyncio.get_running_loop()
    caller = Caller(kit, nowhere, limits=ClientLimits(backoff_ms=20, backoff_max_ms=40))
    began = loop.time()
    for token in range(4):
        caller.send(token)
        await caller.replied((token, None))
    # Between four attempts lie pauses of 20, 40 and again 40 ms: the longest is the limit.
    assert loop.time() - began >= 0.095
    assert caller.resolved == 4
    assert len(lines()) == 1 and "lost node 2" in lines()[0]
    caller.links.close()


async def test_a_node_that_comes_back_is_reached_again(kit: Kit) -> None:
    async with kit.open_door() as door:
        caller = Caller(kit, ("127.0.0.1", door.port))
        caller.send(1, 1)
        await caller.replied((1, 1))
        door.core.react = door.core.answer_later
        caller.send(2)
        await kit.eventually(lambda: len(door.core.requests) == 2)
        port = door.port
        door.listener.abort()
        await caller.replied((2, None))
    core = kit.FakeCore()
    from epoka.node.server import Listener

    listener = Listener((), control=True)
    await listener.bind("127.0.0.1", port)
    await listener.serve([kit.new_runtime(core)])
    caller.send(3, 3)
    await caller.replied((3, 3))
    caller.links.close()
    await listener.close()


async def test_a_request_that_is_late_takes_everything_behind_it_along_and_the_next_one_reconnects(
    kit: Kit,
) -> None:
    async with kit.open_door() as door:
        caller = Caller(kit, ("127.0.0.1", door.port))
        door.core.react = door.core.answer_later
        caller.send(1, timeout_ms=20)
        caller.send(2)
        await caller.replied((1, None), (2, None))
        first = door.core.requests[0].peer.connection
        door.core.react = door.core.answer_at_once
        caller.send(3, 3)
        await caller.replied((3, 3))
        assert door.core.requests[-1].peer.connection != first
        caller.links.close()


async def test_a_request_that_is_late_behind_another_is_given_up_alone(kit: Kit) -> None:
    """A heartbeat behind a long piece of work must not cost the work its answer."""
    async with kit.open_door() as door:
        caller = Caller(kit, ("127.0.0.1", door.port))
        door.core.react = door.core.answer_later
        caller.send(1)
        caller.send(2, timeout_ms=20)
        caller.send(3)
        await caller.replied((2, None))
        await kit.eventually(lambda: len(door.core.requests) == 3)
        for request in door.core.requests:
            door.respond(request, HeartbeatResponse(error_code=7))
        await caller.replied((1, 7), (3, 7))
        assert len({request.peer.connection for request in door.core.requests}) == 1
        caller.links.close()


async def test_a_node_that_answers_only_the_first_request_is_given_up_by_the_next_that_is_late(
    kit: Kit,
) -> None:
    async with kit.open_door() as door:
        caller = Caller(kit, ("127.0.0.1", door.port))
        door.core.react = door.core.answer_later
        caller.send(1)
        caller.send(2, timeout_ms=20)
        await caller.replied((2, None))
        await kit.eventually(lambda: len(door.core.requests) == 2)
        door.respond(door.core.requests[0], HeartbeatResponse(error_code=7))
        await caller.replied((1, 7))
        caller.send(3, timeout_ms=20)
        await caller.replied((3, None))
        await kit.eventually(lambda: not door.listener.connections)
        caller.links.close()


async def test_a_late_answer_on_a_dropped_connection_reaches_nobody(kit: Kit) -> None:
    async with kit.open_door() as door:
        caller = Caller(kit, ("127.0.0.1", door.port))
        door.core.react = door.core.answer_later
        caller.send(1, timeout_ms=20)
        await caller.replied((1, None))
        caller.send(2, 2)
        await kit.eventually(lambda: len(door.core.requests) == 2)
        for request in door.core.requests:
            door.respond(request)
        await caller.replied((2, 2))
        caller.links.close()


async def test_a_node_that_accepts_and_never_answers_costs_the_timeout(kit: Kit) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with peer(silent) as (address, _):
        caller = Caller(kit, address)
        caller.send(1, timeout_ms=20)
        await caller.replied((1, None))
        caller.links.close()


async def test_a_request_that_waits_for_a_connection_keeps_its_own_timeout(kit: Kit) -> None:
    async with kit.open_door() as door:
        nowhere = ("127.0.0.1", door.port)
    caller = Caller(kit, nowhere, limits=ClientLimits(backoff_ms=60_000, backoff_max_ms=60_000))
    caller.send(1)
    await caller.replied((1, None))
    caller.send(2, timeout_ms=10)
    await caller.replied((2, None))
    assert caller.resolved == 1
    caller.links.close()


def _answer(correlation_id: int) -> bytes:
    return b"".join(encode_response(12, 0, correlation_id, HeartbeatResponse()))


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (_answer(77), "it answered request 77 in place of 0"),
        (_answer(77) + _answer(1), "it answered request 77 in place of 0"),
        (struct.pack(">i", -5), "it does not speak the protocol"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it does not speak the protocol"),
        (struct.pack(">ii", 4, 0), "its answer cannot be read"),
        (struct.pack(">ih", 2, 0), "its answer cannot be read"),
        (_answer(0)[:-1], "the connection was closed"),
    ],
)
async def test_a_peer_that_answers_nonsense_is_dropped_with_one_line(
    kit: Kit, lines: Lines, answer: bytes, complaint: str
) -> None:
    async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(answer)
        await writer.drain()
        writer.write_eof()

    async with peer(lie) as (address, _):
        caller = Caller(kit, address)
        caller.send(1)
        caller.send(2)
        await caller.replied((1, None), (2, None))
        (line,) = lines()
        assert complaint in line
        caller.links.close()


async def test_an_answer_that_nobody_asked_for_closes_the_connection(kit: Kit, lines: Lines) -> None:
    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(_answer(0) + _answer(1))
        await reader.read()

    async with peer(chatter) as (address, _):
        caller = Caller(kit, address)
        caller.send(1)
        await caller.replied((1, 0))
        await kit.eventually(lambda: lines())
        assert "it answered what nobody had asked" in lines()[0]
        caller.links.close()


async def test_a_node_that_nobody_can_place_answers_none(kit: Kit) -> None:
    caller = Caller(kit)
    caller.send(1)
    await caller.replied((1, None))
    caller.links.close()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300])
async def test_a_name_that_leads_nowhere_answers_none(kit: Kit, host: str) -> None:
    caller = Caller(kit, (host, 9092))
    caller.send(1)
    await caller.replied((1, None))
    caller.links.close()


async def test_the_next_address_is_tried_when_one_fails(kit: Kit) -> None:
    async with kit.open_door() as gone:
        dead = ("127.0.0.1", gone.port)
    async with kit.open_door() as door:
        caller = Caller(kit, dead, ("127.0.0.1", door.port))
        caller.send(1, 1)
        await caller.replied((1, None))
        caller.send(2, 2)
        await caller.replied((2, 2))
        caller.links.close()


async def test_a_node_that_has_moved_is_found_at_its_new_address(kit: Kit) -> None:
    async with kit.open_door() as old, kit.open_door() as new:
        caller = Caller(kit, ("127.0.0.1", old.port))
        caller.send(1, 1)
        await caller.replied((1, 1))
        caller.addresses = [("127.0.0.1", new.port)]
        caller.send(2, 2)
        await caller.replied((2, 2))
        assert len(new.core.requests) == 1
        caller.links.close()


async def test_an_idle_connection_that_the_other_side_closed_is_no_failure(kit: Kit, lines: Lines) -> None:
    async with kit.open_door() as door:
        caller = Caller(
            kit, ("127.0.0.1", door.port), limits=ClientLimits(backoff_ms=60_000, backoff_max_ms=60_000)
        )
        caller.send(1, 1)
        await caller.replied((1, 1))
        next(iter(door.listener.connections.values())).close()
        await kit.eventually(lambda: not door.listener.connections)
        link = caller.links._links[2, 0]
        await kit.eventually(lambda: link._connection is None)
        caller.send(2, 2)
        await caller.replied((2, 2))
        assert lines() == []
        caller.links.close()


async def test_closing_ends_everything_without_a_word(kit: Kit) -> None:
    async with kit.open_door() as door:
        caller = Caller(kit, ("127.0.0.1", door.port))
        door.core.react = door.core.answer_later
        caller.send(1)
        await kit.eventually(lambda: door.core.requests)
        caller.links.close()
        await kit.eventually(lambda: not door.listener.connections)
        assert caller.replies == []

"""One large request for many readers who take their time: held once, sent whole, then let go."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import numpy as np
import pytest
import uvloop

from epoka.model.events import Send
from epoka.node.client import Links
from epoka.wire.encoded import Encoded
from epoka.wire.frame import decode_request_header, encode_response
from epoka.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

READERS = 20
BODY_BYTES = 8 * 1024 * 1024
RESPONSE = UpdateMetadataResponse()


def on_both_loops(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    """uvloop keeps what it can't send, asyncio copies it; neither may copy all of it."""

    @pytest.mark.parametrize("kind", ["uvloop", "asyncio"])
    def run(kind: str) -> None:
        factory = uvloop.new_event_loop if kind == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(test(), 60))

    run.__doc__ = test.__doc__
    return run


class Readers:
    """Nodes that have accepted a connection and read when they are told to."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self.replies: list[tuple[int, Any]] = []
        self.links = Links(
            node_id=1,
            client_id="node-1",
            resolve=lambda to: [door.getsockname()],
            reply=self._take,
        )
        self._news = asyncio.Event()
        self.sockets: list[socket.socket] = []

    def send(self, message: Any, *, to: int, token: int) -> None:
        self.links.send(Send(to, token, message, 8, 60_000))

    async def accept(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        while len(self.sockets) < count:
            connection, _ = await loop.sock_accept(self._door)
            connection.setblocking(False)
            self.sockets.append(connection)

    async def standing_still(self) -> None:
        """Return when nobody can send any more."""
        loop = asyncio.get_running_loop()
        before = None
        while before != (now := [_waiting(each) for each in self.sockets]) or not all(now):
            before = now
            for _ in range(50):
                await asyncio.sleep(0)
            await loop.run_in_executor(None, lambda: None)

    async def read(self, one: socket.socket) -> bytes:
        """One frame without its size."""
        loop = asyncio.get_running_loop()
        received = bytearray()
        while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
            piece = await loop.sock_recv(one, 1 << 20)
            assert piece, "the connection was closed"
            received += piece
        return bytes(received[4:])

    async def answer(self, one: socket.socket, correlation_id: int) -> None:
        loop = asyncio.get_running_loop()
        for part in encode_response(6, 8, correlation_id, RESPONSE):
            await loop.sock_sendall(one, part)

    def _take(self, token: int, message: Any) -> None:
        self.replies.append((token, message))
        self._news.set()

    async def replied(self, count: int) -> None:
        while len(self.replies) < count:
            self._news.clear()
            await self._news.wait()


def _waiting(one: socket.socket) -> int:
    return len(one.recv(1 << 22, socket.MSG_PEEK)) if _readable(one) else 0


def _readable(one: socket.socket) -> bool:
    try:
        return bool(one.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


@contextlib.asynccontextmanager
async def readers() -> AsyncIterator[Readers]:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen(READERS)
        door.setblocking(False)
        people = Readers(door)
        try:
            yield people
        finally:
            people.links.close()
            for each in people.sockets:
                each.close()


def a_body() -> tuple[Encoded, weakref.ref[Any]]:
    """A body, and a way to see whether its memory is still held."""
    memory = np.arange(BODY_BYTES, dtype=np.uint8)
    return Encoded(UpdateMetadataRequest, 8, memory.data), weakref.ref(memory)


@on_both_loops
async def test_readers_who_stand_still_cost_no_copy_of_the_body():
    async with readers() as people:
        update, _ = a_body()
        tracemalloc.start()
        try:
            for number in range(READERS):
                people.send(update, to=number, token=number)
            await people.accept(READERS)
            await people.standing_still()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # What a reader's own buffers take while it looks at what is there is counted too.
        assert peak < READERS * BODY_BYTES / 20


@on_both_loops
async def test_every_reader_gets_the_whole_body_behind_a_header_of_its_own_and_then_it_is_let_go():
    async with readers() as people:
        update, memory = a_body()
        expected = bytes(update.body)
        for number in range(READERS):
            people.send(update, to=number, token=number)
        del update
        await people.accept(READERS)
        for reader in people.sockets:
            frame = await people.read(reader)
            header, position = decode_request_header(frame)
            assert (header.api_key, header.api_version, header.client_id) == (6, 8, "node-1")
            assert frame[position:] == expected
            await people.answer(reader, header.correlation_id)
        await people.replied(READERS)
        assert sorted(people.replies, key=lambda reply: reply[0]) == [(n, RESPONSE) for n in range(READERS)]
        assert memory() is None


@on_both_loops
async def test_small_requests_behind_a_large_one_keep_their_order():
    async with readers() as people:
        people.send(a_body()[0], to=1, token=1)
        await people.accept(1)
        for token in range(2, 50):
            people.send(UpdateMetadataRequest(controller_epoch=token), to=1, token=token)
        (reader,) = people.sockets
        unread = bytearray()
        loop = asyncio.get_running_loop()
        ids = []
        while len(ids) < 49:
            unread += await loop.sock_recv(reader, 1 << 20)
            while len(unread) >= 4 and len(unread) >= 4 + (size := struct.unpack_from(">i", unread)[0]):
                ids.append(decode_request_header(bytes(unread[4 : 4 + size]))[0].correlation_id)
                del unread[: 4 + size]
        assert ids == list(range(49))


@on_both_loops
async def test_a_reader_who_leaves_in_the_middle_does_not_keep_the_body():
    async with readers() as people:
        update, memory = a_body()
        people.send(update, to=1, token=1)
        del update
        await people.accept(1)
        await people.standing_still()
        people.sockets.pop().close()
        await people.replied(1)
        assert people.replies == [(1, None)]
        assert memory() is None

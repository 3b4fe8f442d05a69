"""Connections to other nodes: they carry what the core sends and bring back what the others answer.

Requests of one lane leave in order on one connection and are matched with their answers by order and
correlation id. Whatever goes wrong (no address, refused, broken, too late, nonsense) ends as one `Reply` of
None for every request it hits; the core decides what that means. When the oldest request of a connection is
too late, the connection is closed, because everything behind it waits for it. A later one that is too late,
such as a heartbeat behind a long piece of work, is given up alone.

A large request is handed to its connection slice by slice, as fast as the other side reads. Until then a
connection holds a reference to it and no copy, so that one body can wait for two hundred slow readers.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec

from epoka.model.events import Send
from epoka.wire.errors import WireError
from epoka.wire.frame import FrameReader, decode_response, encode_request

log = logging.getLogger(__name__)

SLICE_BYTES: Final = 64 * 1024
"""More than this is never handed over at once: what a transport can't send it may copy, and asyncio's do."""
UNSENT_BYTES: Final = 128 * 1024
"""How much the kernel may hold of a connection that was not sent yet. Left to itself it takes 4 MB for each
reader that stands still, which are 800 MB for two hundred."""
_UNSENT_OPTION: Final = getattr(socket, "TCP_NOTSENT_LOWAT", 25 if sys.platform == "linux" else None)
"""Python knows its name from 3.12 on."""

Address = tuple[str, int]
Resolve = Callable[[int], Sequence[Address]]
"""Where a node may be found now, best first; empty when nobody knows."""
TakeReply = Callable[[int, Any | None], None]


class ClientLimits(msgspec.Struct, frozen=True):
    """How patient a node is with others."""

    backoff_ms: int = 50
    backoff_max_ms: int = 1000
    connect_timeout_ms: int = 10_000
    max_frame_bytes: int = 256 * 1024 * 1024


class Links:
    """All connections of one core to other nodes, one for every node and lane."""

    def __init__(
        self,
        *,
        node_id: int,
        client_id: str,
        resolve: Resolve,
        reply: TakeReply,
        limits: ClientLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.node_id = node_id
        self.client_id = client_id
        self.resolve = resolve
        self.reply = reply
        self.limits = limits or ClientLimits()
        self.tls = tls
        self._links: dict[tuple[int, int], Link] = {}

    def send(self, send: Send) -> None:
        """Carry a request; its answer, or None, reaches `reply` exactly once."""
        link = self._links.get((send.to, send.lane))
        if link is None:
            link = self._links[send.to, send.lane] = Link(self, send.to)
        link.send(send)

    def close(self) -> None:
        """Close everything; nobody hears of what was still open."""
        for link in self._links.values():
            link.close()
        self._links.clear()


class _Call:
    """A request on its way."""

    __slots__ = ("api_key", "correlation_id", "finished", "parts", "timer", "token", "version")

    def __init__(self, send: Send, correlation_id: int, client_id: str) -> None:
        self.token = send.token
        self.api_key: int = send.message.API_KEY
        self.version = send.version
        self.correlation_id = correlation_id
        self.parts = encode_request(self.api_key, send.version, correlation_id, client_id, send.message)
        self.timer: asyncio.TimerHandle | None = None
        self.finished = False
        """Nobody waits for the answer any more; it still has its place in the order of answers."""


class Link:
    """The way to one node on one lane: at most one connection, made when there is something to send."""

    def __init__(self, links: Links, to: int) -> None:
        self.to = to
        self._links = links
        self._loop = asyncio.get_running_loop()
        self._next_correlation_id = 0
        self._waiting: deque[_Call] = deque()
        self._in_flight: deque[_Call] = deque()
        self._connection: _Connection | None = None
        self._address: Address | None = None
        self._failures = 0
        self._rotation = 0
        self._may_try_at = 0.0
        self._attempt: asyncio.Task[None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False

    def send(self, send: Send) -> None:
        call = _Call(send, self._next_correlation_id, self._links.client_id)
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        call.timer = self._loop.call_later(send.timeout_ms / 1000, self._too_late, call)
        if self._connection is not None and self._moved():
            self._drop("it has moved", quiet=True)
        if self._connection is not None:
            self._write(call)
        else:
            self._waiting.append(call)
            self._try_to_connect()

    def close(self) -> None:
        self._closed = True
        for call in (*self._waiting, *self._in_flight):
            if call.timer is not None:
                call.timer.cancel()
        self._waiting.clear()
        self._in_flight.clear()
        if self._pause is not None:
            self._pause.cancel()
        if self._attempt is not None:
            self._attempt.cancel()
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.abort()

    def took(self, connection: _Connection, frame: bytearray) -> None:
        """An answer has come: it belongs to the oldest request."""
        if connection is not self._connection:
            return
        if not self._in_flight:
            self._drop("it answered what nobody had asked")
            return
        call = self._in_flight.popleft()
        try:
            correlation_id, message = decode_response(call.api_key, call.version, frame)
        except WireError as error:
            self._in_flight.appendleft(call)
            self._drop(f"its answer cannot be read: {error}")
            return
        if correlation_id != call.correlation_id:
            self._in_flight.appendleft(call)
            self._drop(f"it answered request {correlation_id} in place of {call.correlation_id}")
            return
        self._failures = 0
        self._finish(call, message)

    def lost(self, connection: _Connection, reason: str) -> None:
        if connection is self._connection:
            self._drop(reason, quiet=not self._in_flight)

    def _moved(self) -> bool:
        addresses = self._links.resolve(self.to)
        return bool(addresses) and self._address not in addresses

    def _write(self, call: _Call) -> None:
        assert self._connection is not None
        self._in_flight.append(call)
        parts, call.parts = call.parts, []
        self._connection.write(parts)

    def _try_to_connect(self) -> None:
        if self._attempt is not None or self._pause is not None or self._closed:
            return
        pause_s = self._may_try_at - self._loop.time()
        if pause_s > 0:
            self._pause = self._loop.call_later(pause_s, self._after_the_pause)
        else:
            self._attempt = self._loop.create_task(self._connect())

    def _after_the_pause(self) -> None:
        self._pause = None
        if self._waiting:
            self._try_to_connect()

    async def _connect(self) -> None:
        addresses = self._links.resolve(self.to)
        limits = self._links.limits
        reason = "nobody knows where it is"
        connection: _Connection | None = None
        if addresses:
            address = addresses[self._rotation % len(addresses)]
            reason = f"{address[0]}:{address[1]} cannot be reached"
            try:
                async with asyncio.timeout(limits.connect_timeout_ms / 1000):
                    _, connection = await self._loop.create_connection(
                        lambda: _Connection(self, limits.max_frame_bytes), *address, ssl=self._links.tls
                    )
                self._address = address
            except (OSError, ValueError, OverflowError) as error:
                reason = f"{reason}: {str(error) or 'it took too long'}"
        self._attempt = None
        if connection is None or connection.gone:
            self._rotation += 1
            self._failed(reason)
            return
        self._connection = connection
        while self._waiting:
            self._write(self._waiting.popleft())

    def _too_late(self, call: _Call) -> None:
        call.timer = None
        if call in self._waiting:
            self._waiting.remove(call)
            self._finish(call, None)
        elif call is not next(each for each in self._in_flight if not each.finished):
            self._finish(call, None)
        else:
            self._drop(f"it did not answer request {call.correlation_id} in time")

    def _drop(self, reason: str, *, quiet: bool = False) -> None:
        """Give the connection up; what was under way on it is lost."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._failed(reason, quiet=quiet)

    def _failed(self, reason: str, *, quiet: bool = False) -> None:
        if self._closed:
            return
        limits = self._links.limits
        if not quiet:
            # The first failure in a row is news, the hundredth is not.
            level = logging.WARNING if self._failures == 0 else logging.DEBUG
            log.log(level, "lost node %d: %s", self.to, reason, extra={"node": self._links.node_id})
            pause_ms = min(limits.backoff_ms << min(self._failures, 16), limits.backoff_max_ms)
            self._failures += 1
            self._may_try_at = self._loop.time() + pause_ms / 1000
        lost = (*self._in_flight, *self._waiting)
        self._in_flight.clear()
        self._waiting.clear()
        for call in lost:
            self._finish(call, None)

    def _finish(self, call: _Call, message: Any | None) -> None:
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None
        if not call.finished:
            call.finished = True
            self._links.reply(call.token, message)


class _Connection(asyncio.BufferedProtocol):
    """One TCP connection that this node has opened."""

    def __init__(self, link: Link, max_frame_bytes: int) -> None:
        self.gone = False
        self._link = link
        self._reader = FrameReader(max_frame_bytes)
        self._transport: asyncio.Transport | None = None
        self._unwritten: deque[memoryview] = deque()
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=SLICE_BYTES)
        own_socket = transport.get_extra_info("socket")
        if own_socket is not None and _UNSENT_OPTION is not None:
            own_socket.setsockopt(socket.IPPROTO_TCP, _UNSENT_OPTION, UNSENT_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._reader.received(nbytes)
        except WireError as error:
            self._link.lost(self, f"it does not speak the protocol: {error}")
            return
        for frame in frames:
            self._link.took(self, frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self._unwritten.clear()
        self._link.lost(self, "the connection was closed" if exc is None else f"the connection broke: {exc}")

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._go_on()

    def write(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        assert self._transport is not None
        if not self._unwritten and not self._paused and sum(map(len, parts)) <= SLICE_BYTES:
            self._transport.writelines(parts)
        else:
            self._unwritten.extend(map(memoryview, parts))
            self._go_on()

    def _go_on(self) -> None:
        """Write until the transport has enough."""
        assert self._transport is not None
        unwritten = self._unwritten
        while unwritten and not self._paused and not self.gone:
            part = unwritten.popleft()
            if len(part) > SLICE_BYTES:
                unwritten.appendleft(part[SLICE_BYTES:])
                part = part[:SLICE_BYTES]
            self._transport.write(part)

    def abort(self) -> None:
        self._unwritten.clear()
        if self._transport is not None:
            self._transport.abort()

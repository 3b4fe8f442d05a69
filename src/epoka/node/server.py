"""The doors of a node: who may come in, and who may take how much.

Limits on frame size, connections in all and from one address, unanswered requests on a connection, bytes of
requests that are arriving or unanswered, bytes of answers that are not read or wait for an earlier one, idle
time, the time for a TLS handshake. What becomes of the requests of a connection is its own affair
(`node/connection.py`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from epoka.model.events import Disconnected
from epoka.node.connection import Connection
from epoka.node.lines import Sparing
from epoka.node.runtime import Runtime
from epoka.node.switchboard import ELEMENTS_AMONG_NODES

log = logging.getLogger(__name__)

NO_LIMIT: Final = -1
UNREAD_PATIENCE_S: Final = 0.1
"""How long unread answers may be too many: that one has just been written is no fault of its reader's."""


class ServerLimits(msgspec.Struct, frozen=True):
    """How much one listener takes; all limits are on unless they are turned off."""

    max_frame_bytes: int = 100 * 1024 * 1024
    max_connections: int = 2000
    max_connections_per_ip: int = 2**31 - 1
    max_in_flight: int = 100
    max_queued_bytes: int = 512 * 1024 * 1024
    max_unread_bytes: int = 1024 * 1024 * 1024
    max_idle_ms: int = 600_000
    max_full_ms: int = 30_000
    """How long others are held back for want of bytes until the connection that holds the most is closed."""
    max_elements: int = 1_000_000
    max_handshake_ms: int = 10_000


class Listener:
    """One door: where it is, who answers behind it, and who is inside."""

    def __init__(
        self,
        runtimes: Sequence[Runtime],
        *,
        control: bool,
        limits: ServerLimits | None = None,
        name: str = "PLAINTEXT",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.runtimes = tuple(runtimes)
        self.control = control
        self.tls = tls
        self.limits = limits or ServerLimits()
        self.max_elements = ELEMENTS_AMONG_NODES if control else self.limits.max_elements
        unlimited = control or self.limits.max_queued_bytes == NO_LIMIT
        self.max_queued_bytes = sys.maxsize if unlimited else self.limits.max_queued_bytes
        """No limit on the control listener: an acks=all produce waits for the very followers that would be
        held back there."""
        unlimited = control or self.limits.max_unread_bytes == NO_LIMIT
        self.max_unread_bytes = sys.maxsize if unlimited else self.limits.max_unread_bytes
        self.name = name
        self.connections: dict[int, Connection] = {}
        self.queued_bytes = 0
        """Of requests that wait for their answers."""
        self.arriving_bytes = 0
        """Of requests that no core has seen yet: unfinished ones, and those their connection puts off."""
        self.unread_bytes = 0
        """Of answers that are held for their readers."""
        self.traffic: defaultdict[int, Traffic] = defaultdict(Traffic)
        """What came and went, by API key."""
        self.node_id = self.runtimes[0].node_id if self.runtimes else -1
        self.complain = Sparing(lambda line: log.warning("%s", line, extra={"node": self.node_id}))
        self._loop = asyncio.get_running_loop()
        self._per_ip: Counter[str] = Counter()
        self._held_back: dict[Connection, None] = {}
        self._full_since = 0.0
        self._ahead: Connection | None = None
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._relief: asyncio.TimerHandle | None = None
        self._empty: asyncio.Future[None] | None = None

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Take the port without serving yet, so that the node can say where it is before it can answer."""
        where: str | None = host or None
        if port == 0:
            # A name with several addresses would get another free port at each of them.
            found = await self._loop.getaddrinfo(
                where, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            found.sort(key=lambda entry: entry[0] != socket.AF_INET)
            where = str(found[0][4][0])
        self._server = await self._loop.create_server(
            lambda: Connection(self), where, port, backlog=1024, reuse_address=True, start_serving=False
        )
        return host, int(self._server.sockets[0].getsockname()[1])

    async def serve(self, runtimes: Sequence[Runtime] | None = None) -> None:
        """Open the door; `runtimes` are the cores behind it, asked in this order for the API of a request."""
        assert self._server is not None
        if runtimes is not None:
            self.runtimes = tuple(runtimes)
            self.node_id = self.runtimes[0].node_id
        await self._server.start_serving()
        self._sweep_later()

    async def close(self, *, grace_s: float = 1.0) -> None:
        """Shut the door: what is written already may still leave, for a moment; then everybody goes."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections.values()):
            connection.close()
        if self.connections:
            self._empty = self._loop.create_future()
            await asyncio.wait([self._empty], timeout=grace_s)
        self.abort()

    def abort(self) -> None:
        """Drop every connection at once, as a crash would."""
        if self._relief is not None:
            self._relief.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections.values()):
            connection.abort()

    def admit(self, connection: Connection) -> str | None:
        """Let a connection in, or say why not."""
        limits = self.limits
        if len(self.connections) >= limits.max_connections:
            return f"there are {len(self.connections)} connections already (max.connections)"
        if self._per_ip[connection.host] >= limits.max_connections_per_ip:
            already = self._per_ip[connection.host]
            return f"there are {already} connections from there already (max.connections.per.ip)"
        self.connections[connection.number] = connection
        self._per_ip[connection.host] += 1
        return None

    def dismiss(self, connection: Connection) -> None:
        """A connection that was let in is gone."""
        if self.connections.pop(connection.number, None) is None:
            return
        self._held_back.pop(connection, None)
        if self._ahead is connection:
            self._ahead = None
        self._per_ip[connection.host] -= 1
        if not self._per_ip[connection.host]:
            del self._per_ip[connection.host]
        for runtime in self.runtimes:
            runtime.handle(Disconnected(connection.number))
        if self._empty is not None and not self.connections and not self._empty.done():
            self._empty.set_result(None)

    def release(self, size: int) -> None:
        """Bytes of answered requests are free, and those who were held back for want of them go on."""
        self.queued_bytes -= size
        if not self._held_back:
            return
        if not self.full:
            held_back, self._held_back = self._held_back, {}
            for connection in held_back:
                self._loop.call_soon(connection.go_on)
        elif self.queued_bytes < self.max_queued_bytes:
            if self._ahead is None or not self._ahead.arriving_bytes:
                self._ahead = max(self._held_back, key=lambda each: each.arriving_bytes)
            self._loop.call_soon(self._ahead.go_on)

    @property
    def full(self) -> bool:
        """Too many bytes wait here."""
        return self.queued_bytes + self.arriving_bytes >= self.max_queued_bytes

    def hold_back(self, connection: Connection) -> bool:
        """Hold a connection back, since the listener is full, and say whether it is; it hears when to go on.

        Requests that are still arriving may fill a listener together. If all of them were held back, they
        would wait for each other; so one goes ahead, unless those that wait for answers are too many alone.
        """
        if connection.arriving_bytes and self.queued_bytes < self.max_queued_bytes:
            if self._ahead is None or not self._ahead.arriving_bytes:
                self._ahead = connection
            if self._ahead is connection:
                self._held_back.pop(connection, None)
                return False
        if not self._held_back:
            self._full_since = self._loop.time()
        self._held_back[connection] = None
        return True

    def count_unread(self, change: int) -> None:
        """More or less is held of answers that have not been read; if it stays too much, somebody goes."""
        self.unread_bytes += change
        if self._relief is None and self.unread_bytes > self.max_unread_bytes:
            self._relief = self._loop.call_later(UNREAD_PATIENCE_S, self._relieve)

    def _relieve(self) -> None:
        self._relief = None
        for connection in self.connections.values():
            connection.look()
        for connection in sorted(self.connections.values(), key=lambda each: -each.unread_bytes):
            if self.unread_bytes <= self.max_unread_bytes:
                break
            connection.leave_unread()

    def find(self, api_key: int) -> tuple[Runtime, int, int] | None:
        """Who serves an API here, and in which versions."""
        for runtime in self.runtimes:
            versions = runtime.served.get(api_key)
            if versions is not None:
                return runtime, versions[0], versions[1]
        return None

    def _sweep_later(self) -> None:
        limits = [self.limits.max_full_ms, self.limits.max_idle_ms]
        if self.tls is not None:
            limits.append(self.limits.max_handshake_ms)
        period_ms = min(limit for limit in limits if limit != NO_LIMIT) / 4
        self._sweep = self._loop.call_later(period_ms / 1000, self._sweep_out)

    def _sweep_out(self) -> None:
        now = self._loop.time()
        if self.tls is not None:
            for connection in list(self.connections.values()):
                connection.hurry(now)
        if self.limits.max_idle_ms != NO_LIMIT:
            oldest = now - self.limits.max_idle_ms / 1000
            for connection in list(self.connections.values()):
                if connection.last_active < oldest:
                    connection.idle()
        if self._held_back and now - self._full_since >= self.limits.max_full_ms / 1000:
            max(self.connections.values(), key=lambda each: each.held_bytes).make_room()
        self._sweep_later()


class Traffic:
    """What one API has carried through one door."""

    __slots__ = ("bytes_in", "bytes_out", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0

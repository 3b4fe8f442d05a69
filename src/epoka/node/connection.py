"""One peer of a listener: requests off its socket, to a core, and the answers back in their order.

Everything here is a plain callback. A request costs no task and no future, and the bytes of a frame are never
copied: the decoder's views point into the buffer the kernel wrote to. A peer that breaks the protocol, or the
limits of its listener (`node/server.py`), loses its connection with one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from epoka.model.events import Peer
from epoka.node.runtime import Runtime
from epoka.node.switchboard import connection_numbers
from epoka.node.tls import Channel, reason_of
from epoka.wire.apis import APIS
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import WireError
from epoka.wire.frame import SCRATCH_BYTES, FrameReader, decode_request, encode_response
from epoka.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

if TYPE_CHECKING:
    from epoka.node.server import Listener

log = logging.getLogger(__name__)

API_VERSIONS: Final = 18
_HEAD = struct.Struct(">hhi")
"""How every request begins, whatever its version: API key, API version, correlation id."""

MIN_READ_BYTES: Final = 1024 * 1024
"""How much of an answer a peer has to take in within the idle time, so as not to count as idle."""
MAX_BLOCKED_BYTES: Final = 1024 * 1024
"""How much of answers may wait for an earlier one before no more is read from their connection."""


class _Slot:
    """The place of one request in the order of a connection's answers."""

    __slots__ = ("api_key", "connection", "correlation_id", "parts", "runtime", "size", "token", "version")

    def __init__(
        self,
        connection: Connection,
        runtime: Runtime | None,
        api_key: int,
        version: int,
        correlation_id: int,
        size: int,
    ) -> None:
        self.connection = connection
        self.runtime = runtime
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.size = size
        self.token = 0
        self.parts: Sequence[bytes | bytearray | memoryview] | None = None

    def answer(self, message: Any | None) -> None:
        try:
            self.parts = (
                ()
                if message is None
                else encode_response(self.api_key, self.version, self.correlation_id, message)
            )
        except Exception:
            # Peers can bring it about, and the encoder holds no state: it costs this connection alone.
            what = f"{APIS[self.api_key].name} version {self.version}"
            log.exception("a defect in an answer: %s cannot be written", what)
            self.hang_up(f"the answer to {what} cannot be written")
            return
        self.connection.answered(self)

    def hang_up(self, reason: str) -> None:
        self.connection.refuse(reason)


class Connection(asyncio.BufferedProtocol):
    """One peer: frames in, answers out in the order of the frames."""

    def __init__(self, listener: Listener) -> None:
        self.number = next(connection_numbers)
        self.host = ""
        self.last_active = 0.0
        self._began = 0.0
        self.arriving_bytes = 0
        """Its part of the listener's."""
        self._port = 0
        self._listener = listener
        self._loop = listener._loop
        self._reader = FrameReader(listener.limits.max_frame_bytes)
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._peer = Peer(control=listener.control, connection=self.number)
        self._slots: deque[_Slot] = deque()
        self._backlog: deque[bytearray] = deque()
        self._pending = 0
        self._blocked_bytes = 0
        self._writing_paused = False
        self._left = 0
        """How much of what was written had not been sent when it was last looked at."""
        self._taken = 0
        """How much of that the peer has been seen to take in since it last counted as active."""
        self._reading_paused = False
        self._closing = False
        self._admitted = False
        self._tls = None if listener.tls is None else Channel(listener.tls)

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.host, self._port = str(name[0]), int(name[1])
        self._peer = Peer(control=self._listener.control, host=self.host, connection=self.number)
        self.last_active = self._began = self._loop.time()
        refusal = self._listener.admit(self)
        if refusal is None:
            self._admitted = True
        else:
            self._closing = True
            self._listener.complain(f"refused a connection to {self._door} from {self.host}: {refusal}")
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        slots, self._slots = self._slots, deque()
        self._backlog.clear()
        self._count(-self.arriving_bytes)
        self._hold(left=0, blocked=0)
        for slot in slots:
            if slot.runtime is not None:
                slot.runtime.forget(slot, slot.token)
        if self._admitted:
            self._listener.dismiss(self)
        self._listener.release(sum(slot.size for slot in slots if slot.parts is None))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._next_buffer() if self._tls is None else self._tls.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active = self._loop.time()
        if self._tls is None:
            self._received(nbytes)
        else:
            self._tls.received(nbytes)
            self._decipher()

    def _next_buffer(self) -> memoryview:
        buffer = self._reader.get_buffer()
        if len(buffer) > SCRATCH_BYTES and self._listener.full:
            # Everybody may come with one more piece before being held back; that must not be megabytes.
            return buffer[:SCRATCH_BYTES]
        return buffer

    def _received(self, nbytes: int) -> None:
        if self._closing:
            return
        try:
            frames = self._reader.received(nbytes)
        except WireError as error:
            self.refuse(str(error))
            return
        pending = self._reader.pending
        if pending != self._pending:
            self._count(pending - self._pending)
            self._pending = pending
        for position, frame in enumerate(frames):
            if self._closing:
                return
            if self._backlog or self._stalled:
                self._backlog.extend(frames[position:])
                self._count(sum(map(len, frames[position:])))
                break
            self._take(frame)
        if self._stalled or (self._listener.full and self._listener.hold_back(self)):
            self._pause_reading()

    def _decipher(self) -> None:
        """Take in what the peer has said under TLS, as long as more may be taken in."""
        tls = self._tls
        assert tls is not None
        try:
            if tls.shaking:
                tls.shake()
                if tls.principal is not None:
                    self._peer = msgspec.structs.replace(self._peer, principal=tls.principal)
            while not tls.shaking and not self._closing and not self._reading_paused:
                count = tls.read_into(self._next_buffer())
                if not count:
                    break
                self._received(count)
        except EOFError:
            self.close()
        except ssl.SSLError as error:
            self.refuse(f"TLS: {reason_of(error)}")
        if not self._closing and (said := tls.to_send()):
            self._transport.write(said)

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._hold(left=self._transport.get_write_buffer_size(), blocked=self._blocked_bytes)
        self._pause_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._hold(left=0, blocked=self._blocked_bytes)
        self.last_active = self._loop.time()
        self.go_on()

    # What the listener and the slots tell, and what the listener asks.

    @property
    def held_bytes(self) -> int:
        """How much of what fills the listener is this connection's."""
        return self.arriving_bytes + sum(slot.size for slot in self._slots if slot.parts is None)

    @property
    def unread_bytes(self) -> int:
        """How much of answers is held here: unsent, or waiting for an earlier answer."""
        return self._left + self._blocked_bytes

    def answered(self, slot: _Slot) -> None:
        """A request has its answer; it leaves when all earlier ones have left."""
        self._listener.release(slot.size)
        if self._closing:
            return
        size = 0
        if slot.parts:
            size = sum(map(len, slot.parts))
            self._listener.traffic[slot.api_key].bytes_out += size
        slots = self._slots
        if slots[0] is not slot:
            self._hold(left=self._left, blocked=self._blocked_bytes + size)
            return
        parts: list[bytes | bytearray | memoryview] = []
        while slots and (ready := slots[0].parts) is not None:
            parts.extend(ready)
            slots.popleft()
        if parts:
            self.last_active = self._loop.time()
            if self._tls is None:
                self._transport.writelines(parts)
            else:
                self._transport.write(self._tls.sealed(parts))
        if self._blocked_bytes or self._writing_paused:
            self._hold(
                left=self._transport.get_write_buffer_size() if self._writing_paused else 0,
                blocked=self._blocked_bytes and self._blocked_bytes + size - sum(map(len, parts)),
            )
        if self._reading_paused:
            self.go_on()

    def go_on(self) -> None:
        """Take up what was put off, as far as it goes."""
        backlog = self._backlog
        while backlog and not self._closing and not self._stalled:
            frame = backlog.popleft()
            self._count(-len(frame))
            self._take(frame)
        if self._closing or not self._reading_paused or self._stalled:
            return
        if self._listener.full and self._listener.hold_back(self):
            return
        self._reading_paused = False
        self._transport.resume_reading()
        if self._tls is not None:
            self._loop.call_soon(self._decipher)

    def refuse(self, reason: str) -> None:
        """The peer has broken the rules: one line, and the connection is closed."""
        if self._closing:
            return
        who = f"{self.host}:{self._port}"
        if self._peer.client_id:
            who = f"{who} ({self._peer.client_id!r})"
        self._listener.complain(f"closed the connection of {who} to {self._door}: {reason}")
        self.close()

    def idle(self) -> None:
        """Nothing has come or gone for too long. A request that waits for its answer keeps the connection."""
        self.look()
        if self._taken >= MIN_READ_BYTES:
            # The peer reads, if slowly: an answer of many megabytes may take it a long time.
            self._taken, self.last_active = 0, self._loop.time()
        elif self._closing:
            self._transport.abort()
        elif not self._slots or self._writing_paused:
            self._closing = True
            log.debug("closed the idle connection of %s:%d", self.host, self._port)
            self._transport.abort()

    def look(self) -> None:
        """See how much the peer has taken in of what it was sent."""
        if self._left:
            left = self._transport.get_write_buffer_size()
            self._taken += self._left - left
            self._hold(left=left, blocked=self._blocked_bytes)

    def leave_unread(self) -> None:
        """There are too many unread answers, and most of them are this peer's: they are not kept for it."""
        self.refuse(
            f"it has not read {self.unread_bytes} bytes of answers, and all together have not read "
            f"{self._listener.unread_bytes} (queued.max.response.bytes)"
        )
        self._hold(left=0, blocked=0)
        self.abort()

    def hurry(self, now: float) -> None:
        """A handshake that takes too long is given up."""
        patience_ms = self._listener.limits.max_handshake_ms
        if self._tls is not None and self._tls.shaking and now - self._began >= patience_ms / 1000:
            self.refuse(f"TLS: no handshake within {patience_ms} ms")
            self.abort()

    def make_room(self) -> None:
        """Others have waited too long for what this one holds: it goes, whatever it was still to get."""
        patience_ms = self._listener.limits.max_full_ms
        self.refuse(
            f"it holds {self.held_bytes} bytes, and others have waited {patience_ms} ms for room "
            "(queued.max.request.bytes)"
        )
        self.abort()

    def close(self) -> None:
        """Close once everything written has left."""
        if self._tls is not None and not self._closing:
            self._transport.write(self._tls.farewell())
        self._closing = True
        self._transport.close()

    def abort(self) -> None:
        self._closing = True
        self._transport.abort()

    @property
    def _door(self) -> str:
        return f"listener {self._listener.name}"

    @property
    def _stalled(self) -> bool:
        """So much of this connection waits already that the core gets no more of its requests."""
        return (
            self._writing_paused
            or len(self._slots) >= self._listener.limits.max_in_flight
            or self._blocked_bytes > MAX_BLOCKED_BYTES
        )

    def _count(self, change: int) -> None:
        """More or less has been received of requests that the core has not seen yet."""
        self.arriving_bytes += change
        self._listener.arriving_bytes += change

    def _hold(self, *, left: int, blocked: int) -> None:
        """So much of answers is held now: unsent, and waiting for an earlier one."""
        self._listener.count_unread(left + blocked - self._left - self._blocked_bytes)
        self._left, self._blocked_bytes = left, blocked

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self._closing:
            self._reading_paused = True
            self._transport.pause_reading()

    def _take(self, frame: bytearray) -> None:
        size = len(frame)
        if size < _HEAD.size:
            self.refuse(f"a request of {size} bytes is too short for a header")
            return
        api_key, version, correlation_id = _HEAD.unpack_from(frame)
        served = self._listener.find(api_key)
        if served is None:
            self.refuse(f"API key {api_key} is not served here")
            return
        runtime, lowest, highest = served
        if not lowest <= version <= highest:
            if api_key == API_VERSIONS:
                self._offer_versions(correlation_id, lowest, highest)
            else:
                self.refuse(
                    f"{APIS[api_key].name} version {version} is not served, only {lowest} to {highest}"
                )
            return
        try:
            header, message = decode_request(frame, max_elements=self._listener.max_elements)
        except WireError as error:
            self.refuse(f"{APIS[api_key].name} version {version} cannot be read: {error}")
            return
        except Exception:
            # The decoder promises to raise nothing else. It holds no state, so a defect in it costs this
            # connection alone and not the node.
            log.exception("a defect in the decoder: %s version %d", APIS[api_key].name, version)
            self.refuse(f"{APIS[api_key].name} version {version} cannot be read")
            return
        peer = self._peer
        if header.client_id != peer.client_id:
            peer = self._peer = Peer(
                control=peer.control,
                host=peer.host,
                client_id=header.client_id,
                principal=peer.principal,
                connection=peer.connection,
            )
        traffic = self._listener.traffic[api_key]
        traffic.requests += 1
        traffic.bytes_in += size
        slot = _Slot(self, runtime, api_key, version, correlation_id, size)
        self._slots.append(slot)
        self._listener.queued_bytes += size
        slot.token = runtime.ask(slot, version, message, peer)

    def _offer_versions(self, correlation_id: int, lowest: int, highest: int) -> None:
        """A client that speaks a newer ApiVersions is told in version 0 which ones it may use."""
        offer = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(ApiVersion(API_VERSIONS, lowest, highest),)
        )
        slot = _Slot(self, None, API_VERSIONS, 0, correlation_id, 0)
        self._slots.append(slot)
        slot.answer(offer)

"""A broker in name only: it registers in a real ZooKeeper, says yes to whatever a real controller sends it,
and keeps the bytes.
"""

from __future__ import annotations

import socketserver
import struct
import threading
import time
from types import TracebackType

from epoka.coordination.zookeeper.registry import RegisteredBroker, Registry
from epoka.coordination.zookeeper.session import Session
from epoka.model.registrations import CONTROL_LISTENER, WITHOUT_HEARTBEATS, Endpoint
from epoka.wire.apis import APIS
from epoka.wire.frame import decode_request_header, encode_response

HOST = "127.0.0.1"
UPDATE_METADATA = 6
_SIZE = struct.Struct(">i")


class FakeBroker:
    """Registered without heartbeats, so that it counts as active; gone at the end of the `with`."""

    def __init__(self, connect: str, broker_id: int) -> None:
        self.bodies: list[bytes] = []
        """Every UpdateMetadata, without its header."""
        self.generation = -1
        self._id = broker_id
        self._session = Session(connect, session_timeout_ms=10_000)
        self._server = socketserver.ThreadingTCPServer((HOST, 0), _Conversation)
        self._server.daemon_threads = True
        self._server.broker = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def about(self, topic: str) -> bytes | None:
        """The first body that names a topic."""
        return next((body for body in self.bodies if topic.encode() in body), None)

    def __enter__(self) -> FakeBroker:
        self._thread.start()
        self._session.open(10_000)
        endpoint = Endpoint(CONTROL_LISTENER, HOST, self._server.server_address[1])
        registered = Registry(self._session).register(
            self._id, endpoints=[endpoint], version=WITHOUT_HEARTBEATS, now_ms=time.time_ns() // 1_000_000
        )
        assert isinstance(registered, RegisteredBroker)
        self.generation = registered.generation
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()
        self._server.shutdown()
        self._server.server_close()


class _Conversation(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        broker: FakeBroker = self.server.broker  # type: ignore[attr-defined]
        while len(size := self.rfile.read(_SIZE.size)) == _SIZE.size:
            frame = bytearray(self.rfile.read(_SIZE.unpack(size)[0]))
            header, position = decode_request_header(frame)
            if header.api_key == UPDATE_METADATA:
                broker.bodies.append(bytes(frame[position:]))
            answer = APIS[header.api_key].response()
            parts = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
            self.wfile.write(b"".join(parts))

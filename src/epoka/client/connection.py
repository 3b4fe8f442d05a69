"""One connection to one broker: requests go out when they are told to, answers come back in their order.

Any node that speaks Kafka's protocol understands it: the version is the highest that both sides know. An
answer is received into one buffer that the next answer overwrites, so records in it are to be used or copied
before more is taken from this connection. Any failure ends the connection; whoever asks makes another.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import deque
from typing import Any

from epoka.client.errors import ClientError, Unreachable
from epoka.client.settings import Address, ClientSettings
from epoka.wire.apis import Api, api
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import WireError
from epoka.wire.frame import decode_response, encode_request
from epoka.wire.messages.api_versions import ApiVersionsRequest
from epoka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from epoka.wire.messages.sasl_handshake import SaslHandshakeRequest

MAX_ANSWER_BYTES = 512 << 20
USUAL_TIMEOUT_MS = 10_000
"""For whoever asks without settings, which is whoever asks a node of this machine."""
_SIZE = struct.Struct(">i")


class Connection:
    def __init__(self, address: Address, settings: ClientSettings | None = None) -> None:
        self.address = address
        self.received_bytes = 0
        self.closed = False
        self._settings = settings or ClientSettings((address,), request_timeout_ms=USUAL_TIMEOUT_MS)
        self._timeout_s = self._settings.request_timeout_ms / 1000
        self._waiting: deque[tuple[Api, int, int]] = deque()
        self._correlation_id = 0
        self._buffer = memoryview(bytearray(64 << 10))
        self._known_versions: dict[int, tuple[int, int]] | None = None
        context = self._settings.ssl_context() if self._settings.tls else None
        try:
            self._socket = socket.create_connection(address, timeout=self._timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._socket = context.wrap_socket(
                    self._socket, server_hostname=address[0] if self._settings.ssl_check_names else None
                )
        except (OSError, OverflowError, UnicodeError) as error:
            self.closed = True
            raise Unreachable(f"{self.name} cannot be reached: {_reason(error)}") from error
        if self._settings.sasl:
            try:
                self._authenticate()
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def free(self) -> bool:
        """Open, and nothing under way on it."""
        return not self.closed and not self._waiting

    @property
    def name(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._socket.close()

    def ask(self, message: Any, *, version: int | None = None, wait_ms: int = 0) -> Any:
        """The answer to one request; ClientError while another is under way, whose answer comes first."""
        if self._waiting and not self.closed:
            before, _, _ = self._waiting[0]
            raise ClientError(
                f"{self.name} is asked for {api(message).name} before it answered {before.name}"
            )
        self.send(message, version=version)
        return self.take(wait_ms=wait_ms)

    def send(self, message: Any, *, version: int | None = None) -> None:
        """Send a request; `take` gives its answer."""
        known = api(message)
        if version is None:
            version = self.version_for(message)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        parts = encode_request(known.key, version, self._correlation_id, self._settings.client_id, message)
        try:
            if len(parts) == 1:
                self._socket.sendall(parts[0])
            else:
                self._send_all(parts)
        except OSError as error:
            self.close()
            raise Unreachable(f"{self.name} did not take {known.name}: {_reason(error)}") from error
        self._waiting.append((known, version, self._correlation_id))

    def send_silently(self, message: Any) -> None:
        """Send a request that has no answer: Produce with acks=0."""
        self.send(message)
        self._waiting.pop()

    def take(self, *, wait_ms: int = 0) -> Any:
        """The answer to the oldest request; `wait_ms` is what the broker may take beyond the usual."""
        known, version, expected = self._waiting.popleft()
        try:
            self._socket.settimeout(self._timeout_s + wait_ms / 1000)
            correlation_id, answer = decode_response(known.key, version, self._receive())
        except OSError as error:
            self.close()
            raise Unreachable(f"{self.name} did not answer {known.name}: {_reason(error)}") from error
        except WireError as error:
            self.close()
            raise ClientError(f"the answer of {self.name} to {known.name} makes no sense: {error}") from error
        if correlation_id != expected:
            self.close()
            raise ClientError(f"{self.name} answered another question than {known.name}")
        return answer

    def answered(self) -> bool:
        """Whether `take` would find something to read at once."""
        if self.closed:
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """The lowest and the highest version of every API that the other side serves, asked for once."""
        if self._known_versions is None:
            self._known_versions = self._ask_versions()
        return self._known_versions

    def version_for(self, message: Any, highest: int | None = None) -> int:
        """The highest version that both sides know, of a message, its class or its key."""
        known = api(message)
        if known.key not in self.versions:
            raise ClientError(f"{self.name} does not serve {known.name}")
        low, high = self.versions[known.key]
        version = min(high, known.max_version if highest is None else min(highest, known.max_version))
        if version < max(low, known.min_version):
            raise ClientError(
                f"{self.name} serves {known.name} in versions {low} to {high}, "
                f"here {known.min_version} to {known.max_version} are known"
            )
        return version

    def _send_all(self, parts: list[Any]) -> None:
        if self._settings.tls:
            for part in parts:
                self._socket.sendall(part)
            return
        left = [memoryview(part) for part in parts]
        while left:
            sent = self._socket.sendmsg(left[:64])
            while left and sent >= len(left[0]):
                sent -= len(left[0])
                del left[0]
            if sent:
                left[0] = left[0][sent:]

    def _receive(self) -> memoryview:
        head = memoryview(bytearray(4))
        self._fill(head)
        (size,) = _SIZE.unpack(head)
        if not 4 <= size <= MAX_ANSWER_BYTES:
            self.close()
            raise ClientError(f"{self.name} does not speak the Kafka protocol")
        if size > len(self._buffer):
            # numpy leaves the memory as it is; a bytearray would be filled with zeros first. Whoever asks
            # small questions has no need to import it.
            import numpy as np

            self._buffer = np.empty(size + size // 4, np.uint8).data
        frame = self._buffer[:size]
        self._fill(frame)
        self.received_bytes += 4 + size
        return frame

    def _fill(self, view: memoryview) -> None:
        position = 0
        while position < len(view):
            count = self._socket.recv_into(view[position:])
            if not count:
                raise ConnectionError("it closed the connection")
            position += count

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="epoka", client_software_version="1")
        answer = self.ask(request, version=3)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = self.ask(request, version=0)
        if answer.error_code:
            code = ErrorCode.of(answer.error_code)
            raise ClientError(f"{self.name} does not say which versions it speaks: {code.name}")
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _authenticate(self) -> None:
        mechanism, user = self._settings.sasl_mechanism, self._settings.sasl_username
        answer = self.ask(SaslHandshakeRequest(mechanism=mechanism))
        if answer.error_code:
            known = ", ".join(answer.mechanisms) or "none"
            raise ClientError(f"{self.name} does not take SASL {mechanism}; it takes {known}")
        token = f"\0{user}\0{self._settings.sasl_password}".encode()
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            why = answer.error_message or ErrorCode.of(answer.error_code).message
            raise ClientError(f"{self.name} does not let {user} in: {why}")


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)

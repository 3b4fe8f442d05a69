"""A plain, blocking way to ask a node something: one connection, one question at a time.

For commands and for whoever waits on a cluster from outside its event loops. Any Kafka broker understands it:
the version is the highest that both sides know.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from epoka.client.settings import ClientSettings
from epoka.wire.apis import api
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import WireError
from epoka.wire.frame import decode_response, encode_request
from epoka.wire.messages.api_versions import ApiVersionsRequest
from epoka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from epoka.wire.messages.sasl_handshake import SaslHandshakeRequest

_SIZE = struct.Struct(">i")
MAX_ANSWER_BYTES = 256 * 1024 * 1024
CLIENT_ID = "epoka"


class CallFailed(Exception):
    """No usable answer came; the text says from where and why."""


class NoSense(CallFailed):
    """An answer came and cannot be read; the connection is as good as before."""


class Caller:
    """One connection to one node."""

    def __init__(
        self, host: str, port: int, *, timeout_s: float = 10.0, settings: ClientSettings | None = None
    ) -> None:
        """`settings` are for clusters that ask for TLS or a password."""
        self.address = f"{host}:{port}"
        self.timeout_s = timeout_s
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] | None = None
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if settings is not None and settings.tls:
                self._socket = settings.ssl_context().wrap_socket(self._socket, server_hostname=host)
        except (OSError, OverflowError, UnicodeError) as error:
            raise CallFailed(f"{self.address} cannot be reached: {_reason(error)}") from error
        self._stream = self._socket.makefile("rb")
        if settings is not None and settings.sasl:
            try:
                self._authenticate(settings)
            except CallFailed:
                self.close()
                raise

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, message: Any, *, version: int | None = None, timeout_s: float | None = None) -> Any:
        """The answer to one request, at the version given or the highest that both sides know."""
        known = api(message)
        if version is None:
            version = self.version_for(known.key)
        self._correlation_id += 1
        self._socket.settimeout(self.timeout_s if timeout_s is None else timeout_s)
        try:
            self._socket.sendall(
                b"".join(encode_request(known.key, version, self._correlation_id, CLIENT_ID, message))
            )
            correlation_id, answer = decode_response(known.key, version, self._read_frame())
        except OSError as error:
            raise CallFailed(f"{self.address} did not answer {known.name}: {_reason(error)}") from error
        except WireError as error:
            raise NoSense(f"the answer of {self.address} to {known.name} makes no sense: {error}") from error
        if correlation_id != self._correlation_id:
            raise CallFailed(f"{self.address} answered another question than {known.name}")
        return answer

    def version_for(self, key: int) -> int:
        """The highest version of an API that both sides know; CallFailed when there is none."""
        ours = api(key)
        if self._versions is None:
            answer = self._ask_versions()
            if answer.error_code:
                raise CallFailed(f"{self.address} speaks no version of ApiVersions that is known here")
            self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        if key not in self._versions:
            raise CallFailed(f"{self.address} does not serve {ours.name}")
        lowest, highest = self._versions[key]
        version = min(highest, ours.max_version)
        if version < max(lowest, ours.min_version):
            raise CallFailed(
                f"{self.address} serves {ours.name} in versions {lowest} to {highest}, "
                f"here {ours.min_version} to {ours.max_version} are known"
            )
        return version

    def _ask_versions(self) -> Any:
        """What the node serves. One that does not know version 3 says so in version 0, whatever was asked."""
        asked = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
        try:
            answer = self.ask(asked, version=3)
            if not answer.error_code:
                return answer
        except NoSense:
            pass
        return self.ask(asked, version=0)

    def _authenticate(self, settings: ClientSettings) -> None:
        mechanism = settings.sasl_mechanism
        offered = self.ask(SaslHandshakeRequest(mechanism=mechanism))
        if offered.error_code:
            known = ", ".join(offered.mechanisms) or "none"
            raise CallFailed(f"{self.address} does not take SASL {mechanism}; it takes {known}")
        token = f"\0{settings.sasl_username}\0{settings.sasl_password}".encode()
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            why = answer.error_message or ErrorCode.of(answer.error_code).message
            raise CallFailed(f"{self.address} does not let {settings.sasl_username} in: {why}")

    def _read_frame(self) -> bytes:
        (size,) = _SIZE.unpack(self._read(4))
        if not 0 <= size <= MAX_ANSWER_BYTES:
            raise CallFailed(f"{self.address} does not speak the Kafka protocol")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        read = self._stream.read(size)
        if len(read) < size:
            raise CallFailed(f"{self.address} closed the connection")
        return read


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)

"""TLS: keys, and whom to believe, from the configuration to what `ssl` works with.

Decides who is let in by certificate. The clients' door asks for one only when it is told to. The control
listener is for nodes alone: with TLS it takes nobody without a certificate that its truststore vouches for,
and a node shows its own to every other. Nothing here reads a password from a terminal.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable, Mapping
from typing import Final

from epoka.node.config import NodeConfig
from epoka.node.keys import CONTROL_LISTENER, OWN_OF_CONTROL, SSL
from epoka.node.runtime import StartFailed

SEALED_BYTES: Final = 64 * 1024
"""How much is received at once."""
_ASKED = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
}


def of_door(config: NodeConfig, name: str) -> ssl.SSLContext | None:
    """What a listener needs; None when it speaks in the clear. StartFailed names a file that will not do."""
    if config.protocol(name) != SSL:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    _show(context, config, name)
    asked = "required" if name == CONTROL_LISTENER else config.string("ssl.client.auth") or "none"
    if asked != "none":
        _believe(context, config, name)
    context.verify_mode = _ASKED[asked]
    return context


def towards_nodes(config: NodeConfig) -> ssl.SSLContext | None:
    """What a connection to another node's control listener needs; None when they speak in the clear."""
    if config.protocol(CONTROL_LISTENER) != SSL:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = bool(config.string("ssl.endpoint.identification.algorithm"))
    _show(context, config, CONTROL_LISTENER)
    _believe(context, config, CONTROL_LISTENER)
    return context


class Channel:
    """One peer's connection under TLS, without I/O: sealed bytes on one side, open ones on the other."""

    __slots__ = ("_incoming", "_outgoing", "_scratch", "_tls", "principal", "shaking")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._scratch = bytearray(SEALED_BYTES)
        self.shaking = True
        """Until the handshake is over."""
        self.principal: str | None = None
        """Who the peer is, if it has shown it."""

    @property
    def buffer(self) -> memoryview:
        """Where to receive sealed bytes; `received` tells how many came."""
        return memoryview(self._scratch)

    def received(self, count: int) -> None:
        self._incoming.write(self.buffer[:count])

    def shake(self) -> None:
        """Go on with the handshake as far as what has come allows. SSLError ends the connection, as below."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        self.shaking = False
        self.principal = principal_of(self._tls.getpeercert())

    def read_into(self, buffer: memoryview) -> int:
        """How many bytes the peer has said; 0 when the rest has not come yet, EOFError at their end."""
        try:
            count = self._tls.read(len(buffer), buffer)
        except ssl.SSLWantReadError:
            return 0
        if not count:
            raise EOFError
        return int(count)

    def sealed(self, parts: Iterable[bytes | bytearray | memoryview]) -> bytes:
        """What has to be sent so that the peer reads `parts`, and all that waited before them."""
        for part in parts:
            rest = memoryview(part)
            while len(rest):
                rest = rest[self._tls.write(rest) :]
        return self._outgoing.read()

    def to_send(self) -> bytes:
        """What TLS itself has to say."""
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """The last to send: that there will be no more, or what went wrong."""
        if not self.shaking:
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
        return self._outgoing.read()


def principal_of(certificate: Mapping[str, object] | None) -> str | None:
    """Who a checked certificate says its owner is, as Kafka writes it: most specific name first."""
    subject = (certificate or {}).get("subject")
    if not isinstance(subject, tuple) or not subject:
        return None
    names = [
        f"{_SHORT.get(kind, kind)}={_escaped(value)}" for part in reversed(subject) for kind, value in part
    ]
    return "User:" + ",".join(names)


def _escaped(value: str) -> str:
    return "".join(f"\\{each}" if each in ',+"\\<>;=' else each for each in value)


def _show(context: ssl.SSLContext, config: NodeConfig, listener: str) -> None:
    key = _key(config, listener, "ssl.keystore.location")
    password = config.string(_key(config, listener, "ssl.key.password")) or ""
    file = config.string(key) or ""
    try:
        # Given as a call: without any password, ssl would ask for one at the terminal.
        context.load_cert_chain(file, password=lambda: password)
    except (OSError, ValueError) as error:
        raise StartFailed(f"{key} {file} cannot be used: {reason_of(error)}") from error


def _believe(context: ssl.SSLContext, config: NodeConfig, listener: str) -> None:
    key = _key(config, listener, "ssl.truststore.location")
    file = config.string(key) or ""
    try:
        context.load_verify_locations(file)
    except (OSError, ValueError) as error:
        raise StartFailed(f"{key} {file} cannot be used: {reason_of(error)}") from error


def _key(config: NodeConfig, listener: str, name: str) -> str:
    """Under which key the configuration says it: the control listener may have its own."""
    own = OWN_OF_CONTROL.get(name)
    return own if listener == CONTROL_LISTENER and own is not None and config.string(own) else name


def reason_of(error: OSError | ValueError) -> str:
    """What went wrong, in words for a line of the log."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)

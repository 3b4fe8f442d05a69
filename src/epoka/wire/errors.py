"""What can go wrong between bytes and messages.

    WireError               the peer's bytes are wrong; raised by wire/ alone
    ├── Truncated           the bytes end before the message does
    ├── TooLarge            a frame or an array is larger than this node accepts
    ├── Malformed           a length, count, tag or text that no correct peer writes
    │   └── NotKafka        the peer speaks HTTP, TLS or SSH
    ├── UnknownApi          an API key without a schema
    └── UnsupportedVersion  a known API in a version without a schema
    EncodeError             our own message cannot be written; a bug, never the peer's fault

Every WireError may carry the request header it was found behind, so that the runtime can answer before it
closes the connection.
"""

from __future__ import annotations

import msgspec


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """What precedes every request. The client id is absent from headers of version 0 only."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


class WireError(Exception):
    """The peer's bytes are wrong."""

    def __init__(self, reason: str, header: RequestHeader | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.header = header


class Truncated(WireError):
    """The bytes end before the message does."""


class TooLarge(WireError):
    """A frame or the arrays of a message are larger than this node accepts."""


class Malformed(WireError):
    """A length, count, tag or text that no correct peer writes."""


class NotKafka(Malformed):
    """The first bytes of a connection belong to another protocol."""


class UnknownApi(WireError):
    """An API key without a schema; the header says which."""


class UnsupportedVersion(WireError):
    """A known message in a version without a schema; the header of a request says which."""


class EncodeError(Exception):
    """A message of ours does not fit its schema at the version asked for."""

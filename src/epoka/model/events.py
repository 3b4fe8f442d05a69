"""What goes into a core and what comes out.

A core is called with `handle(event, now)` and answers with effects, in the order in which they must take
place: an effect behind an append leaves only when the append is as durable as the effect promises. A core
also has a `deadline`; the runtime sends `Wake` when that time has come. Nothing here does I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from epoka.model.ledger import LedgerEvent

CONTROLLER = -1
"""The address of whichever node is the controller now; the runtime finds it."""


class Peer(msgspec.Struct, frozen=True):
    """Who sent a request: which door they came through, and who they are."""

    control: bool = False
    """True on the control listener, which only brokers and controllers may use."""
    host: str = ""
    client_id: str | None = None
    principal: str = "User:ANONYMOUS"
    connection: int = 0
    """A number that is unique among the node's connections."""


class Request(msgspec.Struct, frozen=True):
    """A decoded request; `token` names it until it is answered."""

    token: int
    version: int
    message: Any
    peer: Peer


class Reply(msgspec.Struct, frozen=True):
    """The answer to a `Send`, or None when the connection failed or the time was up."""

    token: int
    message: Any | None


class Wake(msgspec.Struct, frozen=True):
    """The core's deadline has come."""


class Disconnected(msgspec.Struct, frozen=True):
    """A connection is gone: whatever waited for it need not be answered."""

    connection: int


class StorageFailed(msgspec.Struct, frozen=True):
    """A log directory failed; what it held is offline."""

    reason: str


class Stop(msgspec.Struct, frozen=True):
    """The operator asks for a controlled shutdown."""


Event = Request | Reply | Wake | Disconnected | StorageFailed | Stop


class Respond(msgspec.Struct, frozen=True):
    """Answer request `token`; None closes the books without a word (acks=0)."""

    token: int
    message: Any | None


class Hangup(msgspec.Struct, frozen=True):
    """Close the connection of request `token` instead of answering."""

    token: int
    reason: str


class Send(msgspec.Struct, frozen=True):
    """Ask another node; its answer comes back as `Reply(token, ...)`."""

    to: int
    token: int
    message: Any
    version: int
    timeout_ms: int
    lane: int = 0
    """Requests of one lane keep their order; another lane is another connection: long polls block nobody."""


class Report(msgspec.Struct, frozen=True):
    """Write an event into the ledger."""

    event: LedgerEvent


class Exit(msgspec.Struct, frozen=True):
    """The node has come to its end; `clean` when the controller granted it."""

    clean: bool
    reason: str


Effect = Respond | Hangup | Send | Report | Exit

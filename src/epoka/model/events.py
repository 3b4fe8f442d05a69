"""What goes into a core and what comes out.

A core is called with `handle(event, now)` and answers with effects, in the order in which they must take
place: an effect behind an append leaves only when the append is as durable as the effect promises. A core
also has a `deadline`; the runtime sends `Wake` when that time has come. Nothing here does I/O.

What comes and goes with every request is kept from the collector (`gc=False`): values refer to values, so no
circle can run through them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from epoka.model.ledger import LedgerEvent
from epoka.model.registrations import Endpoint, Feature

CONTROLLER = -1
"""The address of whichever node is the controller now; the runtime finds it."""


class Peer(msgspec.Struct, frozen=True, gc=False):
    """Who sent a request: which door they came through, and who they are."""

    control: bool = False
    """True on the control listener, which only brokers and controllers may use."""
    host: str = ""
    client_id: str | None = None
    principal: str = "User:ANONYMOUS"
    connection: int = 0
    """A number that is unique among the node's connections."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """A decoded request; `token` names it until it is answered."""

    token: int
    version: int
    message: Any
    peer: Peer


class Reply(msgspec.Struct, frozen=True, gc=False):
    """The answer to a `Send`, or None when the connection failed or the time was up."""

    token: int
    message: Any | None


class Wake(msgspec.Struct, frozen=True, gc=False):
    """The core's deadline has come."""


class Disconnected(msgspec.Struct, frozen=True, gc=False):
    """A connection is gone: whatever waited for it need not be answered."""

    connection: int


class StorageFailed(msgspec.Struct, frozen=True):
    """A log directory failed; what it held is offline."""

    reason: str


class Stop(msgspec.Struct, frozen=True):
    """The operator asks for a controlled shutdown."""


# What the coordination service tells, in zookeeper mode only.


class RegistryEntry(msgspec.Struct, frozen=True):
    """One registered life of a broker, as its node in the registry tells it."""

    id: int
    epoch: int
    """The transaction that created the node: the generation."""
    version: int
    """From 5 on the broker sends heartbeats and is inactive until one asks for more (KIP-343)."""
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    features: tuple[Feature, ...] = ()


class RegistryChanged(msgspec.Struct, frozen=True):
    """To the controller: all registrations as they were at one moment, never a mixture of two."""

    registrations: tuple[RegistryEntry, ...]
    position: int = -1
    """The last transaction that the picture contains: later registrations are not in it. -1 unknown."""


class IsrChanged(msgspec.Struct, frozen=True):
    """To the controller, below level `heartbeats`: leaders have written ISRs; the metadata log has them."""


class Registered(msgspec.Struct, frozen=True):
    """To a broker: it is in the registry under this generation. A higher one comes with a new session."""

    epoch: int


class SettingsRead(msgspec.Struct, frozen=True):
    """To a broker: what control requests do not carry, always whole. Comes first, then after every change."""

    level: int
    configs: dict[tuple[int, str], dict[str, str]] = {}
    """Resource type and name to its settings."""
    token: int = 0
    """The last `ReadSettings` that had been asked for when this was read."""


class IsrWritten(msgspec.Struct, frozen=True):
    """To a broker: the outcome of `WriteIsr`."""

    token: int
    partition_epoch: int | None = None
    """The version of the node after the write; None when nothing was written."""
    moved: bool = False
    """True when somebody else had changed the partition; False without an epoch means: try again."""


Event = (
    Request
    | Reply
    | Wake
    | Disconnected
    | StorageFailed
    | Stop
    | RegistryChanged
    | IsrChanged
    | Registered
    | SettingsRead
    | IsrWritten
)


class Respond(msgspec.Struct, frozen=True, gc=False):
    """Answer request `token`; None closes the books without a word (acks=0)."""

    token: int
    message: Any | None


class Hangup(msgspec.Struct, frozen=True, gc=False):
    """Close the connection of request `token` instead of answering."""

    token: int
    reason: str


class Send(msgspec.Struct, frozen=True, gc=False):
    """Ask another node; its answer comes back as `Reply(token, ...)`."""

    to: int
    token: int
    message: Any
    version: int
    timeout_ms: int
    lane: int = 0
    """Requests of one lane keep their order; another lane is another connection: long polls block nobody."""


class Report(msgspec.Struct, frozen=True, gc=False):
    """Write an event into the ledger."""

    event: LedgerEvent


class Exit(msgspec.Struct, frozen=True):
    """The node has come to its end; `clean` when the controller granted it."""

    clean: bool
    reason: str


class Register(msgspec.Struct, frozen=True):
    """Put this broker into the registry with such a registration, or change the one of this session to it.

    The runtime does so again by itself for every new session, and answers with `Registered`.
    """

    version: int


class ReadSettings(msgspec.Struct, frozen=True):
    """Read the level and all settings again; answered by a `SettingsRead` with this token or a later one."""

    token: int


class WriteIsr(msgspec.Struct, frozen=True):
    """Write the ISR of a partition, if its node still has the expected version; answered by `IsrWritten`."""

    token: int
    topic: str
    partition: int
    expected_version: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


Coordinate = Register | ReadSettings | WriteIsr
"""What a broker asks of the coordination service, in zookeeper mode only."""

Effect = Respond | Hangup | Send | Report | Exit | Coordinate

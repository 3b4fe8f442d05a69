"""OffsetFetch: how far a group had read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Request
from epoka.wire.messages import offset_fetch as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.OffsetFetchRequest
VERSIONS = (1, 9)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    core.offsets.ask(request, core.offsets.coordinator.offset_fetch)

"""OffsetDelete: forget how far a group had read in some partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Request
from epoka.wire.messages import offset_delete as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.OffsetDeleteRequest
VERSIONS = (0, 0)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    core.offsets.ask(request, core.offsets.coordinator.offset_delete)

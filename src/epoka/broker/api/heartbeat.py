"""Heartbeat: a group member is alive, and hears of rebalances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import heartbeat as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.HeartbeatRequest
VERSIONS = (0, 4)


def refuse(core: BrokerCore, request: Request) -> wire.HeartbeatResponse:
    return wire.HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    core.offsets.ask(request, core.offsets.coordinator.heartbeat)

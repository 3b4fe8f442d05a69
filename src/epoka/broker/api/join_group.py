"""JoinGroup: become a member of a group, or go through a rebalance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import join_group as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.JoinGroupRequest
VERSIONS = (0, 9)


def refuse(core: BrokerCore, request: Request) -> wire.JoinGroupResponse:
    return wire.JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    core.offsets.ask(
        request, core.offsets.coordinator.join_group, request.peer.client_id or "", request.peer.host
    )

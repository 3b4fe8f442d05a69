"""LeaveGroup: members say good-bye, so that nobody has to wait for their time-out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import leave_group as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.LeaveGroupRequest
VERSIONS = (0, 5)


def refuse(core: BrokerCore, request: Request) -> wire.LeaveGroupResponse:
    return wire.LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    core.offsets.ask(request, core.offsets.coordinator.leave_group)

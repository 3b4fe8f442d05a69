"""SyncGroup: the leader hands out the assignment, everybody takes theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import sync_group as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.SyncGroupRequest
VERSIONS = (0, 5)


def refuse(core: BrokerCore, request: Request) -> wire.SyncGroupResponse:
    return wire.SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    core.offsets.ask(request, core.offsets.coordinator.sync_group)

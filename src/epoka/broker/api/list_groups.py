"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Request
from epoka.wire.messages import list_groups as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.ListGroupsRequest
VERSIONS = (0, 5)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    core.offsets.ask(request, core.offsets.coordinator.list_groups)

"""DeleteGroups: remove groups that have no members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Request
from epoka.wire.messages import delete_groups as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.DeleteGroupsRequest
VERSIONS = (0, 2)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    core.offsets.ask(request, core.offsets.coordinator.delete_groups)

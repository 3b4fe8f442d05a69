"""ListPartitionReassignments: what is moving, told by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._forward import forward
from epoka.model.events import Request
from epoka.wire.messages import list_partition_reassignments as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.ListPartitionReassignmentsRequest
VERSIONS = (0, 0)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    forward(core, request)

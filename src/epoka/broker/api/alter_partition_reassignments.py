"""AlterPartitionReassignments: move replicas, decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._forward import forward
from epoka.model.events import Request
from epoka.wire.messages import alter_partition_reassignments as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.AlterPartitionReassignmentsRequest
VERSIONS = (0, 0)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    forward(core, request)

"""CreatePartitions: decided by the controller; answered when this broker sees the new count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epoka.broker.api._forward import forward
from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import create_partitions as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.CreatePartitionsRequest
VERSIONS = (0, 3)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    message: wire.CreatePartitionsRequest = request.message
    counts = {topic.name: topic.count for topic in message.topics}

    def seen(reply: Any) -> bool:
        return message.validate_only or all(
            core.image.partition_count_of(result.name) >= counts.get(result.name, 0)
            for result in reply.results
            if result.error_code == ErrorCode.NONE
        )

    forward(core, request, seen)

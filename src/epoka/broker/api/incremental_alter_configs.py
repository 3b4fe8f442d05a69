"""IncrementalAlterConfigs: settings of topics and brokers, decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._forward import forward
from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import incremental_alter_configs as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.IncrementalAlterConfigsRequest
VERSIONS = (0, 1)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    message: wire.IncrementalAlterConfigsRequest = request.message

    def failed(error: ErrorCode) -> wire.IncrementalAlterConfigsResponse:
        return wire.IncrementalAlterConfigsResponse(
            responses=tuple(
                wire.IncrementalAlterConfigsResourceResponse(
                    error_code=error, resource_type=each.resource_type, resource_name=each.resource_name
                )
                for each in message.resources
            )
        )

    # The controller answers only after its own image has the change; this broker's follows within a poll.
    before = core.image.offset
    forward(core, request, failed, lambda reply: message.validate_only or core.image.offset > before)

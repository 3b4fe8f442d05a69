"""IncrementalAlterConfigs: single settings of topics and brokers, decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epoka.broker.api._forward import forward
from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import incremental_alter_configs as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.IncrementalAlterConfigsRequest
VERSIONS = (0, 1)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    before = core.image.offset

    def seen(reply: Any) -> bool:
        changed = any(each.error_code == ErrorCode.NONE for each in reply.responses)
        return request.message.validate_only or not changed or core.image.offset > before

    forward(core, request, seen)

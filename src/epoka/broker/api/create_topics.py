"""CreateTopics: decided by the controller; answered when this broker sees the new topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epoka.broker.api._forward import forward
from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import create_topics as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.CreateTopicsRequest
VERSIONS = (2, 7)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    message: wire.CreateTopicsRequest = request.message

    def seen(reply: Any) -> bool:
        return message.validate_only or all(
            core.image.topic(topic.name) is not None
            for topic in reply.topics
            if topic.error_code == ErrorCode.NONE
        )

    forward(core, request, seen)

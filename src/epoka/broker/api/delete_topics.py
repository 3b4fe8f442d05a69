"""DeleteTopics: decided by the controller; answered when this broker has lost sight of the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epoka.broker.api._forward import forward
from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import delete_topics as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.DeleteTopicsRequest
VERSIONS = (1, 6)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    def seen(reply: Any) -> bool:
        return all(
            topic.name is None or core.image.topic(topic.name) is None
            for topic in reply.responses
            if topic.error_code == ErrorCode.NONE
        )

    forward(core, request, seen)

"""DeleteTopics: decided by the controller; answered when this broker's own metadata has lost the topics."""

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
    message: wire.DeleteTopicsRequest = request.message

    def failed(error: ErrorCode) -> wire.DeleteTopicsResponse:
        by_name = [wire.DeletableTopicResult(name=name, error_code=error) for name in message.topic_names]
        by_state = [
            wire.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error)
            for topic in message.topics
        ]
        return wire.DeleteTopicsResponse(responses=tuple(by_name + by_state))

    def seen(reply: Any) -> bool:
        return all(
            topic.name is None or core.image.topic(topic.name) is None
            for topic in reply.responses
            if topic.error_code == ErrorCode.NONE
        )

    forward(core, request, failed, seen)

"""DeleteTopics: decided by the controller; answered when this broker has lost sight of the topics.

A topic that is asked for by name is passed on by its id, if this broker knows it: a request that comes late
must not delete the next topic of that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from epoka.broker.api._forward import forward
from epoka.model.events import Request
from epoka.model.ids import ZERO_TOPIC_ID, derived_topic_id
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import delete_topics as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.DeleteTopicsRequest
VERSIONS = (1, 6)
BY_ID_SINCE = 6


def handle(core: BrokerCore, request: Request, now: int) -> None:
    message: wire.DeleteTopicsRequest = request.message
    asked = [*message.topics, *(wire.DeleteTopicState(name=name) for name in message.topic_names)]
    by_id = tuple(_by_id(core, each) for each in asked)

    def seen(reply: Any) -> bool:
        return all(
            topic.name is None or core.image.topic(topic.name) is None
            for topic in reply.responses
            if topic.error_code == ErrorCode.NONE
        )

    def complete(reply: wire.DeleteTopicsResponse) -> wire.DeleteTopicsResponse:
        results = tuple(_as_asked(*each) for each in zip(asked, reply.responses, strict=True))
        return msgspec.structs.replace(reply, responses=results)

    forward(
        core,
        request,
        seen,
        message=wire.DeleteTopicsRequest(topics=by_id, timeout_ms=message.timeout_ms),
        version=BY_ID_SINCE,
        complete=complete,
    )


def _by_id(core: BrokerCore, asked: wire.DeleteTopicState) -> wire.DeleteTopicState:
    """The same topic by its id, unless this broker knows none that the controller would know too."""
    if asked.name is None or asked.topic_id != ZERO_TOPIC_ID:
        return asked
    topic = core.image.topic(asked.name)
    if topic is None or topic.id == derived_topic_id(topic.name):
        return asked
    return wire.DeleteTopicState(topic_id=topic.id)


def _as_asked(asked: wire.DeleteTopicState, result: wire.DeletableTopicResult) -> wire.DeletableTopicResult:
    """Who asked by name has an answer by name, and never hears of an id that it has not given."""
    if asked.name is None:
        return result
    if result.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
        return wire.DeletableTopicResult(
            name=asked.name,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"there is no topic {asked.name!r}",
        )
    return msgspec.structs.replace(result, name=asked.name)

"""LeaderAndIsr: the controller gives this broker its roles (zookeeper mode).

A request for another generation is refused for all its partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.control_feed import ControlFeed
from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import leader_and_isr as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.LeaderAndIsrRequest
VERSIONS = (1, 5)
CONTROL = True
ALWAYS = True


def handle(core: BrokerCore, request: Request, now: int) -> wire.LeaderAndIsrResponse | None:
    message: wire.LeaderAndIsrRequest = request.message
    feed = core.feed
    assert isinstance(feed, ControlFeed)
    refused = feed.admit(request, now)
    if refused is None:
        top, errors = ErrorCode.NONE, feed.leader_and_isr(message, now)
    elif refused.error is ErrorCode.NONE:
        return None
    else:
        top = refused.error
        rows = [(each.topic_name, each) for each in message.ungrouped_partition_states]
        rows += [
            (topic.topic_name, each) for topic in message.topic_states for each in topic.partition_states
        ]
        errors = {(name, each.partition_index): top for name, each in rows}
    return wire.LeaderAndIsrResponse(
        error_code=top,
        partition_errors=tuple(
            wire.LeaderAndIsrPartitionError(topic_name=name, partition_index=index, error_code=error)
            for (name, index), error in errors.items()
        ),
    )

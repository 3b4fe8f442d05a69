"""StopReplica: the controller takes roles away, and perhaps the log with them (zookeeper mode).

A partition that is not here is no error: it has been stopped already. A request for another generation is
refused as a whole, without a word on its partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.control_feed import ControlFeed
from epoka.model.events import Request
from epoka.wire.messages import stop_replica as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.StopReplicaRequest
VERSIONS = (0, 4)
CONTROL = True
ALWAYS = True


def handle(core: BrokerCore, request: Request, now: int) -> wire.StopReplicaResponse | None:
    feed = core.feed
    assert isinstance(feed, ControlFeed)
    refused = feed.admit(request, now)
    if refused is not None:
        return wire.StopReplicaResponse(error_code=refused.error) if refused.error else None
    return wire.StopReplicaResponse(
        partition_errors=tuple(
            wire.StopReplicaPartitionError(topic_name=name, partition_index=index, error_code=error)
            for (name, index), error in feed.stop_replica(request.message, now).items()
        )
    )

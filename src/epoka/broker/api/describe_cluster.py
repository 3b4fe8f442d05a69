"""DescribeCluster: the cluster's id and the brokers that clients may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._topics import UNKNOWN_OPERATIONS
from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import describe_cluster as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.DescribeClusterRequest
VERSIONS = (0, 1)

BROKERS = 1


def handle(core: BrokerCore, request: Request, now: int) -> wire.DescribeClusterResponse:
    if request.version >= 1 and request.message.endpoint_type != BROKERS:
        return wire.DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this listener tells of brokers only",
            endpoint_type=request.message.endpoint_type,
        )
    brokers = tuple(
        wire.DescribeClusterBroker(broker_id=each.id, host=endpoint.host, port=endpoint.port, rack=each.rack)
        for each in core.image.brokers.values()
        if not each.fenced
        for endpoint in each.client_endpoints[:1]
    )
    return wire.DescribeClusterResponse(
        cluster_id=core.config.cluster_id,
        controller_id=brokers[0].broker_id if brokers else -1,
        brokers=brokers,
        cluster_authorized_operations=UNKNOWN_OPERATIONS,
    )

"""FindCoordinator: the leader of the `__consumer_offsets` partition that a group hashes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.offsets_topic import TOPIC
from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import find_coordinator as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.FindCoordinatorRequest
VERSIONS = (0, 6)

GROUP = 0


def handle(core: BrokerCore, request: Request, now: int) -> wire.FindCoordinatorResponse:
    message: wire.FindCoordinatorRequest = request.message
    if request.version >= 4:
        keys = dict.fromkeys(message.coordinator_keys)
        return wire.FindCoordinatorResponse(
            coordinators=tuple(_find(core, key, message.key_type) for key in keys)
        )
    found = _find(core, message.key, message.key_type)
    return wire.FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(core: BrokerCore, key: str, key_type: int) -> wire.Coordinator:
    if key_type != GROUP:
        return _none(key, ErrorCode.INVALID_REQUEST, "this cluster coordinates consumer groups only")
    if core.image.topic(TOPIC) is None:
        core.offsets.create()
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    state = core.image.partition(TOPIC, core.offsets.coordinator.partition_for(key))
    leader = None if state is None else core.image.broker(state.leader)
    if leader is None or leader.fenced or not leader.client_endpoints:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    endpoint = leader.client_endpoints[0]
    return wire.Coordinator(
        key=key, node_id=leader.id, host=endpoint.host, port=endpoint.port, error_message=""
    )


def _none(key: str, error: ErrorCode, reason: str | None) -> wire.Coordinator:
    return wire.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=reason)

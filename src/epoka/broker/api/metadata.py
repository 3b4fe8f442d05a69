"""Metadata: the brokers that clients may use and where partitions live, all from one state of the image.

Fenced brokers are not shown. Topics that are asked for and missing are made where that is allowed; the client
asks again until they are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from epoka.broker.api._topics import INTERNAL, UNKNOWN_OPERATIONS
from epoka.model.events import CONTROLLER, Request
from epoka.model.ids import is_topic_name
from epoka.model.partitions import PartitionState
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import create_topics
from epoka.wire.messages import metadata as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.MetadataRequest
VERSIONS = (0, 12)

NO_ID = UUID(int=0)


def handle(core: BrokerCore, request: Request, now: int) -> wire.MetadataResponse:
    message: wire.MetadataRequest = request.message
    everything = message.topics is None or (request.version == 0 and not message.topics)
    if everything:
        topics = [_topic(core, topic.name, topic.id) for topic in core.image.topics()]
    else:
        # A topic is told of once, however often it is named: answers stay in proportion to what there is.
        keys = dict.fromkeys(_key(asked, request.version) for asked in message.topics or ())
        topics = [_asked(core, key, request) for key in keys]
    brokers = tuple(_brokers(core))
    return wire.MetadataResponse(
        brokers=brokers,
        cluster_id=core.config.cluster_id,
        controller_id=brokers[0].node_id if brokers else -1,
        topics=tuple(topics),
    )


def _brokers(core: BrokerCore) -> list[wire.MetadataResponseBroker]:
    found = []
    for registration in core.image.brokers.values():
        endpoints = registration.client_endpoints
        if not registration.fenced and endpoints:
            found.append(
                wire.MetadataResponseBroker(
                    node_id=registration.id,
                    host=endpoints[0].host,
                    port=endpoints[0].port,
                    rack=registration.rack,
                )
            )
    return found


def _key(asked: wire.MetadataRequestTopic, version: int) -> UUID | str:
    """What names the topic: its id, where that is given, and otherwise its name."""
    if asked.name is None or (version >= 10 and asked.topic_id != NO_ID):
        return asked.topic_id
    return asked.name


def _asked(core: BrokerCore, key: UUID | str, request: Request) -> wire.MetadataResponseTopic:
    known = core.image.topic(key)
    if known is not None:
        return _topic(core, known.name, known.id)
    if isinstance(key, UUID):
        # Before version 12 a topic in an answer has to have a name.
        return _missing(ErrorCode.UNKNOWN_TOPIC_ID, None if request.version >= 12 else "", key)
    if not is_topic_name(key):
        return _missing(ErrorCode.INVALID_TOPIC_EXCEPTION, key)
    if core.config.auto_create_topics and (request.version < 4 or request.message.allow_auto_topic_creation):
        _create(core, key)
        return _missing(ErrorCode.LEADER_NOT_AVAILABLE, key)
    return _missing(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, key)


def _create(core: BrokerCore, name: str) -> None:
    if name in core.creating:
        return
    if name in INTERNAL:
        core.offsets.create()
        return
    core.creating.add(name)

    def answered(reply: Any, now: int) -> None:
        core.creating.discard(name)

    topic = create_topics.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    core.send(
        CONTROLLER,
        create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=core.config.request_timeout_ms),
        7,
        answered,
    )


def _missing(error: ErrorCode, name: str | None, topic_id: UUID = NO_ID) -> wire.MetadataResponseTopic:
    return wire.MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id)


def _topic(core: BrokerCore, name: str, topic_id: UUID) -> wire.MetadataResponseTopic:
    return wire.MetadataResponseTopic(
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL,
        partitions=tuple(
            _partition(core, index, state) for index, state in core.image.partitions_of(topic_id)
        ),
        topic_authorized_operations=UNKNOWN_OPERATIONS,
    )


def _partition(core: BrokerCore, index: int, state: PartitionState) -> wire.MetadataResponsePartition:
    brokers = core.image.brokers
    offline = tuple(each for each in state.replicas if each not in brokers or brokers[each].fenced)
    leader = state.leader
    error = ErrorCode.NONE
    if leader < 0 or leader in offline:
        leader, error = -1, ErrorCode.LEADER_NOT_AVAILABLE  # type: ignore[assignment]
    return wire.MetadataResponsePartition(
        error, index, leader, state.leader_epoch, state.replicas, state.isr, offline
    )

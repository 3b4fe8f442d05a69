"""Produce: record batches stay bytes from the socket to the log.

acks=0 is not answered (a refusal closes the connection, the only way to say so), acks=1 when the leader has
appended, acks=all when the high watermark has passed the records. What comes behind a refused batch of the
same producer is refused, too (`broker/pipelines.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._topics import may_write
from epoka.broker.replica import Replica
from epoka.broker.waiting import ProduceWait, Written
from epoka.log.partition_log import Refused
from epoka.model.events import Hangup, Request
from epoka.wire import records
from epoka.wire.compression import Codec
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import produce as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.ProduceRequest
VERSIONS = (3, 11)
ADVERTISED_FROM = 0

ALL = -1
ZSTD_SINCE = 7


def refuse(core: BrokerCore, request: Request) -> wire.ProduceResponse | None:
    message: wire.ProduceRequest = request.message
    if message.acks == 0:
        return None
    error, connection = ErrorCode.NOT_LEADER_OR_FOLLOWER, request.peer.connection
    for topic in message.topic_data:
        for partition in topic.partition_data:
            core.pipelines.refused(connection, (topic.name, partition.index), partition.records, error)
    return _response(_every(message, error))


def handle(core: BrokerCore, request: Request, now: int) -> wire.ProduceResponse | None:
    message: wire.ProduceRequest = request.message
    acks = message.acks
    if acks not in (0, 1, ALL):
        return _response(_every(message, ErrorCode.INVALID_REQUIRED_ACKS))
    if message.transactional_id is not None:
        return _response(_every(message, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    done: list[Written] = []
    waiting: list[tuple[Replica, Written]] = []
    touched: list[tuple[Replica, int]] = []
    connection = request.peer.connection
    for topic in message.topic_data:
        name = topic.name
        allowed = may_write(name, request.peer)
        for partition in topic.partition_data:
            if not allowed:
                done.append(Written(name, partition.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                continue
            replica = core.replicas.by_name.get((name, partition.index))
            if replica is None:
                written = Written(name, partition.index, core.replicas.missing(name, partition.index))
            else:
                written = _append(core, replica, partition.records, request, now)
            done.append(written)
            if written.error != ErrorCode.NONE:
                core.pipelines.refused(connection, (name, partition.index), partition.records, written.error)
            elif replica is not None:
                core.pipelines.taken(connection, (name, partition.index))
                touched.append((replica, len(partition.records or b"")))
                if acks == ALL and replica.high_watermark < written.required:
                    waiting.append((replica, written))
    if acks == ALL and waiting:
        _park(core, request, done, waiting, message.timeout_ms, now)
    for replica, size in touched:
        replica.appended(size)
        core.replicas.advance_high_watermark(replica, now)
    if acks == ALL and waiting:
        return None
    if acks == 0:
        refused = next((each for each in done if each.error != ErrorCode.NONE), None)
        if refused is None:
            core.respond(request, None)
        else:
            core.emit(
                Hangup(
                    request.token, f"acks=0 produce to {refused.topic}-{refused.index}: {refused.error.name}"
                )
            )
        return None
    return _response(done)


def _append(core: BrokerCore, replica: Replica, batches: object, request: Request, now: int) -> Written:
    topic, index = replica.topic, replica.index
    leadership = replica.leadership
    if leadership is None:
        return Written(topic, index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if request.message.acks == ALL and len(leadership.isr) < min(replica.min_isr, len(leadership.replicas)):
        return Written(topic, index, ErrorCode.NOT_ENOUGH_REPLICAS)
    if core.replicas.offline_reason is not None:
        return Written(topic, index, ErrorCode.KAFKA_STORAGE_ERROR, reason=core.replicas.offline_reason)
    if not isinstance(batches, memoryview):
        return Written(topic, index, ErrorCode.INVALID_RECORD, reason="no records")
    log = replica.log
    try:
        headers = records.validate(batches, max_batch_bytes=log.config.max_message_bytes)
    except records.RecordError as error:
        return Written(topic, index, error.code, reason=error.reason)
    if request.version < ZSTD_SINCE and any(header.codec == Codec.ZSTD for header in headers):
        return Written(topic, index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, reason="zstd needs version 7")
    earlier = core.pipelines.waits_for(request.peer.connection, (topic, index), headers[0], log.producers)
    if earlier is not None:
        return Written(topic, index, earlier.error, reason=f"sequence {earlier.sequence} comes before it")
    appended = log.append_as_leader(batches, headers, replica.leader_epoch, now)
    if isinstance(appended, Refused):
        core.replicas.append_refused(replica, appended, now)
        return Written(topic, index, appended.code, reason=appended.reason)
    written = Written(
        topic,
        index,
        base_offset=appended.base_offset,
        append_time_ms=appended.log_append_time_ms,
        log_start_offset=appended.log_start_offset,
    )
    written.required = appended.last_offset + 1
    return written


def _park(
    core: BrokerCore,
    request: Request,
    done: list[Written],
    waiting: list[tuple[Replica, Written]],
    timeout_ms: int,
    now: int,
) -> None:
    wait = ProduceWait(lambda: core.respond(request, _response(done)))
    for replica, written in waiting:
        wait.open[id(written)] = written
        replica.waits.produces.append((written, wait))
    wait.deadline = core.deadlines.at(now + max(timeout_ms, 0), wait.expire)


def _every(message: wire.ProduceRequest, error: ErrorCode) -> list[Written]:
    return [
        Written(topic.name, partition.index, error)
        for topic in message.topic_data
        for partition in topic.partition_data
    ]


def _response(done: list[Written]) -> wire.ProduceResponse:
    topics: dict[str, list[wire.PartitionProduceResponse]] = {}
    for each in done:
        topics.setdefault(each.topic, []).append(
            wire.PartitionProduceResponse(
                index=each.index,
                error_code=each.error,
                base_offset=each.base_offset,
                log_append_time_ms=each.append_time_ms,
                log_start_offset=each.log_start_offset,
                error_message=each.reason,
            )
        )
    return wire.ProduceResponse(
        responses=tuple(
            wire.TopicProduceResponse(name=name, partition_responses=tuple(partitions))
            for name, partitions in topics.items()
        )
    )

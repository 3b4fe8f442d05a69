"""ListOffsets: the offset of a time, of the log's start, of its end, or of its newest record.

An onlooker, who names itself with -2 as in Kafka, is told of whatever replica lies here, led or not, up to
its own end: that is how one sees how far each replica has come.

A new leader learns the high watermark from its followers' first fetches. Until it has reached the start of
this leader epoch it may lie below what clients have read, so nothing is said about the end (KIP-207).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._topics import led
from epoka.broker.replica import Replica
from epoka.model.events import Request
from epoka.model.ids import ONLOOKER
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import list_offsets as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.ListOffsetsRequest
VERSIONS = (1, 9)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
SINCE_NOT_AVAILABLE = 5
"""From this version on clients know OFFSET_NOT_AVAILABLE."""


def refuse(core: BrokerCore, request: Request) -> wire.ListOffsetsResponse:
    return _response(request.message, lambda topic, asked: _failed(asked, ErrorCode.NOT_LEADER_OR_FOLLOWER))


def handle(core: BrokerCore, request: Request, now: int) -> wire.ListOffsetsResponse:
    onlooker = request.message.replica_id == ONLOOKER
    to_the_end = onlooker or (request.message.replica_id >= 0 and request.peer.control)

    def find(topic: str, asked: wire.ListOffsetsPartition) -> wire.ListOffsetsPartitionResponse:
        replica, error = led(core, topic, asked.partition_index, asked.current_leader_epoch)
        if replica is None or (error != ErrorCode.NONE and not onlooker):
            return _failed(asked, error)
        if to_the_end:
            return _find(replica, asked, replica.log.end_offset)
        found = _find(replica, asked, replica.high_watermark)
        if _depends_on_the_end(asked, found) and _is_behind(replica):
            known = request.version >= SINCE_NOT_AVAILABLE
            return _failed(asked, ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE)
        return found

    return _response(request.message, find)


def _find(
    replica: Replica, asked: wire.ListOffsetsPartition, up_to: int
) -> wire.ListOffsetsPartitionResponse:
    log = replica.log
    index, timestamp = asked.partition_index, asked.timestamp
    if timestamp == LATEST:
        return _found(index, -1, up_to, replica.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epochs.epoch_of(log.log_start_offset)
        return _found(index, -1, log.log_start_offset, epoch)
    if timestamp == LATEST_TIERED:
        return _found(index, -1, -1, -1)
    if timestamp == MAX_TIMESTAMP:
        newest = log.max_timestamp_offset(up_to)
        return _found(index, -1, -1, -1) if newest is None else _found(index, newest[1], newest[0], newest[2])
    if timestamp < 0:
        return _failed(asked, ErrorCode.UNSUPPORTED_VERSION)
    at = log.offset_for_timestamp(timestamp, up_to)
    return _found(index, -1, -1, -1) if at is None else _found(index, at[1], at[0], at[2])


def _depends_on_the_end(asked: wire.ListOffsetsPartition, found: wire.ListOffsetsPartitionResponse) -> bool:
    if asked.timestamp < 0:
        return asked.timestamp in (LATEST, MAX_TIMESTAMP)
    return found.offset < 0


def _is_behind(replica: Replica) -> bool:
    leadership = replica.leadership
    return leadership is not None and replica.high_watermark < leadership.start_offset


def _found(index: int, timestamp: int, offset: int, leader_epoch: int) -> wire.ListOffsetsPartitionResponse:
    return wire.ListOffsetsPartitionResponse(
        partition_index=index, timestamp=timestamp, offset=offset, leader_epoch=leader_epoch
    )


def _failed(asked: wire.ListOffsetsPartition, error: ErrorCode) -> wire.ListOffsetsPartitionResponse:
    return wire.ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)


def _response(message: wire.ListOffsetsRequest, find) -> wire.ListOffsetsResponse:  # type: ignore[no-untyped-def]
    return wire.ListOffsetsResponse(
        topics=tuple(
            wire.ListOffsetsTopicResponse(
                name=topic.name, partitions=tuple(find(topic.name, asked) for asked in topic.partitions)
            )
            for topic in message.topics
        )
    )

"""OffsetForLeaderEpoch: where a leader epoch ended, so that a reader notices that its log was cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._topics import led
from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import offset_for_leader_epoch as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.OffsetForLeaderEpochRequest
VERSIONS = (2, 4)


def handle(core: BrokerCore, request: Request, now: int) -> wire.OffsetForLeaderEpochResponse:
    message: wire.OffsetForLeaderEpochRequest = request.message
    return wire.OffsetForLeaderEpochResponse(
        topics=tuple(
            wire.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_end(core, topic.topic, asked) for asked in topic.partitions),
            )
            for topic in message.topics
        )
    )


def _end(core: BrokerCore, topic: str, asked: wire.OffsetForLeaderPartition) -> wire.EpochEndOffset:
    replica, error = led(core, topic, asked.partition, asked.current_leader_epoch)
    if replica is None or error != ErrorCode.NONE:
        return wire.EpochEndOffset(error_code=error, partition=asked.partition)
    if asked.leader_epoch == replica.leader_epoch:
        epoch, end_offset = replica.leader_epoch, replica.log.end_offset
    else:
        epoch, end_offset = replica.log.end_offset_for_epoch(asked.leader_epoch)
    return wire.EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)

"""DeleteRecords: move the start of a log forward, never past the high watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._topics import INTERNAL, led
from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import delete_records as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.DeleteRecordsRequest
VERSIONS = (0, 2)

UP_TO_HIGH_WATERMARK = -1


def handle(core: BrokerCore, request: Request, now: int) -> wire.DeleteRecordsResponse:
    message: wire.DeleteRecordsRequest = request.message
    return wire.DeleteRecordsResponse(
        topics=tuple(
            wire.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(_delete(core, topic.name, asked) for asked in topic.partitions),
            )
            for topic in message.topics
        )
    )


def _delete(
    core: BrokerCore, topic: str, asked: wire.DeleteRecordsPartition
) -> wire.DeleteRecordsPartitionResult:
    index = asked.partition_index
    if topic in INTERNAL:
        return _result(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    replica, error = led(core, topic, index)
    if replica is None or error != ErrorCode.NONE:
        return _result(index, error)
    if "delete" not in replica.log.config.cleanup_policy:
        return _result(index, ErrorCode.POLICY_VIOLATION)
    offset = replica.high_watermark if asked.offset == UP_TO_HIGH_WATERMARK else asked.offset
    if offset < 0 or offset > replica.high_watermark:
        return _result(index, ErrorCode.OFFSET_OUT_OF_RANGE)
    return _result(index, ErrorCode.NONE, replica.log.delete_records_before(offset))


def _result(index: int, error: ErrorCode, low_watermark: int = -1) -> wire.DeleteRecordsPartitionResult:
    return wire.DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=low_watermark, error_code=error
    )

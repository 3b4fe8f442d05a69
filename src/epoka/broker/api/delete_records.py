"""DeleteRecords: move the start of a log forward, never past the high watermark.

It is answered when the logs of all in-sync replicas start there: whoever leads next must not show again what
was said to be deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._topics import INTERNAL, led
from epoka.broker.waiting import Deleted, DeleteWait
from epoka.log.store import StorageError
from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import delete_records as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.DeleteRecordsRequest
VERSIONS = (0, 2)

UP_TO_HIGH_WATERMARK = -1


def handle(core: BrokerCore, request: Request, now: int) -> wire.DeleteRecordsResponse | None:
    message: wire.DeleteRecordsRequest = request.message
    wait = DeleteWait(lambda: core.respond(request, _response(done)))
    done = [
        (topic.name, [_delete(core, topic.name, asked, wait) for asked in topic.partitions])
        for topic in message.topics
    ]
    if not wait.filed:
        return _response(done)
    wait.deadline = core.deadlines.at(now + max(message.timeout_ms, 0), wait.end)
    core.wait(request, wait.cancel)
    return None


def _delete(core: BrokerCore, topic: str, asked: wire.DeleteRecordsPartition, wait: DeleteWait) -> Deleted:
    index = asked.partition_index
    if topic in INTERNAL:
        return Deleted(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    replica, error = led(core, topic, index)
    if replica is None or replica.leadership is None:
        return Deleted(index, error)
    if "delete" not in replica.log.config.cleanup_policy:
        return Deleted(index, ErrorCode.POLICY_VIOLATION)
    offset = replica.high_watermark if asked.offset == UP_TO_HIGH_WATERMARK else asked.offset
    if offset < 0 or offset > replica.high_watermark:
        return Deleted(index, ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        replica.raise_log_start(offset)
    except StorageError as failure:
        core.replicas.storage_failed(str(failure), core.now)
        return Deleted(index, ErrorCode.KAFKA_STORAGE_ERROR)
    low_watermark = replica.leadership.low_watermark(replica.log.log_start_offset)
    if low_watermark >= offset:
        return Deleted(index, ErrorCode.NONE, low_watermark)
    # What becomes of it unless the followers come in time.
    deleted = Deleted(index, ErrorCode.REQUEST_TIMED_OUT, required=offset)
    wait.file_under(replica.waits.deletes, deleted)
    return deleted


def _response(done: list[tuple[str, list[Deleted]]]) -> wire.DeleteRecordsResponse:
    return wire.DeleteRecordsResponse(
        topics=tuple(
            wire.DeleteRecordsTopicResult(
                name=name,
                partitions=tuple(
                    wire.DeleteRecordsPartitionResult(
                        partition_index=each.index,
                        low_watermark=each.low_watermark,
                        error_code=each.error,
                    )
                    for each in parts
                ),
            )
            for name, parts in done
        )
    )

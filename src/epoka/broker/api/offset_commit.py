"""OffsetCommit: how far a group has read; answered when that is committed itself.

Offsets of partitions that do not exist are refused here: the coordinator knows groups, not topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import offset_commit as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.OffsetCommitRequest
VERSIONS = (2, 9)

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def handle(core: BrokerCore, request: Request, now: int) -> None:
    message: wire.OffsetCommitRequest = request.message
    unknown = {
        (topic.name, partition.partition_index)
        for topic in message.topics
        for partition in topic.partitions
        if core.image.partition(topic.name, partition.partition_index) is None
    }
    if not unknown:
        core.offsets.ask(request, core.offsets.coordinator.offset_commit)
        return
    known = msgspec.structs.replace(
        message,
        topics=tuple(
            msgspec.structs.replace(
                topic,
                partitions=tuple(
                    each for each in topic.partitions if (topic.name, each.partition_index) not in unknown
                ),
            )
            for topic in message.topics
        ),
    )

    def complete(answer: wire.OffsetCommitResponse) -> wire.OffsetCommitResponse:
        errors = {
            (topic.name, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
        return wire.OffsetCommitResponse(
            topics=tuple(
                wire.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        wire.OffsetCommitResponsePartition(
                            partition_index=each.partition_index,
                            error_code=errors.get((topic.name, each.partition_index), UNKNOWN),
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in message.topics
            )
        )

    core.offsets.ask(request, core.offsets.coordinator.offset_commit, message=known, complete=complete)

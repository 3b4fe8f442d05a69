# Generated from schemas/offset_for_leader_epoch.msg by epoka.wire.generate; do not edit.

"""OffsetForLeaderEpoch: where a leader epoch ended, so that a follower or a consumer can cut back to it."""

from typing import ClassVar

import msgspec

__all__ = [
    "EpochEndOffset",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "OffsetForLeaderPartition",
    "OffsetForLeaderTopic",
    "OffsetForLeaderTopicResult",
]


class OffsetForLeaderPartition(msgspec.Struct, frozen=True, gc=False):
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


class OffsetForLeaderTopic(msgspec.Struct, frozen=True, gc=False):
    topic: str = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


class OffsetForLeaderEpochRequest(msgspec.Struct, frozen=True, gc=False):
    """OffsetForLeaderEpochRequest, versions 2 to 4, flexible from 4."""

    API_KEY: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "OffsetForLeaderEpochRequest"

    # -1 a consumer, -2 unknown
    replica_id: int = -2
    topics: tuple[OffsetForLeaderTopic, ...] = ()


class EpochEndOffset(msgspec.Struct, frozen=True, gc=False):
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


class OffsetForLeaderTopicResult(msgspec.Struct, frozen=True, gc=False):
    topic: str = ""
    partitions: tuple[EpochEndOffset, ...] = ()


class OffsetForLeaderEpochResponse(msgspec.Struct, frozen=True, gc=False):
    """OffsetForLeaderEpochResponse, versions 2 to 4, flexible from 4."""

    API_KEY: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "OffsetForLeaderEpochResponse"

    throttle_time_ms: int = 0
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()

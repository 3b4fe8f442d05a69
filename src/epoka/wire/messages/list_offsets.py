# Generated from schemas/list_offsets.msg by epoka.wire.generate; do not edit.

"""ListOffsets: the offset of a time stamp, of the log's start or of its end.

The special times are -1 latest, -2 earliest, -3 the record with the largest time stamp (7+), -4 earliest
local (8+) and -5 latest tiered (9+).
"""

from typing import ClassVar

import msgspec

__all__ = [
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
]


class ListOffsetsPartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0


class ListOffsetsTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsRequest(msgspec.Struct, frozen=True, gc=False):
    """ListOffsetsRequest, versions 1 to 9, flexible from 6."""

    API_KEY: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int | None] = 6
    NAME: ClassVar[str] = "ListOffsetsRequest"

    # -1 for a consumer
    replica_id: int = -1
    isolation_level: int = 0
    topics: tuple[ListOffsetsTopic, ...] = ()


class ListOffsetsPartitionResponse(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class ListOffsetsTopicResponse(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsResponse(msgspec.Struct, frozen=True, gc=False):
    """ListOffsetsResponse, versions 1 to 9, flexible from 6."""

    API_KEY: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int | None] = 6
    NAME: ClassVar[str] = "ListOffsetsResponse"

    throttle_time_ms: int = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()

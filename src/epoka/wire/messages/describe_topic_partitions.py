# Generated from schemas/describe_topic_partitions.msg by epoka.wire.generate; do not edit.

"""DescribeTopicPartitions: topics page by page; the cursor says where the next page begins."""

from typing import ClassVar
from uuid import UUID

import msgspec

from epoka.wire.notation import ZERO_UUID

__all__ = [
    "DescribeTopicPartitionsCursor",
    "DescribeTopicPartitionsNextCursor",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTopicPartitionsResponsePartition",
    "DescribeTopicPartitionsResponseTopic",
    "DescribeTopicPartitionsTopic",
]


class DescribeTopicPartitionsTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class DescribeTopicPartitionsCursor(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    partition_index: int = 0


class DescribeTopicPartitionsRequest(msgspec.Struct, frozen=True, gc=False):
    """DescribeTopicPartitionsRequest, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 75
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "DescribeTopicPartitionsRequest"

    topics: tuple[DescribeTopicPartitionsTopic, ...] = ()
    response_partition_limit: int = 2000
    cursor: DescribeTopicPartitionsCursor | None = None


class DescribeTopicPartitionsResponsePartition(msgspec.Struct, frozen=True, gc=False):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] = ()


class DescribeTopicPartitionsResponseTopic(msgspec.Struct, frozen=True, gc=False):
    error_code: int = 0
    name: str | None = ""
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: int = -2147483648


class DescribeTopicPartitionsNextCursor(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    partition_index: int = 0


class DescribeTopicPartitionsResponse(msgspec.Struct, frozen=True, gc=False):
    """DescribeTopicPartitionsResponse, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 75
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "DescribeTopicPartitionsResponse"

    throttle_time_ms: int = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: DescribeTopicPartitionsNextCursor | None = None

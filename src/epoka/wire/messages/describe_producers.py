# Generated from schemas/describe_producers.msg by epoka.wire.generate; do not edit.

"""DescribeProducers: the producers that a leader remembers for its partitions."""

from typing import ClassVar

import msgspec

__all__ = [
    "DescribeProducersPartitionResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeProducersTopic",
    "DescribeProducersTopicResponse",
    "ProducerState",
]


class DescribeProducersTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class DescribeProducersRequest(msgspec.Struct, frozen=True, gc=False):
    """DescribeProducersRequest, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 61
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "DescribeProducersRequest"

    topics: tuple[DescribeProducersTopic, ...] = ()


class ProducerState(msgspec.Struct, frozen=True, gc=False):
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


class DescribeProducersPartitionResponse(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


class DescribeProducersTopicResponse(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[DescribeProducersPartitionResponse, ...] = ()


class DescribeProducersResponse(msgspec.Struct, frozen=True, gc=False):
    """DescribeProducersResponse, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 61
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "DescribeProducersResponse"

    throttle_time_ms: int = 0
    topics: tuple[DescribeProducersTopicResponse, ...] = ()

# Generated from schemas/list_partition_reassignments.msg by epoka.wire.generate; do not edit.

"""ListPartitionReassignments: the moves of partitions that are under way."""

from typing import ClassVar

import msgspec

__all__ = [
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListPartitionReassignmentsTopics",
    "OngoingPartitionReassignment",
    "OngoingTopicReassignment",
]


class ListPartitionReassignmentsTopics(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class ListPartitionReassignmentsRequest(msgspec.Struct, frozen=True, gc=False):
    """ListPartitionReassignmentsRequest, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 46
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "ListPartitionReassignmentsRequest"

    timeout_ms: int = 60000
    # null asks for every topic
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


class OngoingPartitionReassignment(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class OngoingTopicReassignment(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


class ListPartitionReassignmentsResponse(msgspec.Struct, frozen=True, gc=False):
    """ListPartitionReassignmentsResponse, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 46
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "ListPartitionReassignmentsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...] = ()

# Generated from schemas/alter_partition_reassignments.msg by epoka.wire.generate; do not edit.

"""AlterPartitionReassignments: begin, change or cancel moves of partitions between brokers."""

from typing import ClassVar

import msgspec

__all__ = [
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "ReassignablePartition",
    "ReassignablePartitionResponse",
    "ReassignableTopic",
    "ReassignableTopicResponse",
]


class ReassignablePartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    # null cancels a move under way
    replicas: tuple[int, ...] | None = None


class ReassignableTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


class AlterPartitionReassignmentsRequest(msgspec.Struct, frozen=True, gc=False):
    """AlterPartitionReassignmentsRequest, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 45
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "AlterPartitionReassignmentsRequest"

    timeout_ms: int = 60000
    topics: tuple[ReassignableTopic, ...] = ()


class ReassignablePartitionResponse(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


class ReassignableTopicResponse(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


class AlterPartitionReassignmentsResponse(msgspec.Struct, frozen=True, gc=False):
    """AlterPartitionReassignmentsResponse, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 45
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "AlterPartitionReassignmentsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...] = ()

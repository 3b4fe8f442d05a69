# Generated from schemas/create_partitions.msg by epoka.wire.generate; do not edit.

"""CreatePartitions: raise the partition count of topics."""

from typing import ClassVar

import msgspec

__all__ = [
    "CreatePartitionsAssignment",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreatePartitionsTopic",
    "CreatePartitionsTopicResult",
]


class CreatePartitionsAssignment(msgspec.Struct, frozen=True, gc=False):
    broker_ids: tuple[int, ...] = ()


class CreatePartitionsTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    # the new total
    count: int = 0
    assignments: tuple[CreatePartitionsAssignment, ...] | None = None


class CreatePartitionsRequest(msgspec.Struct, frozen=True, gc=False):
    """CreatePartitionsRequest, versions 0 to 3, flexible from 2."""

    API_KEY: ClassVar[int] = 37
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "CreatePartitionsRequest"

    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: int = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    error_code: int = 0
    error_message: str | None = None


class CreatePartitionsResponse(msgspec.Struct, frozen=True, gc=False):
    """CreatePartitionsResponse, versions 0 to 3, flexible from 2."""

    API_KEY: ClassVar[int] = 37
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "CreatePartitionsResponse"

    throttle_time_ms: int = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()

# Generated from schemas/offset_delete.msg by epoka.wire.generate; do not edit.

"""OffsetDelete: forget a group's offsets of partitions it no longer reads."""

from typing import ClassVar

import msgspec

__all__ = [
    "OffsetDeleteRequest",
    "OffsetDeleteRequestPartition",
    "OffsetDeleteRequestTopic",
    "OffsetDeleteResponse",
    "OffsetDeleteResponsePartition",
    "OffsetDeleteResponseTopic",
]


class OffsetDeleteRequestPartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0


class OffsetDeleteRequestTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


class OffsetDeleteRequest(msgspec.Struct, frozen=True, gc=False):
    """OffsetDeleteRequest, version 0."""

    API_KEY: ClassVar[int] = 47
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "OffsetDeleteRequest"

    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()


class OffsetDeleteResponsePartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    error_code: int = 0


class OffsetDeleteResponseTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


class OffsetDeleteResponse(msgspec.Struct, frozen=True, gc=False):
    """OffsetDeleteResponse, version 0."""

    API_KEY: ClassVar[int] = 47
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "OffsetDeleteResponse"

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()

# Generated from schemas/offset_fetch.msg by epoka.wire.generate; do not edit.

"""OffsetFetch: the offsets that groups have committed.

Up to version 7 a request names one group; from version 8 it names many, each with its own answer.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopic",
    "OffsetFetchRequestTopics",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponseTopics",
]


class OffsetFetchRequestTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class OffsetFetchRequestTopics(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class OffsetFetchRequestGroup(msgspec.Struct, frozen=True, gc=False):
    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None = ()


class OffsetFetchRequest(msgspec.Struct, frozen=True, gc=False):
    """OffsetFetchRequest, versions 1 to 9, flexible from 6."""

    API_KEY: ClassVar[int] = 9
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int | None] = 6
    NAME: ClassVar[str] = "OffsetFetchRequest"

    group_id: str = ""
    # null asks for every topic of the group
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()
    groups: tuple[OffsetFetchRequestGroup, ...] = ()
    require_stable: bool = False


class OffsetFetchResponsePartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


class OffsetFetchResponseTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()


class OffsetFetchResponsePartitions(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


class OffsetFetchResponseTopics(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()


class OffsetFetchResponseGroup(msgspec.Struct, frozen=True, gc=False):
    group_id: str = ""
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: int = 0


class OffsetFetchResponse(msgspec.Struct, frozen=True, gc=False):
    """OffsetFetchResponse, versions 1 to 9, flexible from 6."""

    API_KEY: ClassVar[int] = 9
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int | None] = 6
    NAME: ClassVar[str] = "OffsetFetchResponse"

    throttle_time_ms: int = 0
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: int = 0
    groups: tuple[OffsetFetchResponseGroup, ...] = ()

# Generated from schemas/offset_commit.msg by epoka.wire.generate; do not edit.

"""OffsetCommit: a group member stores how far it has read."""

from typing import ClassVar

import msgspec

__all__ = [
    "OffsetCommitRequest",
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitResponse",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
]


class OffsetCommitRequestPartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


class OffsetCommitRequest(msgspec.Struct, frozen=True, gc=False):
    """OffsetCommitRequest, versions 2 to 9, flexible from 8."""

    API_KEY: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int | None] = 8
    NAME: ClassVar[str] = "OffsetCommitRequest"

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


class OffsetCommitResponsePartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    error_code: int = 0


class OffsetCommitResponseTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


class OffsetCommitResponse(msgspec.Struct, frozen=True, gc=False):
    """OffsetCommitResponse, versions 2 to 9, flexible from 8."""

    API_KEY: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int | None] = 8
    NAME: ClassVar[str] = "OffsetCommitResponse"

    throttle_time_ms: int = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()

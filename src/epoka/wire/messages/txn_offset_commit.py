# Generated from schemas/txn_offset_commit.msg by epoka.wire.generate; do not edit.

"""TxnOffsetCommit: offsets that become visible when the producer's transaction commits."""

from typing import ClassVar

import msgspec

__all__ = [
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitRequestPartition",
    "TxnOffsetCommitRequestTopic",
    "TxnOffsetCommitResponse",
    "TxnOffsetCommitResponsePartition",
    "TxnOffsetCommitResponseTopic",
]


class TxnOffsetCommitRequestPartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


class TxnOffsetCommitRequestTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


class TxnOffsetCommitRequest(msgspec.Struct, frozen=True, gc=False):
    """TxnOffsetCommitRequest, versions 0 to 3, flexible from 3."""

    API_KEY: ClassVar[int] = 28
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "TxnOffsetCommitRequest"

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


class TxnOffsetCommitResponsePartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    error_code: int = 0


class TxnOffsetCommitResponseTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


class TxnOffsetCommitResponse(msgspec.Struct, frozen=True, gc=False):
    """TxnOffsetCommitResponse, versions 0 to 3, flexible from 3."""

    API_KEY: ClassVar[int] = 28
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "TxnOffsetCommitResponse"

    throttle_time_ms: int = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()

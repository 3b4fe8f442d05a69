# Generated from schemas/delete_records.msg by epoka.wire.generate; do not edit.

"""DeleteRecords: move the start of partitions' logs forward; -1 means up to the high watermark."""

from typing import ClassVar

import msgspec

__all__ = [
    "DeleteRecordsPartition",
    "DeleteRecordsPartitionResult",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteRecordsTopic",
    "DeleteRecordsTopicResult",
]


class DeleteRecordsPartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    offset: int = 0


class DeleteRecordsTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


class DeleteRecordsRequest(msgspec.Struct, frozen=True, gc=False):
    """DeleteRecordsRequest, versions 0 to 2, flexible from 2."""

    API_KEY: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "DeleteRecordsRequest"

    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: int = 0


class DeleteRecordsPartitionResult(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


class DeleteRecordsTopicResult(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


class DeleteRecordsResponse(msgspec.Struct, frozen=True, gc=False):
    """DeleteRecordsResponse, versions 0 to 2, flexible from 2."""

    API_KEY: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "DeleteRecordsResponse"

    throttle_time_ms: int = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()

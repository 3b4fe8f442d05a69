# Generated from schemas/describe_log_dirs.msg by epoka.wire.generate; do not edit.

"""DescribeLogDirs: what lies in a broker's log directories, and how large it is."""

from typing import ClassVar

import msgspec

__all__ = [
    "DescribableLogDirTopic",
    "DescribeLogDirsPartition",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeLogDirsResult",
    "DescribeLogDirsTopic",
]


class DescribableLogDirTopic(msgspec.Struct, frozen=True, gc=False):
    topic: str = ""
    partitions: tuple[int, ...] = ()


class DescribeLogDirsRequest(msgspec.Struct, frozen=True, gc=False):
    """DescribeLogDirsRequest, versions 1 to 4, flexible from 2."""

    API_KEY: ClassVar[int] = 35
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "DescribeLogDirsRequest"

    # null asks for every partition
    topics: tuple[DescribableLogDirTopic, ...] | None = None


class DescribeLogDirsPartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsResult(msgspec.Struct, frozen=True, gc=False):
    error_code: int = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: int = -1
    usable_bytes: int = -1


class DescribeLogDirsResponse(msgspec.Struct, frozen=True, gc=False):
    """DescribeLogDirsResponse, versions 1 to 4, flexible from 2."""

    API_KEY: ClassVar[int] = 35
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "DescribeLogDirsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    results: tuple[DescribeLogDirsResult, ...] = ()

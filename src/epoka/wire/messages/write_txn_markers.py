# Generated from schemas/write_txn_markers.msg by epoka.wire.generate; do not edit.

"""WriteTxnMarkers: a transaction coordinator has leaders write the outcome into their logs."""

from typing import ClassVar

import msgspec

__all__ = [
    "WritableTxnMarker",
    "WritableTxnMarkerPartitionResult",
    "WritableTxnMarkerResult",
    "WritableTxnMarkerTopic",
    "WritableTxnMarkerTopicResult",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]


class WritableTxnMarkerTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class WritableTxnMarker(msgspec.Struct, frozen=True, gc=False):
    producer_id: int = 0
    producer_epoch: int = 0
    # true commits, false aborts
    transaction_result: bool = False
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: int = 0


class WriteTxnMarkersRequest(msgspec.Struct, frozen=True, gc=False):
    """WriteTxnMarkersRequest, version 1, flexible from 1."""

    API_KEY: ClassVar[int] = 27
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1
    NAME: ClassVar[str] = "WriteTxnMarkersRequest"

    markers: tuple[WritableTxnMarker, ...] = ()


class WritableTxnMarkerPartitionResult(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    error_code: int = 0


class WritableTxnMarkerTopicResult(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


class WritableTxnMarkerResult(msgspec.Struct, frozen=True, gc=False):
    producer_id: int = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


class WriteTxnMarkersResponse(msgspec.Struct, frozen=True, gc=False):
    """WriteTxnMarkersResponse, version 1, flexible from 1."""

    API_KEY: ClassVar[int] = 27
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1
    NAME: ClassVar[str] = "WriteTxnMarkersResponse"

    markers: tuple[WritableTxnMarkerResult, ...] = ()

# Generated from schemas/fetch_metadata.msg by epoka.wire.generate; do not edit.

"""FetchMetadata: a broker or a standby controller reads the metadata log.

Ours. The controller waits up to max_wait_ms for records at from_offset. When that offset is no longer kept it
answers with a whole snapshot, which replaces everything the reader has. An onlooker may ask
for what no log holds beside it: how long ago each broker was heard of.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "FetchMetadataRequest",
    "FetchMetadataResponse",
    "LastHeartbeat",
    "MetadataRecordEntry",
]


class FetchMetadataRequest(msgspec.Struct, frozen=True, gc=False):
    """FetchMetadataRequest, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 10002
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "FetchMetadataRequest"

    broker_id: int = 0
    # -1 before the broker has registered
    broker_epoch: int = -1
    from_offset: int = 0
    max_bytes: int = 0
    max_wait_ms: int = 0
    cluster_id: str | None = None
    # whether the answer tells of heartbeats
    heartbeats: bool = False


class MetadataRecordEntry(msgspec.Struct, frozen=True, gc=False):
    # one encoded metadata record
    body: bytes | memoryview = b""


class LastHeartbeat(msgspec.Struct, frozen=True, gc=False):
    broker_id: int = 0
    # since the controller last heard of it
    silent_ms: int = 0


class FetchMetadataResponse(msgspec.Struct, frozen=True, gc=False):
    """FetchMetadataResponse, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 10002
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "FetchMetadataResponse"

    error_code: int = 0
    # the records are a whole image, not a continuation
    snapshot: bool = False
    # the offset of the first record
    base_offset: int = 0
    # the end of the controller's log
    end_offset: int = 0
    records: tuple[MetadataRecordEntry, ...] = ()
    # of every broker that is not fenced and sends any
    heartbeats: tuple[LastHeartbeat, ...] = ()

# Generated from schemas/metadata.msg by epoka.wire.generate; do not edit.

"""Metadata: which brokers there are, and where the partitions of some or all topics live.

Version 0 asks for all topics with an empty list; later versions ask with null and mean none by empty.
From version 12 a topic may be asked for by its id alone.
"""

from typing import ClassVar
from uuid import UUID

import msgspec

from epoka.wire.notation import ZERO_UUID

__all__ = [
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
]


class MetadataRequestTopic(msgspec.Struct, frozen=True, gc=False):
    topic_id: UUID = ZERO_UUID
    name: str | None = ""


class MetadataRequest(msgspec.Struct, frozen=True, gc=False):
    """MetadataRequest, versions 0 to 12, flexible from 9."""

    API_KEY: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 12
    FLEXIBLE_FROM: ClassVar[int | None] = 9
    NAME: ClassVar[str] = "MetadataRequest"

    topics: tuple[MetadataRequestTopic, ...] | None = ()
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class MetadataResponseBroker(msgspec.Struct, frozen=True, gc=False):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class MetadataResponsePartition(msgspec.Struct, frozen=True, gc=False):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


class MetadataResponseTopic(msgspec.Struct, frozen=True, gc=False):
    error_code: int = 0
    name: str | None = ""
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: int = -2147483648


class MetadataResponse(msgspec.Struct, frozen=True, gc=False):
    """MetadataResponse, versions 0 to 12, flexible from 9."""

    API_KEY: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 12
    FLEXIBLE_FROM: ClassVar[int | None] = 9
    NAME: ClassVar[str] = "MetadataResponse"

    throttle_time_ms: int = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: int = -2147483648

# Generated from schemas/update_metadata.msg by epoka.wire.generate; do not edit.

"""UpdateMetadata: the controller tells brokers what the cluster looks like.

In use are version 4 (one row a partition, no generation), version 5 (KIP-380: the receiver's broker epoch,
rows grouped by topic), version 7 (the UpdateMetadata cache KIP: the cluster's greatest broker epoch instead,
so that one payload serves every receiver) and version 8, which is ours: topic ids, and for each live broker
the epoch and the two flags that KIP-841 and KIP-903 have leaders check. All of these are equal for every
receiver. Version 6 is wire-equal to 5 and never sent. What the KIPs call zk_version is the partition epoch.
Apache Kafka uses versions 6 and up for other layouts.
"""

from typing import ClassVar
from uuid import UUID

import msgspec

from epoka.wire.notation import ZERO_UUID

__all__ = [
    "UpdateMetadataBroker",
    "UpdateMetadataEndpoint",
    "UpdateMetadataPartitionState",
    "UpdateMetadataRequest",
    "UpdateMetadataResponse",
    "UpdateMetadataTopicState",
]


class UpdateMetadataPartitionState(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    partition_index: int = 0
    controller_epoch: int = 0
    # -1 none, -2 the topic is being deleted
    leader: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    partition_epoch: int = 0
    replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


class UpdateMetadataTopicState(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    partition_states: tuple[UpdateMetadataPartitionState, ...] = ()


class UpdateMetadataEndpoint(msgspec.Struct, frozen=True, gc=False):
    port: int = 0
    host: str = ""
    listener: str = ""
    security_protocol: int = 0


class UpdateMetadataBroker(msgspec.Struct, frozen=True, gc=False):
    id: int = 0
    endpoints: tuple[UpdateMetadataEndpoint, ...] = ()
    rack: str | None = None
    broker_epoch: int = -1
    fenced: bool = False
    in_controlled_shutdown: bool = False


class UpdateMetadataRequest(msgspec.Struct, frozen=True, gc=False):
    """UpdateMetadataRequest, versions 4 to 8."""

    API_KEY: ClassVar[int] = 6
    MIN_VERSION: ClassVar[int] = 4
    MAX_VERSION: ClassVar[int] = 8
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "UpdateMetadataRequest"

    controller_id: int = 0
    controller_epoch: int = 0
    broker_epoch: int = -1
    max_broker_epoch: int = -1
    ungrouped_partition_states: tuple[UpdateMetadataPartitionState, ...] = ()
    topic_states: tuple[UpdateMetadataTopicState, ...] = ()
    live_brokers: tuple[UpdateMetadataBroker, ...] = ()


class UpdateMetadataResponse(msgspec.Struct, frozen=True, gc=False):
    """UpdateMetadataResponse, versions 4 to 8."""

    API_KEY: ClassVar[int] = 6
    MIN_VERSION: ClassVar[int] = 4
    MAX_VERSION: ClassVar[int] = 8
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "UpdateMetadataResponse"

    error_code: int = 0

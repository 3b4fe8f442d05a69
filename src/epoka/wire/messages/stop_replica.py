# Generated from schemas/stop_replica.msg by epoka.wire.generate; do not edit.

"""StopReplica: the controller has a broker stop following partitions, and perhaps delete them.

In use are version 0 (one row a partition, no generation), version 1 (KIP-380: the receiver's broker epoch,
rows grouped by topic) and version 4 (the UpdateMetadata cache KIP: the cluster's greatest broker epoch
instead). Versions 2 and 3 are wire-equal to 1 and never sent. Apache Kafka uses versions 2 and up for other
layouts.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "StopReplicaPartition",
    "StopReplicaPartitionError",
    "StopReplicaRequest",
    "StopReplicaResponse",
    "StopReplicaTopic",
]


class StopReplicaPartition(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    partition_index: int = 0


class StopReplicaTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class StopReplicaRequest(msgspec.Struct, frozen=True, gc=False):
    """StopReplicaRequest, versions 0 to 4."""

    API_KEY: ClassVar[int] = 5
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "StopReplicaRequest"

    controller_id: int = 0
    controller_epoch: int = 0
    broker_epoch: int = -1
    max_broker_epoch: int = -1
    delete_partitions: bool = False
    ungrouped_partitions: tuple[StopReplicaPartition, ...] = ()
    topics: tuple[StopReplicaTopic, ...] = ()


class StopReplicaPartitionError(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    partition_index: int = 0
    error_code: int = 0


class StopReplicaResponse(msgspec.Struct, frozen=True, gc=False):
    """StopReplicaResponse, versions 0 to 4."""

    API_KEY: ClassVar[int] = 5
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "StopReplicaResponse"

    error_code: int = 0
    partition_errors: tuple[StopReplicaPartitionError, ...] = ()

# Generated from schemas/leader_and_isr.msg by epoka.wire.generate; do not edit.

"""LeaderAndIsr: the controller tells a broker which partitions it leads and which it follows.

In use are version 1 (before KIP-380: one row a partition, no generation), version 2 (KIP-380: the receiver's
broker epoch, rows grouped by topic) and version 5 (the UpdateMetadata cache KIP: the cluster's greatest
broker epoch instead). Versions 3 and 4 are wire-equal to 2 and never sent: the KIPs give them no meaning.
What the KIPs call zk_version is the partition epoch. Apache Kafka uses versions 3 and up for other layouts.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "LeaderAndIsrLiveLeader",
    "LeaderAndIsrPartitionError",
    "LeaderAndIsrPartitionState",
    "LeaderAndIsrRequest",
    "LeaderAndIsrResponse",
    "LeaderAndIsrTopicState",
]


class LeaderAndIsrPartitionState(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    partition_index: int = 0
    controller_epoch: int = 0
    leader: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    partition_epoch: int = 0
    replicas: tuple[int, ...] = ()
    is_new: bool = False


class LeaderAndIsrTopicState(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    partition_states: tuple[LeaderAndIsrPartitionState, ...] = ()


class LeaderAndIsrLiveLeader(msgspec.Struct, frozen=True, gc=False):
    broker_id: int = 0
    host_name: str = ""
    port: int = 0


class LeaderAndIsrRequest(msgspec.Struct, frozen=True, gc=False):
    """LeaderAndIsrRequest, versions 1 to 5."""

    API_KEY: ClassVar[int] = 4
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "LeaderAndIsrRequest"

    controller_id: int = 0
    controller_epoch: int = 0
    broker_epoch: int = -1
    max_broker_epoch: int = -1
    ungrouped_partition_states: tuple[LeaderAndIsrPartitionState, ...] = ()
    topic_states: tuple[LeaderAndIsrTopicState, ...] = ()
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...] = ()


class LeaderAndIsrPartitionError(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    partition_index: int = 0
    error_code: int = 0


class LeaderAndIsrResponse(msgspec.Struct, frozen=True, gc=False):
    """LeaderAndIsrResponse, versions 1 to 5."""

    API_KEY: ClassVar[int] = 4
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "LeaderAndIsrResponse"

    error_code: int = 0
    partition_errors: tuple[LeaderAndIsrPartitionError, ...] = ()

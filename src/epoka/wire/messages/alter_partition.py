# Generated from schemas/alter_partition.msg by epoka.wire.generate; do not edit.

"""AlterPartition: a leader asks the controller to change the ISR of its partitions.

Version 1 adds the recovery state, version 2 replaces topic names by ids (KIP-841), version 3 gives the broker
epoch of every proposed member (KIP-903).
"""

from typing import ClassVar
from uuid import UUID

import msgspec

from epoka.wire.notation import ZERO_UUID

__all__ = [
    "AlterPartitionBrokerState",
    "AlterPartitionPartition",
    "AlterPartitionPartitionResponse",
    "AlterPartitionRequest",
    "AlterPartitionResponse",
    "AlterPartitionTopic",
    "AlterPartitionTopicResponse",
]


class AlterPartitionBrokerState(msgspec.Struct, frozen=True, gc=False):
    broker_id: int = 0
    # -1 when the leader does not know it
    broker_epoch: int = -1


class AlterPartitionPartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    leader_epoch: int = 0
    new_isr: tuple[int, ...] = ()
    new_isr_with_epochs: tuple[AlterPartitionBrokerState, ...] = ()
    # 1 while recovering from an unclean election
    leader_recovery_state: int = 0
    partition_epoch: int = 0


class AlterPartitionTopic(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: tuple[AlterPartitionPartition, ...] = ()


class AlterPartitionRequest(msgspec.Struct, frozen=True, gc=False):
    """AlterPartitionRequest, versions 0 to 3, flexible from 0."""

    API_KEY: ClassVar[int] = 56
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "AlterPartitionRequest"

    broker_id: int = 0
    broker_epoch: int = -1
    topics: tuple[AlterPartitionTopic, ...] = ()


class AlterPartitionPartitionResponse(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = 0


class AlterPartitionTopicResponse(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: tuple[AlterPartitionPartitionResponse, ...] = ()


class AlterPartitionResponse(msgspec.Struct, frozen=True, gc=False):
    """AlterPartitionResponse, versions 0 to 3, flexible from 0."""

    API_KEY: ClassVar[int] = 56
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "AlterPartitionResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: tuple[AlterPartitionTopicResponse, ...] = ()

# Generated from schemas/elect_leaders.msg by epoka.wire.generate; do not edit.

"""ElectLeaders: move leadership back to preferred replicas, or elect one outside the ISR."""

from typing import ClassVar

import msgspec

__all__ = [
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "ElectLeadersTopicPartitions",
    "PartitionElectionResult",
    "ReplicaElectionResult",
]


class ElectLeadersTopicPartitions(msgspec.Struct, frozen=True, gc=False):
    topic: str = ""
    partitions: tuple[int, ...] = ()


class ElectLeadersRequest(msgspec.Struct, frozen=True, gc=False):
    """ElectLeadersRequest, versions 0 to 2, flexible from 2."""

    API_KEY: ClassVar[int] = 43
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "ElectLeadersRequest"

    # 0 preferred, 1 unclean
    election_type: int = 0
    # null asks for every partition
    topic_partitions: tuple[ElectLeadersTopicPartitions, ...] | None = None
    timeout_ms: int = 60000


class PartitionElectionResult(msgspec.Struct, frozen=True, gc=False):
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = None


class ReplicaElectionResult(msgspec.Struct, frozen=True, gc=False):
    topic: str = ""
    partition_result: tuple[PartitionElectionResult, ...] = ()


class ElectLeadersResponse(msgspec.Struct, frozen=True, gc=False):
    """ElectLeadersResponse, versions 0 to 2, flexible from 2."""

    API_KEY: ClassVar[int] = 43
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "ElectLeadersResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()

# Generated from schemas/fetch.msg by epoka.wire.generate; do not edit.

"""Fetch: what a consumer or a follower asks a leader for.

From version 13 topics travel as ids. From version 15 a follower names itself and its broker epoch in the
tagged replica state (KIP-903); a consumer leaves it out.
"""

from typing import ClassVar
from uuid import UUID

import msgspec

from epoka.wire.notation import ZERO_UUID

__all__ = [
    "AbortedTransaction",
    "DivergingEpoch",
    "FetchLeader",
    "FetchNodeEndpoint",
    "FetchPartition",
    "FetchPartitionResponse",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotId",
    "FetchTopic",
    "FetchableTopicResponse",
    "ForgottenTopic",
    "ReplicaState",
]


class FetchPartition(msgspec.Struct, frozen=True, gc=False):
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    # lets the leader notice a log that has diverged
    last_fetched_epoch: int = -1
    # a follower's own log start
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: UUID = ZERO_UUID


class FetchTopic(msgspec.Struct, frozen=True, gc=False):
    topic: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(msgspec.Struct, frozen=True, gc=False):
    topic: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: tuple[int, ...] = ()


class ReplicaState(msgspec.Struct, frozen=True, gc=False):
    replica_id: int = -1
    # the follower's broker epoch, -1 when it does not know it
    replica_epoch: int = -1


class FetchRequest(msgspec.Struct, frozen=True, gc=False):
    """FetchRequest, versions 4 to 17, flexible from 12."""

    API_KEY: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 4
    MAX_VERSION: ClassVar[int] = 17
    FLEXIBLE_FROM: ClassVar[int | None] = 12
    NAME: ClassVar[str] = "FetchRequest"

    # -1 for a consumer
    replica_id: int = -1
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    # 0 read uncommitted, 1 read committed
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()
    rack_id: str = ""
    cluster_id: str | None = None
    replica_state: ReplicaState = ReplicaState()


class AbortedTransaction(msgspec.Struct, frozen=True, gc=False):
    producer_id: int = 0
    first_offset: int = 0


class DivergingEpoch(msgspec.Struct, frozen=True, gc=False):
    epoch: int = -1
    end_offset: int = -1


class FetchLeader(msgspec.Struct, frozen=True, gc=False):
    leader_id: int = -1
    leader_epoch: int = -1


class FetchSnapshotId(msgspec.Struct, frozen=True, gc=False):
    end_offset: int = -1
    epoch: int = -1


class FetchPartitionResponse(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()
    preferred_read_replica: int = -1
    records: bytes | memoryview | None = b""
    # the largest epoch both logs share, and where it ends
    diverging_epoch: DivergingEpoch = DivergingEpoch()
    current_leader: FetchLeader = FetchLeader()
    snapshot_id: FetchSnapshotId = FetchSnapshotId()


class FetchableTopicResponse(msgspec.Struct, frozen=True, gc=False):
    topic: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: tuple[FetchPartitionResponse, ...] = ()


class FetchNodeEndpoint(msgspec.Struct, frozen=True, gc=False):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class FetchResponse(msgspec.Struct, frozen=True, gc=False):
    """FetchResponse, versions 4 to 17, flexible from 12."""

    API_KEY: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 4
    MAX_VERSION: ClassVar[int] = 17
    FLEXIBLE_FROM: ClassVar[int | None] = 12
    NAME: ClassVar[str] = "FetchResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: tuple[FetchNodeEndpoint, ...] = ()

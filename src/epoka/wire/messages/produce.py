# Generated from schemas/produce.msg by epoka.wire.generate; do not edit.

"""Produce: a client appends record batches to partitions that this broker leads.

With acks=0 the client waits for no answer and none may be sent. Versions below 3 carried message formats
that this cluster does not store.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "BatchIndexAndErrorMessage",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "ProduceLeader",
    "ProduceNodeEndpoint",
    "ProduceRequest",
    "ProduceResponse",
    "TopicProduceData",
    "TopicProduceResponse",
]


class PartitionProduceData(msgspec.Struct, frozen=True, gc=False):
    index: int = 0
    records: bytes | memoryview | None = b""


class TopicProduceData(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partition_data: tuple[PartitionProduceData, ...] = ()


class ProduceRequest(msgspec.Struct, frozen=True, gc=False):
    """ProduceRequest, versions 3 to 11, flexible from 9."""

    API_KEY: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 3
    MAX_VERSION: ClassVar[int] = 11
    FLEXIBLE_FROM: ClassVar[int | None] = 9
    NAME: ClassVar[str] = "ProduceRequest"

    transactional_id: str | None = None
    # 0 none, 1 the leader, -1 the whole ISR
    acks: int = 0
    timeout_ms: int = 0
    topic_data: tuple[TopicProduceData, ...] = ()


class BatchIndexAndErrorMessage(msgspec.Struct, frozen=True, gc=False):
    batch_index: int = 0
    batch_index_error_message: str | None = None


class ProduceLeader(msgspec.Struct, frozen=True, gc=False):
    leader_id: int = -1
    leader_epoch: int = -1


class PartitionProduceResponse(msgspec.Struct, frozen=True, gc=False):
    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    # -1 unless the topic stamps records when they arrive
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()
    error_message: str | None = None
    # where to go after NOT_LEADER_OR_FOLLOWER
    current_leader: ProduceLeader = ProduceLeader()


class TopicProduceResponse(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


class ProduceNodeEndpoint(msgspec.Struct, frozen=True, gc=False):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class ProduceResponse(msgspec.Struct, frozen=True, gc=False):
    """ProduceResponse, versions 3 to 11, flexible from 9."""

    API_KEY: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 3
    MAX_VERSION: ClassVar[int] = 11
    FLEXIBLE_FROM: ClassVar[int | None] = 9
    NAME: ClassVar[str] = "ProduceResponse"

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: int = 0
    node_endpoints: tuple[ProduceNodeEndpoint, ...] = ()

# Generated from schemas/create_topics.msg by epoka.wire.generate; do not edit.

"""CreateTopics: new topics, with a count or with a hand-made assignment.

From version 4 a count or a replication factor of -1 means the broker's default.
"""

from typing import ClassVar
from uuid import UUID

import msgspec

from epoka.wire.notation import ZERO_UUID

__all__ = [
    "CreatableReplicaAssignment",
    "CreatableTopic",
    "CreatableTopicConfig",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
]


class CreatableReplicaAssignment(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    broker_ids: tuple[int, ...] = ()


class CreatableTopicConfig(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    value: str | None = ""


class CreatableTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


class CreateTopicsRequest(msgspec.Struct, frozen=True, gc=False):
    """CreateTopicsRequest, versions 2 to 7, flexible from 5."""

    API_KEY: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int | None] = 5
    NAME: ClassVar[str] = "CreateTopicsRequest"

    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: int = 60000
    validate_only: bool = False


class CreatableTopicConfigs(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


class CreatableTopicResult(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    topic_id: UUID = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatableTopicConfigs, ...] | None = ()
    topic_config_error_code: int = 0


class CreateTopicsResponse(msgspec.Struct, frozen=True, gc=False):
    """CreateTopicsResponse, versions 2 to 7, flexible from 5."""

    API_KEY: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int | None] = 5
    NAME: ClassVar[str] = "CreateTopicsResponse"

    throttle_time_ms: int = 0
    topics: tuple[CreatableTopicResult, ...] = ()

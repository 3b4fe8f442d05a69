# Generated from schemas/isr_change.msg by epoka.wire.generate; do not edit.

"""IsrChange: the KIP-343 draft's request of a leader to change the ISR of its partitions.

The draft gives it no key; keys from 10000 on are ours. Results stand in the order of the request's
partitions, topic by topic, and name none of them.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "IsrChangePartition",
    "IsrChangeRequest",
    "IsrChangeResponse",
    "IsrChangeResult",
    "IsrChangeTopic",
]


class IsrChangePartition(msgspec.Struct, frozen=True, gc=False):
    leader_epoch: int = 0
    partition_index: int = 0
    isr_nodes: tuple[int, ...] = ()


class IsrChangeTopic(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    partitions: tuple[IsrChangePartition, ...] = ()


class IsrChangeRequest(msgspec.Struct, frozen=True, gc=False):
    """IsrChangeRequest, version 0."""

    API_KEY: ClassVar[int] = 10001
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "IsrChangeRequest"

    broker_id: int = 0
    # the broker's generation
    incarnation_id: int = 0
    topics: tuple[IsrChangeTopic, ...] = ()


class IsrChangeResult(msgspec.Struct, frozen=True, gc=False):
    error_code: int = 0
    error_message: str | None = None


class IsrChangeResponse(msgspec.Struct, frozen=True, gc=False):
    """IsrChangeResponse, version 0."""

    API_KEY: ClassVar[int] = 10001
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "IsrChangeResponse"

    top_level_error_code: int = 0
    top_level_error_message: str | None = None
    results: tuple[IsrChangeResult, ...] = ()

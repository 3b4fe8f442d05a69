# Generated from schemas/allocate_producer_ids.msg by epoka.wire.generate; do not edit.

"""AllocateProducerIds: a broker takes a block of producer ids from the controller."""

from typing import ClassVar

import msgspec

__all__ = [
    "AllocateProducerIdsRequest",
    "AllocateProducerIdsResponse",
]


class AllocateProducerIdsRequest(msgspec.Struct, frozen=True, gc=False):
    """AllocateProducerIdsRequest, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 67
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "AllocateProducerIdsRequest"

    broker_id: int = 0
    broker_epoch: int = -1


class AllocateProducerIdsResponse(msgspec.Struct, frozen=True, gc=False):
    """AllocateProducerIdsResponse, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 67
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "AllocateProducerIdsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id_start: int = 0
    producer_id_len: int = 0

# Generated from schemas/init_producer_id.msg by epoka.wire.generate; do not edit.

"""InitProducerId: an identity for an idempotent or a transactional producer."""

from typing import ClassVar

import msgspec

__all__ = [
    "InitProducerIdRequest",
    "InitProducerIdResponse",
]


class InitProducerIdRequest(msgspec.Struct, frozen=True, gc=False):
    """InitProducerIdRequest, versions 0 to 5, flexible from 2."""

    API_KEY: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "InitProducerIdRequest"

    # null for a producer that is idempotent only
    transactional_id: str | None = None
    transaction_timeout_ms: int = 0
    # the identity whose epoch is to be raised, -1 for a new one
    producer_id: int = -1
    producer_epoch: int = -1


class InitProducerIdResponse(msgspec.Struct, frozen=True, gc=False):
    """InitProducerIdResponse, versions 0 to 5, flexible from 2."""

    API_KEY: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "InitProducerIdResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0

# Generated from schemas/unregister_broker.msg by epoka.wire.generate; do not edit.

"""UnregisterBroker: an operator removes a broker that will not come back."""

from typing import ClassVar

import msgspec

__all__ = [
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
]


class UnregisterBrokerRequest(msgspec.Struct, frozen=True, gc=False):
    """UnregisterBrokerRequest, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 64
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "UnregisterBrokerRequest"

    broker_id: int = 0


class UnregisterBrokerResponse(msgspec.Struct, frozen=True, gc=False):
    """UnregisterBrokerResponse, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 64
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "UnregisterBrokerResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None

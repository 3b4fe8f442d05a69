# Generated from schemas/end_txn.msg by epoka.wire.generate; do not edit.

"""EndTxn: a producer commits or aborts its transaction."""

from typing import ClassVar

import msgspec

__all__ = [
    "EndTxnRequest",
    "EndTxnResponse",
]


class EndTxnRequest(msgspec.Struct, frozen=True, gc=False):
    """EndTxnRequest, versions 0 to 3, flexible from 3."""

    API_KEY: ClassVar[int] = 26
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "EndTxnRequest"

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False


class EndTxnResponse(msgspec.Struct, frozen=True, gc=False):
    """EndTxnResponse, versions 0 to 3, flexible from 3."""

    API_KEY: ClassVar[int] = 26
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "EndTxnResponse"

    throttle_time_ms: int = 0
    error_code: int = 0

# Generated from schemas/add_offsets_to_txn.msg by epoka.wire.generate; do not edit.

"""AddOffsetsToTxn: a producer is about to commit a group's offsets within its transaction."""

from typing import ClassVar

import msgspec

__all__ = [
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
]


class AddOffsetsToTxnRequest(msgspec.Struct, frozen=True, gc=False):
    """AddOffsetsToTxnRequest, versions 0 to 3, flexible from 3."""

    API_KEY: ClassVar[int] = 25
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "AddOffsetsToTxnRequest"

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(msgspec.Struct, frozen=True, gc=False):
    """AddOffsetsToTxnResponse, versions 0 to 3, flexible from 3."""

    API_KEY: ClassVar[int] = 25
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "AddOffsetsToTxnResponse"

    throttle_time_ms: int = 0
    error_code: int = 0

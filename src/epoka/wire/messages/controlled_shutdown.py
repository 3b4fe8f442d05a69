# Generated from schemas/controlled_shutdown.msg by epoka.wire.generate; do not edit.

"""ControlledShutdown: a broker asks the controller to move its leaderships away before it stops.

Version 2 adds the generation of the broker that asks (KIP-380).
"""

from typing import ClassVar

import msgspec

__all__ = [
    "ControlledShutdownRequest",
    "ControlledShutdownResponse",
    "RemainingPartition",
]


class ControlledShutdownRequest(msgspec.Struct, frozen=True, gc=False):
    """ControlledShutdownRequest, versions 1 to 2."""

    API_KEY: ClassVar[int] = 7
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "ControlledShutdownRequest"

    broker_id: int = 0
    broker_epoch: int = -1


class RemainingPartition(msgspec.Struct, frozen=True, gc=False):
    topic_name: str = ""
    partition_index: int = 0


class ControlledShutdownResponse(msgspec.Struct, frozen=True, gc=False):
    """ControlledShutdownResponse, versions 1 to 2."""

    API_KEY: ClassVar[int] = 7
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "ControlledShutdownResponse"

    error_code: int = 0
    # those the broker still leads
    remaining_partitions: tuple[RemainingPartition, ...] = ()

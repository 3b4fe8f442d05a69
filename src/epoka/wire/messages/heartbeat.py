# Generated from schemas/heartbeat.msg by epoka.wire.generate; do not edit.

"""Heartbeat: a group member says that it is alive, and learns of a rebalance."""

from typing import ClassVar

import msgspec

__all__ = [
    "HeartbeatRequest",
    "HeartbeatResponse",
]


class HeartbeatRequest(msgspec.Struct, frozen=True, gc=False):
    """HeartbeatRequest, versions 0 to 4, flexible from 4."""

    API_KEY: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "HeartbeatRequest"

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None


class HeartbeatResponse(msgspec.Struct, frozen=True, gc=False):
    """HeartbeatResponse, versions 0 to 4, flexible from 4."""

    API_KEY: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "HeartbeatResponse"

    throttle_time_ms: int = 0
    error_code: int = 0

# Generated from schemas/broker_heartbeat.msg by epoka.wire.generate; do not edit.

"""BrokerHeartbeat: a registered broker says that it lives and which state it wants."""

from typing import ClassVar
from uuid import UUID

import msgspec

__all__ = [
    "BrokerHeartbeatRequest",
    "BrokerHeartbeatResponse",
]


class BrokerHeartbeatRequest(msgspec.Struct, frozen=True, gc=False):
    """BrokerHeartbeatRequest, versions 0 to 1, flexible from 0."""

    API_KEY: ClassVar[int] = 63
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "BrokerHeartbeatRequest"

    broker_id: int = 0
    broker_epoch: int = -1
    current_metadata_offset: int = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[UUID, ...] = ()


class BrokerHeartbeatResponse(msgspec.Struct, frozen=True, gc=False):
    """BrokerHeartbeatResponse, versions 0 to 1, flexible from 0."""

    API_KEY: ClassVar[int] = 63
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "BrokerHeartbeatResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False

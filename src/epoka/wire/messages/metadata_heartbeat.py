# Generated from schemas/metadata_heartbeat.msg by epoka.wire.generate; do not edit.

"""MetadataHeartbeat: the heartbeat of the KIP-343 draft, from a broker to the controller.

The draft gives it no key; keys from 10000 on are ours. The states are 0 initial, 1 inactive, 2 active and
3 stopping.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "MetadataHeartbeatRequest",
    "MetadataHeartbeatResponse",
]


class MetadataHeartbeatRequest(msgspec.Struct, frozen=True, gc=False):
    """MetadataHeartbeatRequest, version 0."""

    API_KEY: ClassVar[int] = 10000
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "MetadataHeartbeatRequest"

    broker_id: int = 0
    # the broker's generation
    incarnation_id: int = 0
    target_state: int = 0


class MetadataHeartbeatResponse(msgspec.Struct, frozen=True, gc=False):
    """MetadataHeartbeatResponse, version 0."""

    API_KEY: ClassVar[int] = 10000
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "MetadataHeartbeatResponse"

    error_code: int = 0
    error_string: str | None = None
    current_state: int = 0

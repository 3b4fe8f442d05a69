# Generated from schemas/sync_group.msg by epoka.wire.generate; do not edit.

"""SyncGroup: the leader hands in the assignment and every member takes its share."""

from typing import ClassVar

import msgspec

__all__ = [
    "SyncGroupRequest",
    "SyncGroupRequestAssignment",
    "SyncGroupResponse",
]


class SyncGroupRequestAssignment(msgspec.Struct, frozen=True, gc=False):
    member_id: str = ""
    assignment: bytes | memoryview = b""


class SyncGroupRequest(msgspec.Struct, frozen=True, gc=False):
    """SyncGroupRequest, versions 0 to 5, flexible from 4."""

    API_KEY: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "SyncGroupRequest"

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    # empty unless the sender leads the group
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


class SyncGroupResponse(msgspec.Struct, frozen=True, gc=False):
    """SyncGroupResponse, versions 0 to 5, flexible from 4."""

    API_KEY: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "SyncGroupResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes | memoryview = b""

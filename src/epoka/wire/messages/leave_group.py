# Generated from schemas/leave_group.msg by epoka.wire.generate; do not edit.

"""LeaveGroup: one member, or from version 3 several at once, leave a group."""

from typing import ClassVar

import msgspec

__all__ = [
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "MemberIdentity",
    "MemberResponse",
]


class MemberIdentity(msgspec.Struct, frozen=True, gc=False):
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveGroupRequest(msgspec.Struct, frozen=True, gc=False):
    """LeaveGroupRequest, versions 0 to 5, flexible from 4."""

    API_KEY: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "LeaveGroupRequest"

    group_id: str = ""
    member_id: str = ""
    members: tuple[MemberIdentity, ...] = ()


class MemberResponse(msgspec.Struct, frozen=True, gc=False):
    member_id: str = ""
    group_instance_id: str | None = None
    error_code: int = 0


class LeaveGroupResponse(msgspec.Struct, frozen=True, gc=False):
    """LeaveGroupResponse, versions 0 to 5, flexible from 4."""

    API_KEY: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "LeaveGroupResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    members: tuple[MemberResponse, ...] = ()

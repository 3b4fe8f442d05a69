# Generated from schemas/join_group.msg by epoka.wire.generate; do not edit.

"""JoinGroup: a member enters a group, or enters again after a rebalance has begun.

From version 4 a member without an id is given one together with MEMBER_ID_REQUIRED and must come back with
it.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "JoinGroupRequest",
    "JoinGroupRequestProtocol",
    "JoinGroupResponse",
    "JoinGroupResponseMember",
]


class JoinGroupRequestProtocol(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    metadata: bytes | memoryview = b""


class JoinGroupRequest(msgspec.Struct, frozen=True, gc=False):
    """JoinGroupRequest, versions 0 to 9, flexible from 6."""

    API_KEY: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int | None] = 6
    NAME: ClassVar[str] = "JoinGroupRequest"

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: str | None = None


class JoinGroupResponseMember(msgspec.Struct, frozen=True, gc=False):
    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes | memoryview = b""


class JoinGroupResponse(msgspec.Struct, frozen=True, gc=False):
    """JoinGroupResponse, versions 0 to 9, flexible from 6."""

    API_KEY: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int | None] = 6
    NAME: ClassVar[str] = "JoinGroupResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    # true when the leader must not compute an assignment
    skip_assignment: bool = False
    member_id: str = ""
    # filled for the leader alone
    members: tuple[JoinGroupResponseMember, ...] = ()

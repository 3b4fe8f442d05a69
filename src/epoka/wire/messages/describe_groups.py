# Generated from schemas/describe_groups.msg by epoka.wire.generate; do not edit.

"""DescribeGroups: the state and the members of groups."""

from typing import ClassVar

import msgspec

__all__ = [
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribedGroup",
    "DescribedGroupMember",
]


class DescribeGroupsRequest(msgspec.Struct, frozen=True, gc=False):
    """DescribeGroupsRequest, versions 0 to 5, flexible from 5."""

    API_KEY: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 5
    NAME: ClassVar[str] = "DescribeGroupsRequest"

    groups: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class DescribedGroupMember(msgspec.Struct, frozen=True, gc=False):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes | memoryview = b""
    member_assignment: bytes | memoryview = b""


class DescribedGroup(msgspec.Struct, frozen=True, gc=False):
    error_code: int = 0
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: int = -2147483648


class DescribeGroupsResponse(msgspec.Struct, frozen=True, gc=False):
    """DescribeGroupsResponse, versions 0 to 5, flexible from 5."""

    API_KEY: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 5
    NAME: ClassVar[str] = "DescribeGroupsResponse"

    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...] = ()

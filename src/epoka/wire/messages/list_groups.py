# Generated from schemas/list_groups.msg by epoka.wire.generate; do not edit.

"""ListGroups: the groups this broker coordinates, by state and type if asked."""

from typing import ClassVar

import msgspec

__all__ = [
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListedGroup",
]


class ListGroupsRequest(msgspec.Struct, frozen=True, gc=False):
    """ListGroupsRequest, versions 0 to 5, flexible from 3."""

    API_KEY: ClassVar[int] = 16
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "ListGroupsRequest"

    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


class ListedGroup(msgspec.Struct, frozen=True, gc=False):
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""


class ListGroupsResponse(msgspec.Struct, frozen=True, gc=False):
    """ListGroupsResponse, versions 0 to 5, flexible from 3."""

    API_KEY: ClassVar[int] = 16
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "ListGroupsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    groups: tuple[ListedGroup, ...] = ()

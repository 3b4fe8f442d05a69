# Generated from schemas/delete_groups.msg by epoka.wire.generate; do not edit.

"""DeleteGroups: forget empty groups and their offsets."""

from typing import ClassVar

import msgspec

__all__ = [
    "DeletableGroupResult",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
]


class DeleteGroupsRequest(msgspec.Struct, frozen=True, gc=False):
    """DeleteGroupsRequest, versions 0 to 2, flexible from 2."""

    API_KEY: ClassVar[int] = 42
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "DeleteGroupsRequest"

    groups_names: tuple[str, ...] = ()


class DeletableGroupResult(msgspec.Struct, frozen=True, gc=False):
    group_id: str = ""
    error_code: int = 0


class DeleteGroupsResponse(msgspec.Struct, frozen=True, gc=False):
    """DeleteGroupsResponse, versions 0 to 2, flexible from 2."""

    API_KEY: ClassVar[int] = 42
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "DeleteGroupsResponse"

    throttle_time_ms: int = 0
    results: tuple[DeletableGroupResult, ...] = ()

# Generated from schemas/find_coordinator.msg by epoka.wire.generate; do not edit.

"""FindCoordinator: the broker that looks after a group or a transactional id.

Up to version 3 a request names one key; from version 4 it names many, each with its own answer.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "Coordinator",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
]


class FindCoordinatorRequest(msgspec.Struct, frozen=True, gc=False):
    """FindCoordinatorRequest, versions 0 to 6, flexible from 3."""

    API_KEY: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "FindCoordinatorRequest"

    key: str = ""
    # 0 group, 1 transaction, 2 share
    key_type: int = 0
    coordinator_keys: tuple[str, ...] = ()


class Coordinator(msgspec.Struct, frozen=True, gc=False):
    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""


class FindCoordinatorResponse(msgspec.Struct, frozen=True, gc=False):
    """FindCoordinatorResponse, versions 0 to 6, flexible from 3."""

    API_KEY: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "FindCoordinatorResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: tuple[Coordinator, ...] = ()

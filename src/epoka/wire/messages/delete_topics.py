# Generated from schemas/delete_topics.msg by epoka.wire.generate; do not edit.

"""DeleteTopics: topics to delete, by name or from version 6 by id."""

from typing import ClassVar
from uuid import UUID

import msgspec

from epoka.wire.notation import ZERO_UUID

__all__ = [
    "DeletableTopicResult",
    "DeleteTopicState",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
]


class DeleteTopicState(msgspec.Struct, frozen=True, gc=False):
    name: str | None = None
    topic_id: UUID = ZERO_UUID


class DeleteTopicsRequest(msgspec.Struct, frozen=True, gc=False):
    """DeleteTopicsRequest, versions 1 to 6, flexible from 4."""

    API_KEY: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "DeleteTopicsRequest"

    topics: tuple[DeleteTopicState, ...] = ()
    topic_names: tuple[str, ...] = ()
    timeout_ms: int = 0


class DeletableTopicResult(msgspec.Struct, frozen=True, gc=False):
    name: str | None = ""
    topic_id: UUID = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None


class DeleteTopicsResponse(msgspec.Struct, frozen=True, gc=False):
    """DeleteTopicsResponse, versions 1 to 6, flexible from 4."""

    API_KEY: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "DeleteTopicsResponse"

    throttle_time_ms: int = 0
    responses: tuple[DeletableTopicResult, ...] = ()

# Generated from schemas/group_records.msg by epoka.wire.generate; do not edit.

"""What groups keep in __consumer_offsets, and what consumers exchange through their group.

Every one of these is written behind its own version as an int16, which is not part of the structure. The
version of a key also says what it is: 0 and 1 a committed offset, 2 a group. A consumer protocol of a newer
version than 3 is read as version 3, and what follows is skipped.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "AssignedTopic",
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "GroupMemberMetadata",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "OwnedTopic",
]


class OffsetCommitKey(msgspec.Struct, frozen=True, gc=False):
    """OffsetCommitKey, versions 0 to 1."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "OffsetCommitKey"

    group: str = ""
    topic: str = ""
    partition: int = 0


class OffsetCommitValue(msgspec.Struct, frozen=True, gc=False):
    """OffsetCommitValue, versions 0 to 4, flexible from 4."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "OffsetCommitValue"

    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1


class GroupMetadataKey(msgspec.Struct, frozen=True, gc=False):
    """GroupMetadataKey, version 2."""

    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "GroupMetadataKey"

    group: str = ""


class GroupMemberMetadata(msgspec.Struct, frozen=True, gc=False):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes | memoryview = b""
    assignment: bytes | memoryview = b""


class GroupMetadataValue(msgspec.Struct, frozen=True, gc=False):
    """GroupMetadataValue, versions 0 to 4, flexible from 4."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "GroupMetadataValue"

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: tuple[GroupMemberMetadata, ...] = ()


class OwnedTopic(msgspec.Struct, frozen=True, gc=False):
    topic: str = ""
    partitions: tuple[int, ...] = ()


class ConsumerProtocolSubscription(msgspec.Struct, frozen=True, gc=False):
    """ConsumerProtocolSubscription, versions 0 to 3."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "ConsumerProtocolSubscription"

    topics: tuple[str, ...] = ()
    user_data: bytes | memoryview | None = None
    owned_partitions: tuple[OwnedTopic, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None


class AssignedTopic(msgspec.Struct, frozen=True, gc=False):
    topic: str = ""
    partitions: tuple[int, ...] = ()


class ConsumerProtocolAssignment(msgspec.Struct, frozen=True, gc=False):
    """ConsumerProtocolAssignment, versions 0 to 3."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "ConsumerProtocolAssignment"

    assigned_partitions: tuple[AssignedTopic, ...] = ()
    user_data: bytes | memoryview | None = None

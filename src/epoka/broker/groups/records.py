"""Groups and offsets as records of `__consumer_offsets`, in Kafka's own formats.

A key begins with a version that says what it is about: 0 and 1 an offset, 2 a group. A value begins with the
version of its layout. Values are written in the newest layout that every Kafka since 2.3 can read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import msgspec

from epoka.broker.groups.effects import Entry
from epoka.broker.groups.group import Group
from epoka.broker.groups.member import Member
from epoka.broker.groups.offsets import CommittedOffset, TopicPartition
from epoka.wire.codec import decode, encode
from epoka.wire.errors import WireError
from epoka.wire.messages.group_records import (
    GroupMemberMetadata,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2
OFFSET_VALUE_VERSION: Final = 3
OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1
GROUP_VALUE_VERSION: Final = 3

_VERSION: Final = struct.Struct(">h")


class OffsetRecord(msgspec.Struct, frozen=True):
    group_id: str
    partition: TopicPartition
    offset: CommittedOffset | None


class GroupRecord(msgspec.Struct, frozen=True):
    group_id: str
    group: GroupMetadataValue | None


def offset_entry(group_id: str, partition: TopicPartition, offset: CommittedOffset | None) -> Entry:
    """The record of a committed offset, or the tombstone of one."""
    topic, index = partition
    key = _prefixed(OFFSET_KEY_VERSION, OffsetCommitKey(group=group_id, topic=topic, partition=index))
    if offset is None:
        return key, None
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp,
        expire_timestamp=offset.expire_timestamp,
    )
    has_expiry = offset.expire_timestamp >= 0
    return key, _prefixed(OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else OFFSET_VALUE_VERSION, value)


def group_entry(group: Group, assignments: Mapping[str, bytes]) -> Entry:
    """The record of a group in its present generation, with these assignments."""
    protocol = group.protocol_name
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=protocol,
        leader=group.leader_id,
        current_state_timestamp=-1 if group.state_timestamp is None else group.state_timestamp,
        members=tuple(
            GroupMemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=b"" if protocol is None else member.metadata(protocol),
                assignment=assignments[member.member_id],
            )
            for member in group.members.values()
        ),
    )
    return _group_key(group.group_id), _prefixed(GROUP_VALUE_VERSION, value)


def group_tombstone(group_id: str) -> Entry:
    return _group_key(group_id), None


def read(key: bytes | None, value: bytes | None) -> OffsetRecord | GroupRecord | None:
    """What a record says, or None if it is about something this coordinator does not know."""
    if key is None:
        return None
    try:
        (kind,) = _VERSION.unpack_from(key)
        if kind in (0, OFFSET_KEY_VERSION):
            about = decode(OffsetCommitKey, kind, key[2:])
            return OffsetRecord(about.group, (about.topic, about.partition), _read_offset(value))
        if kind == GROUP_KEY_VERSION:
            group_id = decode(GroupMetadataKey, kind, key[2:]).group
            if value is None:
                return GroupRecord(group_id, None)
            (version,) = _VERSION.unpack_from(value)
            group = decode(GroupMetadataValue, version, value[2:])
            return GroupRecord(group_id, group) if _is_sound(group) else None
    except (WireError, struct.error):
        return None
    return None


def rebuild(record: GroupRecord, partition: int) -> Group:
    """The group that a record describes."""
    stored = record.group
    if stored is None:
        raise ValueError("a tombstone describes no group")
    protocol = stored.protocol
    return Group.loaded(
        record.group_id,
        partition,
        generation_id=stored.generation,
        protocol_type=stored.protocol_type or None,
        protocol_name=protocol,
        leader_id=stored.leader,
        state_timestamp=None if stored.current_state_timestamp == -1 else stored.current_state_timestamp,
        members=[
            Member(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=(
                    member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout
                ),
                session_timeout_ms=member.session_timeout,
                protocols={} if protocol is None else {protocol: bytes(member.subscription)},
                assignment=bytes(member.assignment),
            )
            for member in stored.members
        ],
    )


def _is_sound(group: GroupMetadataValue) -> bool:
    """Members have ids of their own and a protocol in common."""
    if group.members and group.protocol is None:
        return False
    member_ids = [member.member_id for member in group.members]
    instance_ids = [m.group_instance_id for m in group.members if m.group_instance_id is not None]
    return len(set(member_ids)) == len(member_ids) and len(set(instance_ids)) == len(instance_ids)


def _read_offset(value: bytes | None) -> CommittedOffset | None:
    if value is None:
        return None
    (version,) = _VERSION.unpack_from(value)
    stored = decode(OffsetCommitValue, version, value[2:])
    return CommittedOffset(
        offset=stored.offset,
        leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
        commit_timestamp=stored.commit_timestamp,
        expire_timestamp=stored.expire_timestamp,
    )


def _group_key(group_id: str) -> bytes:
    return _prefixed(GROUP_KEY_VERSION, GroupMetadataKey(group=group_id))


def _prefixed(
    version: int, message: OffsetCommitKey | OffsetCommitValue | GroupMetadataKey | GroupMetadataValue
) -> bytes:
    return _VERSION.pack(version) + encode(message, version)

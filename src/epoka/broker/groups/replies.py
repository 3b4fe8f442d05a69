"""Answers about membership, as each version of the protocol wants them.

A field that a version lacks is left at its default, so that nothing is lost in encoding.
"""

from __future__ import annotations

from epoka.broker.groups.group import Group
from epoka.broker.groups.member import Member
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from epoka.wire.messages.sync_group import SyncGroupResponse


def joined(
    group: Group,
    member: Member,
    version: int,
    *,
    leader_id: str | None = None,
    shows_members: bool | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The generation a member is in; its leader also learns who the others are."""
    protocol = group.protocol_name or ""
    if shows_members is None:
        shows_members = group.is_leader(member.member_id)
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type if version >= 7 else None,
        protocol_name=protocol,
        leader=leader_id or group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=_members(group, protocol, version) if shows_members else (),
    )


def join_refused(error: ErrorCode, member_id: str, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_name=None if version >= 7 else "",
        member_id=member_id,
    )


def synced(group: Group, member: Member, version: int) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type if version >= 5 else None,
        protocol_name=group.protocol_name if version >= 5 else None,
        assignment=member.assignment,
    )


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)


def _members(group: Group, protocol: str, version: int) -> tuple[JoinGroupResponseMember, ...]:
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id if version >= 5 else None,
            metadata=member.metadata(protocol),
        )
        for member in group.members.values()
    )

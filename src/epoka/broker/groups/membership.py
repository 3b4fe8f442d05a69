"""SyncGroup 0-5, Heartbeat 0-4 and LeaveGroup 0-5: what a member says once it has joined.

Whoever speaks must be a member, under the id its instance has now, and of the present generation. While a
group is being loaded a heartbeat is accepted unseen and a sync is sent back to joining, because clients
expect no other answer there.
"""

from __future__ import annotations

from epoka.broker.groups import replies
from epoka.broker.groups.group import Group, GroupState
from epoka.broker.groups.outbox import Outbox, Waiting
from epoka.broker.groups.rebalances import Rebalances
from epoka.broker.groups.registry import Registry
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from epoka.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from epoka.wire.messages.sync_group import SyncGroupRequest


class Membership:
    def __init__(self, registry: Registry, outbox: Outbox, rebalances: Rebalances) -> None:
        self._registry = registry
        self._outbox = outbox
        self._rebalances = rebalances

    # SyncGroup

    def on_sync_group(self, waiting: Waiting, request: SyncGroupRequest, now: int) -> None:
        refusal = self._sync_refusal(request)
        group = self._registry.get(request.group_id)
        if refusal is not None or group is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID if refusal is None else refusal
            self._outbox.answer(waiting.token, replies.sync_refused(error))
            return
        member = group.members[request.member_id]
        self._rebalances.has_synced(group, member)
        if group.state is GroupState.STABLE:
            self._outbox.answer(waiting.token, replies.synced(group, member, waiting.version))
            self._rebalances.heard_of(group, member, now)
            return
        self._rebalances.await_sync(group, member, waiting)
        if group.is_leader(member.member_id):
            self._rebalances.assign(
                group, {each.member_id: bytes(each.assignment) for each in request.assignments}
            )

    def _sync_refusal(self, request: SyncGroupRequest) -> ErrorCode | None:
        refusal = self._registry.refusal(request.group_id)
        if refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.REBALANCE_IN_PROGRESS
        if refusal is not None:
            return refusal
        group = self._registry.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        refusal = _member_refusal(group, request)
        if refusal is not None:
            return refusal
        if request.protocol_type is not None and request.protocol_type != group.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name is not None and request.protocol_name != group.protocol_name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return None

    # Heartbeat

    def on_heartbeat(self, waiting: Waiting, request: HeartbeatRequest, now: int) -> None:
        self._outbox.answer(waiting.token, HeartbeatResponse(error_code=self._heartbeat(request, now)))

    def _heartbeat(self, request: HeartbeatRequest, now: int) -> ErrorCode:
        refusal = self._registry.refusal(request.group_id)
        if refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        if refusal is not None:
            return refusal
        group = self._registry.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        refusal = _member_refusal(group, request)
        if refusal is not None:
            return refusal
        self._rebalances.heard_of(group, group.members[request.member_id], now)
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # LeaveGroup

    def on_leave_group(self, waiting: Waiting, request: LeaveGroupRequest, now: int) -> None:
        """Up to version 2 one member leaves; from version 3 on several, each with an error of its own."""
        refusal = self._registry.refusal(request.group_id)
        if refusal is not None:
            self._outbox.answer(waiting.token, LeaveGroupResponse(error_code=refusal))
            return
        group = self._registry.get(request.group_id)
        if waiting.version < 3:
            error = self._leave(group, MemberIdentity(member_id=request.member_id), now)
            self._outbox.answer(waiting.token, LeaveGroupResponse(error_code=error))
            return
        members = tuple(
            MemberResponse(
                member_id=leaving.member_id,
                group_instance_id=leaving.group_instance_id,
                error_code=self._leave(group, leaving, now),
            )
            for leaving in request.members
        )
        self._outbox.answer(waiting.token, LeaveGroupResponse(members=members))

    def _leave(self, group: Group | None, leaving: MemberIdentity, now: int) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if not member_id and instance_id is not None:
            # An operator takes out a static member, whose member id only the member itself knows.
            member_id = group.static_members.get(instance_id, "")
        elif member_id in group.pending_members:
            self._rebalances.remove_pending(group, member_id, now)
            return ErrorCode.NONE
        refusal = group.refusal(member_id, instance_id)
        if refusal is not None:
            return refusal
        self._rebalances.remove(group, group.members[member_id], now)
        return ErrorCode.NONE


def _member_refusal(group: Group, request: SyncGroupRequest | HeartbeatRequest) -> ErrorCode | None:
    refusal = group.refusal(request.member_id, request.group_instance_id)
    if refusal is None and request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return refusal

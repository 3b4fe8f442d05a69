"""How a group gets from one generation to the next.

A rebalance is prepared when the members or what they can do has changed. Joins then wait until all members
have joined or the time is up; whoever has not joined by then is out, except static members, who may be
restarting. The new generation waits for its leader's assignment, and is stable once that is in the log.

The rules of time live here as well: sessions, the delay of a first rebalance, the wait for joins and syncs.
Never is a member removed without an answer to what it waits for, and never is an assignment shown that is
not in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from epoka.broker.groups import replies
from epoka.broker.groups.config import GroupConfig
from epoka.broker.groups.group import Group, GroupState
from epoka.broker.groups.member import Member, Protocols
from epoka.broker.groups.outbox import Continuation, Outbox, Waiting
from epoka.broker.groups.records import group_entry
from epoka.broker.groups.refusals import group_store_error
from epoka.broker.groups.registry import Registry
from epoka.broker.groups.timers import Timer, TimerKind, Timers
from epoka.wire.error_codes import ErrorCode

SHORTEST_WAIT_MS: Final = 1_000
"""A client may name a rebalance timeout of 0, within which nobody could answer."""


class AssignmentStore(Continuation, frozen=True):
    """A leader's assignment is on its way to the log."""

    group_id: str
    ticket: int
    assignments: dict[str, bytes]


class Rebalances:
    def __init__(self, config: GroupConfig, registry: Registry, outbox: Outbox, timers: Timers) -> None:
        self._config = config
        self._registry = registry
        self._outbox = outbox
        self._timers = timers

    # Members come, change and go

    def heard_of(self, group: Group, member: Member, now: int) -> None:
        """A member is alive, so its session starts anew."""
        self._timers.set(_session(group, member.member_id), now + member.session_timeout_ms)

    def expect_pending(self, group: Group, member_id: str, session_timeout_ms: int, now: int) -> None:
        """An id was given out; its owner must come back with it within one session."""
        group.pending_members[member_id] = None
        self._timers.set(_pending(group, member_id), now + session_timeout_ms)

    def add(self, group: Group, member: Member, protocol_type: str, waiting: Waiting, now: int) -> None:
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.generation_id == 0:
            group.has_grown = True
        self._timers.cancel(_pending(group, member.member_id))
        group.add(member, protocol_type, waiting)
        self._timers.set(_session(group, member.member_id), now + self._config.new_member_join_timeout_ms)
        self.prepare_if_possible(group, now)

    def update(
        self,
        group: Group,
        member: Member,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        waiting: Waiting,
        now: int,
    ) -> None:
        group.update(member, protocols, rebalance_timeout_ms, session_timeout_ms)
        self.await_join(group, member, waiting)
        self.prepare_if_possible(group, now)

    def await_join(self, group: Group, member: Member, waiting: Waiting) -> None:
        """Let a join wait. One that waited before it will not be read by anyone, but is answered."""
        self._answer_join_with_error(group, member, ErrorCode.REBALANCE_IN_PROGRESS)
        group.await_join(member, waiting)

    def replace(self, group: Group, member: Member, new_member_id: str, now: int) -> None:
        """A static member restarted: whatever still speaks under its old id is fenced."""
        self._answer_join_with_error(group, member, ErrorCode.FENCED_INSTANCE_ID)
        self._answer_sync_with_error(member, ErrorCode.FENCED_INSTANCE_ID)
        self._timers.cancel(_session(group, member.member_id))
        group.rename(member, new_member_id)
        self.heard_of(group, member, now)

    def remove(self, group: Group, member: Member, now: int) -> None:
        """A member has left or failed."""
        self._drop(group, member)
        if group.state is GroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined(group, now)
        else:
            self.prepare_if_possible(group, now)

    def remove_pending(self, group: Group, member_id: str, now: int) -> None:
        group.pending_members.pop(member_id, None)
        self._timers.cancel(_pending(group, member_id))
        self.complete_if_all_joined(group, now)

    def turn_away(self, group: Group, member_id: str, now: int) -> None:
        """There is no room for this one, whether it was in the group or about to join it."""
        member = group.members.get(member_id)
        if member is not None:
            self._drop(group, member)
            self.complete_if_all_joined(group, now)
        elif member_id in group.pending_members:
            self.remove_pending(group, member_id, now)

    def _drop(self, group: Group, member: Member) -> None:
        self._answer_join_with_error(group, member, ErrorCode.UNKNOWN_MEMBER_ID, member_id="")
        self._answer_sync_with_error(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self._timers.cancel(_session(group, member.member_id))
        group.remove(member)

    # The joins

    def prepare_if_possible(self, group: Group, now: int) -> None:
        if group.may_rebalance:
            self.prepare(group, now)

    def prepare(self, group: Group, now: int) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                self._answer_sync_with_error(member, ErrorCode.REBALANCE_IN_PROGRESS, group, now)
        was_empty = group.state is GroupState.EMPTY
        group.pending_sync.clear()
        self._timers.cancel(_sync(group))
        group.assignment_ticket = None
        group.transition(GroupState.PREPARING_REBALANCE, now)
        if not was_empty:
            self._timers.set(_join(group), now + _patience_ms(group))
            self.complete_if_all_joined(group, now)
        elif self._config.initial_rebalance_delay_ms > 0:
            delay = self._config.initial_rebalance_delay_ms
            group.growing_until = now + max(group.rebalance_timeout_ms, delay)
            group.has_grown = False
            self._timers.set(_join(group), now + delay)
        else:
            self._complete(group, now)

    def complete_if_all_joined(self, group: Group, now: int) -> None:
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.growing_until is None
            and group.has_all_joined
        ):
            self._complete(group, now)

    def _complete(self, group: Group, now: int) -> None:
        for member in [*group.members.values()]:
            if member.awaiting_join is None and not member.is_static:
                self._drop(group, member)
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none of them is back, so the wait goes on until they are or
            # their sessions end.
            group.growing_until = None
            self._timers.set(_join(group), now + _patience_ms(group))
            return
        self._timers.cancel(_join(group))
        group.next_generation(now)
        if group.state is GroupState.EMPTY:
            # If this record is lost, the next coordinator finds the old generation and lets it time out.
            group.record_ticket = self._outbox.store(group.partition, [group_entry(group, {})])
            return
        for member in group.members.values():
            waiting = group.take_join(member)
            if waiting is not None:
                self._outbox.answer(waiting.token, replies.joined(group, member, waiting.version))
            member.is_new = False
            self.heard_of(group, member, now)
            group.pending_sync[member.member_id] = None
        self._timers.set(_sync(group), now + _patience_ms(group))

    # The assignment

    def await_sync(self, group: Group, member: Member, waiting: Waiting) -> None:
        self._answer_sync_with_error(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.awaiting_sync = waiting

    def has_synced(self, group: Group, member: Member) -> None:
        group.pending_sync.pop(member.member_id, None)
        if not group.pending_sync:
            self._timers.cancel(_sync(group))

    def assign(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """The leader has spoken; a member it says nothing about gets nothing."""
        complete = {member_id: assignments.get(member_id, b"") for member_id in group.members}
        group.assignment_ticket = group.record_ticket = self._outbox.store(
            group.partition,
            [group_entry(group, complete)],
            lambda ticket: AssignmentStore(group.partition, group.group_id, ticket, complete),
        )

    def on_assignment_stored(self, stored: AssignmentStore, error: ErrorCode, now: int) -> None:
        group = self._registry.get(stored.group_id)
        if group is None or group.assignment_ticket != stored.ticket:
            # Someone has joined or left since, so this assignment is history.
            return
        group.assignment_ticket = None
        if error is not ErrorCode.NONE:
            for member in group.members.values():
                self._answer_sync_with_error(member, group_store_error(error), group, now)
            self.prepare_if_possible(group, now)
            return
        group.transition(GroupState.STABLE, now)
        for member in group.members.values():
            member.assignment = stored.assignments[member.member_id]
            waiting, member.awaiting_sync = member.awaiting_sync, None
            if waiting is not None:
                self._outbox.answer(waiting.token, replies.synced(group, member, waiting.version))
                self.heard_of(group, member, now)

    # Time

    def on_session_timeout(self, group: Group, member_id: str, now: int) -> None:
        member = group.members.get(member_id)
        if member is not None and not member.is_excused:
            self.remove(group, member, now)

    def on_join_timeout(self, group: Group, now: int) -> None:
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        if group.has_grown and group.growing_until is not None:
            group.has_grown = False
            self._timers.set(
                _join(group), min(now + self._config.initial_rebalance_delay_ms, group.growing_until)
            )
            return
        self._complete(group, now)

    def on_sync_timeout(self, group: Group, now: int) -> None:
        """Members that joined and never asked for their assignment are out."""
        late = [group.members[member_id] for member_id in group.pending_sync]
        for member in late:
            self._drop(group, member)
        if late:
            self.prepare_if_possible(group, now)

    def resume(self, group: Group, now: int) -> None:
        """A group was loaded: its members have one session to find their new coordinator."""
        if len(group.members) > self._config.max_size:
            self.prepare(group, now)
        for member in group.members.values():
            self.heard_of(group, member, now)

    def abandon(self, group: Group) -> None:
        """A group goes to another coordinator, or is gone."""
        for member in group.members.values():
            self._answer_join_with_error(group, member, ErrorCode.NOT_COORDINATOR)
            self._answer_sync_with_error(member, ErrorCode.NOT_COORDINATOR)
            self._timers.cancel(_session(group, member.member_id))
        for member_id in group.pending_members:
            self._timers.cancel(_pending(group, member_id))
        group.pending_members.clear()
        self._timers.cancel(_join(group))
        self._timers.cancel(_sync(group))

    # Refusals to those who wait

    def _answer_join_with_error(
        self, group: Group, member: Member, error: ErrorCode, member_id: str | None = None
    ) -> None:
        waiting = group.take_join(member)
        if waiting is not None:
            named = member.member_id if member_id is None else member_id
            self._outbox.answer(waiting.token, replies.join_refused(error, named, waiting.version))

    def _answer_sync_with_error(
        self, member: Member, error: ErrorCode, group: Group | None = None, now: int = 0
    ) -> None:
        """With a group, the member stays in it, and its session starts anew."""
        waiting, member.awaiting_sync = member.awaiting_sync, None
        if waiting is not None:
            self._outbox.answer(waiting.token, replies.sync_refused(error))
            if group is not None:
                self.heard_of(group, member, now)


def _patience_ms(group: Group) -> int:
    """How long members are waited for, to join or to ask for their assignments."""
    return max(group.rebalance_timeout_ms, SHORTEST_WAIT_MS)


def _session(group: Group, member_id: str) -> Timer:
    return Timer(TimerKind.SESSION, group.group_id, member_id)


def _pending(group: Group, member_id: str) -> Timer:
    return Timer(TimerKind.PENDING, group.group_id, member_id)


def _join(group: Group) -> Timer:
    return Timer(TimerKind.JOIN, group.group_id)


def _sync(group: Group) -> Timer:
    return Timer(TimerKind.SYNC, group.group_id)

"""JoinGroup 0-9: who may enter a group, and when that takes a rebalance.

A dynamic member without an id is first given one (from version 4 on), so that a client that never comes back
leaves no member behind. A static member is known by its instance id: when it restarts it takes over the place
of its former self, and a stable group stays stable unless it now speaks or subscribes otherwise. A follower
that joins again with nothing changed learns the present generation; the leader's joining again always means a
rebalance, since it may have seen the topics change.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from epoka.broker.groups import replies
from epoka.broker.groups.config import GroupConfig
from epoka.broker.groups.group import Group, GroupState
from epoka.broker.groups.member import Member, Protocols, protocols_of
from epoka.broker.groups.outbox import Continuation, Outbox, Waiting
from epoka.broker.groups.rebalances import Rebalances
from epoka.broker.groups.records import group_entry
from epoka.broker.groups.refusals import group_store_error
from epoka.broker.groups.registry import Registry
from epoka.broker.groups.subscription import subscribed_topics
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.join_group import JoinGroupRequest


class Join(msgspec.Struct, frozen=True):
    """A join request, with what its version leaves open filled in."""

    waiting: Waiting
    client_id: str
    client_host: str
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int

    @classmethod
    def of(cls, waiting: Waiting, client_id: str, client_host: str, request: JoinGroupRequest) -> Join:
        has_rebalance_timeout = waiting.version >= 1 and request.rebalance_timeout_ms >= 0
        return cls(
            waiting=waiting,
            client_id=client_id,
            client_host=client_host,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocols=protocols_of((protocol.name, protocol.metadata) for protocol in request.protocols),
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=(
                request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms
            ),
        )


class ReplacementStore(Continuation, frozen=True):
    """A static member's new id is on its way to the log, and with it what to go back to if it fails."""

    group_id: str
    instance_id: str
    waiting: Waiting
    generation_id: int
    former_leader_id: str | None
    former_member_id: str
    former_protocols: Protocols
    former_rebalance_timeout_ms: int
    former_session_timeout_ms: int


class Joins:
    def __init__(
        self,
        config: GroupConfig,
        registry: Registry,
        outbox: Outbox,
        rebalances: Rebalances,
        new_member_id: Callable[[str], str],
    ) -> None:
        self._config = config
        self._registry = registry
        self._outbox = outbox
        self._rebalances = rebalances
        self._new_member_id = new_member_id

    def on_join_group(self, group_id: str, join: Join, now: int) -> None:
        config = self._config
        refusal = self._registry.refusal(group_id)
        if refusal is not None:
            self._refuse(join, refusal)
            return
        if not config.min_session_timeout_ms <= join.session_timeout_ms <= config.max_session_timeout_ms:
            self._refuse(join, ErrorCode.INVALID_SESSION_TIMEOUT)
            return
        group = self._registry.get(group_id)
        if group is None:
            if join.member_id:
                self._refuse(join, ErrorCode.UNKNOWN_MEMBER_ID)
                return
            group = self._registry.create(group_id, now)
        if not group.has_room_for(join.member_id, config.max_size):
            self._rebalances.turn_away(group, join.member_id, now)
            self._refuse(join, ErrorCode.GROUP_MAX_SIZE_REACHED, member_id="")
        elif not group.supports(join.protocol_type, join.protocols):
            self._refuse(join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif join.member_id:
            self._rejoin(group, join, now)
        else:
            self._enter(group, join, now)
        if group.is_unused:
            self._registry.discard(group)
        self._rebalances.complete_if_all_joined(group, now)

    # Without an id

    def _enter(self, group: Group, join: Join, now: int) -> None:
        member_id = self._new_member_id(join.client_id if join.instance_id is None else join.instance_id)
        if join.instance_id is None:
            if join.waiting.version >= 4:
                self._rebalances.expect_pending(group, member_id, join.session_timeout_ms, now)
                self._refuse(join, ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
            else:
                self._add(group, member_id, join, now)
            return
        former_member_id = group.static_members.get(join.instance_id)
        if former_member_id is None:
            self._add(group, member_id, join, now)
        else:
            self._take_over(group, group.members[former_member_id], member_id, join, now)

    def _add(self, group: Group, member_id: str, join: Join, now: int) -> None:
        member = Member(
            member_id=member_id,
            instance_id=join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.session_timeout_ms,
            protocols=join.protocols,
        )
        self._rebalances.add(group, member, join.protocol_type, join.waiting, now)

    def _take_over(self, group: Group, member: Member, member_id: str, join: Join, now: int) -> None:
        """A static member takes the place of its former self."""
        instance_id = member.instance_id or ""
        before = ReplacementStore(
            partition=group.partition,
            group_id=group.group_id,
            instance_id=instance_id,
            waiting=join.waiting,
            generation_id=group.generation_id,
            former_leader_id=group.leader_id,
            former_member_id=member.member_id,
            former_protocols=member.protocols,
            former_rebalance_timeout_ms=member.rebalance_timeout_ms,
            former_session_timeout_ms=member.session_timeout_ms,
        )
        self._rebalances.replace(group, member, member_id, now)
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
        self._rebalances.await_join(group, member, join.waiting)
        if group.state is GroupState.STABLE and not _needs_rebalance(group, before.former_protocols, member):
            assignments = {each.member_id: each.assignment for each in group.members.values()}
            group.record_ticket = self._outbox.store(
                group.partition, [group_entry(group, assignments)], lambda _: before
            )
        else:
            # A leader that is still computing knows only the former id, and would assign nothing to this one.
            self._rebalances.prepare_if_possible(group, now)

    def on_replacement_stored(self, stored: ReplacementStore, error: ErrorCode, now: int) -> None:
        group = self._registry.get(stored.group_id)
        member = (
            None if group is None else group.members.get(group.static_members.get(stored.instance_id, ""))
        )
        if group is None or member is None or member.awaiting_join != stored.waiting:
            return
        if group.state is not GroupState.STABLE or group.generation_id != stored.generation_id:
            # A rebalance has begun meanwhile and the join waits for its end like any other.
            return
        waiting = stored.waiting
        if error is not ErrorCode.NONE:
            group.take_join(member)
            group.update(
                member,
                stored.former_protocols,
                stored.former_rebalance_timeout_ms,
                stored.former_session_timeout_ms,
            )
            self._rebalances.replace(group, member, stored.former_member_id, now)
            self._outbox.answer(
                waiting.token, replies.join_refused(group_store_error(error), "", waiting.version)
            )
            return
        group.take_join(member)
        self._rebalances.heard_of(group, member, now)
        if waiting.version >= 9:
            leads = group.is_leader(member.member_id)
            answer = replies.joined(group, member, waiting.version, skip_assignment=leads)
        else:
            # An older client would compute an assignment that a stable group has no use for, so it is told of
            # its former self as the leader.
            answer = replies.joined(
                group, member, waiting.version, leader_id=stored.former_leader_id, shows_members=False
            )
        self._outbox.answer(waiting.token, answer)

    # With an id

    def _rejoin(self, group: Group, join: Join, now: int) -> None:
        if join.member_id in group.pending_members and join.instance_id is None:
            self._add(group, join.member_id, join, now)
            return
        refusal = group.refusal(join.member_id, join.instance_id)
        if refusal is not None:
            self._refuse(join, refusal)
            return
        member = group.members[join.member_id]
        unchanged = member.matches(join.protocols)
        match group.state:
            case GroupState.COMPLETING_REBALANCE if unchanged:
                # The answer to its first join was lost.
                self._outbox.answer(join.waiting.token, replies.joined(group, member, join.waiting.version))
            case GroupState.STABLE if unchanged and not group.is_leader(join.member_id):
                self._outbox.answer(join.waiting.token, replies.joined(group, member, join.waiting.version))
            case _:
                self._rebalances.update(
                    group,
                    member,
                    join.protocols,
                    join.rebalance_timeout_ms,
                    join.session_timeout_ms,
                    join.waiting,
                    now,
                )

    def _refuse(self, join: Join, error: ErrorCode, member_id: str | None = None) -> None:
        named = join.member_id if member_id is None else member_id
        self._outbox.answer(join.waiting.token, replies.join_refused(error, named, join.waiting.version))


def _needs_rebalance(group: Group, former: Protocols, member: Member) -> bool:
    """Whether a static member came back so different that its former assignment does not fit."""
    name = group.select_protocol()
    if name != group.protocol_name:
        return True
    if not group.is_consumer_group or name not in former:
        return False
    return subscribed_topics([former[name]]) != subscribed_topics([member.metadata(name)])

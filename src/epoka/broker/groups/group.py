"""One group: its members, its state and its generation.

It knows which state may follow which, whose vote chooses the protocol and who leads. It answers nobody and
sets no timers: `rebalances.py` does. Members are kept in the order in which they came, and every choice among
them falls on the first, so the same requests make the same group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

from epoka.broker.groups.member import Member, Protocols
from epoka.broker.groups.offsets import CommittedOffset, GroupOffsets, TopicPartition
from epoka.broker.groups.outbox import Waiting
from epoka.broker.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from epoka.model.errors import InvariantBroken
from epoka.wire.error_codes import ErrorCode


class GroupState(StrEnum):
    """The states, by the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    """Joins wait here until every member has joined or the time is up."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation is made, and its leader computes the assignment."""
    STABLE = "Stable"
    DEAD = "Dead"
    """What is said of a group that does not exist."""


_MAY_FOLLOW: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.STABLE}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.DEAD: frozenset(),
}


class Group:
    __slots__ = (
        "_protocol_votes",
        "assignment_ticket",
        "generation_id",
        "group_id",
        "growing_until",
        "has_grown",
        "leader_id",
        "members",
        "members_awaiting_join",
        "offsets",
        "partition",
        "pending_members",
        "pending_sync",
        "protocol_name",
        "protocol_type",
        "record_ticket",
        "state",
        "state_timestamp",
        "static_members",
        "subscribed_topics",
    )

    def __init__(self, group_id: str, partition: int, now: int) -> None:
        self.group_id = group_id
        self.partition = partition
        self.state = GroupState.EMPTY
        self.state_timestamp: int | None = now
        """When this state began; unknown for groups written by very old coordinators."""
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.pending_members: dict[str, None] = {}
        """Ids that were given out and not yet used. A dict, because a set has no order."""
        self.pending_sync: dict[str, None] = {}
        """Members of this generation that have not asked for their assignment."""
        self.members_awaiting_join = 0
        self.growing_until: int | None = None
        """While an empty group waits for more members than its first: until when at the latest."""
        self.has_grown = False
        """A member came while the first rebalance was being delayed, so the delay may be drawn out."""
        self.assignment_ticket: int | None = None
        """The store that makes this generation stable when it is committed."""
        self.record_ticket = 0
        """The store of the group's last record, which a tombstone before it does not touch."""
        self.subscribed_topics: frozenset[str] | None = None
        self.offsets = GroupOffsets()
        self._protocol_votes: Counter[str] = Counter()

    @classmethod
    def loaded(
        cls,
        group_id: str,
        partition: int,
        *,
        generation_id: int,
        protocol_type: str | None,
        protocol_name: str | None,
        leader_id: str | None,
        state_timestamp: int | None,
        members: Iterable[Member],
    ) -> Group:
        """A group as its last record in the log has it: stable, or empty."""
        group = cls(group_id, partition, 0)
        group.generation_id = generation_id
        group.protocol_type = protocol_type
        group.protocol_name = protocol_name
        group.state_timestamp = state_timestamp
        for member in members:
            group._enter(member)
        group.leader_id = leader_id if leader_id in group.members else next(iter(group.members), None)
        if group.members:
            group.state = GroupState.STABLE
        group.subscribed_topics = group._subscribed_topics()
        return group

    def transition(self, to: GroupState, now: int) -> None:
        if to not in _MAY_FOLLOW[self.state]:
            raise InvariantBroken(f"group {self.group_id} cannot go from {self.state} to {to}")
        self.state = to
        self.state_timestamp = now

    @property
    def may_rebalance(self) -> bool:
        return GroupState.PREPARING_REBALANCE in _MAY_FOLLOW[self.state]

    @property
    def is_deserted(self) -> bool:
        """It has no members, and nobody is about to become one."""
        return self.state is GroupState.EMPTY and not self.pending_members

    @property
    def is_unused(self) -> bool:
        """Nothing in the log speaks of this group, and nobody is about to join it."""
        return self.is_deserted and self.generation_id == 0 and not self.offsets

    # Members

    def add(self, member: Member, protocol_type: str, waiting: Waiting) -> None:
        if not self.members:
            # A group without members takes up whatever its first one speaks.
            self.protocol_type = protocol_type
            self._protocol_votes.clear()
        self._enter(member)
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_members.pop(member.member_id, None)
        self.await_join(member, waiting)

    def _enter(self, member: Member) -> None:
        if member.instance_id is not None:
            if member.instance_id in self.static_members:
                raise InvariantBroken(f"instance {member.instance_id} is already in group {self.group_id}")
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._protocol_votes.update(member.protocols.keys())

    def update(
        self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._protocol_votes.subtract(member.protocols.keys())
        member.protocols = protocols
        self._protocol_votes.update(protocols.keys())
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def remove(self, member: Member) -> None:
        """Take a member out; its waiting requests must have been taken first."""
        if member.awaiting_join is not None or member.awaiting_sync is not None:
            raise InvariantBroken(
                f"member {member.member_id} leaves {self.group_id} with a request unanswered"
            )
        del self.members[member.member_id]
        self._protocol_votes.subtract(member.protocols.keys())
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        self.pending_sync.pop(member.member_id, None)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: Member, new_member_id: str) -> None:
        """A static member has come back under a new id; the old id is fenced from now on."""
        if member.instance_id is None:
            raise InvariantBroken(f"only static members are replaced, not {member.member_id}")
        old_member_id = member.member_id
        member.member_id = new_member_id
        # It keeps its place: the order of members is the one that is stored, and they are told in it.
        members = list(self.members.values())
        self.members.clear()
        self.members.update((each.member_id, each) for each in members)
        self.static_members[member.instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if old_member_id in self.pending_sync:
            del self.pending_sync[old_member_id]
            self.pending_sync[new_member_id] = None

    def await_join(self, member: Member, waiting: Waiting) -> None:
        if member.awaiting_join is None:
            self.members_awaiting_join += 1
        member.awaiting_join = waiting

    def take_join(self, member: Member) -> Waiting | None:
        waiting = member.awaiting_join
        if waiting is not None:
            member.awaiting_join = None
            self.members_awaiting_join -= 1
        return waiting

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def refusal(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """Why this identity may not speak for a member: it is fenced, or nobody knows it."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def has_room_for(self, member_id: str, max_size: int) -> bool:
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                # Those who have not rejoined may be gone, so only those who wait are counted. That also keeps
                # out the last to rejoin when the limit was lowered.
                member = self.members.get(member_id)
                rejoined = member is not None and member.awaiting_join is not None
                return rejoined or self.members_awaiting_join < max_size
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member_id in self.members or len(self.members) < max_size
            case _:
                return True

    @property
    def has_all_joined(self) -> bool:
        return self.members_awaiting_join == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Generations

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one of those who have joined; False if nobody has."""
        leader = None if self.leader_id is None else self.members[self.leader_id]
        if leader is not None and leader.awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def next_generation(self, now: int) -> None:
        self.generation_id += 1
        self.growing_until = None
        self.has_grown = False
        self.assignment_ticket = None
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition(GroupState.COMPLETING_REBALANCE, now)
        else:
            self.protocol_name = None
            self.transition(GroupState.EMPTY, now)
        self.subscribed_topics = self._subscribed_topics()

    # Protocols

    def supports(self, protocol_type: str, protocols: Collection[str]) -> bool:
        """Whether a member that speaks these can be in the group with all the others."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self._protocol_votes[name] == len(self.members) for name in protocols
        )

    def select_protocol(self) -> str:
        """Each member votes for the first it knows of those all know; a tie goes to the vote cast first."""
        members = self.members.values()
        candidates = frozenset(name for name, votes in self._protocol_votes.items() if votes == len(members))
        return Counter(member.vote(candidates) for member in members).most_common(1)[0][0]

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """When in doubt, yes."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.is_consumer_group:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        name = self.protocol_name
        return subscribed_topics(member.metadata(name) for member in self.members.values())

    # Offsets

    def expired_offsets(self, now: int, retention_ms: int) -> list[TopicPartition]:
        """Offsets nobody needs: of an empty group, or of topics its members have left."""
        if self.protocol_type is None:
            return self.offsets.expired(now, retention_ms, _commit_timestamp)
        if self.state is GroupState.EMPTY:
            empty_since = self.state_timestamp
            return self.offsets.expired(
                now,
                retention_ms,
                _commit_timestamp if empty_since is None else lambda _: empty_since,
            )
        if self.state is GroupState.STABLE and self.is_consumer_group and self.subscribed_topics is not None:
            return self.offsets.expired(now, retention_ms, _commit_timestamp, self.subscribed_topics)
        return []


def _commit_timestamp(offset: CommittedOffset) -> int:
    return offset.commit_timestamp

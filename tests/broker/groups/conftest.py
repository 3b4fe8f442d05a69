"""A desk at which tests play clients, the log and the clock of one group coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from epoka.broker.groups import Answer, GroupConfig, GroupCoordinator, GroupEffect, Store
from epoka.broker.groups.group import Group, GroupState
from epoka.broker.groups.timers import Timer, TimerKind, Timers
from epoka.wire.codec import decode, encode
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.delete_groups import DeleteGroupsRequest
from epoka.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from epoka.wire.messages.group_records import ConsumerProtocolSubscription
from epoka.wire.messages.heartbeat import HeartbeatRequest
from epoka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from epoka.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from epoka.wire.messages.list_groups import ListGroupsRequest
from epoka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from epoka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from epoka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from epoka.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

DELAY_MS = 3_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str) -> bytes:
    return b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=topics), 0)


def check(group: Group, timers: Timers) -> None:
    """What holds of every group between any two events."""
    members = group.members
    assert all(member.member_id == member_id for member_id, member in members.items())
    assert group.static_members == {m.instance_id: m.member_id for m in members.values() if m.is_static}
    assert group.members_awaiting_join == sum(m.awaiting_join is not None for m in members.values())
    assert group.leader_id in members if members else group.leader_id is None
    assert set(group.pending_sync) <= set(members)
    assert not set(group.pending_members) & set(members)
    for member in members.values():
        # Nobody stays in a group for ever: either we owe the member an answer, or it owes us a sign of life.
        assert member.is_excused or timers.is_set(Timer(TimerKind.SESSION, group.group_id, member.member_id))
        assert member.awaiting_sync is None or group.state is GroupState.COMPLETING_REBALANCE
    for member_id in group.pending_members:
        assert timers.is_set(Timer(TimerKind.PENDING, group.group_id, member_id))
    match group.state:
        case GroupState.EMPTY:
            assert not members
        case GroupState.PREPARING_REBALANCE:
            assert timers.is_set(Timer(TimerKind.JOIN, group.group_id))
            assert group.growing_until is not None or not group.has_all_joined
        case GroupState.COMPLETING_REBALANCE:
            is_awaited = timers.is_set(Timer(TimerKind.SYNC, group.group_id))
            assert is_awaited or group.assignment_ticket is not None
            assert group.members_awaiting_join == 0
        case GroupState.STABLE:
            assert members
            assert group.protocol_name is not None
            assert all(group.protocol_name in member.protocols for member in members.values())


class Desk:
    """Stores are committed at once, unless `holds_stores` is set."""

    def __init__(self, **config: Any) -> None:
        config = {"initial_rebalance_delay_ms": DELAY_MS, "partitions": 4, **config}
        self.config = GroupConfig(**config)
        self.now = 1_700_000_000_000
        self.ids = 0
        self.tokens = 0
        self.versions: dict[int, int] = {}
        self.answers: dict[int, Any] = {}
        self.holds_stores = False
        self.checks_groups = True
        self.stores: list[Store] = []
        self.log: dict[int, list[tuple[bytes, bytes | None]]] = {p: [] for p in range(self.config.partitions)}
        self.coordinator = self.start()
        self.load_all()

    # The world around it

    def start(self) -> GroupCoordinator:
        def new_member_id(prefix: str) -> str:
            self.ids += 1
            return f"{prefix}-{self.ids}"

        return GroupCoordinator(self.config, new_member_id)

    def load_all(self) -> None:
        for partition in range(self.config.partitions):
            self.coordinator.load_started(partition)
            self.load(partition)

    def load(self, partition: int) -> None:
        entries = [(key, value, at, self.now) for at, (key, value) in enumerate(self.log[partition])]
        self.apply(self.coordinator.load(partition, entries, self.now))

    def unload(self, partition: int) -> None:
        self.apply(self.coordinator.unload(partition, self.now))

    def crash(self) -> None:
        """The broker is gone with all it had not stored; another one takes over."""
        self.stores.clear()
        self.coordinator = self.start()
        self.load_all()

    def apply(self, effects: list[GroupEffect]) -> None:
        for effect in effects:
            match effect:
                case Answer(token, message):
                    assert token not in self.answers, f"request {token} was answered twice"
                    version = self.versions[token]
                    assert decode(type(message), version, encode(message, version)) == message
                    self.answers[token] = message
                case Store():
                    self.stores.append(effect)
        if self.checks_groups:
            for group in self.coordinator._registry.groups:
                check(group, self.coordinator._timers)
        if not self.holds_stores:
            self.commit_stores()

    def commit_stores(self) -> None:
        while self.stores:
            self.finish_store()

    def finish_store(self, error: ErrorCode = ErrorCode.NONE) -> None:
        store = self.stores.pop(0)
        if error is ErrorCode.NONE:
            self.log[store.partition].extend(store.records)
        self.apply(self.coordinator.stored(store.ticket, error, self.now))

    def advance(self, ms: int) -> None:
        until = self.now + ms
        while (deadline := self.coordinator.deadline) is not None and deadline <= until:
            assert deadline >= self.now
            self.now = deadline
            self.apply(self.coordinator.wake(self.now))
        self.now = until

    def is_waiting(self, token: int) -> bool:
        return token not in self.answers

    def group(self, group_id: str = "g") -> Group | None:
        return self.coordinator._registry.get(group_id)

    def state(self, group_id: str = "g") -> GroupState:
        group = self.group(group_id)
        return GroupState.DEAD if group is None else group.state

    # Requests; each returns its token

    def ask(
        self, method: Callable[..., list[GroupEffect]], version: int, message: Any, *client: str | None
    ) -> int:
        self.tokens += 1
        token = self.tokens
        self.versions[token] = version
        request = decode(type(message), version, encode(message, version))
        self.apply(method(token, version, *client, request, self.now))
        return token

    def join(
        self,
        member_id: str = "",
        group_id: str = "g",
        *,
        version: int = 9,
        instance_id: str | None = None,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
        protocols: Mapping[str, bytes] | None = None,
        client_id: str | None = "client",
    ) -> int:
        if protocols is None:
            protocols = {"range": subscription("t")}
        message = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=tuple(JoinGroupRequestProtocol(name, data) for name, data in protocols.items()),
        )
        return self.ask(self.coordinator.join_group, version, message, client_id, "/10.0.0.1")

    def sync(
        self,
        member_id: str,
        generation_id: int | None = None,
        group_id: str = "g",
        *,
        version: int = 5,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: Mapping[str, bytes] | None = None,
    ) -> int:
        message = SyncGroupRequest(
            group_id=group_id,
            generation_id=self.generation(group_id) if generation_id is None else generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=tuple(SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()),
        )
        return self.ask(self.coordinator.sync_group, version, message)

    def heartbeat(
        self,
        member_id: str,
        generation_id: int | None = None,
        group_id: str = "g",
        *,
        instance_id: str | None = None,
    ) -> ErrorCode:
        message = HeartbeatRequest(
            group_id=group_id,
            generation_id=self.generation(group_id) if generation_id is None else generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        return self.error(self.ask(self.coordinator.heartbeat, 4, message))

    def leave(self, *members: str | MemberIdentity, group_id: str = "g") -> Any:
        identities = tuple(
            m if isinstance(m, MemberIdentity) else MemberIdentity(member_id=m) for m in members
        )
        message = LeaveGroupRequest(group_id=group_id, members=identities)
        return self.answers[self.ask(self.coordinator.leave_group, 5, message)]

    def leave_alone(self, member_id: str, group_id: str = "g", *, version: int = 2) -> Any:
        message = LeaveGroupRequest(group_id=group_id, member_id=member_id)
        return self.answers[self.ask(self.coordinator.leave_group, version, message)]

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        member_id: str = "",
        generation_id: int = -1,
        group_id: str = "g",
        *,
        version: int = 9,
        instance_id: str | None = None,
        metadata: str | None = None,
        leader_epoch: int = -1,
        retention_ms: int = -1,
    ) -> int:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (name, index), offset in offsets.items():
            topics.setdefault(name, []).append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
            )
        message = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=tuple(
                OffsetCommitRequestTopic(name=name, partitions=tuple(each)) for name, each in topics.items()
            ),
        )
        return self.ask(self.coordinator.offset_commit, version, message)

    def committed(self, token: int) -> dict[tuple[str, int], ErrorCode]:
        return {
            (topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for topic in self.answers[token].topics
            for partition in topic.partitions
        }

    def fetch(
        self,
        partitions: Mapping[str, Iterable[int]] | None = None,
        group_id: str = "g",
        *,
        version: int = 9,
        require_stable: bool = False,
    ) -> Any:
        if version >= 8:
            topics = (
                None
                if partitions is None
                else tuple(OffsetFetchRequestTopics(name, tuple(each)) for name, each in partitions.items())
            )
            message = OffsetFetchRequest(
                groups=(OffsetFetchRequestGroup(group_id=group_id, topics=topics),),
                require_stable=require_stable,
            )
        else:
            message = OffsetFetchRequest(
                group_id=group_id,
                topics=(
                    None
                    if partitions is None
                    else tuple(
                        OffsetFetchRequestTopic(name, tuple(each)) for name, each in partitions.items()
                    )
                ),
                require_stable=require_stable,
            )
        return self.answers[self.ask(self.coordinator.offset_fetch, version, message)]

    def offsets(self, group_id: str = "g") -> dict[tuple[str, int], int]:
        """All that the group has committed."""
        (group,) = self.fetch(group_id=group_id).groups
        assert group.error_code == ErrorCode.NONE
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
        }

    def delete_offsets(self, partitions: Iterable[tuple[str, int]], group_id: str = "g") -> int:
        topics: dict[str, list[int]] = {}
        for name, index in partitions:
            topics.setdefault(name, []).append(index)
        message = OffsetDeleteRequest(
            group_id=group_id,
            topics=tuple(
                OffsetDeleteRequestTopic(
                    name=name, partitions=tuple(OffsetDeleteRequestPartition(index) for index in indexes)
                )
                for name, indexes in topics.items()
            ),
        )
        return self.ask(self.coordinator.offset_delete, 0, message)

    def delete_groups(self, *group_ids: str) -> int:
        return self.ask(self.coordinator.delete_groups, 2, DeleteGroupsRequest(groups_names=group_ids))

    def deleted(self, token: int) -> dict[str, ErrorCode]:
        return {each.group_id: ErrorCode(each.error_code) for each in self.answers[token].results}

    def describe(self, group_id: str = "g", version: int = 5) -> DescribedGroup:
        request = DescribeGroupsRequest(groups=(group_id,))
        (described,) = self.answers[self.ask(self.coordinator.describe_groups, version, request)].groups
        assert isinstance(described, DescribedGroup)
        return described

    def list(self, *, version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Any:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        return self.answers[self.ask(self.coordinator.list_groups, version, request)]

    # Answers and whole conversations

    def error(self, token: int) -> ErrorCode:
        return ErrorCode(self.answers[token].error_code)

    def generation(self, group_id: str = "g") -> int:
        group = self.group(group_id)
        return -1 if group is None else group.generation_id

    def new_id(self, group_id: str = "g", **options: Any) -> str:
        """The first half of joining: be given an id."""
        answer = self.answers[self.join(group_id=group_id, **options)]
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return str(answer.member_id)

    def stable(self, size: int = 1, group_id: str = "g", **options: Any) -> list[str]:
        """A stable group of dynamic members, the leader first; each is assigned its own id in bytes."""
        member_ids = [self.new_id(group_id, **options) for _ in range(size)]
        tokens = [self.join(member_id, group_id, **options) for member_id in member_ids]
        while self.is_waiting(tokens[0]):
            self.advance(DELAY_MS)
        self.assign(group_id)
        assert self.state(group_id) is GroupState.STABLE
        return member_ids

    def assign(self, group_id: str = "g") -> None:
        """Every member syncs, the leader last."""
        group = self.group(group_id)
        assert group is not None
        leader_id = group.leader_id
        assert leader_id is not None
        for member_id, member in list(group.members.items()):
            if member_id != leader_id:
                self.sync(member_id, group_id=group_id, instance_id=member.instance_id)
        self.sync(
            leader_id,
            group_id=group_id,
            instance_id=group.members[leader_id].instance_id,
            assignments={member_id: member_id.encode() for member_id in group.members},
        )


@pytest.fixture
def make_desk() -> Callable[..., Desk]:
    return Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()

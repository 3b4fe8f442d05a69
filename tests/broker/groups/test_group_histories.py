"""Any history of a group, however clients, the log and the clock play together, keeps its promises."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from epoka.broker.groups.group import GroupState
from epoka.broker.groups.records import GroupRecord, OffsetRecord, read
from epoka.wire.error_codes import ErrorCode

GROUPS = ("g", "h")
INSTANCES = ("i", "j")
PROTOCOLS: tuple[dict[str, bytes], ...] = (
    {"range": b"1", "sticky": b"1"},
    {"sticky": b"2", "range": b"2"},
    {"range": b"3"},
)
STORE_ERRORS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
)

groups = st.sampled_from(GROUPS)
picks = st.integers(0, 7)


class GroupHistory(RuleBasedStateMachine):
    def __init__(self, make_desk: Callable[..., Any]) -> None:
        super().__init__()
        self.desk = make_desk(max_size=4, partitions=2)
        self.desk.holds_stores = True
        self.given: dict[str, list[str]] = {group_id: [] for group_id in GROUPS}
        """Every id that was ever given out, by group, also those long gone."""
        self.lost: set[int] = set()
        """Requests whose connection is gone."""
        self.generations: dict[int, tuple[Any, int]] = {}
        """The highest generation seen of each group object."""
        self.leaders: dict[tuple[int, int], str] = {}
        """Who was made leader, by group object and generation."""
        self.joins: dict[int, str] = {}

    def pick(self, group_id: str, number: int) -> str:
        """Some member, past or present, or nobody."""
        known = ["", *self.given[group_id][-7:]]
        return known[number % len(known)]

    # Clients

    @rule(
        group_id=groups,
        number=picks,
        protocols=st.sampled_from(PROTOCOLS),
        version=st.sampled_from((3, 5, 9)),
    )
    def join(self, group_id: str, number: int, protocols: dict[str, bytes], version: int) -> None:
        member_id = self.pick(group_id, number)
        self.joins[self.desk.join(member_id, group_id, protocols=protocols, version=version)] = group_id

    @rule(group_id=groups, instance_id=st.sampled_from(INSTANCES), protocols=st.sampled_from(PROTOCOLS))
    def restart(self, group_id: str, instance_id: str, protocols: dict[str, bytes]) -> None:
        self.joins[self.desk.join("", group_id, instance_id=instance_id, protocols=protocols)] = group_id

    @rule(group_id=groups)
    def everyone_joins(self, group_id: str) -> None:
        group = self.desk.group(group_id)
        if group is not None:
            for member_id, member in list(group.members.items()):
                token = self.desk.join(
                    member_id, group_id, instance_id=member.instance_id, protocols=member.protocols
                )
                self.joins[token] = group_id
            for member_id in list(group.pending_members):
                self.joins[self.desk.join(member_id, group_id, protocols=PROTOCOLS[0])] = group_id

    @rule(group_id=groups)
    def come_to_rest(self, group_id: str) -> None:
        """Clients do for once what they should, so that stable groups are not left to chance."""
        group = self.desk.group(group_id)
        if group is None or not (group.members or group.pending_members):
            self.restart(group_id, INSTANCES[0], PROTOCOLS[0])
        self.everyone_joins(group_id)
        for _ in range(3):
            self.desk.advance(3_000)
        group = self.desk.group(group_id)
        if group is not None and group.state is GroupState.COMPLETING_REBALANCE:
            for member_id, member in list(group.members.items()):
                if not group.is_leader(member_id):
                    self.desk.sync(member_id, group_id=group_id, instance_id=member.instance_id)
            self.leader_syncs(group_id)
        self.desk.commit_stores()

    @rule(group_id=groups, number=picks)
    def sync(self, group_id: str, number: int) -> None:
        group = self.desk.group(group_id)
        assignments = {}
        if group is not None:
            assignments = {each: f"{group.generation_id}".encode() for each in group.members}
        self.desk.sync(self.pick(group_id, number), group_id=group_id, assignments=assignments)

    @rule(group_id=groups)
    def leader_syncs(self, group_id: str) -> None:
        group = self.desk.group(group_id)
        if group is not None and group.leader_id is not None:
            self.desk.sync(
                group.leader_id,
                group_id=group_id,
                instance_id=group.members[group.leader_id].instance_id,
                assignments={each: f"{group.generation_id}".encode() for each in group.members},
            )

    @rule(group_id=groups, number=picks)
    def heartbeat(self, group_id: str, number: int) -> None:
        self.desk.heartbeat(self.pick(group_id, number), group_id=group_id)

    @rule(group_id=groups, number=picks)
    def leave(self, group_id: str, number: int) -> None:
        self.desk.leave(self.pick(group_id, number), group_id=group_id)

    @rule(group_id=groups, number=picks, partition=st.integers(0, 2), offset=st.integers(0, 1_000))
    def commit(self, group_id: str, number: int, partition: int, offset: int) -> None:
        member_id = self.pick(group_id, number)
        generation = self.desk.generation(group_id) if member_id else -1
        self.desk.commit({("t", partition): offset}, member_id, generation, group_id)

    @rule(group_id=groups)
    def delete_group(self, group_id: str) -> None:
        self.desk.delete_groups(group_id)

    @rule(group_id=groups, partition=st.integers(0, 2))
    def delete_offset(self, group_id: str, partition: int) -> None:
        self.desk.delete_offsets([("t", partition)], group_id)

    @rule(number=picks)
    def disconnect(self, number: int) -> None:
        waiting = sorted(self.desk.coordinator._outbox.waiting)
        if waiting:
            token = waiting[number % len(waiting)]
            self.desk.coordinator.disconnected([token])
            self.lost.add(token)

    # The log, the cluster and the clock

    @precondition(lambda self: self.desk.stores)
    @rule()
    def store(self) -> None:
        self.desk.finish_store()

    @precondition(lambda self: self.desk.stores)
    @rule(error=st.sampled_from(STORE_ERRORS))
    def fail_to_store(self, error: ErrorCode) -> None:
        self.desk.finish_store(error)

    @rule(ms=st.sampled_from((1, 1_000, 3_000, 9_000, 60_000, 1_000_000)))
    def wait(self, ms: int) -> None:
        self.desk.advance(ms)

    @rule()
    def delete_topic(self) -> None:
        self.desk.apply(self.desk.coordinator.topics_deleted(["t"], self.desk.now))

    @rule()
    def crash(self) -> None:
        self.lost |= set(self.desk.versions) - set(self.desk.answers)
        self.desk.crash()
        self.check_offsets()

    @rule(group_id=groups)
    def change_coordinator_and_back(self, group_id: str) -> None:
        self.desk.commit_stores()
        before = self.desk.describe(group_id)
        offsets = self.desk.offsets(group_id)
        partition = self.desk.coordinator.partition_for(group_id)

        self.desk.unload(partition)
        self.desk.coordinator.load_started(partition)
        self.desk.load(partition)

        assert self.desk.offsets(group_id) == offsets
        if before.group_state == GroupState.STABLE:
            assert self.desk.describe(group_id) == before

    # The promises

    @invariant()
    def collect_given_ids(self) -> None:
        for token, group_id in list(self.joins.items()):
            answer = self.desk.answers.get(token)
            if answer is None:
                continue
            del self.joins[token]
            if answer.member_id and answer.member_id not in self.given[group_id]:
                self.given[group_id].append(answer.member_id)
            group = self.desk.group(group_id)
            is_present = group is not None and group.generation_id == answer.generation_id
            leads = answer.leader == answer.member_id and not answer.skip_assignment
            if answer.error_code == ErrorCode.NONE and is_present and leads:
                key = (id(group), answer.generation_id)
                assert self.leaders.setdefault(key, answer.member_id) == answer.member_id

    @invariant()
    def generations_never_go_back(self) -> None:
        for group in self.desk.coordinator._registry.groups:
            _, highest = self.generations.get(id(group), (group, 0))
            assert group.generation_id >= highest
            # The object is kept, so that its identity is not given to another.
            self.generations[id(group)] = (group, group.generation_id)

    @invariant()
    def a_stable_group_has_assigned_something_to_everyone(self) -> None:
        for group in self.desk.coordinator._registry.groups:
            if group.state is GroupState.STABLE:
                assert {m.assignment for m in group.members.values()} == {f"{group.generation_id}".encode()}

    @invariant()
    def offsets_are_those_in_the_log(self) -> None:
        if not self.desk.stores:
            self.check_offsets()

    def check_offsets(self) -> None:
        logged: dict[str, dict[tuple[str, int], int]] = {group_id: {} for group_id in GROUPS}
        stored_generations: dict[str, int] = {}
        for entries in self.desk.log.values():
            for key, value in entries:
                match read(key, value):
                    case OffsetRecord(group_id, partition, None):
                        logged[group_id].pop(partition, None)
                    case OffsetRecord(group_id, partition, offset):
                        logged[group_id][partition] = offset.offset
                    case GroupRecord(group_id, None):
                        stored_generations.pop(group_id, None)
                    case GroupRecord(group_id, group):
                        stored_generations[group_id] = group.generation
        for group_id in GROUPS:
            assert self.desk.offsets(group_id) == logged[group_id]
            if group_id in stored_generations:
                assert self.desk.generation(group_id) >= stored_generations[group_id]

    def teardown(self) -> None:
        """Whoever asked is answered in the end, unless it went away."""
        for partition in self.desk.log:
            self.desk.unload(partition)
        assert set(self.desk.versions) - self.lost <= set(self.desk.answers)
        assert not self.desk.coordinator._outbox.waiting
        assert self.desk.coordinator.deadline is None


def test_any_history_of_a_group_keeps_its_promises(make_desk: Callable[..., Any]) -> None:
    run_state_machine_as_test(
        partial(GroupHistory, make_desk),
        settings=settings(
            max_examples=60,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


def test_a_commit_that_never_reached_the_log_is_noticed(make_desk: Callable[..., Any]) -> None:
    def forgetful_desk(**config: Any) -> Any:
        desk = make_desk(**config)
        finish = desk.finish_store

        def finish_store(error: ErrorCode = ErrorCode.NONE) -> None:
            partition = desk.stores[0].partition
            finish(error)
            if error is ErrorCode.NONE and read(*desk.log[partition][-1]).__class__ is OffsetRecord:
                desk.log[partition].pop()

        desk.finish_store = finish_store
        return desk

    with pytest.raises((AssertionError, BaseExceptionGroup)):
        run_state_machine_as_test(
            partial(GroupHistory, forgetful_desk),
            settings=settings(
                max_examples=200, deadline=None, database=None, phases=[Phase.generate], print_blob=False
            ),
        )

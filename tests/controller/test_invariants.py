"""Anything brokers and clients do, in any order: what KIP-841 and KIP-903 promise holds after every step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from epoka.fencing import ALL_RULES, Rules
from epoka.model.image import ClusterImage
from epoka.model.levels import FeatureLevel
from epoka.model.records import decode_record
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.alter_partition import AlterPartitionRequest
from epoka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from epoka.wire.messages.delete_topics import DeleteTopicsRequest
from epoka.wire.messages.elect_leaders import ElectLeadersRequest
from epoka.wire.messages.unregister_broker import UnregisterBrokerRequest
from epoka.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.controller.office import TIMEOUT_MS, Office, check_invariants

BROKERS = st.integers(1, 4)
TOPICS = st.sampled_from(["a", "b", "c"])
BROKER_LISTS = st.lists(BROKERS, min_size=1, max_size=4, unique=True)


class AnyHistory(RuleBasedStateMachine):
    """Brokers come, go, bounce and stop; leaders propose, also late; the controller dies now and then."""

    START = FeatureLevel.ELIGIBLE_ISR
    RULES = ALL_RULES

    def __init__(self) -> None:
        super().__init__()
        self.office = Office(self.START, rules=self.RULES, snapshot_after_records=15)
        self.lives = dict.fromkeys(range(1, 5), 1)
        self.epochs: dict[tuple[str, int], tuple[int, int]] = {}
        self.generations: dict[int, int] = {}
        self.late: list[tuple[AlterPartitionRequest, int, dict[int, int]]] = []

    @initialize()
    def some_brokers(self) -> None:
        self.office.join(1, 2, 3)
        self.office.create("a", [1, 2, 3])

    @rule(broker=BROKERS)
    def begin_a_new_life(self, broker: int) -> None:
        life = self.lives[broker] + 1
        if self.office.register(broker, life).error_code == ErrorCode.NONE:
            self.lives[broker] = life

    @rule(broker=BROKERS)
    def bounce(self, broker: int) -> None:
        """Fenced, born again and unfenced before anybody else does anything."""
        if self.office.image.broker(broker) is not None:
            self.office.heartbeat(broker, want_fence=True)
            self.begin_a_new_life(broker)
            self.office.heartbeat(broker)

    @rule(broker=BROKERS)
    def register_again(self, broker: int) -> None:
        self.office.register(broker, self.lives[broker])

    @rule(broker=BROKERS, behind=st.integers(0, 3), want_fence=st.booleans(), want_shut_down=st.booleans())
    def send_a_heartbeat(self, broker: int, behind: int, want_fence: bool, want_shut_down: bool) -> None:
        self.office.heartbeat(
            broker,
            current_metadata_offset=self.office.image.offset - behind,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
        )

    @rule(broker=BROKERS)
    def send_a_content_heartbeat(self, broker: int) -> None:
        self.office.heartbeat(broker)

    @rule(ms=st.sampled_from([1, 1_000, TIMEOUT_MS, TIMEOUT_MS + 1]))
    def let_time_pass(self, ms: int) -> None:
        self.office.pass_time(ms)

    @rule(topic=TOPICS, assignments=st.lists(BROKER_LISTS, min_size=1, max_size=2), unclean=st.booleans())
    def create_a_topic(self, topic: str, assignments: list[list[int]], unclean: bool) -> None:
        size = len(assignments[0])
        if self.office.image.topic(topic) is not None or any(len(each) != size for each in assignments):
            return
        active = {broker.id for broker in self.office.image.brokers.values() if broker.active}
        known = set(self.office.image.brokers)
        if all(active & set(each) and set(each) <= known for each in assignments):
            configs = {"unclean_leader_election_enable": "true"} if unclean else {}
            self.office.create(topic, *assignments, **configs)

    @rule(topic=TOPICS)
    def delete_a_topic(self, topic: str) -> None:
        self.office.ask(DeleteTopicsRequest(topic_names=(topic,)), 5)
        self.epochs = {key: value for key, value in self.epochs.items() if key[0] != topic}

    @rule(topic=TOPICS, isr=BROKER_LISTS, version=st.integers(0, 3), late=st.booleans())
    def propose_an_isr(self, topic: str, isr: list[int], version: int, late: bool) -> None:
        state = self.office.image.partition(topic, 0)
        if state is None or state.leader == -1:
            return
        proposal = self.office.proposal(topic, isr, version=version)
        if late:
            self.late.append((proposal, version, {broker: self.office.epoch(broker) for broker in isr}))
        else:
            self.office.ask(proposal, version)

    @rule(topic=TOPICS, broker=BROKERS)
    def propose_to_add_and_be_late(self, topic: str, broker: int) -> None:
        state = self.office.image.partition(topic, 0)
        if state and state.leader != -1 and broker in state.replicas and broker not in state.isr:
            isr = [*state.isr, broker]
            generations = {member: self.office.epoch(member) for member in isr}
            self.late.append((self.office.proposal(topic, isr), 3, generations))

    @rule(topic=TOPICS, broker=BROKERS)
    def bounce_a_broker_while_it_is_being_added(self, topic: str, broker: int) -> None:
        """The steps of KIP-903, from whatever state the cluster is in."""
        waiting = len(self.late)
        self.propose_to_add_and_be_late(topic, broker)
        if len(self.late) > waiting:
            self.bounce(broker)
            self.let_a_late_proposal_arrive(waiting)

    @precondition(lambda self: self.late)
    @rule(which=st.integers(0, 99))
    def let_a_late_proposal_arrive(self, which: int) -> None:
        proposal, version, generations = self.late.pop(which % len(self.late))
        response = self.office.ask(proposal, version)
        if response.error_code == ErrorCode.NONE and self.office.image.level >= FeatureLevel.FETCH_EPOCHS:
            for topic in response.topics:
                for partition in topic.partitions:
                    if partition.error_code == ErrorCode.NONE:
                        for broker in partition.isr:
                            assert generations[broker] == self.office.epoch(broker), "a stale life joined"

    @rule(topic=TOPICS, replicas=st.none() | BROKER_LISTS)
    def reassign(self, topic: str, replicas: list[int] | None) -> None:
        wanted = None if replicas is None else tuple(replicas)
        asked = ReassignableTopic(topic, (ReassignablePartition(0, wanted),))
        self.office.ask(AlterPartitionReassignmentsRequest(topics=(asked,)))

    @rule(kind=st.integers(0, 1))
    def elect(self, kind: int) -> None:
        self.office.ask(ElectLeadersRequest(kind, None), 2)

    @rule(broker=BROKERS)
    def unregister(self, broker: int) -> None:
        self.office.ask(UnregisterBrokerRequest(broker))
        self.generations.pop(broker, None)

    @rule()
    def climb(self) -> None:
        level = int(self.office.image.level) + 1
        update = FeatureUpdateKey("epoka.level", level)
        self.office.ask(UpdateFeaturesRequest(feature_updates=(update,)), 1)

    @rule()
    def restart_the_controller(self) -> None:
        before = self.office.image
        self.office.restart()
        assert self.office.image == before
        assert self.office.image.state_hash() == before.state_hash()

    @invariant()
    def what_the_levels_promise(self) -> None:
        if self.office.image.level >= FeatureLevel.ELIGIBLE_ISR:
            check_invariants(self.office.image)

    @invariant()
    def epochs_never_go_back(self) -> None:
        image = self.office.image
        for ref in image.all_partitions():
            key, state = (ref.topic.name, ref.index), image.state(ref)
            leader_epoch, partition_epoch = self.epochs.get(key, (0, 0))
            assert state.leader_epoch >= leader_epoch and state.partition_epoch >= partition_epoch
            self.epochs[key] = state.leader_epoch, state.partition_epoch
        for broker in image.brokers.values():
            assert broker.epoch >= self.generations.get(broker.id, -1)
            self.generations[broker.id] = broker.epoch

    def teardown(self) -> None:
        """A reader of the log sees what the controller sees."""
        loaded = self.office.log.load()
        image = ClusterImage()
        if loaded.snapshot_offset >= 0:
            image.load(map(decode_record, loaded.snapshot), loaded.snapshot_offset)
        image.apply_batch(map(decode_record, loaded.tail), loaded.snapshot_offset + 1)
        assert image.state_hash() == self.office.image.state_hash()

    @invariant()
    def only_unfenced_brokers_have_sessions_that_count(self) -> None:
        deadline: Any = self.office.core.deadline
        if all(broker.fenced for broker in self.office.image.brokers.values()):
            assert deadline is None


class AnyHistoryFromBelow(AnyHistory):
    """The same from the lowest level of log mode; the promises begin when the cluster has climbed."""

    START = FeatureLevel.HEARTBEATS


_SETTINGS = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = _SETTINGS
TestAnyHistoryFromBelow = AnyHistoryFromBelow.TestCase
TestAnyHistoryFromBelow.settings = _SETTINGS


@pytest.mark.parametrize("off", ["isr.eligible", "isr.generation", "leader.eligible"])
def test_a_rule_that_is_off_is_noticed(off: str) -> None:
    """A checker that never fails is no evidence."""

    class WithoutARule(AnyHistory):
        START = FeatureLevel.FETCH_EPOCHS
        RULES = Rules.without(off)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            WithoutARule,
            settings=settings(
                _SETTINGS, max_examples=200, derandomize=True, database=None, phases=[Phase.generate]
            ),
        )

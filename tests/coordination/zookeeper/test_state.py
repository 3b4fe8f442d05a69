"""Cluster state in nodes: what is appended is what the next controller loads, whatever happens in between."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Sequence
from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kazoo.exceptions import ConnectionLoss

from epoka.controller.metadata_log import MetadataLogFailed, Overtaken, Unwritable
from epoka.coordination.zookeeper import paths, writing, znodes
from epoka.coordination.zookeeper.connect import Credentials
from epoka.coordination.zookeeper.election import Deposed, Mandate
from epoka.coordination.zookeeper.identity import settle_cluster_id
from epoka.coordination.zookeeper.isr import Later, Moved, Written, write_isr
from epoka.coordination.zookeeper.operations import Create, Operation, SetData
from epoka.coordination.zookeeper.server import ZooKeeperServer
from epoka.coordination.zookeeper.session import Pending, Session, ZooKeeperError
from epoka.coordination.zookeeper.settings import UnknownLevel, read_settings, watch_settings
from epoka.coordination.zookeeper.state import ZooKeeperState
from epoka.coordination.zookeeper.znodes import Assignment, TopicZnode
from epoka.model.errors import InvariantBroken
from epoka.model.image import ClusterImage, register_broker_record
from epoka.model.levels import FEATURE_NAME, HIGHEST, FeatureLevel
from epoka.model.records import MetadataRecord, decode_record
from epoka.model.registrations import BrokerRegistration
from epoka.wire.messages import metadata_records as m
from tests.coordination.zookeeper.people import (
    Controller,
    Open,
    Sessions,
    cut,
    expire,
    register,
    shrink,
    take_office,
    topic,
    tree,
)
from tests.model.strategies import histories
from tests.waiting import wait_until

ABOUT_BROKERS = (m.RegisterBrokerRecord, m.BrokerRegistrationChangeRecord, m.UnregisterBrokerRecord)


def next_controller(controller: Controller) -> Controller:
    """Another one takes over, in the same session."""
    controller.resign()
    return Controller(controller.session)


_places = itertools.count(1)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(histories(max_steps=60), st.data(), st.sampled_from([490, 9]))
def test_records_become_nodes_and_nodes_the_same_records(
    server: ZooKeeperServer, history: list[MetadataRecord], data: st.DataObject, most_operations: int
) -> None:
    sessions = Sessions(f"{server.connect}/round-trip-{next(_places)}")
    with sessions, mock.patch.object(writing, "MOST_OPERATIONS", most_operations):
        controller = Controller(sessions.open())
        remaining = list(history)
        while remaining:
            count = data.draw(st.integers(1, len(remaining)))
            controller.append(*remaining[:count])
            del remaining[:count]
        follower = next_controller(controller)
        assert follower.loaded.notes == ()
        # Brokers are told by the registry, and nobody is registered: what is left of them is the generation
        # that was known last.
        expected, everything = ClusterImage(), ClusterImage()
        expected.apply_batch((each for each in history if not isinstance(each, ABOUT_BROKERS)), 0)
        everything.apply_batch(history, 0)
        for broker in everything.brokers.values():
            ended = BrokerRegistration(broker.id, broker.epoch, UUID(int=broker.epoch))
            expected.apply(register_broker_record(ended), 0)
        assert follower.image.state_hash() == expected.state_hash()
        for name, topic_id in follower.image.topics():
            for index, state in follower.image.partitions_of(topic_id):
                node = follower.session.get(paths.state(name, index))
                assert node is not None and node.stat.version == state.partition_epoch


def test_brokers_come_from_the_registry_with_what_was_kept_of_them(open_session: Open) -> None:
    controller = Controller(open_session())
    old = register(open_session(), 1, FeatureLevel.GENERATIONS)
    new, stopping = register(open_session(), 2), register(open_session(), 3)
    records = [each.registration() for each in (old, new, stopping)]
    assert [each.fenced for each in records] == [False, True, True]
    controller.append(
        *(m.RegisterBrokerRecord(each.id, False, each.incarnation, each.epoch) for each in records)
    )
    for broker_id, broker in ((2, new), (3, stopping)):
        controller.append(m.BrokerRegistrationChangeRecord(broker_id, broker.generation, fenced=-1))
    controller.append(
        m.BrokerRegistrationChangeRecord(3, stopping.generation, in_controlled_shutdown=1),
    )
    brokers = next_controller(controller).image.brokers
    # Heartbeats tell who is alive, so who sends them begins fenced with every new controller.
    assert [(each.id, each.epoch, each.fenced, each.in_controlled_shutdown) for each in brokers.values()] == [
        (1, old.generation, False, False),
        (2, new.generation, True, False),
        (3, stopping.generation, True, True),
    ]


def test_a_shutdown_counts_for_no_other_generation(open_session: Open) -> None:
    controller = Controller(open_session())
    broker = register(open_session(), 3)
    record = m.RegisterBrokerRecord(3, broker_epoch=broker.generation - 1)
    controller.append(record)
    controller.append(m.BrokerRegistrationChangeRecord(3, broker.generation - 1, in_controlled_shutdown=1))
    follower = next_controller(controller)
    follower.append(m.RegisterBrokerRecord(3, broker_epoch=broker.generation))
    assert not follower.image.brokers[broker.registration().id].in_controlled_shutdown
    assert follower.session.children_of(paths.SHUTDOWNS) == []


def test_a_new_controller_knows_the_generations_that_the_one_before_it_knew(open_session: Open) -> None:
    """Otherwise it would take a broker that bounced while there was no controller for the one it was before,
    and an ISR would count on what that one had on its disk."""
    controller = Controller(open_session())
    living, bounced = register(open_session(), 1), register(open_session(), 2)
    controller.append(
        m.RegisterBrokerRecord(1, broker_epoch=living.generation),
        m.RegisterBrokerRecord(2, broker_epoch=bounced.generation - 1),
        m.RegisterBrokerRecord(3, broker_epoch=bounced.generation - 1),
    )
    brokers = next_controller(controller).image.brokers
    known = {int(each.id): int(each.epoch) for each in brokers.values()}
    assert known == {1: living.generation, 2: bounced.generation - 1, 3: bounced.generation - 1}


def test_generations_that_nobody_has_kept_are_those_in_the_registry(open_session: Open) -> None:
    controller = Controller(open_session())
    broker = register(open_session(), 4)
    follower = next_controller(controller)
    assert follower.image.brokers[broker.registration().id].epoch == broker.generation
    node = follower.session.get(paths.generation(4))
    assert node is not None and znodes.decode_generation("", node.data) == broker.generation
    follower.append(m.UnregisterBrokerRecord(4, broker.generation))
    assert follower.session.children_of(paths.GENERATIONS) == []


def test_offsets_go_on_rising_from_mandate_to_mandate(open_session: Open) -> None:
    controller = Controller(open_session())
    assert controller.loaded.snapshot_offset + 1 == controller.state.end_offset
    first = controller.append(*topic("t", 1))
    assert controller.append(m.NoOpRecord()) == first + 2
    assert controller.state.end_offset == first + 3
    follower = next_controller(controller)
    assert follower.state.start_offset > first + 2
    assert follower.loaded.snapshot_offset + 1 == follower.state.end_offset == follower.image.offset + 1


def test_records_of_the_mandate_can_be_read_until_two_snapshots_later(open_session: Open) -> None:
    controller = Controller(open_session())
    first = controller.append(*topic("t", 1))
    assert [decode_record(each) for each in controller.state.read(first, 10**6)] == topic("t", 1)
    controller.state.snapshot(controller.image)
    assert controller.state.start_offset == first
    controller.append(shrink(1))
    controller.state.snapshot(controller.image)
    assert controller.state.start_offset == first + 2
    assert [decode_record(each) for each in controller.state.read(first + 2, 1)] == [shrink(1)]


def test_nothing_is_appended_before_the_state_is_loaded(open_session: Open) -> None:
    with pytest.raises(InvariantBroken):
        take_office(open_session()).append([])


# Interruptions.


class Unlucky(Session):
    """Breaks its connection while a step is on its way; whether the step took place is `arrives`."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.breaks_at: set[int] = set()
        self.arrives = True
        self.steps = 0

    def begin_multi(self, operations: Sequence[Operation]) -> Pending:
        self.steps += 1
        if self.steps not in self.breaks_at:
            return super().begin_multi(operations)
        if self.arrives:
            pending = super().begin_multi(operations)
            pending._result.wait(10)
        lost = self._client.handler.async_result()
        cut(self)
        lost.set_exception(ConnectionLoss())
        return Pending(self, operations, lost)


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_step_that_was_cut_off_is_done_exactly_once(
    arrives: bool, number: int, connect: str, open_session: Open
) -> None:
    with Unlucky(connect, session_timeout_ms=8_000) as session:
        controller = Controller(session)
        session.arrives = arrives
        session.breaks_at = {session.steps + number}
        records = [*topic("t", 1, 900), m.ConfigRecord(2, "t", "a", "1")]
        assert len(writing.translate(records, ClusterImage(), writing.Known({}, set()), 1, lambda _: ())) == 4
        controller.append(*records)
        session.breaks_at = {session.steps + 1}
        controller.append(shrink(1, 7))
        expected = controller.image.state_hash()
        assert Controller(session).image.state_hash() == expected
        state = session.get(paths.state("t", 7))
        assert state is not None and state.stat.version == 1


def test_a_controller_that_lost_its_session_during_an_append_knows_that_it_is_deposed(
    connect: str, open_session: Open
) -> None:
    with Unlucky(connect, session_timeout_ms=8_000) as session:
        controller = Controller(session)
        session.arrives = False
        session.breaks_at = {session.steps + 1}
        with mock.patch("tests.coordination.zookeeper.test_state.cut", expire), pytest.raises(Deposed):
            controller.append(*topic("t", 1))
        assert session.children_of(paths.TOPICS) == []


def test_a_state_survives_the_loss_of_a_node_of_the_ensemble_in_the_middle(
    ensemble: ZooKeeperServer, open_session: Open
) -> None:
    session = open_session(f"{ensemble.connect}/state", session_timeout_ms=20_000)
    controller = Controller(session)
    for number in range(1, 21):
        controller.append(*topic(f"t{number}", number, 3))
        if number == 10:
            leader = next(node for node in ensemble.nodes if ensemble.mode(node) == "leader")
            ensemble.kill(leader)
    ensemble.restart(leader)
    assert Controller(session).image.state_hash() == controller.image.state_hash()


def test_a_topic_whose_creation_was_cut_short_is_whole_with_partitions_that_were_never_led(
    open_session: Open,
) -> None:
    controller = Controller(open_session())
    records = topic("t", 1, 600)
    first = writing.translate(records, ClusterImage(), writing.Known({}, set()), 1, lambda _: ())[0]
    controller.session.multi(first.operations)
    follower = next_controller(controller)
    assert follower.image.partition_count == 600
    led = follower.image.partition("t", 0)
    assert led is not None and (led.leader, led.partition_epoch) == (1, 0)
    never_led = follower.image.partition("t", 599)
    assert never_led is not None
    assert (never_led.leader, never_led.leader_epoch, never_led.partition_epoch) == (-1, -1, -1)
    assert never_led.isr == never_led.replicas == (1, 2, 3)
    # Its first election makes it what it would have been.
    follower.append(m.PartitionChangeRecord(partition_id=599, topic_id=UUID(int=1), leader=2))
    last = next_controller(follower).image.partition("t", 599)
    assert last is not None and (last.leader, last.leader_epoch, last.partition_epoch) == (2, 0, 0)


def test_a_deletion_that_was_cut_short_is_finished_by_the_next_controller(open_session: Open) -> None:
    controller = Controller(open_session())
    controller.append(*topic("gone", 1, 600), m.ConfigRecord(2, "gone", "a", "1"))
    controller.append(*topic("kept", 2, 2))
    nodes = list(tree(controller.session, paths.topic("gone")))
    first, *rest = writing.deletion("gone", [*nodes, paths.topic("gone")])
    assert rest
    controller.session.multi(first.operations)
    follower = next_controller(controller)
    assert [each.name for each in follower.image.topics()] == ["kept"]
    assert follower.session.children_of(paths.TOPICS) == ["kept"]
    assert follower.session.children_of(paths.TOPIC_CONFIGS) == ["kept"]
    assert follower.session.children_of(paths.TOPIC_DELETIONS) == []


def test_a_large_topic_goes_with_everything_below_it(open_session: Open) -> None:
    controller = Controller(open_session())
    controller.append(*topic("large", 1, 1200), *topic("kept", 2))
    controller.session.create(f"{paths.partition('large', 3)}/strange")
    before = tree(controller.session)
    controller.append(m.RemoveTopicRecord(UUID(int=1)))
    assert set(before) - set(tree(controller.session)) == {
        path for path in before if path.startswith((paths.topic("large"), paths.config(2, "large")))
    }
    controller.append(*topic("large", 3))
    follower = next_controller(controller)
    found = follower.image.topic("large")
    assert found is not None and found.id == UUID(int=3)


# Leaders that write ISRs themselves.


def write(session: Session, expected: int, isr: Sequence[int], **changes: Any) -> Written | Moved | Later:
    given: dict[str, Any] = {"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 0, **changes}
    return write_isr(session, expected_zk_version=expected, isr=isr, controller_epoch=1, **given)


def test_a_leader_writes_its_isr_and_the_controller_learns_of_it(open_session: Open) -> None:
    controller, leader = Controller(open_session()), open_session()
    controller.append(*topic("t", 1, 2))
    calls: list[int] = []
    controller.state.watch_isr_changes(lambda: calls.append(1))
    wait_until(lambda: calls, "the first call")
    calls.clear()
    assert write(leader, 0, (1, 2)) == Written(1)
    assert write(leader, 1, (1,)) == Written(2)
    wait_until(lambda: calls, "the note")
    offset, records = controller.state.take_isr_changes()
    controller.image.apply_batch(records, offset)
    state = controller.image.partition("t", 0)
    assert state is not None and (state.isr, state.partition_epoch) == ((1,), 2)
    assert controller.state.end_offset == controller.image.offset + 1
    assert controller.state.take_isr_changes()[1] == []
    assert controller.session.children_of(paths.ISR_CHANGES) == []
    # The next change by the controller goes on from there.
    controller.append(shrink(1, isr=(1, 3)))
    assert next_controller(controller).image.state_hash() == controller.image.state_hash()


@pytest.mark.parametrize("again", [False, True])
def test_a_note_of_a_topic_that_is_gone_names_nothing(open_session: Open, again: bool) -> None:
    controller, leader = Controller(open_session()), open_session()
    controller.append(*topic("t", 1))
    assert write(leader, 0, (1, 2)) == Written(1)
    controller.append(m.RemoveTopicRecord(UUID(int=1)))
    if again:
        controller.append(*topic("t", 2))
    assert controller.state.take_isr_changes()[1] == []
    assert controller.session.children_of(paths.ISR_CHANGES) == []


def test_a_leader_that_knows_an_older_state_writes_nothing(open_session: Open) -> None:
    controller, leader = Controller(open_session()), open_session()
    controller.append(*topic("t", 1))
    controller.append(shrink(1, isr=(1, 3)))
    before = tree(leader)
    assert isinstance(write(leader, 0, (1, 2)), Moved)
    assert isinstance(
        write_isr(leader, "x", 0, 0, leader=1, leader_epoch=0, isr=(1,), controller_epoch=1), Moved
    )
    assert tree(leader) == before


def test_a_leaders_write_whose_answer_was_lost_is_found_again(connect: str, open_session: Open) -> None:
    controller = Controller(open_session())
    controller.append(*topic("t", 1))
    for number, arrives in enumerate((True, False)):
        with Unlucky(connect, session_timeout_ms=8_000) as leader:
            leader.breaks_at, leader.arrives = {1}, arrives
            assert write(leader, number, (1, 2 + number)) == Written(number + 1)


def test_a_controller_that_a_leader_overtook_writes_nothing_and_decides_again(open_session: Open) -> None:
    controller, leader = Controller(open_session()), open_session()
    controller.append(*topic("t", 1, 2))
    write(leader, 0, (1, 2))
    before = tree(leader)
    with pytest.raises(Overtaken) as raised:
        controller.append(shrink(1, 1), shrink(1, 0, isr=(1, 3)))
    overtaken = raised.value
    assert (overtaken.topic, overtaken.partition, overtaken.written) == ("t", 0, 0)
    assert overtaken.base_offset == controller.state.end_offset
    after = tree(leader)
    assert after == before
    offset, records = controller.state.take_partition("t", 0)
    controller.image.apply_batch(records, offset)
    controller.append(shrink(1, 1), shrink(1, 0, isr=(1,)))
    assert controller.state.take_isr_changes()[1] == []
    assert next_controller(controller).image.state_hash() == controller.image.state_hash()


def test_an_append_of_many_steps_is_not_overtaken_halfway(open_session: Open) -> None:
    controller, leader = Controller(open_session()), open_session()
    controller.append(*topic("t", 1, 1200))
    assert write_isr(
        leader, "t", 1100, 0, leader=1, leader_epoch=0, isr=(1, 2), controller_epoch=1
    ) == Written(1)
    before = tree(leader, paths.TOPICS)
    many = [shrink(1, index) for index in range(1200)]
    with pytest.raises(Overtaken):
        controller.append(*many)
    assert tree(leader, paths.TOPICS) == before
    offset, records = controller.state.take_isr_changes()
    controller.image.apply_batch(records, offset)
    outcomes = []
    commit = controller.state._commit

    def commit_while_a_leader_tries(batches: Sequence[writing.Batch]) -> None:
        if len(batches) > 1:
            outcomes.append(write(leader, 0, (1, 2)))
        commit(batches)

    with mock.patch.object(controller.state, "_commit", commit_while_a_leader_tries):
        controller.append(*many)
    assert [type(each) for each in outcomes] == [Later]
    assert write(leader, 1, (1, 2)) == Written(2)
    offset, records = controller.state.take_isr_changes()
    controller.image.apply_batch(records, offset)
    assert next_controller(controller).image.state_hash() == controller.image.state_hash()


def test_a_leader_that_found_the_gate_open_does_not_slip_through_when_it_closes(open_session: Open) -> None:
    controller, leader = Controller(open_session()), open_session()
    controller.append(*topic("t", 1))
    multi = leader.multi

    def multi_behind_the_gate(operations: Sequence[Operation]) -> list[Any]:
        controller.session.multi([SetData(paths.ISR_GATE, b"closed")])
        return multi(operations)

    with mock.patch.object(leader, "multi", multi_behind_the_gate):
        assert isinstance(write(leader, 0, (1,)), Later)
    state = leader.get(paths.state("t", 0))
    assert state is not None and state.stat.version == 0


def test_controller_and_leaders_that_write_at_once_agree_in_the_end(open_session: Open) -> None:
    controller = Controller(open_session())
    controller.append(*topic("t", 1, 3))

    def lead(partition: int, session: Session) -> None:
        version = written = 0
        while written < 25:
            outcome = write(session, version, (1, 2 + version % 2), partition=partition)
            if isinstance(outcome, Written):
                version, written = outcome.zk_version, written + 1
            else:
                node = session.get(paths.state("t", partition))
                assert node is not None
                version = node.stat.version

    def take(offset: int, records: Sequence[MetadataRecord]) -> None:
        controller.image.apply_batch(records, offset)

    leaders = [threading.Thread(target=lead, args=(index, open_session())) for index in range(3)]
    for leader in leaders:
        leader.start()
    appended = overtaken = 0
    while appended < 20 or any(leader.is_alive() for leader in leaders):
        try:
            controller.append(*(shrink(1, index) for index in range(1 + appended % 3)))
            appended += 1
        except Overtaken as error:
            overtaken += 1
            take(*controller.state.take_partition(error.topic, error.partition))
        if appended % 5 == 0:
            take(*controller.state.take_isr_changes())
    assert overtaken
    take(*controller.state.take_isr_changes())
    assert next_controller(controller).image.state_hash() == controller.image.state_hash()


def test_a_gate_that_a_dead_controller_left_closed_is_opened_by_the_next(open_session: Open) -> None:
    controller, leader = Controller(open_session()), open_session()
    controller.append(*topic("t", 1))
    controller.session.multi([SetData(paths.ISR_GATE, b"closed")])
    assert isinstance(write(leader, 0, (1,)), Later)
    next_controller(controller)
    assert write(leader, 0, (1,)) == Written(1)


def test_no_leader_writes_before_a_controller_was_elected(open_session: Open) -> None:
    assert isinstance(write(open_session(), 0, (1,)), Later)


def test_a_stranger_that_elects_leaders_stops_the_controller(open_session: Open) -> None:
    controller, stranger = Controller(open_session()), open_session()
    controller.append(*topic("t", 1))
    write(stranger, 0, (2,), leader=2, leader_epoch=1)
    with pytest.raises(MetadataLogFailed, match="a stranger elected broker 2"):
        controller.state.take_isr_changes()


# Nodes that are not as they should be.


def test_corrupt_nodes_are_named_left_alone_and_cost_no_more_than_themselves(open_session: Open) -> None:
    controller = Controller(open_session())
    controller.append(*topic("good", 1), *topic("half", 2, 2), m.ConfigRecord(2, "good", "a", "1"))
    bad = {
        paths.state("half", 1): b"?",
        paths.topic("empty"): b"",
        paths.topic("future"): b'{"version":9,"partitions":{}}',
        paths.config(2, "half"): b"[]",
        paths.config(2, "nobody"): b'{"version":1,"config":{"a":"1"}}',
        paths.config(4, "x"): b'{"version":1,"config":{}}',
        paths.shutdown(4): b"{}",
        f"{paths.GENERATIONS}/99999999999": znodes.encode_generation(1),
        paths.topic("n" * 250): znodes.encode_topic(TopicZnode(UUID(int=7), {0: Assignment((1,))})),
        paths.topic("a b"): znodes.encode_topic(TopicZnode(UUID(int=8), {0: Assignment((1,))})),
        paths.topic("twin"): znodes.encode_topic(TopicZnode(UUID(int=1), {0: Assignment((1,))})),
        f"{paths.ISR_CHANGES}/nonsense": b"?",
    }
    for path, content in bad.items():
        exists = controller.session.get(path) is not None
        controller.session.multi([SetData(path, content) if exists else Create(path, content)])
    before = tree(controller.session)
    follower = next_controller(controller)
    assert [each.name for each in follower.image.topics()] == ["good", "half"]
    assert follower.image.topic_config("good") == {"a": "1"}
    healthy, broken = follower.image.partition("half", 0), follower.image.partition("half", 1)
    assert healthy is not None and healthy.leader == 1
    assert broken is not None and (broken.leader, broken.isr, broken.replicas) == (-1, (), (1, 2, 3))
    named = {note.partition(": ")[0] for note in follower.loaded.notes}
    assert named == set(bad) - {f"{paths.ISR_CHANGES}/nonsense"}
    assert all("left alone" in note for note in follower.loaded.notes)
    after = tree(follower.session)
    assert {path: after[path] for path in named} == {path: before[path] for path in named}
    for record in (
        shrink(2, 1),
        m.TopicRecord("empty", UUID(int=9)),
        m.ConfigRecord(2, "half", "a", "1"),
    ):
        with pytest.raises(Unwritable):
            follower.append(record)
    # The controller goes on, and what is corrupt can still be deleted with its topic.
    follower.append(m.RemoveTopicRecord(UUID(int=2)))
    assert follower.session.get(paths.topic("half")) is None
    # What bears its name then is new, and nothing of it is corrupt.
    follower.append(*topic("half", 3, 2), m.ConfigRecord(2, "half", "a", "1"))
    follower.append(shrink(3, 1))
    assert next_controller(follower).image.state_hash() == follower.image.state_hash()


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        (paths.FEATURES, b"?", "the cluster's level is unknown: /feature"),
        (
            paths.FEATURES,
            b'{"version":2,"status":1,"features":{"epoka.level":99}}',
            "the cluster is on level 99; this release ends at 5, fetch-epochs",
        ),
        (paths.PRODUCER_IDS, b"?", "the next producer id is unknown: /latest_producer_id_block"),
        (
            paths.PRODUCER_IDS,
            b'{"version":1,"block_end":"9223372036854775807"}',
            "the next producer id is unknown: /latest_producer_id_block",
        ),
    ],
)
def test_what_would_be_dangerous_to_guess_stops_the_controller(
    path: str, content: bytes, reason: str, open_session: Open
) -> None:
    session = open_session()
    session.create(path, content)
    with pytest.raises(MetadataLogFailed, match=reason):
        take_office(session).load()
    node = session.get(path)
    assert node is not None and node.data == content


def test_a_topic_older_than_topic_ids_gets_one_and_keeps_it(open_session: Open) -> None:
    session = open_session()
    session.ensure(paths.PERSISTENT)
    session.create(paths.topic("old"), b'{"version":1,"partitions":{"0":[1,2]}}')
    controller = Controller(session)
    found = controller.image.topic("old")
    assert found is not None
    controller.append(
        m.PartitionChangeRecord(partition_id=0, topic_id=found.id, leader=1, replicas=(1, 3), isr=(1,))
    )
    node = session.get(paths.topic("old"))
    assert node is not None and json.loads(node.data)["topic_id"] == znodes.encode_uuid(found.id)
    assert next_controller(controller).image.state_hash() == controller.image.state_hash()


def test_a_node_that_a_stranger_changed_ends_the_controller_and_nothing_is_overwritten(
    open_session: Open,
) -> None:
    controller, stranger = Controller(open_session()), open_session()
    controller.append(*topic("t", 1))
    stranger.multi([SetData(paths.config(2, "t"), b'{"version":1,"config":{"a":"2"}}')])
    with pytest.raises(MetadataLogFailed, match=r"/config/topics/t: it has another version, which is none"):
        controller.append(m.ConfigRecord(2, "t", "b", "1"))
    assert dict(next_controller(controller).image.topic_config("t")) == {"a": "2"}


def test_a_topic_that_somebody_created_meanwhile_is_not_overwritten(open_session: Open) -> None:
    controller = Controller(open_session())
    controller.session.create(paths.topic("t"), b"theirs")
    with pytest.raises(MetadataLogFailed, match="/brokers/topics/t: the node exists"):
        controller.append(*topic("t", 1))
    node = controller.session.get(paths.topic("t"))
    assert node is not None and node.data == b"theirs"


# What brokers read for themselves.


def test_brokers_read_the_level_and_all_settings_and_hear_of_changes(open_session: Open) -> None:
    controller, broker = Controller(open_session()), open_session()
    assert read_settings(broker) is None
    controller.append(m.FeatureLevelRecord(FEATURE_NAME, FeatureLevel.GENERATIONS), *topic("t", 1))
    calls: list[int] = []
    watch_settings(broker, lambda: calls.append(1))
    wait_until(lambda: len(calls) == 2, "the first calls")
    calls.clear()
    controller.append(m.ConfigRecord(2, "t", "a", "1"), m.ConfigRecord(4, "", "b", "2"))
    wait_until(lambda: calls, "the change of settings")
    read = read_settings(broker)
    assert read is not None and read.level == FeatureLevel.GENERATIONS
    assert read.configs == {(2, "t"): {"a": "1"}, (4, ""): {"b": "2"}}
    calls.clear()
    controller.append(m.FeatureLevelRecord(FEATURE_NAME, HIGHEST))
    wait_until(lambda: calls, "the change of the level")
    read = read_settings(broker)
    assert read is not None and read.level == HIGHEST


def test_a_level_of_a_later_release_is_no_level_for_brokers(open_session: Open) -> None:
    session = open_session()
    session.create(paths.FEATURES, znodes.encode_features({FEATURE_NAME: 99}))
    with pytest.raises(UnknownLevel, match="on level 99; this release ends at 5, fetch-epochs"):
        read_settings(session)


def test_notes_of_changed_settings_do_not_pile_up(open_session: Open) -> None:
    controller = Controller(open_session())
    for number in range(250):
        controller.append(m.ConfigRecord(4, "1", "a", str(number)))
    assert 0 < len(controller.session.children_of(paths.CONFIG_CHANGES)) <= 102
    # A topic without any settings has a node for them, and with it a note.
    for number in range(1, 251):
        controller.append(*topic(f"t{number}", number))
    assert 0 < len(controller.session.children_of(paths.CONFIG_CHANGES)) <= 102


def test_the_first_to_come_sets_the_clusters_id(open_session: Open) -> None:
    session = open_session()
    session.ensure(paths.PERSISTENT)
    assert settle_cluster_id(session, "one") == "one"
    assert settle_cluster_id(open_session(), "two") == "one"


def test_a_clusters_id_that_nobody_can_read_is_named_and_stays(open_session: Open) -> None:
    session = open_session()
    session.ensure(paths.PERSISTENT)
    session.create(paths.CLUSTER_ID, b"?")
    with pytest.raises(ZooKeeperError, match="the cluster's id is unknown: /cluster/id: it cannot be read"):
        settle_cluster_id(session, "one")
    node = session.get(paths.CLUSTER_ID)
    assert node is not None and node.data == b"?"


def test_everything_works_with_access_rules(open_session: Open) -> None:
    who = Credentials(username="epoka", password="secret")
    controller = Controller(open_session(credentials=who))
    controller.append(*topic("t", 1, 2), m.ConfigRecord(2, "t", "a", "1"))
    controller.resign()
    # A stranger may read who was elected, and pretend; it still changes nothing.
    stranger, mandate = open_session(), controller.state.mandate
    pretender = ZooKeeperState(stranger, Mandate(mandate.epoch, mandate.zk_version, stranger.id))
    before = tree(stranger)
    with pytest.raises(MetadataLogFailed, match="access is denied"):
        pretender.load()
    assert tree(stranger) == before
    again = Controller(open_session(credentials=who), 2)
    assert again.image.state_hash() == controller.image.state_hash()


def test_appending_needs_one_step_and_loading_few_requests(open_session: Open) -> None:
    controller = Controller(open_session())
    session = controller.session
    with mock.patch.object(session, "begin_multi", wraps=session.begin_multi) as steps:
        controller.append(*topic("t", 1, 200))
    assert steps.call_count == 1
    controller.resign()
    with mock.patch.object(session._client, "_call", wraps=session._client._call) as calls:
        Controller(session)
    assert calls.call_count < 70

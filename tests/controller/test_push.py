"""Control requests: to whom, in which order and version, once each, and never to a life that is over."""

from __future__ import annotations

import itertools
import weakref
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from epoka.controller import control_requests
from epoka.controller.config import ControllerConfig
from epoka.controller.core import ControllerCore
from epoka.controller.metadata_log import MemoryMetadataLog, Unwritable
from epoka.controller.push import MOST_QUEUED
from epoka.fencing import ALL_RULES, Rules
from epoka.model.events import (
    Hangup,
    Peer,
    RegistryChanged,
    RegistryEntry,
    Reply,
    Report,
    Request,
    Respond,
    Send,
    Wake,
)
from epoka.model.image import ClusterImage
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.model.records import decode_record, encode_record
from epoka.model.registrations import Endpoint, Feature
from epoka.wire import codec
from epoka.wire.encoded import Encoded
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import (
    alter_partition,
    controlled_shutdown,
    create_topics,
    delete_topics,
    isr_change,
    update_features,
)
from epoka.wire.messages import leader_and_isr as lai
from epoka.wire.messages import stop_replica as sr
from epoka.wire.messages import update_metadata as um
from epoka.wire.messages.metadata_records import RegisterBrokerRecord

LEVELS = list(FeatureLevel)
MANDATE = 7
NOW = 1_000_000
OK = {
    "LeaderAndIsrRequest": lai.LeaderAndIsrResponse(),
    "UpdateMetadataRequest": um.UpdateMetadataResponse(),
    "StopReplicaRequest": sr.StopReplicaResponse(),
}


class Desk:
    """A controller in zookeeper mode, and everything that it has sent and not been answered for."""

    def __init__(
        self,
        level: FeatureLevel = FeatureLevel.FETCH_EPOCHS,
        rules: Rules = ALL_RULES,
        log: Any = None,
        mandate: int = MANDATE,
    ) -> None:
        self.now = NOW
        self.open: list[Send] = []
        self.sent: list[Send] = []
        self.carried: list[Send] = []
        """The same, as they left the controller."""
        self.answers: dict[int, Any] = {}
        self.ledger: list[Any] = []
        self._tokens = itertools.count(1)
        ids = itertools.count(1)
        self.core = ControllerCore(
            100,
            "cluster",
            log or MemoryMetadataLog(),
            ControllerConfig(initial_level=level, auto_leader_rebalance=False),
            new_id=lambda: UUID(int=next(ids)),
            rules=rules,
            controller_epoch=mandate,
        )
        self.perform(self.core.start(self.now))

    def perform(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                # What is sent can be written in its version, and read.
                codec.encode(effect.message, effect.version)
                self.carried.append(effect)
                effect = msgspec.structs.replace(effect, message=codec.opened(effect.message))
                self.open.append(effect)
                self.sent.append(effect)
            elif isinstance(effect, Respond):
                self.answers[effect.token] = effect.message
            elif isinstance(effect, Hangup):
                self.answers[effect.token] = effect
            elif isinstance(effect, Report):
                self.ledger.append(effect.event)

    def handle(self, event: Any) -> None:
        self.perform(self.core.handle(event, self.now))

    def registry(self, version: int = 4, **epochs: int) -> None:
        """The registry as it is now: `b1=100, b2=101`."""
        self.handle(
            RegistryChanged(tuple(entry(int(name[1:]), epoch, version) for name, epoch in epochs.items()))
        )

    def ask(self, message: Any, version: int) -> Any:
        token = next(self._tokens)
        self.handle(Request(token, version, message, Peer(control=True)))
        return self.answers[token]

    def answer(self, send: Send, message: Any = "ok") -> None:
        self.open.remove(send)
        self.handle(Reply(send.token, OK[type(send.message).__name__] if message == "ok" else message))

    def answer_all(self) -> None:
        while self.open:
            self.answer(self.open[0])

    def to(self, broker: int) -> list[str]:
        return [
            type(each.message).__name__.removesuffix("Request") for each in self.sent if each.to == broker
        ]

    def create(self, name: str, *replicas: int) -> None:
        assignment = create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
        request = create_topics.CreateTopicsRequest(
            topics=(
                create_topics.CreatableTopic(
                    name=name, num_partitions=-1, replication_factor=-1, assignments=(assignment,)
                ),
            )
        )
        assert self.ask(request, 7).topics[0].error_code == ErrorCode.NONE


def entry(broker_id: int, epoch: int, version: int = 4) -> RegistryEntry:
    return RegistryEntry(
        broker_id,
        epoch,
        version,
        (Endpoint("PLAINTEXT", "host", 9000 + broker_id), Endpoint("CONTROL", "host", 9100 + broker_id)),
        None,
        (Feature(FEATURE_NAME, min(FeatureLevel), max(FeatureLevel)),),
    )


def three(level: FeatureLevel = FeatureLevel.FETCH_EPOCHS, **about: Any) -> Desk:
    desk = Desk(level, **about)
    desk.registry(b1=100, b2=101, b3=102)
    desk.answer_all()
    desk.sent.clear()
    return desk


def test_no_two_mandates_ask_with_the_same_token():
    """A node that is in office again may hear answers to what it asked in its last mandate."""
    desks = [Desk(mandate=mandate) for mandate in (1, 2, 3)]
    for desk in desks:
        desk.registry(b1=100, b2=101, b3=102)
    first, *others = ({each.token for each in desk.sent} for desk in desks)
    assert first
    assert all(first.isdisjoint(other) for other in others)


def test_nothing_is_sent_before_the_registry_was_seen():
    assert Desk().sent == []


@pytest.mark.parametrize(
    ("level", "versions"),
    list(zip(LEVELS, [(1, 4, 0), (2, 5, 1), (2, 5, 1), (5, 7, 4), (5, 8, 4), (5, 8, 4)], strict=True)),
    ids=[str(level) for level in LEVELS],
)
def test_each_level_has_its_versions_and_every_request_the_mandate(level, versions):
    desk = three(level)
    desk.create("orders", 1, 2)
    desk.answer_all()
    desk.ask(delete_topics.DeleteTopicsRequest(topic_names=("orders",)), 5)
    desk.answer_all()
    used = {type(each.message): each.version for each in desk.sent}
    expected = (lai.LeaderAndIsrRequest, um.UpdateMetadataRequest, sr.StopReplicaRequest)
    assert used == dict(zip(expected, versions, strict=True))
    assert {each.message.controller_epoch for each in desk.sent} == {MANDATE}
    for each in desk.sent:
        own = (each.message.broker_epoch, each.message.max_broker_epoch)
        if level is FeatureLevel.LEGACY:
            assert own == (-1, -1)
        elif level < FeatureLevel.SHARED_UPDATES:
            assert own == (99 + each.to, -1)
        else:
            assert own == (-1, 102)


def test_roles_come_first_then_metadata_then_what_is_to_be_given_up():
    desk = three()
    desk.create("orders", 1, 2)
    desk.answer_all()
    assert desk.to(1) == ["LeaderAndIsr", "UpdateMetadata"]
    assert desk.to(3) == ["UpdateMetadata"]
    desk.sent.clear()
    desk.ask(delete_topics.DeleteTopicsRequest(topic_names=("orders",)), 5)
    desk.answer_all()
    assert desk.to(1) == ["UpdateMetadata", "StopReplica"]
    assert desk.to(3) == ["UpdateMetadata"]


def test_a_change_of_the_isr_alone_gives_no_roles():
    desk = three(FeatureLevel.HEARTBEATS)
    desk.create("orders", 1, 2, 3)
    desk.answer_all()
    desk.sent.clear()
    partition = isr_change.IsrChangePartition(leader_epoch=0, partition_index=0, isr_nodes=(1, 2))
    request = isr_change.IsrChangeRequest(
        broker_id=1,
        incarnation_id=100,
        topics=(isr_change.IsrChangeTopic(topic_name="orders", partitions=(partition,)),),
    )
    assert desk.ask(request, 0).results[0].error_code == ErrorCode.NONE
    desk.answer_all()
    assert desk.to(1) == desk.to(2) == desk.to(3) == ["UpdateMetadata"]


def test_a_new_broker_is_told_everything_and_the_others_only_of_it():
    desk = three()
    desk.create("orders", 1, 2)
    desk.create("others", 2, 3)
    desk.answer_all()
    desk.registry(b1=100, b2=101)
    desk.answer_all()
    desk.sent.clear()
    desk.registry(b1=100, b2=101, b3=150)
    desk.answer_all()
    assert desk.to(3) == ["LeaderAndIsr", "UpdateMetadata"]
    roles, whole = (each.message for each in desk.sent if each.to == 3)
    assert [each.topic_name for each in roles.topic_states] == ["others"]
    assert [each.topic_name for each in whole.topic_states] == ["orders", "others"]
    assert desk.to(1) == ["UpdateMetadata"]
    assert next(each.message for each in desk.sent if each.to == 1).topic_states == ()


def test_one_request_is_under_way_to_a_broker_at_a_time():
    desk = three()
    for number in range(5):
        desk.create(f"t{number}", 1)
    assert len([each for each in desk.open if each.to == 1]) == 1
    desk.answer_all()
    assert desk.to(1) == ["LeaderAndIsr", "UpdateMetadata"] * 5


def test_a_failed_connection_is_tried_again_after_a_pause_while_the_generation_lives():
    desk = three()
    desk.create("orders", 1, 2)
    first = next(each for each in desk.open if each.to == 1)
    desk.answer(first, None)
    assert not [each for each in desk.open if each.to == 1]
    desk.now += 99
    desk.handle(Wake())
    assert not [each for each in desk.open if each.to == 1]
    assert desk.core.deadline == desk.now + 1
    desk.now += 1
    desk.handle(Wake())
    again = next(each for each in desk.open if each.to == 1)
    assert again.message == first.message and again.token != first.token


def test_the_queue_ends_with_its_generation():
    desk = three(FeatureLevel.GENERATIONS)
    desk.create("orders", 2, 1)
    held = next(each for each in desk.open if each.to == 1)
    desk.registry(b1=200, b2=101, b3=102)
    fresh = [each for each in desk.open if each.to == 1 and each is not held]
    assert {each.message.broker_epoch for each in fresh} == {200}
    desk.answer(held, None)
    desk.now += 1_000
    desk.handle(Wake())
    desk.answer_all()
    epochs = [each.message.broker_epoch for each in desk.sent if each.to == 1]
    assert epochs[0] == 100 and set(epochs[1:]) == {200}


def test_a_stale_generation_is_not_told_twice():
    desk = three(FeatureLevel.GENERATIONS)
    desk.create("orders", 1, 2)
    request = next(each for each in desk.open if each.to == 1)
    desk.answer(request, lai.LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    desk.answer_all()
    desk.now += 1_000
    desk.handle(Wake())
    assert desk.to(1) == ["LeaderAndIsr", "UpdateMetadata"]
    assert any(event.kind == "control-refused" for event in desk.ledger)


def storage_error() -> lai.LeaderAndIsrResponse:
    error = lai.LeaderAndIsrPartitionError(
        topic_name="orders", partition_index=0, error_code=ErrorCode.KAFKA_STORAGE_ERROR
    )
    return lai.LeaderAndIsrResponse(partition_errors=(error,))


def a_late_answer_of_a_dead_generation(rules: Rules = ALL_RULES) -> Desk:
    desk = three(FeatureLevel.GENERATIONS, rules=rules)
    desk.create("orders", 1, 2, 3)
    late = next(each for each in desk.open if each.to == 2)
    desk.registry(b1=100, b2=200, b3=102)
    partition = isr_change.IsrChangePartition(leader_epoch=0, partition_index=0, isr_nodes=(1, 2, 3))
    request = isr_change.IsrChangeRequest(
        broker_id=1,
        incarnation_id=100,
        topics=(isr_change.IsrChangeTopic(topic_name="orders", partitions=(partition,)),),
    )
    assert desk.ask(request, 0).results[0].error_code == ErrorCode.NONE
    desk.answer(late, storage_error())
    return desk


def test_an_answer_of_a_dead_generation_is_ignored():
    desk = a_late_answer_of_a_dead_generation()
    assert set(desk.core.image.partition("orders", 0).isr) == {1, 2, 3}
    (event,) = [event for event in desk.ledger if event.rule == "reply.generation"]
    assert (event.verdict, event.broker, event.broker_epoch) == ("ignored", 2, 100 + 1)


def test_without_the_rule_a_dead_generation_takes_replicas_of_the_living_one_offline():
    desk = a_late_answer_of_a_dead_generation(Rules.without("reply.generation"))
    assert 2 not in desk.core.image.partition("orders", 0).isr


def test_a_living_broker_whose_disk_failed_leaves_the_isr():
    desk = three(FeatureLevel.GENERATIONS)
    desk.create("orders", 1, 2, 3)
    desk.answer(next(each for each in desk.open if each.to == 1), storage_error())
    state = desk.core.image.partition("orders", 0)
    assert (state.leader, state.isr) == (2, (2, 3))


def test_a_broker_that_cannot_be_reached_does_not_fill_the_memory():
    desk = three()
    desk.create("orders", 1, 2)
    for number in range(2 * MOST_QUEUED):
        desk.create(f"t{number}", 2)
    assert len(desk.core._push._channels[1].queue) <= MOST_QUEUED + 2
    desk.answer_all()
    told = {
        topic.topic_name
        for each in desk.sent
        if each.to == 1 and isinstance(each.message, um.UpdateMetadataRequest)
        for topic in each.message.topic_states
    }
    assert len(told) == 2 * MOST_QUEUED + 1


@pytest.mark.parametrize("climbs", [False, True])
def test_a_broker_that_could_not_be_reached_hears_of_topics_that_ended(climbs):
    desk = three(FeatureLevel.ELIGIBLE_ISR)
    desk.create("orders", 1, 2)
    desk.create("ended", 2)
    held = next(each for each in desk.open if each.to == 1)
    for each in [each for each in desk.open if each is not held]:
        desk.answer(each)
    for number in range(MOST_QUEUED):
        if number == MOST_QUEUED // 2:
            desk.ask(delete_topics.DeleteTopicsRequest(topic_names=("ended",)), 5)
        desk.create(f"t{number}", 2)
    assert desk.core._push._channels[1].behind
    desk.ask(delete_topics.DeleteTopicsRequest(topic_names=("t1",)), 5)
    if climbs:
        update = update_features.FeatureUpdateKey(feature=FEATURE_NAME, max_version_level=5, upgrade_type=1)
        desk.ask(update_features.UpdateFeaturesRequest(feature_updates=(update,)), 1)
        assert desk.core.image.level is FeatureLevel.FETCH_EPOCHS
    desk.sent.clear()
    desk.answer_all()
    updates = [
        each.message
        for each in desk.sent
        if each.to == 1 and isinstance(each.message, um.UpdateMetadataRequest)
    ]
    rows = {topic.topic_name: topic.partition_states[0] for each in updates for topic in each.topic_states}
    assert rows["ended"].leader == rows["t1"].leader == -2
    assert rows["t2"].leader == 2


def test_the_first_update_is_whole_even_to_a_broker_that_fell_behind_before_it():
    """A broker takes the first update of a controller for all there is: topics that it does not name are
    deleted, with their logs."""
    before = three()
    before.create("orders", 1, 2)
    desk = Desk(log=before.core.log)
    desk.core.state.new_id = uuid4
    desk.registry(b1=100, b2=101, b3=102)
    for number in range(MOST_QUEUED + 1):
        desk.create(f"t{number}", 2)
    desk.ask(delete_topics.DeleteTopicsRequest(topic_names=("t1",)), 5)
    assert desk.core._push._channels[1].behind
    desk.sent.clear()
    desk.answer_all()
    first, *later = [
        [topic.topic_name for topic in each.message.topic_states]
        for each in desk.sent
        if each.to == 1 and isinstance(each.message, um.UpdateMetadataRequest)
    ]
    assert "orders" in first and "t1" not in first
    assert ["t1"] in later


SHARED_LEVELS = [level for level in LEVELS if level >= FeatureLevel.SHARED_UPDATES]


@pytest.mark.parametrize("level", SHARED_LEVELS, ids=str)
class TestOneUpdateForEveryBroker:
    def updates(self, desk: Desk) -> list[Encoded]:
        return [
            each.message for each in desk.carried if codec.class_of(each.message) is um.UpdateMetadataRequest
        ]

    def test_all_brokers_get_the_same_bytes(self, level):
        desk = three(level)
        desk.carried.clear()
        desk.create("orders", 1, 2)
        desk.answer_all()
        first, *others = self.updates(desk)
        assert len(others) == 2 and all(each is first for each in others)

    def test_a_takeover_makes_everything_once(self, level):
        desk = Desk(level)
        desk.registry(b1=100, b2=101, b3=102)
        first, *others = self.updates(desk)
        assert len(others) == 2 and all(each is first for each in others)

    def test_the_bytes_are_free_when_the_last_broker_has_answered(self, level):
        desk = three(level)
        desk.create("orders", 3)
        update = weakref.ref(self.updates(desk)[-1])
        desk.carried.clear()
        desk.answer(next(each for each in desk.open if each.to == 1))
        desk.answer(next(each for each in desk.open if each.to == 2))
        desk.carried.clear()
        assert update() is not None
        desk.answer_all()
        desk.carried.clear()
        assert update() is None

    def test_brokers_that_could_not_be_reached_catch_up_on_the_same_bytes(self, level):
        desk = three(level)
        desk.create("orders", 3)
        held = [each for each in desk.open if each.to in (1, 2)]
        for number in range(MOST_QUEUED + 1):
            desk.create(f"t{number}", 3)
            for each in [each for each in desk.open if each.to == 3]:
                desk.answer(each)
        desk.carried.clear()
        for each in held:
            desk.answer(each)
        first, second = self.updates(desk)
        assert first is second
        assert len(codec.opened(first).topic_states) == MOST_QUEUED + 2


@pytest.mark.parametrize("level", SHARED_LEVELS, ids=str)
def test_few_rows_and_many_are_written_in_two_ways_and_to_the_same_bytes(level, monkeypatch):
    def story(few: int) -> list[tuple[int, int, bytes]]:
        monkeypatch.setattr(control_requests, "FEW_ROWS", few)
        desk = three(level)
        desk.create("orders", 1, 2)
        desk.create("others", 3, 2)
        desk.answer_all()
        desk.ask(delete_topics.DeleteTopicsRequest(topic_names=("orders",)), 5)
        desk.registry(b1=200, b2=101)
        desk.answer_all()
        return [
            (each.to, each.message.API_KEY, codec.encode(each.message, each.version)) for each in desk.carried
        ]

    as_columns = story(-1)
    assert len(as_columns) > 20
    assert as_columns == story(1_000)


@pytest.mark.parametrize("level", [FeatureLevel.GENERATIONS, FeatureLevel.HEARTBEATS], ids=str)
def test_below_shared_updates_every_broker_has_a_request_of_its_own(level):
    desk = three(level)
    desk.carried.clear()
    desk.create("orders", 1, 2)
    desk.answer_all()
    updates = [each.message for each in desk.carried if isinstance(each.message, um.UpdateMetadataRequest)]
    assert [each.broker_epoch for each in updates] == [102, 100, 101]


class TestRegistry:
    def kinds(self, desk: Desk) -> list[tuple[str, int, int]]:
        return [
            (event.kind, event.broker, event.broker_epoch)
            for event in desk.ledger
            if event.kind in ("registered", "unregistered")
        ]

    def test_new_dead_and_bounced_brokers_in_one_picture(self):
        desk = three(FeatureLevel.GENERATIONS)
        desk.ledger.clear()
        desk.registry(b1=100, b2=150, b4=151)
        assert self.kinds(desk) == [
            ("registered", 4, 151),
            ("unregistered", 3, 102),
            ("unregistered", 2, 101),
            ("registered", 2, 150),
        ]

    def test_below_generations_only_ids_are_compared(self):
        desk = three(FeatureLevel.LEGACY)
        desk.ledger.clear()
        desk.registry(b1=100, b2=150, b3=102)
        assert self.kinds(desk) == []

    def test_a_lower_generation_is_an_old_picture_and_no_bounce(self):
        desk = three(FeatureLevel.GENERATIONS)
        desk.ledger.clear()
        desk.registry(b1=100, b2=99, b3=102)
        assert self.kinds(desk) == []
        assert desk.core.image.broker(2).epoch == 101

    def test_registrations_with_heartbeats_begin_inactive_and_older_ones_active(self):
        desk = Desk(FeatureLevel.HEARTBEATS)
        desk.handle(RegistryChanged((entry(1, 100, 4), entry(2, 101, 5))))
        assert not desk.core.image.broker(1).fenced
        assert desk.core.image.broker(2).fenced

    @pytest.mark.parametrize("kept", [True, False], ids=["registrations-kept", "registrations-not-kept"])
    def test_a_new_controller_takes_over_whoever_the_last_one_counted_on(self, kept):
        log = MemoryMetadataLog()
        desk = Desk(FeatureLevel.HEARTBEATS, log=log)
        desk.registry(b1=100, b2=101, b3=102)
        desk.create("orders", 1, 2)
        successor = Desk(FeatureLevel.HEARTBEATS, log=log if kept else without_brokers(log))
        successor.registry(version=5, b1=100, b2=101, b4=103)
        fenced = {each.id: each.fenced for each in successor.core.image.brokers.values()}
        assert fenced == {1: False, 2: False, 4: True}
        assert successor.core.image.partition("orders", 0).leader == 1
        assert successor.core.deadline is not None

    def test_the_last_member_of_an_isr_leads_again_after_its_bounce(self):
        desk = three(FeatureLevel.GENERATIONS)
        desk.create("orders", 1)
        desk.registry(b1=200, b2=101, b3=102)
        state = desk.core.image.partition("orders", 0)
        assert (state.leader, state.leader_epoch, state.isr) == (1, 2, (1,))


def without_brokers(log: MemoryMetadataLog) -> MemoryMetadataLog:
    """What a store holds that leaves registrations to the registry."""
    image = ClusterImage()
    image.apply_batch(map(decode_record, log.load().tail), 0)
    bare = MemoryMetadataLog()
    kept = [each for each in image.iter_records() if not isinstance(each, RegisterBrokerRecord)]
    bare.append([encode_record(each) for each in kept])
    return bare


class TestIsrChange:
    def ask(self, desk: Desk, isr: tuple[int, ...], broker: int = 1, epoch: int = 100, leader_epoch: int = 0):
        partition = isr_change.IsrChangePartition(leader_epoch=leader_epoch, partition_index=0, isr_nodes=isr)
        request = isr_change.IsrChangeRequest(
            broker_id=broker,
            incarnation_id=epoch,
            topics=(isr_change.IsrChangeTopic(topic_name="orders", partitions=(partition,)),),
        )
        answer = desk.ask(request, 0)
        return ErrorCode.of(answer.top_level_error_code or answer.results[0].error_code)

    @pytest.mark.parametrize(
        ("about", "error"),
        [
            ({"isr": (1, 2)}, ErrorCode.NONE),
            ({"isr": (1, 2), "epoch": 99}, ErrorCode.INVALID_INCARNATION_ID),
            ({"isr": (1, 2), "epoch": 101}, ErrorCode.INVALID_INCARNATION_ID),
            ({"isr": (1, 2), "broker": 2, "epoch": 101}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ({"isr": (1, 2), "leader_epoch": 1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ({"isr": (1, 2), "leader_epoch": -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ({"isr": ()}, ErrorCode.INVALID_REQUEST),
            ({"isr": (2, 3)}, ErrorCode.INVALID_REQUEST),
            ({"isr": (1, 1)}, ErrorCode.INVALID_REQUEST),
            ({"isr": (1, 9)}, ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_who_may_propose_what(self, about, error):
        desk = three(FeatureLevel.HEARTBEATS)
        desk.create("orders", 1, 2, 3)
        assert self.ask(desk, **about) is error
        assert desk.core.image.partition("orders", 0).isr == ((1, 2) if not error else (1, 2, 3))

    @pytest.mark.parametrize("level", [FeatureLevel.HEARTBEATS, FeatureLevel.SHARED_UPDATES], ids=str)
    def test_a_new_life_is_in_no_isr_that_the_one_before_was_taken_into_after_its_end(self, level):
        """Its session ended while it went on fetching; then it ended, and came back with an empty disk."""
        desk = three(level)
        desk.create("orders", 1, 2, 3)
        desk.registry(b1=100, b3=102)
        leader_epoch = desk.core.image.partition("orders", 0).leader_epoch
        assert self.ask(desk, (1, 3, 2), leader_epoch=leader_epoch) is ErrorCode.NONE
        desk.registry(b1=100, b2=103, b3=102)
        state = desk.core.image.partition("orders", 0)
        assert (state.leader, state.isr) == (1, (1, 3))
        late = self.ask(desk, (1, 3, 2), leader_epoch=leader_epoch)
        assert late is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_results_have_no_names_and_stand_in_the_order_of_the_request(self):
        desk = three(FeatureLevel.HEARTBEATS)
        desk.create("orders", 1, 2, 3)
        desk.create("refunds", 2, 1, 3)
        proposal = isr_change.IsrChangePartition(leader_epoch=0, partition_index=0, isr_nodes=(1, 2))
        topics = tuple(
            isr_change.IsrChangeTopic(topic_name=name, partitions=(proposal,))
            for name in ("refunds", "missing", "orders")
        )
        answer = desk.ask(isr_change.IsrChangeRequest(broker_id=1, incarnation_id=100, topics=topics), 0)
        assert [result.error_code for result in answer.results] == [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NONE,
        ]

    @pytest.mark.parametrize("level", [FeatureLevel.ELIGIBLE_ISR, FeatureLevel.FETCH_EPOCHS])
    def test_a_leader_that_is_late_may_take_members_out_and_add_none(self, level):
        """A proposal to add one may be of long ago, and has no partition epoch by which that would show."""
        desk = three(level)
        desk.create("orders", 1, 2, 3)
        assert self.ask(desk, (1, 2)) is ErrorCode.NONE
        assert self.ask(desk, (1, 2, 3)) is ErrorCode.OPERATION_NOT_ATTEMPTED
        assert desk.core.image.partition("orders", 0).isr == (1, 2)


class TestAlterPartition:
    def propose(self, desk: Desk, isr: tuple[int, ...], partition_epoch: int) -> Any:
        topic = desk.core.image.topic("orders")
        partition = alter_partition.AlterPartitionPartition(
            partition_index=0, leader_epoch=0, new_isr=isr, partition_epoch=partition_epoch
        )
        request = alter_partition.AlterPartitionRequest(
            broker_id=1,
            broker_epoch=100,
            topics=(alter_partition.AlterPartitionTopic(topic_id=topic.id, partitions=(partition,)),),
        )
        return desk.ask(request, 2).topics[0].partitions[0]

    def test_what_is_already_so_succeeds_again(self):
        desk = three(FeatureLevel.ELIGIBLE_ISR)
        desk.create("orders", 1, 2, 3)
        first = self.propose(desk, (1, 2), 0)
        again = self.propose(desk, (2, 1), 0)
        assert (
            (first.error_code, first.partition_epoch) == (again.error_code, again.partition_epoch) == (0, 1)
        )
        other = self.propose(desk, (1, 3), 0)
        assert other.error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize("level", [FeatureLevel.LEGACY, FeatureLevel.GENERATIONS], ids=str)
def test_a_follower_that_stops_takes_no_leadership_from_one_who_stays_for_want_of_another(level):
    def stop(broker: int, epoch: int) -> Any:
        request = controlled_shutdown.ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch)
        answer = desk.ask(request, 2)
        assert answer.error_code == ErrorCode.NONE
        return [each.topic_name for each in answer.remaining_partitions]

    desk = three(level)
    desk.create("orders", 1, 2)
    desk.registry(b1=100, b3=102)
    desk.registry(b1=100, b2=103, b3=102)
    assert desk.core.image.partition("orders", 0).isr == (1,)
    assert stop(1, 100) == ["orders"]
    assert stop(2, 103) == []
    assert desk.core.image.partition("orders", 0).leader == 1
    assert stop(1, 100) == ["orders"], "it was told that it still leads"


def test_what_cannot_be_written_is_refused_and_the_controller_goes_on():
    class Narrow(MemoryMetadataLog):
        refuse = False

        def append(self, records):
            if self.refuse:
                raise Unwritable("the topic is too large for a node")
            return super().append(records)

    log = Narrow()
    desk = Desk(log=log)
    desk.registry(b1=100)
    log.refuse = True
    request = create_topics.CreateTopicsRequest(
        topics=(create_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1),)
    )
    assert isinstance(desk.ask(request, 7), Hangup)
    assert desk.core.failed is None
    log.refuse = False
    desk.create("t", 1)

"""What a broker asks of a control request, in which order, and every value at the edge."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from epoka.model.events import (
    Disconnected,
    Hangup,
    Peer,
    Registered,
    Report,
    Request,
    Respond,
    SettingsRead,
    StorageFailed,
)
from epoka.model.levels import HIGHEST, FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import alter_partition_reassignments as reassignments
from epoka.wire.messages import create_topics, delete_topics
from epoka.wire.messages import leader_and_isr as lai
from epoka.wire.messages import stop_replica as sr
from epoka.wire.messages import update_metadata as um
from tests.broker.client import create_topic, producing, write
from tests.broker.world import CONTROLLER, HUNG_UP
from tests.broker.zk_client import follows, leads
from tests.broker.zk_world import ZkWorld

CONTROLLER_EPOCH = 1
STALE_BROKER = ErrorCode.STALE_BROKER_EPOCH
STALE_CONTROLLER = ErrorCode.STALE_CONTROLLER_EPOCH


@pytest.fixture(scope="module")
def world() -> ZkWorld:
    """Requests that are accepted here change nothing, so one world serves all."""
    return ZkWorld(level=FeatureLevel.SHARED_UPDATES)


def live_brokers(world: ZkWorld) -> tuple[um.UpdateMetadataBroker, ...]:
    return tuple(
        um.UpdateMetadataBroker(
            id=each.id,
            endpoints=tuple(
                um.UpdateMetadataEndpoint(port=door.port, host=door.host, listener=door.name)
                for door in each.endpoints
            ),
        )
        for each in world.controller.image.brokers.values()
    )


REQUESTS = {
    "LeaderAndIsr": (lai.LeaderAndIsrRequest, 2, 5),
    "UpdateMetadata": (um.UpdateMetadataRequest, 5, 7),
    "StopReplica": (sr.StopReplicaRequest, 1, 4),
}
every_request = pytest.mark.parametrize("kind", sorted(REQUESTS))


def ask(world: ZkWorld, kind: str, *, by_maximum: bool, controller_epoch: int, **about: Any) -> ErrorCode:
    cls, version, max_version = REQUESTS[kind]
    if cls is um.UpdateMetadataRequest:
        about["live_brokers"] = live_brokers(world)
    request = cls(controller_id=100, controller_epoch=controller_epoch, **about)
    answer = world.call(1, request, max_version if by_maximum else version, control=True)
    return ErrorCode.of(answer.error_code)


@every_request
@pytest.mark.parametrize("by_maximum", [False, True], ids=["own", "maximum"])
class TestOrder:
    @pytest.mark.parametrize(
        ("ahead", "error"), [(-1, STALE_BROKER), (0, ErrorCode.NONE), (1, ErrorCode.NONE)]
    )
    def test_only_a_lower_generation_is_stale(self, world, kind, by_maximum, ahead, error):
        field = "max_broker_epoch" if by_maximum else "broker_epoch"
        epoch = world.broker(1).lifecycle.broker_epoch + ahead
        given = ask(world, kind, by_maximum=by_maximum, controller_epoch=CONTROLLER_EPOCH, **{field: epoch})
        assert given is error

    def test_a_request_without_a_generation_is_never_stale(self, world, kind, by_maximum):
        assert ask(world, kind, by_maximum=by_maximum, controller_epoch=CONTROLLER_EPOCH) is ErrorCode.NONE

    def test_an_older_controller_is_refused(self, world, kind, by_maximum):
        given = ask(world, kind, by_maximum=by_maximum, controller_epoch=CONTROLLER_EPOCH - 1)
        assert given is STALE_CONTROLLER

    def test_the_generation_is_asked_before_the_controller(self, world, kind, by_maximum):
        field = "max_broker_epoch" if by_maximum else "broker_epoch"
        epoch = world.broker(1).lifecycle.broker_epoch - 1
        given = ask(
            world, kind, by_maximum=by_maximum, controller_epoch=CONTROLLER_EPOCH - 1, **{field: epoch}
        )
        assert given is STALE_BROKER


@every_request
def test_clients_may_not_give_orders(world, kind):
    cls, version, _ = REQUESTS[kind]
    assert world.call(1, cls(), version) == HUNG_UP


def test_a_refusal_is_in_the_ledger_with_what_was_given_and_expected(world):
    own = world.broker(1).lifecycle.broker_epoch
    ask(world, "StopReplica", by_maximum=False, controller_epoch=CONTROLLER_EPOCH, broker_epoch=own - 1)
    event = world.ledger[-1]
    assert (event.rule, event.error) == ("control.generation", "STALE_BROKER_EPOCH")
    assert (event.given, event.expected) == (str(own - 1), f">= {own}")


def test_a_stale_leader_and_isr_is_refused_for_every_partition_and_a_stale_stop_replica_as_a_whole(world):
    rows = tuple(lai.LeaderAndIsrPartitionState(partition_index=index) for index in (0, 1))
    request = lai.LeaderAndIsrRequest(
        controller_epoch=CONTROLLER_EPOCH,
        broker_epoch=1,
        topic_states=(lai.LeaderAndIsrTopicState(topic_name="t", partition_states=rows),),
    )
    answer = world.call(1, request, 2, control=True)
    assert [(each.partition_index, each.error_code) for each in answer.partition_errors] == [(0, 77), (1, 77)]
    stop = sr.StopReplicaRequest(
        controller_epoch=CONTROLLER_EPOCH,
        broker_epoch=1,
        topics=(sr.StopReplicaTopic(name="t", partition_indexes=(0,)),),
    )
    answer = world.call(1, stop, 1, control=True)
    assert (answer.error_code, answer.partition_errors) == (77, ())


class TestPartitions:
    def roles(self, world: ZkWorld, leader_epoch: int, replicas=(1, 2, 3)) -> ErrorCode:
        row = lai.LeaderAndIsrPartitionState(
            partition_index=0,
            leader=1,
            leader_epoch=leader_epoch,
            isr=replicas,
            partition_epoch=leader_epoch + 5,
            replicas=replicas,
        )
        request = lai.LeaderAndIsrRequest(
            controller_epoch=CONTROLLER_EPOCH,
            topic_states=(lai.LeaderAndIsrTopicState(topic_name="orders", partition_states=(row,)),),
        )
        (error,) = world.call(1, request, 5, control=True).partition_errors
        return ErrorCode.of(error.error_code)

    @pytest.fixture
    def world(self) -> ZkWorld:
        world = ZkWorld(level=FeatureLevel.SHARED_UPDATES)
        create_topic(world, "orders", assignment=(1, 2, 3))
        assert world.broker(1).replicas.by_name["orders", 0].leader_epoch == 0
        return world

    def test_only_a_higher_leader_epoch_gives_a_role(self, world):
        assert self.roles(world, -1) is STALE_CONTROLLER
        assert self.roles(world, 0) is STALE_CONTROLLER
        assert self.roles(world, 1) is ErrorCode.NONE
        assert world.broker(1).replicas.by_name["orders", 0].leader_epoch == 1
        assert self.roles(world, 0) is STALE_CONTROLLER
        assert self.roles(world, 1) is STALE_CONTROLLER

    def test_a_partition_that_is_not_ours_is_unknown(self, world):
        assert self.roles(world, 1, replicas=(2, 3)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert leads(world, 1, "orders")

    def test_a_failed_disk_comes_before_everything_else(self, world):
        node = world.nodes[1]
        world._perform(node, node.core.handle(StorageFailed("broken"), world.now))
        assert self.roles(world, 0) is ErrorCode.KAFKA_STORAGE_ERROR

    def test_a_broker_with_a_failed_disk_sees_that_its_leadership_is_over(self, world):
        node = world.nodes[1]
        world._perform(node, node.core.handle(StorageFailed("broken"), world.now))
        world.run_until(lambda: world.partition("orders").leader != 1)
        world.run_until(lambda: not leads(world, 1, "orders"))

    def test_stopping_what_is_not_here_is_no_error(self, world):
        stop = sr.StopReplicaRequest(
            controller_epoch=CONTROLLER_EPOCH,
            topics=(sr.StopReplicaTopic(name="unknown", partition_indexes=(0,)),),
        )
        answer = world.call(1, stop, 4, control=True)
        assert [each.error_code for each in answer.partition_errors] == [0]

    def test_a_stopped_replica_keeps_its_log_and_a_deleted_one_does_not(self, world):
        for delete in (False, True):
            stop = sr.StopReplicaRequest(
                controller_epoch=CONTROLLER_EPOCH,
                delete_partitions=delete,
                topics=(sr.StopReplicaTopic(name="orders", partition_indexes=(0,)),),
            )
            world.call(1, stop, 4, control=True)
            assert ("orders", 0) not in world.broker(1).replicas.by_name
            assert (("orders", 0) in world.broker(1).replicas.logs.logs) is not delete

    def test_metadata_alone_makes_nobody_a_leader(self, world):
        row = um.UpdateMetadataPartitionState(
            partition_index=0, leader=2, leader_epoch=7, isr=(2,), partition_epoch=9, replicas=(1, 2, 3)
        )
        request = um.UpdateMetadataRequest(
            controller_epoch=CONTROLLER_EPOCH,
            topic_states=(um.UpdateMetadataTopicState(topic_name="orders", partition_states=(row,)),),
            live_brokers=live_brokers(world),
        )
        world.call(1, request, 7, control=True)
        assert world.broker(1).image.partition("orders", 0).leader == 2
        assert leads(world, 1, "orders")


def update_for(epoch: int) -> um.UpdateMetadataRequest:
    return um.UpdateMetadataRequest(controller_id=100, controller_epoch=1, broker_epoch=epoch)


def test_a_request_waits_until_the_broker_knows_its_generation():
    """Before that nobody can say whether it is for this life or for the one before."""
    world = ZkWorld(level=FeatureLevel.GENERATIONS)
    former = world.epoch(3)
    world.crash(3)
    world.start_broker(3)
    without = world.ask(3, update_for(-1), 4, control=True)
    stale = world.ask(3, update_for(former), 5, control=True)
    early = world.ask(3, update_for(world.epoch(3)), 5, control=True)
    assert (stale, early) == ([], []) and without[0].error_code == ErrorCode.NONE
    world.run(5)
    assert stale[0].error_code == ErrorCode.STALE_BROKER_EPOCH
    assert early[0].error_code == ErrorCode.NONE


def test_a_request_that_waits_is_forgotten_with_its_connection():
    world = ZkWorld(level=FeatureLevel.GENERATIONS)
    world.crash(3)
    world.start_broker(3)
    peer = Peer(control=True, connection=77)
    node = world.nodes[3]
    assert node.core.handle(Request(5, 5, update_for(world.epoch(3)), peer), world.now) == []
    node.core.handle(Disconnected(77), world.now)
    effects = node.core.handle(Registered(world.epoch(3)), world.now)
    assert not [effect for effect in effects if isinstance(effect, Respond)]


def test_what_an_older_connection_still_delivers_is_not_taken_in():
    """The controller has given that connection up and told everything again on a newer one."""
    world = ZkWorld()
    broker = world.nodes[1].core

    def update(connection: int, *brokers: um.UpdateMetadataBroker, epoch: int = CONTROLLER_EPOCH) -> list:
        request = um.UpdateMetadataRequest(controller_id=100, controller_epoch=epoch, live_brokers=brokers)
        return broker.handle(Request(5, 8, request, Peer(control=True, connection=connection)), world.now)

    everybody = live_brokers(world)
    assert update(9_001, *everybody[:2])[-1].message.error_code == ErrorCode.NONE
    assert update(9_002, *everybody)[-1].message.error_code == ErrorCode.NONE
    late = update(9_001, *everybody[:2])
    assert [type(effect) for effect in late] == [Report, Hangup]
    assert late[0].event.rule == "control.connection"
    assert sorted(broker.image.brokers) == [1, 2, 3]
    # Another controller's connections are numbered on their own.
    assert update(9_000, *everybody[:2], epoch=CONTROLLER_EPOCH + 1)[-1].message.error_code == ErrorCode.NONE
    assert sorted(broker.image.brokers) == [1, 2]


def test_a_topic_made_again_keeps_settings_that_came_before_it():
    """Settings and topics are told of on two ways, and either may be the faster one."""
    world = ZkWorld()
    create_topic(world, "orders", assignment=(1, 2, 3), min_insync_replicas="2")
    world.run_until(lambda: follows(world, 3, "orders"))
    world.holding = lambda frm, to, message: (
        to == 3 and type(message).__name__ in ("UpdateMetadataRequest", "LeaderAndIsrRequest")
    )
    request = delete_topics.DeleteTopicsRequest(topics=(delete_topics.DeleteTopicState(name="orders"),))
    world.call(1, request, 6)
    topic = create_topics.CreatableTopic(
        name="orders",
        num_partitions=-1,
        replication_factor=-1,
        assignments=(create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=(3, 1, 2)),),
        configs=(create_topics.CreatableTopicConfig(name="min.insync.replicas", value="2"),),
    )
    assert world.call(1, create_topics.CreateTopicsRequest(topics=(topic,)), 7).topics[0].error_code == 0
    world.run(50)
    world.release()
    world.run_until(lambda: leads(world, 3, "orders"))
    assert world.broker(3).replicas.by_name["orders", 0].min_isr == 2


def create_from_afar(world: ZkWorld, name: str, *replicas: int) -> None:
    """A topic that asks for two in-sync replicas, of whichever brokers, made by asking the second one."""
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=(create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas),),
        configs=(create_topics.CreatableTopicConfig(name="min.insync.replicas", value="2"),),
    )
    assert world.call(2, create_topics.CreateTopicsRequest(topics=(topic,)), 7).topics[0].error_code == 0
    world.run(50)


@pytest.mark.parametrize("level", [FeatureLevel.GENERATIONS, FeatureLevel.SHARED_UPDATES, HIGHEST])
class TestSettingsOfANewTopic:
    """They do not come with the role, so the broker reads them before it makes the log."""

    def test_no_log_is_made_before_they_are_read(self, level):
        world = ZkWorld(level=level)
        world.deaf = {1}
        create_from_afar(world, "orders", 1, 2, 3)
        replicas = world.broker(1).replicas
        assert ("orders", 0) not in replicas.by_name and ("orders", 0) not in replicas.logs.logs
        world.deaf.clear()
        world.run_until(lambda: leads(world, 1, "orders"))
        assert replicas.by_name["orders", 0].min_isr == 2

    def test_what_was_read_before_the_role_was_given_is_not_enough(self, level):
        world = ZkWorld(level=level)
        world.deaf = {1}
        create_from_afar(world, "orders", 1, 2, 3)
        world.nodes[1].core.handle(SettingsRead(int(level)), world.now)
        assert ("orders", 0) not in world.broker(1).replicas.by_name

    def test_a_log_that_is_there_is_taken_up_without_another_look(self, level):
        world = ZkWorld(level=level)
        create_topic(world, "orders", assignment=(1, 2, 3), min_insync_replicas="2")
        world.run_until(lambda: follows(world, 3, "orders"))
        world.crash(3)
        world.deaf = {3}
        world.start_broker(3)
        world.run_until(lambda: follows(world, 3, "orders"))
        assert world.broker(3).replicas.by_name["orders", 0].min_isr == 2

    def test_a_role_that_is_taken_back_before_is_not_taken_up(self, level):
        world = ZkWorld(level=level)
        world.deaf = {3}
        create_from_afar(world, "orders", 1, 2, 3)
        request = delete_topics.DeleteTopicsRequest(topics=(delete_topics.DeleteTopicState(name="orders"),))
        assert world.call(2, request, 6).responses[0].error_code == 0
        world.run(50)
        world.deaf.clear()
        world.run(50)
        replicas = world.broker(3).replicas
        assert ("orders", 0) not in replicas.by_name and ("orders", 0) not in replicas.logs.logs


def test_a_role_in_a_topic_of_former_times_is_not_taken_up_in_the_next_one_of_that_name():
    """It waited for settings, and the controller that was to take it back was replaced."""

    def create(*assignments: tuple[int, ...]) -> None:
        topic = create_topics.CreatableTopic(
            name="orders",
            num_partitions=-1,
            replication_factor=-1,
            assignments=tuple(
                create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=each)
                for index, each in enumerate(assignments)
            ),
        )
        assert world.call(2, create_topics.CreateTopicsRequest(topics=(topic,)), 7).topics[0].error_code == 0

    world = ZkWorld()
    world.deaf = {3}
    create((1, 3), (1, 3))
    world.run(50)
    world.holding = lambda frm, to, message: frm == CONTROLLER and to == 3
    request = delete_topics.DeleteTopicsRequest(topics=(delete_topics.DeleteTopicState(name="orders"),))
    assert world.call(2, request, 6).responses[0].error_code == ErrorCode.NONE
    create((1, 3))
    world.nodes[CONTROLLER].alive = False
    world.held, world.holding = [], None
    world.start_controller()
    world.run(500)
    world.deaf.clear()
    world.run_until(lambda: follows(world, 3, "orders"))
    assert world.broker(3).image.partition_count_of("orders") == 1
    assert list(world.broker(3).replicas.logs.logs) == [("orders", 0)]


def test_a_topic_made_again_is_heard_of_though_the_log_of_the_old_one_cannot_be_deleted():
    world = ZkWorld()
    create_topic(world, "orders", assignment=(1, 2, 3))
    world.run_until(lambda: follows(world, 3, "orders"))
    broker, again = world.broker(3), UUID(int=4711)
    broker.replicas.logs.checkpoint()
    world.stores[3].fail_writes = True
    row = um.UpdateMetadataPartitionState(leader=1, replicas=(1, 2, 3), isr=(1, 2, 3))
    request = um.UpdateMetadataRequest(
        controller_id=100,
        controller_epoch=CONTROLLER_EPOCH,
        live_brokers=live_brokers(world),
        topic_states=(
            um.UpdateMetadataTopicState(topic_name="orders", topic_id=again, partition_states=(row,)),
        ),
    )
    assert world.call(3, request, 8, control=True).error_code == ErrorCode.NONE
    assert broker.image.topic("orders").id == again
    assert broker.replicas.offline_reason is not None
    assert ("orders", 0) not in broker.replicas.by_name


@pytest.mark.parametrize("level", [FeatureLevel.GENERATIONS, FeatureLevel.FETCH_EPOCHS])
def test_a_broker_that_a_partition_was_taken_from_gives_it_up_though_nobody_tells_it_to(level):
    """Its StopReplica was the former controller's to send."""
    world = ZkWorld(level=level)
    create_topic(world, "orders", assignment=(3, 1, 2))
    write(world, 3, "orders", b"a")
    world.run(600)
    partition = reassignments.ReassignablePartition(partition_index=0, replicas=(1, 2))
    topic = reassignments.ReassignableTopic(name="orders", partitions=(partition,))
    request = reassignments.AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=(topic,))
    world.holding = lambda frm, to, message: frm == CONTROLLER and to == 3
    world.call(CONTROLLER, request, 0, control=True)
    world.run(3)
    world.nodes[CONTROLLER].alive = False
    world.held, world.holding = [], None
    world.start_controller()
    world.run_until(lambda: ("orders", 0) not in world.broker(3).replicas.by_name)
    assert ("orders", 0) not in world.broker(3).replicas.logs.logs


@pytest.mark.parametrize("lost_with", ["controller", "session"])
@pytest.mark.parametrize("level", [FeatureLevel.GENERATIONS, FeatureLevel.FETCH_EPOCHS])
def test_a_topic_that_was_told_to_be_gone_is_given_up_though_no_stop_replica_comes(level, lost_with):
    """Else its leader would serve it for good, and the next topic of that name from the log of this one."""
    world = ZkWorld(level=level)
    create_topic(world, "orders", assignment=(3, 1, 2))
    write(world, 3, "orders", b"a")
    world.run(600)
    world.holding = lambda frm, to, message: to == 3 and isinstance(message, sr.StopReplicaRequest)
    request = delete_topics.DeleteTopicsRequest(topics=(delete_topics.DeleteTopicState(name="orders"),))
    assert world.call(1, request, 6).responses[0].error_code == ErrorCode.NONE
    world.run_until(lambda: bool(world.held))
    if lost_with == "controller":
        world.nodes[CONTROLLER].alive = False
        world.start_controller()
    else:
        world.expire(3)
    world.held, world.holding = [], None
    world.run(500)
    assert ("orders", 0) not in world.broker(3).replicas.by_name
    assert ("orders", 0) not in world.broker(3).replicas.logs.logs
    create_topic(world, "orders", assignment=(3, 1, 2))
    world.run_until(lambda: leads(world, 3, "orders"))
    write(world, 3, "orders", b"b")
    assert world.broker(3).replicas.by_name["orders", 0].log.end_offset == 1


@pytest.mark.parametrize("level", [FeatureLevel.HEARTBEATS, FeatureLevel.SHARED_UPDATES])
def test_what_metadata_has_undone_is_not_proposed_again(level):
    """IsrChange has no partition epoch by which the controller could tell."""
    world = ZkWorld(level=level, request_timeout_ms=6000)
    create_topic(world, "orders", assignment=(1, 3, 2), min_insync_replicas="1")
    world.isolate(2, 1)
    producing(world, 1, "orders", b"0")
    world.run_until(lambda: set(world.partition("orders").isr) == {1, 3})
    sent: list[Any] = []

    def first_is_lost(frm: int, to: int, message: Any) -> bool:
        if type(message).__name__ == "IsrChangeRequest":
            sent.append(message)
        return len(sent) == 1 and message is sent[0]

    world.holding = first_is_lost
    world.heal()
    world.run_until(lambda: bool(sent))
    for other in (1, 2, CONTROLLER):
        world.isolate(3, other)
    world.isolate(2, 1)
    replica = world.broker(1).replicas.by_name["orders", 0]
    world.run_until(lambda: replica.leadership.isr == (1,))
    world.heal()
    world.isolate(2, 1)
    world.isolate(3, 1)
    world.held = []
    world.run(10_000)
    assert len(sent) == 1
    assert world.partition("orders").isr == (1,)


def test_what_a_replaced_controller_refused_is_asked_again():
    """It does not know the topic; the present one does, and has nothing new to say of it."""
    world = ZkWorld(request_timeout_ms=600)
    replaced = world.nodes[CONTROLLER]
    world.start_controller()
    present = world.nodes[CONTROLLER]
    world.run(500)
    create_topic(world, "orders", assignment=(1, 2, 3))
    world.run(100)
    world.isolate(3, 1)
    world.isolate(3, 2)
    answers = producing(world, 1, "orders", b"a")
    asked: list[Any] = []

    def to_the_replaced_one(frm: int, to: int, message: Any) -> bool:
        if type(message).__name__ == "AlterPartitionRequest":
            asked.append(message)
            world.nodes[CONTROLLER] = present if len(asked) > 1 else replaced
        return False

    world.holding = to_the_replaced_one
    world.run_until(lambda: bool(asked))
    world.run(3)
    world.nodes[CONTROLLER] = present
    world.run_until(lambda: world.partition("orders").isr == (1, 2) and bool(answers))
    assert len(asked) == 2

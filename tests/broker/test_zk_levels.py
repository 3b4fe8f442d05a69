"""Zookeeper mode on each of the six levels: records reach every replica, no acknowledged one is lost."""

import pytest

from epoka.controller import push
from epoka.controller.config import ControllerConfig
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import create_topics, delete_topics
from tests.broker.client import create_topic, write
from tests.broker.zk_client import follows, leads, read
from tests.broker.zk_world import ZkWorld
from tests.controller.office import check_invariants

LEVELS = list(FeatureLevel)
every_level = pytest.mark.parametrize("level", LEVELS, ids=[str(level) for level in LEVELS])


def ends(world: ZkWorld, topic: str, brokers=(1, 2, 3)) -> set[int]:
    return {world.broker(each).replicas.by_name[topic, 0].log.end_offset for each in brokers}


@every_level
class TestEveryLevel:
    def test_an_acknowledged_record_is_on_every_replica(self, level):
        world = ZkWorld(level=level)
        create_topic(world, "orders", assignment=(1, 2, 3))
        assert write(world, 1, "orders", b"a", b"b").error_code == ErrorCode.NONE
        assert ends(world, "orders") == {2}
        assert read(world, 1, "orders") == [b"a", b"b"]
        assert world.partition("orders").isr == (1, 2, 3)

    def test_a_dead_leader_is_replaced_and_comes_back_into_the_isr(self, level):
        world = ZkWorld(level=level)
        create_topic(world, "orders", assignment=(1, 2, 3))
        write(world, 1, "orders", b"a")
        world.crash(1)
        world.run_until(lambda: leads(world, 2, "orders"))
        assert write(world, 2, "orders", b"b").base_offset == 1
        world.start_broker(1)
        world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
        assert write(world, 2, "orders", b"c").error_code == ErrorCode.NONE
        assert ends(world, "orders") == {3}
        assert read(world, 2, "orders") == [b"a", b"b", b"c"]
        check_invariants(world.controller.image)

    def test_a_slow_follower_leaves_the_isr_and_comes_back(self, level):
        world = ZkWorld(level=level)
        create_topic(world, "orders", assignment=(1, 2, 3))
        write(world, 1, "orders", b"a")
        world.isolate(1, 3)
        assert write(world, 1, "orders", b"b").error_code == ErrorCode.NONE
        world.run_until(lambda: world.partition("orders").isr == (1, 2))
        world.heal()
        world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
        world.run_until(lambda: ends(world, "orders") == {2})

    def test_a_broker_that_stops_hands_its_leaderships_over_and_returns(self, level):
        world = ZkWorld(level=level)
        create_topic(world, "orders", assignment=(1, 2, 3))
        write(world, 1, "orders", b"a")
        world.stop(1)
        assert world.nodes[1].exit.clean
        assert world.partition("orders").leader == 2
        world.run_until(lambda: leads(world, 2, "orders"))
        assert write(world, 2, "orders", b"b").error_code == ErrorCode.NONE
        world.start_broker(1)
        world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
        assert read(world, 2, "orders") == [b"a", b"b"]

    def test_the_last_broker_waits_for_nobody(self, level):
        world = ZkWorld(level=level)
        create_topic(world, "orders", assignment=(1, 2, 3))
        write(world, 1, "orders", b"a")
        for broker in (1, 2):
            world.stop(broker)
        began = world.now
        world.stop(3)
        assert world.nodes[3].exit.clean
        assert world.now - began < 1_000
        world.run_until(lambda: world.controller.image.broker(3) is None)
        for broker in (1, 2, 3):
            world.start_broker(broker)
        world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
        assert read(world, world.partition("orders").leader, "orders") == [b"a"]

    def test_a_new_controller_goes_on_where_the_last_one_stopped(self, level):
        world = ZkWorld(level=level)
        create_topic(world, "orders", assignment=(1, 2, 3))
        write(world, 1, "orders", b"a")
        world.crash(-1)
        world.start_controller()
        world.run_until(lambda: all(world.broker(each).feed.controller_epoch == 2 for each in (1, 2, 3)))
        world.run(3_000)
        assert world.partition("orders").leader == 1
        assert write(world, 1, "orders", b"b").error_code == ErrorCode.NONE
        world.crash(1)
        world.run_until(lambda: leads(world, 2, "orders"))
        assert write(world, 2, "orders", b"c").error_code == ErrorCode.NONE
        assert read(world, 2, "orders") == [b"a", b"b", b"c"]

    def test_a_lost_session_is_a_new_generation_of_the_same_process(self, level):
        world = ZkWorld(level=level)
        create_topic(world, "orders", assignment=(1, 2, 3))
        create_topic(world, "others", assignment=(2, 1, 3))
        write(world, 1, "orders", b"a")
        world.expire(1)
        world.run_until(lambda: world.broker(1).lifecycle.broker_epoch == world.epoch(1))
        world.run(3_000)
        assert world.broker(1).lifecycle.serving()
        leader = world.partition("orders").leader
        assert leads(world, leader, "orders")
        assert write(world, leader, "orders", b"b").error_code == ErrorCode.NONE
        world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
        world.run_until(lambda: ends(world, "orders") == {2})

    def test_a_deleted_topic_leaves_no_log_behind(self, level):
        world = ZkWorld(level=level)
        create_topic(world, "orders", assignment=(1, 2, 3))
        write(world, 1, "orders", b"a")
        request = delete_topics.DeleteTopicsRequest(topic_names=("orders",))
        world.call(1, request, 5)
        world.run_until(
            lambda: all(("orders", 0) not in world.broker(b).replicas.logs.logs for b in (1, 2, 3))
        )
        create_topic(world, "orders", assignment=(3, 2, 1))
        assert write(world, 3, "orders", b"new").base_offset == 0
        assert read(world, 3, "orders") == [b"new"]

    def test_settings_of_topics_reach_brokers(self, level):
        world = ZkWorld(level=level)
        create_topic(world, "orders", assignment=(1, 2, 3), min_insync_replicas="3")
        world.run(10)
        assert world.broker(1).replicas.by_name["orders", 0].min_isr == 3
        assert follows(world, 2, "orders")


def test_the_whole_ladder_under_load_loses_nothing():
    world = ZkWorld(level=FeatureLevel.LEGACY)
    create_topic(world, "orders", assignment=(1, 2, 3))
    acknowledged = []
    for level in LEVELS[1:]:
        # One broker hears of the level much later than the others.
        late = 1 + int(level) % 3
        world.deaf.add(late)
        world.climb(level)
        for number in range(3):
            value = f"{level}-{number}".encode()
            assert write(world, 1, "orders", value).error_code == ErrorCode.NONE
            acknowledged.append(value)
            world.run(50)
        world.run(2_500)
        world.hear(late)
        world.run(500)
        assert sorted(world.partition("orders").isr) == [1, 2, 3], level
    assert world.controller.image.level is FeatureLevel.FETCH_EPOCHS
    world.crash(1)
    world.run_until(lambda: leads(world, 2, "orders"))
    world.run_until(lambda: world.partition("orders").isr == (2, 3))
    world.run(100)
    assert read(world, 2, "orders") == acknowledged
    topic = world.controller.image.topic("orders")
    assert all(world.broker(each).image.topic("orders") == topic for each in (2, 3))
    world.start_broker(1)
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    assert world.broker(1).replicas.by_name["orders", 0].log.topic_id == topic.id
    assert ends(world, "orders") == {len(acknowledged)}


def test_a_controller_that_a_leader_overtook_looks_and_decides_again():
    world = ZkWorld(level=FeatureLevel.GENERATIONS)
    create_topic(world, "orders", assignment=(1, 2, 3))
    world.deaf_to_isr_changes = True
    world.isolate(1, 3)
    assert write(world, 1, "orders", b"a").error_code == ErrorCode.NONE
    assert world.partition("orders").isr == (1, 2, 3)
    assert world.metadata_log.image.partition("orders", 0).isr == (1, 2)
    world.crash(1)
    world.run_until(lambda: world.controller.image.broker(1) is None)
    state = world.partition("orders")
    assert (state.leader, state.isr, state.partition_epoch) == (2, (2,), 2)
    assert world.metadata_log.image.partition("orders", 0) == state
    assert world.controller.failed is None


def test_a_leadership_does_not_go_back_to_a_replica_that_its_leader_has_just_taken_out_of_the_isr():
    config = ControllerConfig(
        initial_level=FeatureLevel.GENERATIONS,
        session_timeout_ms=1_000,
        leader_imbalance_check_interval_ms=20_000,
    )
    world = ZkWorld(level=FeatureLevel.GENERATIONS, controller=config)
    create_topic(world, "orders", assignment=(3, 1, 2))
    world.crash(3)
    world.run_until(lambda: leads(world, 1, "orders"))
    world.start_broker(3)
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    world.deaf_to_isr_changes = True
    world.isolate(1, 3)
    assert write(world, 1, "orders", b"a").error_code == ErrorCode.NONE
    assert sorted(world.partition("orders").isr) == [1, 2, 3], "the controller has not heard of it"
    check_ms = world.controller._imbalance_check_ms
    world.run_until(lambda: world.controller._imbalance_check_ms != check_ms)
    check_invariants(world.controller.image)
    assert world.partition("orders").leader == 1
    assert read(world, 1, "orders") == [b"a"]


@pytest.mark.parametrize("level", [FeatureLevel.ELIGIBLE_ISR, FeatureLevel.FETCH_EPOCHS], ids=str)
def test_a_topic_made_anew_while_a_broker_was_away_shares_nothing_with_the_old_one(level):
    world = ZkWorld(level=level)
    create_topic(world, "orders", assignment=(1, 2, 3))
    write(world, 1, "orders", b"old", b"older")
    world.crash(3)
    world.run_until(lambda: world.controller.image.broker(3) is None)
    world.call(1, delete_topics.DeleteTopicsRequest(topic_names=("orders",)), 5)
    world.run(50)
    create_topic(world, "orders", assignment=(1, 2))
    create_topic(world, "others", assignment=(2, 1))
    write(world, 1, "orders", b"new")
    world.start_broker(3)
    world.run_until(lambda: world.broker(3).lifecycle.serving())
    world.run(50)
    assert ("orders", 0) not in world.broker(3).replicas.logs.logs


@every_level
@pytest.mark.parametrize("assignment", [(1, 2, 3), (3, 2, 1)], ids=["as-follower", "as-leader"])
def test_a_topic_made_anew_while_a_broker_fell_behind_is_taken_up(level, assignment, monkeypatch):
    def make(name: str, *replicas: int) -> None:
        placed = create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
        topic = create_topics.CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=(placed,)
        )
        world.ask(-1, create_topics.CreateTopicsRequest(topics=(topic,)), 7, control=True)

    monkeypatch.setattr(push, "MOST_QUEUED", 2)
    world = ZkWorld(level=level)
    create_topic(world, "orders", assignment=(1, 2, 3))
    world.crash(1)
    world.run_until(lambda: leads(world, 2, "orders"))
    world.start_broker(1)
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    world.run(50)
    world.isolate(-1, 3)
    make("first", 1, 2)
    world.ask(-1, delete_topics.DeleteTopicsRequest(topic_names=("orders",)), 5, control=True)
    make("second", 1, 2)
    make("orders", *assignment)
    channel = world.controller._push._channels[3]
    assert channel.behind
    world.heal()
    world.run_until(lambda: not channel.behind and not channel.queue)
    world.run_until(lambda: leads(world, assignment[0], "orders"))
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    assert write(world, assignment[0], "orders", b"new").error_code == ErrorCode.NONE
    assert ends(world, "orders") == {1}


def test_a_topic_deleted_in_the_last_days_of_a_controller_is_gone_under_the_next():
    world = ZkWorld()
    create_topic(world, "orders", assignment=(1, 2, 3))
    for broker in (1, 2, 3):
        world.isolate(-1, broker)
    request = delete_topics.DeleteTopicsRequest(topic_names=("orders",))
    world.ask(-1, request, 5, control=True)
    assert world.metadata_log.image.topic("orders") is None
    world.crash(-1)
    world.heal()
    world.start_controller()
    world.run_until(lambda: all(world.broker(each).image.topic("orders") is None for each in (1, 2, 3)))
    assert all(("orders", 0) not in world.broker(each).replicas.logs.logs for each in (1, 2, 3))

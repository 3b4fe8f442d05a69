"""The four examples of KIP-380's motivation: safe from level `generations` on, and what happens below it."""

from epoka.model.levels import FeatureLevel
from epoka.wire.messages import controlled_shutdown
from epoka.wire.messages import create_topics as wire
from tests.broker.client import create_topic, write
from tests.broker.zk_client import follows, leads
from tests.broker.zk_world import ZkWorld


def refused(world: ZkWorld, rule: str) -> list:
    return [event for event in world.ledger if event.rule == rule and event.verdict == "refused"]


# A StopReplica of an earlier life.


def a_stop_replica_arrives_after_the_bounce(level: FeatureLevel) -> ZkWorld:
    world = ZkWorld(level=level)
    create_topic(world, "orders", assignment=(1, 2, 3))
    write(world, 1, "orders", b"a")
    under_way = ("StopReplicaRequest", "ControlledShutdownResponse")
    world.holding = lambda frm, to, message: type(message).__name__ in under_way
    world.stop_without_waiting(3)
    world.run_until(lambda: len(world.held) == 2)
    world.crash(3)
    world.run_until(lambda: world.controller.image.broker(3) is None)
    world.start_broker(3)
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    assert follows(world, 3, "orders")
    world.release()
    world.run(10)
    assert world.broker(3).lifecycle.serving()
    return world


def test_a_stale_stop_replica_leaves_the_replica_online():
    world = a_stop_replica_arrives_after_the_bounce(FeatureLevel.GENERATIONS)
    assert follows(world, 3, "orders")
    assert refused(world, "control.generation")


def test_below_generations_a_stale_stop_replica_takes_the_replica_of_a_living_broker_offline():
    world = a_stop_replica_arrives_after_the_bounce(FeatureLevel.LEGACY)
    assert not follows(world, 3, "orders")


# A ControlledShutdown of an earlier life.


def an_old_shutdown_arrives_after_the_bounce(level: FeatureLevel) -> ZkWorld:
    world = ZkWorld(level=level)
    create_topic(world, "orders", assignment=(1, 2, 3))
    write(world, 1, "orders", b"a")
    world.hold("ControlledShutdownRequest")
    world.stop_without_waiting(3)
    world.run_until(lambda: bool(world.held))
    world.crash(3)
    world.run_until(lambda: world.controller.image.broker(3) is None)
    world.start_broker(3)
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    world.release()
    world.run(10)
    return world


def test_a_shutdown_that_an_earlier_life_asked_for_is_refused():
    world = an_old_shutdown_arrives_after_the_bounce(FeatureLevel.GENERATIONS)
    assert refused(world, "shutdown.generation")
    assert follows(world, 3, "orders")
    assert not world.controller.state.stopping(3)


def test_below_generations_an_old_shutdown_leaves_a_living_broker_in_a_bad_state():
    world = an_old_shutdown_arrives_after_the_bounce(FeatureLevel.LEGACY)
    assert world.broker(3).lifecycle.serving()
    assert not follows(world, 3, "orders")
    assert 3 not in world.partition("orders").isr
    assert world.controller.state.stopping(3)


# A first LeaderAndIsr from before the start.


def the_first_leader_and_isr_is_an_old_one(level: FeatureLevel) -> ZkWorld:
    world = ZkWorld(level=level)
    world.holding = lambda frm, to, message: type(message).__name__ == "LeaderAndIsrRequest" and to == 1
    answers = world.ask(2, topic("orders", 1, 2, 3), 7)
    world.run_until(lambda: bool(world.held) and bool(answers))
    world.crash(1)
    world.run_until(lambda: world.partition("orders").leader == 2)
    world.tell = False
    world.start_broker(1)
    world.run(5)
    assert world.broker(1).lifecycle.broker_epoch == world.epoch(1)
    world.release()
    world.run(5)
    return world


def topic(name: str, *replicas: int):
    assignment = wire.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    return wire.CreateTopicsRequest(
        topics=(
            wire.CreatableTopic(
                name=name, num_partitions=-1, replication_factor=-1, assignments=(assignment,)
            ),
        )
    )


def test_a_leader_and_isr_from_before_the_start_gives_no_roles():
    world = the_first_leader_and_isr_is_an_old_one(FeatureLevel.GENERATIONS)
    assert refused(world, "control.generation")
    assert ("orders", 0) not in world.broker(1).replicas.by_name
    world.tell_registry()
    world.run_until(lambda: follows(world, 1, "orders"))


def test_below_generations_the_new_life_takes_a_leadership_that_has_moved_on():
    world = the_first_leader_and_isr_is_an_old_one(FeatureLevel.LEGACY)
    assert leads(world, 1, "orders")
    assert leads(world, 2, "orders")


# A bounce that nobody saw.


def a_broker_bounces_faster_than_the_controller_looks(level: FeatureLevel) -> ZkWorld:
    world = ZkWorld(level=level)
    create_topic(world, "orders", assignment=(1, 2, 3))
    write(world, 1, "orders", b"a")
    world.tell = False
    world.crash(1)
    world.start_broker(1)
    world.run(5)
    world.tell_registry()
    world.run(5_000)
    return world


def test_a_fast_bounce_is_failure_then_start_up():
    world = a_broker_bounces_faster_than_the_controller_looks(FeatureLevel.GENERATIONS)
    assert world.broker(1).lifecycle.serving()
    assert sorted(world.partition("orders").isr) == [1, 2, 3]
    assert world.partition("orders").leader == 2
    assert write(world, 2, "orders", b"b").base_offset == 1
    kinds = [event.kind for event in world.ledger if event.broker == 1 and event.rule == "registry.bounce"]
    assert kinds == ["registered", "unregistered", "registered"]


def test_below_generations_a_fast_bounce_is_missed_and_the_broker_never_starts():
    world = a_broker_bounces_faster_than_the_controller_looks(FeatureLevel.LEGACY)
    assert not world.broker(1).lifecycle.serving()
    assert not leads(world, 1, "orders")
    assert world.partition("orders").leader == 1


def test_a_bounce_that_was_missed_is_seen_when_the_level_rises():
    world = a_broker_bounces_faster_than_the_controller_looks(FeatureLevel.LEGACY)
    world.climb(FeatureLevel.GENERATIONS)
    world.run_until(lambda: world.broker(1).lifecycle.serving())
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])


def test_a_broker_that_lost_its_session_while_stopping_asks_again_with_its_new_generation():
    world = ZkWorld(level=FeatureLevel.GENERATIONS)
    create_topic(world, "orders", assignment=(1, 2, 3))
    world.hold("ControlledShutdownRequest", 1)
    world.stop_without_waiting(1)
    world.run_until(lambda: bool(world.held))
    world.expire(1)
    world.run(5)
    world.release()
    world.run_until(lambda: world.nodes[1].exit is not None)
    assert world.nodes[1].exit.clean
    assert refused(world, "shutdown.generation")


def test_a_generation_from_nowhere_may_not_stop_a_broker_either():
    world = ZkWorld(level=FeatureLevel.GENERATIONS)
    for epoch, error in ((world.epoch(1) - 1, 77), (world.epoch(1), 0), (world.epoch(1) + 1, 77), (-1, 0)):
        request = controlled_shutdown.ControlledShutdownRequest(broker_id=1, broker_epoch=epoch)
        assert world.call(-1, request, 2, control=True).error_code == error
    unknown = controlled_shutdown.ControlledShutdownRequest(broker_id=9)
    assert world.call(-1, unknown, 1, control=True).error_code == 8

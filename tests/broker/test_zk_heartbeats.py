"""KIP-343 in zookeeper mode: the partitioned broker, bounces that heartbeats tell of first, who is active."""

from epoka.model.events import CONTROLLER, RegistryChanged
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import metadata_heartbeat as wire
from tests.broker.client import create_topic, produced, producing, write
from tests.broker.zk_client import leads, read
from tests.broker.zk_world import ZkWorld


def a_broker_reaches_zookeeper_but_not_the_controller(level: FeatureLevel) -> ZkWorld:
    world = ZkWorld(level=level)
    create_topic(world, "orders", assignment=(1, 2, 3))
    write(world, 1, "orders", b"a")
    world.isolate(1, CONTROLLER)
    world.run(4_000)
    assert 1 in world.registry
    return world


def test_a_partitioned_broker_is_declared_inactive_and_fences_itself():
    world = a_broker_reaches_zookeeper_but_not_the_controller(FeatureLevel.HEARTBEATS)
    assert world.controller.image.broker(1).fenced
    assert not world.broker(1).lifecycle.serving()
    assert leads(world, 2, "orders")
    assert write(world, 2, "orders", b"b").error_code == ErrorCode.NONE
    refused = producing(world, 1, "orders", b"lost", acks=1)
    assert produced(refused).error_code != ErrorCode.NONE
    times = {event.kind: event.time_ms for event in world.ledger if event.broker == 1}
    assert times["fenced"] < times["self-fenced"]
    world.heal()
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    assert world.broker(1).lifecycle.serving()
    assert read(world, 2, "orders") == [b"a", b"b"]


def test_below_heartbeats_a_partitioned_broker_goes_on_with_metadata_that_is_no_longer_true():
    world = a_broker_reaches_zookeeper_but_not_the_controller(FeatureLevel.GENERATIONS)
    assert not world.controller.image.broker(1).fenced
    assert world.partition("orders").leader == 1
    assert world.broker(1).lifecycle.serving()
    world.crash(3)
    world.run_until(lambda: world.controller.image.broker(3) is None)
    world.run_until(lambda: world.broker(2).image.broker(3) is None)
    assert world.broker(1).image.broker(3) is not None
    assert world.broker(1).lifecycle.serving()


def a_heartbeat_tells_of_the_bounce_first(level: FeatureLevel) -> ZkWorld:
    world = ZkWorld(level=level)
    create_topic(world, "orders", assignment=(1, 2, 3))
    write(world, 1, "orders", b"a")
    world.tell = False
    world.crash(1)
    world.start_broker(1)
    world.run_until(lambda: world.controller.image.broker(1).epoch == world.epoch(1))
    return world


def test_a_higher_generation_in_a_heartbeat_is_a_bounce():
    world = a_heartbeat_tells_of_the_bounce_first(FeatureLevel.HEARTBEATS)
    assert world.partition("orders").leader == 2
    assert world.partition("orders").isr == (2, 3)
    world.run_until(lambda: world.broker(1).lifecycle.serving())
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    before = len([event for event in world.ledger if event.kind == "unregistered"])
    world.tell_registry()
    world.run(100)
    assert len([event for event in world.ledger if event.kind == "unregistered"]) == before == 1


def test_an_older_picture_does_not_bury_a_life_that_a_heartbeat_told_of():
    world = ZkWorld(level=FeatureLevel.HEARTBEATS)
    create_topic(world, "orders", assignment=(1, 2, 3))
    older = RegistryChanged(tuple(entry for entry, _ in world.registry.values() if entry.id != 1), world.zxid)
    world.tell = False
    world.crash(1)
    world.start_broker(1)
    world.run_until(lambda: world.controller.image.broker(1).epoch == world.epoch(1))
    world._event(world.nodes[CONTROLLER], older)
    assert world.controller.image.broker(1).epoch == world.epoch(1)


def test_the_maximum_generation_is_not_raised_by_hearsay():
    world = a_heartbeat_tells_of_the_bounce_first(FeatureLevel.SHARED_UPDATES)
    world.run(1_000)
    assert world.controller._push.max_epoch < world.epoch(1)
    assert not world.broker(1).feed.updated
    world.tell_registry()
    world.run_until(lambda: world.broker(1).lifecycle.serving())
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])


def heartbeat(world: ZkWorld, broker_id: int, epoch: int, target: int) -> wire.MetadataHeartbeatResponse:
    request = wire.MetadataHeartbeatRequest(broker_id=broker_id, incarnation_id=epoch, target_state=target)
    return world.call(CONTROLLER, request, 0, control=True)


def test_a_lower_generation_is_refused_and_changes_nothing():
    world = ZkWorld(level=FeatureLevel.HEARTBEATS)
    answer = heartbeat(world, 1, world.epoch(1) - 1, 3)
    assert answer.error_code == ErrorCode.INVALID_INCARNATION_ID
    assert not world.controller.state.stopping(1)
    assert heartbeat(world, 1, world.epoch(1), 2).current_state == 2


def test_heartbeats_that_make_no_sense_are_invalid():
    world = ZkWorld(level=FeatureLevel.HEARTBEATS)
    assert heartbeat(world, -1, 5, 2).error_code == ErrorCode.INVALID_REQUEST
    assert heartbeat(world, 1, world.epoch(1), 4).error_code == ErrorCode.INVALID_REQUEST
    assert heartbeat(world, 1, world.epoch(1), -1).error_code == ErrorCode.INVALID_REQUEST


def test_a_broker_that_the_registry_has_not_told_of_is_in_its_initial_state():
    world = ZkWorld(level=FeatureLevel.HEARTBEATS)
    answer = heartbeat(world, 9, 1_000, 2)
    assert (answer.error_code, answer.current_state) == (0, 0)


def test_an_older_registration_is_always_active_even_in_silence():
    world = ZkWorld(level=FeatureLevel.GENERATIONS)
    world.deaf = {1}
    world.climb(FeatureLevel.HEARTBEATS)
    world.run(5_000)
    assert {broker_id: entry.version for broker_id, (entry, _) in world.registry.items()} == {
        1: 4,
        2: 5,
        3: 5,
    }
    assert not any(broker.fenced for broker in world.controller.image.brokers.values())
    world.isolate(1, CONTROLLER)
    world.isolate(2, CONTROLLER)
    world.run(3_000)
    fenced = {broker.id for broker in world.controller.image.brokers.values() if broker.fenced}
    assert fenced == {2}


def test_rising_to_heartbeats_is_no_bounce():
    world = ZkWorld(level=FeatureLevel.GENERATIONS)
    epochs = {each: world.epoch(each) for each in (1, 2, 3)}
    world.climb(FeatureLevel.HEARTBEATS)
    world.run(1_000)
    assert {each: world.epoch(each) for each in (1, 2, 3)} == epochs
    assert all(world.broker(each).lifecycle.serving() for each in (1, 2, 3))
    assert not [event for event in world.ledger if event.kind in ("fenced", "unregistered")]

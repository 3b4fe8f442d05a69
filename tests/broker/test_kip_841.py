"""KIP-841 through the whole cluster: no fenced or stopping replica in an ISR, and none that leads."""

import pytest

from epoka.model.events import Stop
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.broker_heartbeat import BrokerHeartbeatResponse
from tests.broker.client import create_topic, produced, producing, read, write
from tests.broker.world import CONTROLLER, World


def invariants(world: World) -> None:
    """What must hold in every state that the controller has written."""
    image = world.controller.image
    for ref in image.all_partitions():
        state = image.state(ref)
        for member in state.isr:
            broker = image.broker(member)
            if len(state.isr) > 1 or state.leader >= 0:
                assert broker is not None and broker.active, (ref, state, broker)
        if state.leader >= 0:
            assert state.leader in state.isr
            assert image.broker(state.leader).active


def checked(world: World) -> World:
    """Check the invariants after every step from now on."""
    step = world._step

    def checking(due: int) -> None:
        step(due)
        invariants(world)

    world._step = checking  # type: ignore[method-assign]
    return world


def hold_the_grant(world: World, broker_id: int) -> None:
    """The broker does not hear that it may go: it lingers in its controlled shutdown and goes on fetching."""
    world.holding = lambda sender, to, message: (
        sender == CONTROLLER and to == broker_id and isinstance(message, BrokerHeartbeatResponse)
    )


def begin_to_stop(world: World, broker_id: int) -> None:
    node = world.nodes[broker_id]
    world._perform(node, node.core.handle(Stop(), world.now))


def test_a_controlled_shutdown_hands_over_leaders_and_leaves_the_isr():
    world = checked(World(3))
    create_topic(world, "orders", assignment=(1, 2, 3))
    write(world, 1, "orders", b"a")
    world.stop(1)
    assert world.nodes[1].exit.clean
    state = world.partition("orders")
    assert state.leader in (2, 3) and state.isr == (2, 3)
    world.run_until(lambda: world.broker(state.leader).replicas.by_name["orders", 0].leadership is not None)
    assert read(world, state.leader, "orders") == [b"a"]


def test_a_produce_in_flight_during_a_controlled_shutdown_is_answered():
    world = checked(World(3))
    create_topic(world, "orders", assignment=(1, 2, 3))
    answers = producing(world, 1, "orders", b"a")
    world.stop(1)
    assert ErrorCode.of(produced(answers).error_code) in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_stopping_broker_does_not_come_back_into_the_isr():
    world = checked(World(3))
    create_topic(world, "orders", assignment=(3, 1, 2))
    hold_the_grant(world, 3)
    begin_to_stop(world, 3)
    world.run_until(lambda: world.controller.image.broker(3).in_controlled_shutdown)
    world.run(500)
    assert 3 not in world.partition("orders").isr


def test_the_stopping_state_survives_the_controller():
    world = checked(World(3))
    create_topic(world, "orders", assignment=(3, 1, 2))
    hold_the_grant(world, 3)
    begin_to_stop(world, 3)
    world.run_until(lambda: world.controller.image.broker(3).in_controlled_shutdown)
    world.crash(CONTROLLER)
    world.holding = None
    world.held.clear()
    world.start_controller()
    assert world.controller.image.broker(3).in_controlled_shutdown
    world.run_until(lambda: world.nodes[3].exit is not None)
    assert world.nodes[3].exit.clean
    assert 3 not in world.partition("orders").isr


def test_a_new_life_ends_the_stopping_state():
    world = checked(World(3))
    world.stop(2)
    world.start_broker(2)
    world.run_until(lambda: world.all_unfenced([1, 2, 3]))
    assert not world.controller.image.broker(2).in_controlled_shutdown


@pytest.mark.parametrize("leaver", [1, 2, 3])
def test_new_topics_have_only_active_members(leaver):
    world = checked(World(3))
    world.crash(leaver)
    world.run_until(lambda: world.controller.image.broker(leaver).fenced)
    asked = 1 if leaver != 1 else 2
    create_topic(world, "orders", assignment=(1, 2, 3), broker=asked)
    state = world.partition("orders")
    assert leaver not in state.isr and state.leader != leaver


def test_the_last_member_stays_in_the_isr_without_a_leader_and_leads_when_it_is_back():
    world = checked(World(2))
    create_topic(world, "orders", assignment=(1, 2))
    write(world, 1, "orders", b"a")
    world.crash(2)
    world.run_until(lambda: world.partition("orders").isr == (1,))
    world.crash(1)
    world.run_until(lambda: world.partition("orders").leader == -1)
    assert world.partition("orders").isr == (1,)
    world.start_broker(2)
    world.run(3_000)
    assert world.partition("orders").leader == -1, "a broker that is not in sync must not lead"
    world.start_broker(1)
    world.run_until(lambda: world.partition("orders").leader == 1)
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2])
    assert read(world, 1, "orders") == [b"a"]


def test_a_rolling_restart_under_load_loses_nothing():
    world = checked(World(3))
    create_topic(world, "orders", assignment=(1, 2, 3), min_insync_replicas="2")
    acknowledged = []

    def write_somewhere(value: bytes) -> None:
        for _ in range(50):
            leader = world.partition("orders").leader
            if leader > 0 and world.nodes[leader].alive:
                answers = producing(world, leader, "orders", value)
                world.run_until(lambda answers=answers: bool(answers))
                if answers[0] != "hung up" and produced(answers).error_code == ErrorCode.NONE:
                    acknowledged.append(value)
                    return
            world.run(50)
        raise AssertionError("never acknowledged")

    for round_, broker_id in enumerate((1, 2, 3)):
        write_somewhere(b"before %d" % round_)
        world.stop(broker_id)
        write_somewhere(b"while %d" % round_)
        world.start_broker(broker_id)
        world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    leader = world.partition("orders").leader
    found = read(world, leader, "orders")
    assert [value for value in found if value in acknowledged] == acknowledged


def test_below_its_level_a_stopping_replica_is_let_in():
    """One level down the same steps put a stopping broker back into the ISR: what the document prevents."""
    world = World(3, level=FeatureLevel.HEARTBEATS)
    create_topic(world, "orders", assignment=(3, 1, 2))
    hold_the_grant(world, 3)
    begin_to_stop(world, 3)
    world.run_until(lambda: 3 not in world.partition("orders").isr)
    assert not world.controller.image.broker(3).in_controlled_shutdown, "nobody but this controller knows"

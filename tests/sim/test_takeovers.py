"""What a new controller in zookeeper mode makes of brokers that ended or bounced while there was none."""

from __future__ import annotations

import pytest

from epoka.model.levels import FeatureLevel
from epoka.sim import CONTROLLER, WIPE, World, client
from epoka.wire.error_codes import ErrorCode

LEVELS = [FeatureLevel.GENERATIONS, FeatureLevel.HEARTBEATS, FeatureLevel.FETCH_EPOCHS]


def cluster(level: FeatureLevel) -> World:
    world = World(mode="zookeeper", level=level, controllers=2)
    client.create_topic(world, "orders", (1, 2, 3), min_insync_replicas="2")
    world.run(50)
    assert client.write(world, 1, "orders", b"precious") == ErrorCode.NONE
    return world


def end_session(world: World, broker_id: int, disk: str = "keep") -> None:
    process = world.process_at(broker_id)
    assert process is not None and world.keeper is not None
    world.crash(broker_id, disk)
    world.keeper.expire(process)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("forgets", [False, True], ids=["generations kept", "generations unknown"])
def test_a_leader_that_ended_with_the_controller_is_replaced(level, forgets):
    world = cluster(level)
    world.keeper.forgets_generations = forgets
    world.crash(CONTROLLER)
    end_session(world, 1)
    world.run_until(lambda: world.address_of(CONTROLLER) == 101 and world.is_up(CONTROLLER))
    world.run_until(lambda: world.partition("orders").leader == 2, 5_000)
    assert sorted(world.partition("orders").isr) == [2, 3]
    world.run_until(lambda: world.leads(2, "orders"))
    assert client.log_of(world, 2, "orders") == [b"precious"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_broker_that_bounced_without_a_controller_leaves_the_isr(level):
    world = cluster(level)
    before = world.generation(2)
    world.crash(CONTROLLER)
    end_session(world, 2, WIPE)
    world.restart(2)
    # It must not catch up before the new controller has looked.
    world.cut(1, 2)
    world.cut(2, 3)
    world.run_until(lambda: world.address_of(CONTROLLER) == 101 and world.is_up(CONTROLLER))
    world.run_until(lambda: world.generation(2) > before, 5_000)
    assert sorted(world.partition("orders").isr) == [1, 3]
    world.heal()
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3], 10_000)
    assert client.log_of(world, 2, "orders") == [b"precious"]


@pytest.mark.parametrize("level", list(FeatureLevel))
def test_a_broker_that_came_back_before_the_takeover_leads_what_waited_for_it(level):
    world = World(mode="zookeeper", level=level, controllers=2)
    client.create_topic(world, "orders", (1,))
    world.run(50)
    assert client.write(world, 1, "orders", b"precious") == ErrorCode.NONE
    world.stop_cleanly(1)
    world.run_until(lambda: world.partition("orders").leader == -1, 5_000)
    world.run_until(lambda: world.controller.image.broker(1) is None, 5_000)
    world.crash(CONTROLLER)
    world.restart(1)
    world.run_until(lambda: world.address_of(CONTROLLER) == 101 and world.is_up(CONTROLLER))
    world.run_until(lambda: world.partition("orders").leader == 1, 5_000)
    world.run_until(lambda: world.leads(1, "orders"), 5_000)
    assert client.log_of(world, 1, "orders") == [b"precious"]

"""A broker reads one metadata log: whoever answers with another is not believed."""

from epoka.model.events import CONTROLLER
from tests.broker.client import create_topic
from tests.broker.world import World


def test_a_broker_ends_when_the_controller_has_lost_what_it_has_read():
    world = World(2)
    create_topic(world, "orders", assignment=(1, 2))
    world.run_until(lambda: world.broker(1).image.topic("orders") is not None)
    read_up_to = world.broker(1).image.offset
    world.crash(CONTROLLER)
    del world.metadata_log._records[-1]
    world.start_controller()
    world.run_until(lambda: world.nodes[1].exit is not None)
    assert not world.nodes[1].exit.clean
    assert f"offset {read_up_to}" in world.nodes[1].exit.reason
    assert ("orders", 0) in world.broker(1).replicas.logs.logs, "what it holds stays on its disk"


def test_a_broker_outlives_a_controller_that_kept_its_log():
    world = World(2)
    create_topic(world, "orders", assignment=(1, 2))
    world.crash(CONTROLLER)
    world.start_controller()
    create_topic(world, "more", assignment=(1, 2))
    world.run_until(lambda: world.broker(1).image.topic("more") is not None)
    assert world.nodes[1].exit is None

"""A broker reads one metadata log: whoever answers with another is not believed."""

from epoka.model.events import CONTROLLER
from epoka.model.image import ClusterImage
from epoka.wire.messages.metadata_records import ConfigRecord
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


def test_a_snapshot_takes_settings_back_that_it_does_not_name():
    world = World(1)
    create_topic(world, "t", replication_factor=1, retention_ms="1000", min_insync_replicas="2")
    core = world.broker(1)
    replica = core.replicas.by_name["t", 0]
    assert (replica.log.config.retention_ms, replica.min_isr) == (1_000, 2)
    records = [each for each in core.image.iter_records() if not isinstance(each, ConfigRecord)]
    image = ClusterImage()
    core.replace_image(image, image.load(records, core.image.offset), world.now)
    assert (replica.log.config.retention_ms, replica.min_isr) == (7 * 24 * 3_600_000, 1)


def test_a_disk_that_fails_while_metadata_is_followed_does_not_keep_from_following_it():
    world = World(1)
    world.stores[1].full = True
    create_topic(world, "never", replication_factor=1)
    assert world.broker(1).replicas.offline_reason is not None
    create_topic(world, "heard-of", replication_factor=1)

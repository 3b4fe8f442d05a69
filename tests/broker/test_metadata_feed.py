"""A broker reads one metadata log: whoever answers with another is not believed."""

import pytest

from epoka.controller.metadata_log import MemoryMetadataLog
from epoka.model.events import CONTROLLER
from epoka.model.image import ClusterImage
from epoka.model.levels import FeatureLevel
from epoka.wire.messages import delete_topics
from epoka.wire.messages.metadata_records import ConfigRecord, FeatureLevelRecord, RegisterBrokerRecord
from tests.broker.client import create_topic
from tests.broker.world import World
from tests.broker.zk_world import SharedLog, ZkWorld


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


def test_a_broker_that_is_started_under_an_empty_log_deletes_nothing():
    world = World(2)
    create_topic(world, "orders", assignment=(1, 2))
    for broker_id in (2, 1):
        world.stop(broker_id)
    world.crash(CONTROLLER)
    world.metadata_log = MemoryMetadataLog()
    world.start_controller()
    for broker_id in (2, 1) * 4:
        world.start_broker(broker_id)
        node = world.nodes[broker_id]
        world.run_until(lambda node=node: node.exit is not None or node.core.lifecycle.serving())
        assert ("orders", 0) in node.core.replicas.logs.logs
        assert not node.exit.clean and "INVALID_REGISTRATION" in node.exit.reason
        world.crash(broker_id)


@pytest.mark.parametrize("level", [FeatureLevel.LEGACY, FeatureLevel.GENERATIONS, FeatureLevel.FETCH_EPOCHS])
def test_a_broker_that_is_started_under_an_empty_zookeeper_deletes_nothing(level):
    world = ZkWorld(2, level)
    create_topic(world, "orders", assignment=(1, 2))
    had = world.broker(2).lifecycle.broker_epoch
    for broker_id in (2, 1):
        world.stop(broker_id)
    world.crash(CONTROLLER)
    world.metadata_log, world.zxid = SharedLog(), 0
    world.start_controller()
    for _ in range(2):
        world.start_broker(2)
        world.run_until(lambda: world.nodes[2].exit is not None or world.broker(2).lifecycle.serving())
        assert ("orders", 0) in world.broker(2).replicas.logs.logs
        assert f"has had {had} before" in world.nodes[2].exit.reason
        world.crash(2)


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


def a_broker_that_cannot_delete() -> World:
    world = World(1)
    for name in ("first", "second"):
        create_topic(world, name, replication_factor=1)
    world.broker(1).replicas.logs.checkpoint()
    world.stores[1].fail_writes = True
    return world


def test_logs_that_cannot_be_deleted_do_not_keep_from_following_metadata():
    world = a_broker_that_cannot_delete()
    topics = tuple(delete_topics.DeleteTopicState(name=name) for name in ("first", "second"))
    world.call(1, delete_topics.DeleteTopicsRequest(topics=topics), 6)
    assert world.broker(1).replicas.offline_reason is not None
    assert world.broker(1).replicas.by_name == {}
    create_topic(world, "heard-of", replication_factor=1)


def test_logs_that_a_snapshot_takes_away_and_that_cannot_be_deleted_do_not_keep_it_from_being_followed():
    world = a_broker_that_cannot_delete()
    core = world.broker(1)
    kept = (FeatureLevelRecord, RegisterBrokerRecord)
    records = [each for each in core.image.iter_records() if isinstance(each, kept)]
    image = ClusterImage()
    core.replace_image(image, image.load(records, core.image.offset), world.now)
    assert core.replicas.offline_reason is not None
    assert core.replicas.by_name == {}

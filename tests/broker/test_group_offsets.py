"""Committed offsets through a broker core: kept in the log, there again elsewhere, never for what is not."""

from uuid import UUID

import msgspec

from epoka.broker.offsets_topic import TOPIC
from epoka.model.image import ClusterImage, partition_record
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import find_coordinator, offset_commit, offset_fetch
from epoka.wire.messages.metadata_records import RemoveTopicRecord, TopicRecord
from tests.broker.client import create_topic
from tests.broker.world import World


def coordinator(world: World, group: str, broker: int = 1) -> int:
    request = find_coordinator.FindCoordinatorRequest(key=group)
    while (answer := world.call(broker, request, 2)).error_code != ErrorCode.NONE:
        world.run(100)
    return int(answer.node_id)


def commit(
    world: World, broker: int, offsets: dict[tuple[str, int], int], group: str = "g"
) -> dict[tuple[str, int], int]:
    names = dict.fromkeys(topic for topic, _ in offsets)
    request = offset_commit.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=tuple(
            offset_commit.OffsetCommitRequestTopic(
                name=name,
                partitions=tuple(
                    offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                    for (topic, index), offset in offsets.items()
                    if topic == name
                ),
            )
            for name in names
        ),
    )
    answer = world.call(broker, request, 7)
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


def committed(world: World, broker: int, topic: str, group: str = "g") -> int:
    request = offset_fetch.OffsetFetchRequest(
        group_id=group, topics=(offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=(0,)),)
    )
    answer = world.call(broker, request, 5)
    assert answer.error_code == ErrorCode.NONE
    return int(answer.topics[0].partitions[0].committed_offset)


def test_a_commit_is_there_after_a_restart():
    world = World(1)
    create_topic(world, "t", replication_factor=1)
    assert commit(world, coordinator(world, "g"), {("t", 0): 7}) == {("t", 0): ErrorCode.NONE}
    world.stop(1)
    world.start_broker(1)
    world.run_until(lambda: world.all_unfenced([1]))
    assert committed(world, 1, "t") == 7


def test_a_commit_is_there_when_its_coordinator_dies():
    world = World(3)
    create_topic(world, "t")
    dead = coordinator(world, "g")
    assert commit(world, dead, {("t", 0): 7}) == {("t", 0): ErrorCode.NONE}
    world.crash(dead)
    alive = 1 if dead != 1 else 2
    world.run_until(lambda: world.controller.image.broker(dead).fenced)
    world.run_until(lambda: coordinator(world, "g", alive) != dead)
    assert committed(world, coordinator(world, "g", alive), "t") == 7


def test_what_does_not_exist_is_refused_and_the_rest_is_kept():
    world = World(1)
    create_topic(world, "t", replication_factor=1)
    broker = coordinator(world, "g")
    answers = commit(world, broker, {("t", 0): 7, ("t", 5): 1, ("missing", 0): 2})
    assert answers == {
        ("t", 0): ErrorCode.NONE,
        ("t", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert committed(world, broker, "t") == 7


def test_offsets_are_kept_on_every_replica_before_they_are_acknowledged():
    world = World(3)
    create_topic(world, "t")
    broker = coordinator(world, "g")
    commit(world, broker, {("t", 0): 7})
    index = world.broker(broker).offsets.coordinator.partition_for("g")
    ends = {world.broker(each).replicas.by_name[TOPIC, index].log.end_offset for each in (1, 2, 3)}
    assert len(ends) == 1 and ends != {0}


def test_groups_that_begin_while_brokers_are_away_are_kept_on_as_many_disks_all_the_same():
    world = World(3)
    for away in (2, 3):
        world.crash(away)
    world.run_until(lambda: all(world.broker(1).image.broker(away).fenced for away in (2, 3)))
    coordinator(world, "g")
    assert len(world.partition(TOPIC).replicas) == 3


def test_an_offsets_topic_that_was_made_anew_has_its_coordinators():
    """The deletion and the next one may be told of in one breath."""
    world = World(1)
    coordinator(world, "g")
    core = world.broker(1)
    image, known = core.image, core.image.topic(TOPIC)
    partitions = list(image.partitions_of(known.id))
    again = UUID(int=4711)
    records = [
        RemoveTopicRecord(topic_id=known.id),
        TopicRecord(name=TOPIC, topic_id=again),
        *[partition_record(again, index, state) for index, state in partitions],
    ]
    for record in records:
        image.apply(record, image.offset + 1)
    core.apply(image.collected(), world.now)
    assert core.offsets.coordinator._registry.refusal("g") is None


def snapshot_with_topic_made_anew(world: World, name: str) -> None:
    """Broker 1 reads a snapshot in which another topic has the name; of the old one it says nothing."""
    core = world.broker(1)
    old, again = core.image.topic(name), UUID(int=4711)
    records = [
        msgspec.structs.replace(each, topic_id=again) if getattr(each, "topic_id", None) == old.id else each
        for each in core.image.iter_records()
    ]
    image = ClusterImage()
    core.replace_image(image, image.load(records, core.image.offset), world.now)


def test_a_topic_made_anew_in_a_snapshot_has_no_commits_of_the_old_one():
    world = World(1)
    create_topic(world, "t", replication_factor=1)
    create_topic(world, "other", replication_factor=1)
    commit(world, coordinator(world, "g"), {("t", 0): 50, ("other", 0): 7})
    snapshot_with_topic_made_anew(world, "t")
    assert committed(world, 1, "t") == -1
    assert committed(world, 1, "other") == 7


def test_a_deletion_that_was_read_but_not_acted_on_is_not_lost_with_a_snapshot():
    """As of a broker that is not registered: it reads on, and obeys nothing."""
    world = World(1)
    create_topic(world, "t", replication_factor=1)
    commit(world, coordinator(world, "g"), {("t", 0): 50})
    core = world.broker(1)
    core.image.apply(RemoveTopicRecord(topic_id=core.image.topic("t").id), core.image.offset + 1)
    records = [*core.image.iter_records(), TopicRecord(name="t", topic_id=UUID(int=4711))]
    image = ClusterImage()
    core.replace_image(image, image.load(records, core.image.offset + 1), world.now)
    assert committed(world, 1, "t") == -1


def test_an_offsets_topic_made_anew_in_a_snapshot_is_read_anew():
    world = World(1)
    create_topic(world, "t", replication_factor=1)
    commit(world, coordinator(world, "g"), {("t", 0): 50})
    snapshot_with_topic_made_anew(world, TOPIC)
    assert committed(world, 1, "t") == -1

"""Records to operations, without a server: what goes into one step, and how large appends are split."""

from __future__ import annotations

import json
from collections.abc import Collection
from uuid import UUID

import pytest

from epoka.controller.metadata_log import Unwritable
from epoka.coordination.zookeeper import paths, writing
from epoka.coordination.zookeeper.operations import Create, Delete, Operation, SetData, size_of
from epoka.coordination.zookeeper.writing import Batch, Known, deletion, translate
from epoka.model.errors import InvariantBroken
from epoka.model.image import ClusterImage
from epoka.model.records import MetadataRecord
from epoka.wire.messages import metadata_records as m
from tests.coordination.zookeeper.people import shrink, topic


def steps(
    *records: MetadataRecord,
    image: ClusterImage | None = None,
    known: Known | None = None,
    nodes: Collection[str] = (),
) -> list[Batch]:
    return translate(records, image or ClusterImage(), known or Known({}, set()), 7, lambda name: nodes)


def one_step(*records: MetadataRecord, **given: object) -> list[Operation]:
    (step,) = steps(*records, **given)  # type: ignore[arg-type]
    return step.operations


def with_topic(partitions: int = 1) -> tuple[ClusterImage, Known]:
    image = ClusterImage()
    image.apply_batch(topic("t", 1, partitions), 0)
    return image, Known({paths.topic("t"): 4, paths.config(2, "t"): 0}, set())


def test_a_new_topic_is_one_step_in_kafkas_layout() -> None:
    created = {
        operation.path: operation.data
        for operation in one_step(*topic("t", 1, 2))
        if isinstance(operation, Create)
    }
    assert list(created) == [
        "/brokers/topics/t",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/1",
        "/brokers/topics/t/partitions/1/state",
        "/config/topics/t",
        "/config/changes/config_change_",
    ]
    assert json.loads(created["/brokers/topics/t"]) == {
        "version": 3,
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "partitions": {"0": [1, 2, 3], "1": [1, 2, 3]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    assert json.loads(created["/brokers/topics/t/partitions/0/state"]) == {
        "version": 1,
        "leader": 1,
        "leader_epoch": 0,
        "isr": [1, 2, 3],
        "controller_epoch": 7,
    }
    assert json.loads(created["/config/topics/t"]) == {"version": 1, "config": {}}


def test_each_change_of_a_partition_writes_its_node_once_so_that_version_and_epoch_agree() -> None:
    image, known = with_topic()
    operations = one_step(shrink(1), shrink(1, isr=(1, 2)), image=image, known=known)
    assert [(type(each), each.path, getattr(each, "version", None)) for each in operations] == [
        (SetData, paths.state("t", 0), 0),
        (SetData, paths.state("t", 0), 1),
    ]


def test_a_reassignment_writes_the_assignment_once_a_step() -> None:
    image, known = with_topic(3)
    changes = [
        m.PartitionChangeRecord(
            partition_id=index, topic_id=UUID(int=1), replicas=(1, 2, 3, 4), adding_replicas=(4,)
        )
        for index in range(3)
    ]
    *states, assignment = one_step(*changes, image=image, known=known)
    assert [each.path for each in states] == [paths.state("t", index) for index in range(3)]
    assert isinstance(assignment, SetData) and (assignment.path, assignment.version) == (paths.topic("t"), 4)
    assert json.loads(assignment.data)["adding_replicas"] == {"0": [4], "1": [4], "2": [4]}


def test_new_partitions_of_a_topic_are_announced_before_their_states_come() -> None:
    image, known = with_topic()
    added = [
        m.PartitionRecord(index, UUID(int=1), (1,), (1,), leader=1, leader_epoch=0, partition_epoch=0)
        for index in range(1, 600)
    ]
    first, *others = steps(*added, image=image, known=known)
    assert len(others) == 2
    (assignment,) = [each for each in first.operations if each.path == paths.topic("t")]
    assert isinstance(assignment, SetData)
    assert len(json.loads(assignment.data)["partitions"]) == 600
    assert not [each for step in others for each in step.operations if each.path == paths.topic("t")]
    created = [each.path for step in (first, *others) for each in step.operations if isinstance(each, Create)]
    assert created == [
        path for index in range(1, 600) for path in (paths.partition("t", index), paths.state("t", index))
    ]


def test_no_step_is_larger_than_zookeeper_takes() -> None:
    records = [record for number in range(1, 300) for record in topic(f"topic-{number}", number, 5)]
    all_steps = steps(*records)
    assert len(all_steps) > 1
    for step in all_steps:
        assert len(step.operations) <= writing.MOST_OPERATIONS
        assert sum(map(size_of, step.operations)) <= writing.MOST_BYTES
    image = ClusterImage()
    image.apply_batch(topic("t", 1, 3000, range(1, 30)), 0)
    changes = [
        m.PartitionChangeRecord(partition_id=index, topic_id=UUID(int=1), replicas=tuple(range(30, 70)))
        for index in range(3000)
    ]
    for step in steps(*changes, image=image, known=Known({paths.topic("t"): 0}, set())):
        assert sum(map(size_of, step.operations)) <= 1_000_000


def test_large_assignments_of_several_topics_do_not_share_a_step() -> None:
    image, known = ClusterImage(), Known({}, set())
    for number in (1, 2):
        image.apply_batch(topic(f"t{number}", number, 4000, range(100, 140)), image.offset + 1)
        known.versions[paths.topic(f"t{number}")] = 0
    move = [
        m.PartitionChangeRecord(partition_id=0, topic_id=UUID(int=number), replicas=(1,)) for number in (1, 2)
    ]
    grow = [
        m.PartitionRecord(4000, UUID(int=number), (1,), (1,), leader=1, leader_epoch=0, partition_epoch=0)
        for number in (1, 2)
    ]
    for records in (move, grow):
        for step in steps(*records, image=image, known=known):
            assert sum(map(size_of, step.operations)) <= 1_000_000


def test_a_topic_too_large_for_a_node_is_refused_before_anything_is_written() -> None:
    with pytest.raises(Unwritable, match=r"/brokers/topics/t: 1,\d+,\d+ bytes are more than ZooKeeper keeps"):
        steps(*topic("t", 1, 20_000, range(1000, 1010)))


def test_a_small_topic_is_deleted_in_one_step_children_first() -> None:
    image, known = with_topic()
    nodes = ["/brokers/topics/t", "/brokers/topics/t/x", "/brokers/topics/t/x/y"]
    operations = one_step(m.RemoveTopicRecord(UUID(int=1)), image=image, known=known, nodes=nodes)
    assert operations == [
        Delete("/brokers/topics/t/x/y"),
        Delete("/brokers/topics/t/x"),
        Delete("/brokers/topics/t"),
        Delete("/config/topics/t"),
    ]


def test_a_large_topic_is_marked_before_and_unmarked_after_its_deletion() -> None:
    nodes = [paths.topic("t"), *(paths.partition("t", index) for index in range(1000))]
    first, *_, last = all_steps = deletion("t", nodes)
    assert first.operations[0] == Create("/admin/delete_topics/t")
    assert last.operations[-2:] == [Delete(paths.topic("t")), Delete("/admin/delete_topics/t")]
    assert sum(len(step.operations) for step in all_steps) == len(nodes) + 2


def test_a_topic_that_comes_and_goes_in_one_append_leaves_nothing() -> None:
    left: dict[str, bytes] = {}
    for step in steps(*topic("t", 1, 2), m.RemoveTopicRecord(UUID(int=1))):
        for operation in step.operations:
            if isinstance(operation, Create):
                left[operation.path] = operation.data
            elif isinstance(operation, Delete):
                del left[operation.path]
    assert list(left) == ["/config/changes/config_change_"]


def test_settings_are_written_whole_with_a_note_for_brokers() -> None:
    image, known = with_topic()
    image.apply(m.ConfigRecord(2, "t", "a", "1"), 9)
    config, note = one_step(
        m.ConfigRecord(2, "t", "b", "2"), m.ConfigRecord(2, "t", "a", None), image=image, known=known
    )
    assert isinstance(config, SetData) and json.loads(config.data) == {"version": 1, "config": {"b": "2"}}
    assert isinstance(note, Create) and note.sequence
    assert json.loads(note.data) == {"version": 2, "entity_path": "topics/t"}
    default, _ = one_step(m.ConfigRecord(4, "", "c", "3"))
    assert default.path == "/config/brokers/<default>"


def test_a_shutdown_is_kept_with_its_generation_and_ends_with_the_next_life() -> None:
    begun = m.BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=55, in_controlled_shutdown=1)
    (created,) = one_step(begun)
    assert isinstance(created, Create) and created.path == "/brokers/shutdown/3"
    assert json.loads(created.data) == {"version": 1, "broker_epoch": 55, "controller_epoch": 7}
    known = Known({"/brokers/shutdown/3": 0}, set())
    gone = Delete("/brokers/shutdown/3")
    assert gone in one_step(m.RegisterBrokerRecord(broker_id=3, broker_epoch=60), known=known)
    assert gone in one_step(m.UnregisterBrokerRecord(broker_id=3, broker_epoch=55), known=known)
    fenced = m.BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=55, fenced=1)
    assert one_step(fenced, known=known) == []


def test_the_generation_that_is_known_is_kept_until_its_life_is_over() -> None:
    (created,) = one_step(m.RegisterBrokerRecord(broker_id=3, broker_epoch=60))
    assert isinstance(created, Create) and created.path == "/epoka/generations/3"
    assert json.loads(created.data) == {"version": 1, "broker_epoch": 60}
    known = Known({"/epoka/generations/3": 4}, set())
    (changed,) = one_step(m.RegisterBrokerRecord(broker_id=3, broker_epoch=70), known=known)
    assert isinstance(changed, SetData) and changed.version == 4
    gone = Delete("/epoka/generations/3")
    assert one_step(m.UnregisterBrokerRecord(broker_id=3, broker_epoch=60), known=known) == [gone]


@pytest.mark.parametrize(
    "record",
    [
        m.TopicRecord("a/b", UUID(int=1)),
        m.TopicRecord("..", UUID(int=1)),
        m.PartitionRecord(0, UUID(int=9)),
        m.RemoveTopicRecord(UUID(int=9)),
        m.ConfigRecord(3, "x", "a", "1"),
        shrink(1, 5),
    ],
)
def test_records_that_contradict_the_image_are_our_own_bug(record: MetadataRecord) -> None:
    image, known = with_topic()
    with pytest.raises(InvariantBroken):
        steps(record, image=image, known=known)


def test_a_partition_must_begin_at_epoch_0_as_its_node_does() -> None:
    image, known = with_topic()
    with pytest.raises(InvariantBroken, match="begins at epoch 4"):
        steps(m.PartitionRecord(1, UUID(int=1), (1,), (1,), partition_epoch=4), image=image, known=known)


@pytest.mark.parametrize(
    ("path", "record"),
    [
        (paths.topic("new"), m.TopicRecord("new", UUID(int=2))),
        (paths.config(2, "new"), m.TopicRecord("new", UUID(int=2))),
        (paths.state("t", 0), shrink(1)),
        (paths.config(2, "t"), m.ConfigRecord(2, "t", "a", "1")),
        (paths.shutdown(3), m.BrokerRegistrationChangeRecord(3, 5, in_controlled_shutdown=1)),
    ],
)
def test_what_is_left_alone_is_not_written(path: str, record: MetadataRecord) -> None:
    image, known = with_topic()
    known.left_alone.add(path)
    with pytest.raises(Unwritable, match=path):
        steps(record, image=image, known=known)

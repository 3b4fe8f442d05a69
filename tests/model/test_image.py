"""The image: records in, state out; snapshots, deltas, and the questions about brokers."""

from __future__ import annotations

import copy
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoka.model.errors import InvariantBroken
from epoka.model.image import ClusterImage
from epoka.model.partitions import PartitionState
from epoka.model.records import MetadataRecord, decode_record, encode_record
from epoka.wire.messages import metadata_records as m
from tests.model.strategies import histories

T1, T2 = UUID(int=1), UUID(int=2)


def partition(topic_id: UUID, index: int, *replicas: int) -> m.PartitionRecord:
    return m.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
    )


def image_of(*records: MetadataRecord) -> ClusterImage:
    image = ClusterImage()
    image.apply_batch(records, 0)
    return image


def two_topics() -> ClusterImage:
    return image_of(
        m.TopicRecord("b", T1),
        partition(T1, 0, 1, 2),
        partition(T1, 1, 2, 3),
        m.TopicRecord("a", T2),
        partition(T2, 0, 3, 1),
    )


class Naive:
    """The partitions of an image as plainly as can be, to compare with."""

    def __init__(self) -> None:
        self.states: dict[tuple[UUID, int], PartitionState] = {}

    def apply(self, record: MetadataRecord) -> None:
        if isinstance(record, m.RemoveTopicRecord):
            self.states = {key: state for key, state in self.states.items() if key[0] != record.topic_id}
        elif isinstance(record, m.PartitionRecord):
            self.states[record.topic_id, record.partition_id] = PartitionState(
                record.leader, 0, 0, tuple(record.replicas), tuple(record.isr)
            )
        elif isinstance(record, m.PartitionChangeRecord):
            old = self.states[record.topic_id, record.partition_id]
            led = record.leader != -2
            self.states[record.topic_id, record.partition_id] = PartitionState(
                record.leader if led else old.leader,
                old.leader_epoch + led,
                old.partition_epoch + 1,
                old.replicas if record.replicas is None else tuple(record.replicas),
                old.isr if record.isr is None else tuple(record.isr),
                old.adding if record.adding_replicas is None else tuple(record.adding_replicas),
                old.removing if record.removing_replicas is None else tuple(record.removing_replicas),
                old.recovery if record.leader_recovery_state == -1 else record.leader_recovery_state,
            )


@given(histories())
def test_columns_hold_what_plain_objects_would(history: list[MetadataRecord]) -> None:
    image, naive = ClusterImage(), Naive()
    for offset, record in enumerate(history):
        image.apply(record, offset)
        naive.apply(record)
    assert {(ref.topic.id, ref.index): image.state(ref) for ref in image.all_partitions()} == naive.states
    for broker in range(1, 6):
        hosted = {key for key, state in naive.states.items() if broker in state.replicas}
        in_sync = {key for key, state in naive.states.items() if broker in state.isr}
        led = {key for key, state in naive.states.items() if broker == state.leader}
        assert {(ref.topic.id, ref.index) for ref in image.hosted_by(broker)} == hosted
        assert {(ref.topic.id, ref.index) for ref in image.with_isr_member(broker)} == in_sync
        assert {(ref.topic.id, ref.index) for ref in image.led_by(broker)} == led
        assert image.leads_any(broker) == bool(led)
    busy = {key for key, state in naive.states.items() if state.reassigning}
    assert {(ref.topic.id, ref.index) for ref in image.reassigning()} == busy


@given(histories())
def test_a_snapshot_rebuilds_an_equal_image(history: list[MetadataRecord]) -> None:
    image = image_of(*history)
    rebuilt = ClusterImage()
    rebuilt.load([decode_record(encode_record(record)) for record in image.to_records()], image.offset)
    assert rebuilt == image
    assert rebuilt.state_hash() == image.state_hash()
    assert [ref.topic.name for ref in rebuilt.all_partitions()] == [
        ref.topic.name for ref in image.all_partitions()
    ]


@given(histories(), st.integers(0, 40))
def test_a_copy_goes_its_own_way(history: list[MetadataRecord], cut: int) -> None:
    original, copied, straight = ClusterImage(), ClusterImage(), ClusterImage()
    original.apply_batch(history[:cut], 0)
    before = original.state_hash()
    copied.copy_of(original)
    assert copied.offset == original.offset and copied.state_hash() == before
    copied.apply_batch(history[cut:], len(history[:cut]))
    straight.apply_batch(history, 0)
    assert copied == straight
    assert original.state_hash() == before


@given(histories(), st.integers(0, 40))
def test_an_image_from_a_snapshot_goes_on_like_the_one_it_was_taken_from(
    history: list[MetadataRecord], cut: int
) -> None:
    original, loaded = ClusterImage(), ClusterImage()
    original.apply_batch(history[:cut], 0)
    loaded.load(original.to_records(), original.offset)
    for image in (original, loaded):
        image.apply_batch(history[cut:], len(history[:cut]))
    assert loaded == original
    for broker in range(1, 6):
        assert loaded.hosted_by(broker) == original.hosted_by(broker)
        assert loaded.with_isr_member(broker) == original.with_isr_member(broker)


def test_partitions_that_are_told_together_take_the_rows_of_those_that_are_gone() -> None:
    image = image_of(m.TopicRecord("b", T1), *(partition(T1, index, 1, 2, 3) for index in range(5)))
    rows = image.partitions.rows_used
    image.apply(m.RemoveTopicRecord(T1), image.offset + 1)
    image.apply(m.TopicRecord("c", UUID(int=9)), image.offset + 1)
    state = PartitionState(2, 0, 0, (2, 3), (2,), (3,), ())
    image.tell_partitions(UUID(int=9), {3: state, 0: state})
    assert image.partitions.rows_used == rows
    assert dict(image.partitions_of("c")) == {0: state, 3: state}
    assert image.collected().changed_partitions == ((UUID(int=9), 3), (UUID(int=9), 0))
    with pytest.raises(InvariantBroken):
        image.tell_partitions(UUID(int=9), {1: state})


@given(histories(), histories())
def test_images_are_equal_exactly_when_their_hashes_are(
    one: list[MetadataRecord], two: list[MetadataRecord]
) -> None:
    left, right = image_of(*one), image_of(*two)
    same = left.to_records() == right.to_records()
    assert (left.state_hash() == right.state_hash()) is same


@given(histories())
def test_a_delta_names_everything_that_differs(history: list[MetadataRecord]) -> None:
    half = len(history) // 2
    image = image_of(*history[:half])
    before = copy.deepcopy(image)
    delta = image.apply_batch(history[half:], half)
    new_names = {topic.name for topic in image.topics()} - {topic.name for topic in before.topics()}
    gone = {topic.id for topic in before.topics()} - {topic.id for topic in image.topics()}
    assert new_names <= {topic.name for topic in delta.new_topics}
    assert gone <= {topic.id for topic in delta.deleted_topics}
    for ref in image.all_partitions():
        if before.partition(ref.topic.id, ref.index) != image.state(ref):
            assert (ref.topic.id, ref.index) in delta.changed_partitions
    for topic_id, index in delta.changed_partitions:
        assert image.partition(topic_id, index) is not None
    for broker_id in before.brokers.keys() | image.brokers.keys():
        if before.broker(broker_id) != image.broker(broker_id):
            assert broker_id in delta.changed_brokers


def test_a_leader_that_is_set_raises_the_leader_epoch_even_when_it_is_the_same() -> None:
    image = two_topics()
    image.apply(m.PartitionChangeRecord(partition_id=0, topic_id=T1, leader=1), 5)
    state = image.partition("b", 0)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 1, 1)


def test_an_isr_change_raises_the_partition_epoch_only() -> None:
    image = two_topics()
    image.apply(m.PartitionChangeRecord(partition_id=0, topic_id=T1, isr=(1,)), 5)
    state = image.partition("b", 0)
    assert state is not None
    assert (state.isr, state.leader_epoch, state.partition_epoch) == ((1,), 0, 1)


def test_lists_come_in_the_order_of_names_however_the_image_grew() -> None:
    image = two_topics()
    assert [(ref.topic.name, ref.index) for ref in image.hosted_by(3)] == [("a", 0), ("b", 1)]
    assert [topic.name for topic in image.topics()] == ["a", "b"]


def test_brokers_come_in_the_order_of_ids() -> None:
    image = image_of(*(m.RegisterBrokerRecord(broker_id=each, broker_epoch=each) for each in (3, 1, 2)))
    assert list(image.brokers) == [1, 2, 3]


def test_a_deleted_topic_takes_its_partitions_and_settings_along() -> None:
    image = two_topics()
    image.apply(m.ConfigRecord(2, "b", "retention.ms", "1"), 5)
    delta = image.apply_batch([m.RemoveTopicRecord(T1)], 6)
    assert image.partition("b", 0) is None and image.topic_config("b") == {}
    assert [topic.name for topic in delta.deleted_topics] == ["b"]
    assert image.partition_count == 1 and image.led_by(1) == []


def test_a_topic_created_again_under_the_same_name_is_another_topic() -> None:
    image = two_topics()
    delta = image.apply_batch(
        [m.RemoveTopicRecord(T1), m.TopicRecord("b", UUID(int=9)), partition(UUID(int=9), 0, 3)], 5
    )
    assert [topic.id for topic in delta.deleted_topics] == [T1]
    assert [topic.id for topic in delta.new_topics] == [UUID(int=9)]
    assert delta.changed_partitions == ((UUID(int=9), 0),)
    assert image.partition(T1, 0) is None


def test_a_topic_born_and_gone_in_one_delta_leaves_no_trace() -> None:
    image = ClusterImage()
    delta = image.apply_batch([m.TopicRecord("b", T1), partition(T1, 0, 1), m.RemoveTopicRecord(T1)], 0)
    assert (delta.new_topics, delta.deleted_topics, delta.changed_partitions) == ((), (), ())


def test_growing_and_shrinking_lists_reuse_the_pool() -> None:
    image = image_of(m.TopicRecord("b", T1), *(partition(T1, index, 1, 2, 3) for index in range(100)))
    offset = image.offset
    table = image.partitions
    for turn in range(2_000):
        brokers = tuple(range(1, 3 + turn % 7))
        change = m.PartitionChangeRecord(
            partition_id=turn % 100, topic_id=T1, replicas=brokers, isr=brokers, adding_replicas=brokers
        )
        image.apply(change, offset + turn + 1)
    assert len(table.pool) < 100 * 24 * 3
    assert image.partition_count == 100
    assert len(image.hosted_by(1)) == 100


def test_a_partition_takes_less_than_two_hundred_bytes() -> None:
    image = ClusterImage()
    offset = 0
    for topic in range(100):
        topic_id = UUID(int=topic + 1)
        records = [m.TopicRecord(f"topic-{topic}", topic_id)]
        image.apply_batch([*records, *(partition(topic_id, each, 1, 2, 3) for each in range(100))], offset)
        offset += 101
    assert image.partitions.bytes_used / image.partition_count < 200


@pytest.mark.parametrize(
    "record",
    [
        m.RemoveTopicRecord(UUID(int=99)),
        partition(UUID(int=99), 0, 1),
        partition(T1, 0, 1),
        m.TopicRecord("b", UUID(int=99)),
        m.PartitionChangeRecord(partition_id=7, topic_id=T1),
        m.UnregisterBrokerRecord(broker_id=1, broker_epoch=1),
        m.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_contradicts_the_image_is_our_bug(record: MetadataRecord) -> None:
    with pytest.raises(InvariantBroken):
        two_topics().apply(record, 5)


def test_a_registration_change_for_another_life_is_our_bug() -> None:
    image = image_of(m.RegisterBrokerRecord(broker_id=1, broker_epoch=0))
    with pytest.raises(InvariantBroken):
        image.apply(m.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=-1), 1)


def test_an_image_that_has_something_becomes_nobodys_copy() -> None:
    image = ClusterImage()
    image.apply(m.NoOpRecord(), 0)
    with pytest.raises(InvariantBroken):
        image.copy_of(ClusterImage())


def test_a_snapshot_does_not_go_into_an_image_that_has_something() -> None:
    with pytest.raises(InvariantBroken):
        two_topics().load([], 9)

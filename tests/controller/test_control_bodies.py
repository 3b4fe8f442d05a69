"""Control requests written from columns: the very bytes that the codec and kio write for the same request."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoka.controller import control_bodies
from epoka.model.image import ClusterImage, Topic
from epoka.model.records import MetadataRecord
from epoka.wire import codec
from epoka.wire.encoded import Encoded
from epoka.wire.errors import EncodeError
from epoka.wire.messages import leader_and_isr as lai
from epoka.wire.messages import metadata_records as m
from epoka.wire.messages import update_metadata as um
from tests.model.strategies import histories
from tests.wire import kio_update_metadata as kio

EPOCH = 7
ENDED = um.UpdateMetadataTopicState(
    "ended",
    UUID(int=99),
    (um.UpdateMetadataPartitionState("", 3, EPOCH, -2, -1, (), -1, (1, 2), (2,)),),
)


def image_of(history: list[MetadataRecord]) -> ClusterImage:
    image = ClusterImage()
    image.apply_batch(history, 0)
    return image


def live(image: ClusterImage, version: int) -> tuple[um.UpdateMetadataBroker, ...]:
    return tuple(
        um.UpdateMetadataBroker(
            broker.id,
            tuple(um.UpdateMetadataEndpoint(e.port, e.host, e.name, 0) for e in broker.endpoints),
            broker.rack,
            *((broker.epoch, broker.fenced, broker.in_controlled_shutdown) if version >= 8 else ()),
        )
        for broker in image.brokers.values()
    )


def metadata_row(image: ClusterImage, topic: Topic, index: int) -> um.UpdateMetadataPartitionState:
    state = image.partition(topic.id, index)
    assert state is not None
    return um.UpdateMetadataPartitionState(
        "",
        index,
        EPOCH,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.partition_epoch,
        state.replicas,
        tuple(each for each in state.replicas if each not in image.brokers),
    )


def role_row(image: ClusterImage, topic: Topic, index: int, new: bool) -> lai.LeaderAndIsrPartitionState:
    state = image.partition(topic.id, index)
    assert state is not None
    return lai.LeaderAndIsrPartitionState(
        "",
        index,
        EPOCH,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.partition_epoch,
        state.replicas,
        new,
    )


def some_of(image: ClusterImage, draw: st.DataObject) -> list[tuple[Topic, list[int]]]:
    """Some partitions of some topics, in order."""
    chosen = []
    for topic in image.topics():
        indexes = [index for index, _ in image.partitions_of(topic.id) if draw.draw(st.booleans())]
        if indexes:
            chosen.append((topic, indexes))
    return chosen


def rows_of(image: ClusterImage, chosen: list[tuple[Topic, list[int]]]) -> np.ndarray:
    return image.rows_of((topic.id, index) for topic, indexes in chosen for index in indexes)


@contextlib.contextmanager
def rows_at_a_time(draw: st.DataObject) -> Iterator[None]:
    """Bodies that are written in one go, and such that are not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(control_bodies, "ROWS_AT_A_TIME", draw.draw(st.sampled_from([1, 3, 1 << 13])))
        yield


def all_partitions(image: ClusterImage) -> list[tuple[Topic, list[int]]]:
    listed = [(topic, [index for index, _ in image.partitions_of(topic.id)]) for topic in image.topics()]
    return [(topic, indexes) for topic, indexes in listed if indexes]


@pytest.mark.parametrize("version", [7, 8])
@given(history=histories(), draw=st.data())
def test_update_metadata_is_what_the_codec_and_kio_write(version, history, draw):
    image = image_of(history)
    chosen = all_partitions(image) if draw.draw(st.booleans()) else some_of(image, draw)
    own = draw.draw(st.sampled_from([(), (ENDED,)]))
    request = um.UpdateMetadataRequest(100, EPOCH, -1, 12, (), own, live(image, version))
    told = tuple(
        um.UpdateMetadataTopicState(
            topic.name, topic.id, tuple(metadata_row(image, topic, index) for index in indexes)
        )
        for topic, indexes in chosen
    )
    equal = msgspec.structs.replace(request, topic_states=own + told)
    with rows_at_a_time(draw):
        body = control_bodies.update_metadata(request, version, image, rows_of(image, chosen))
    assert bytes(body.body) == codec.encode(equal, version)
    assert bytes(body.body) == kio.encode(kio.convert(equal, version))
    if version >= 8:
        assert codec.opened(body) == equal


@given(history=histories(), draw=st.data())
def test_leader_and_isr_is_what_the_codec_writes(history, draw):
    image = image_of(history)
    chosen = some_of(image, draw)
    rows = rows_of(image, chosen)
    new = draw.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    leaders = (lai.LeaderAndIsrLiveLeader(1, "host", 9092),)
    request = lai.LeaderAndIsrRequest(100, EPOCH, -1, 12, (), (), leaders)
    news = iter(new)
    told = tuple(
        lai.LeaderAndIsrTopicState(
            topic.name, tuple(role_row(image, topic, index, next(news)) for index in indexes)
        )
        for topic, indexes in chosen
    )
    equal = msgspec.structs.replace(request, topic_states=told)
    with rows_at_a_time(draw):
        body = control_bodies.leader_and_isr(request, 5, image, rows, np.array(new, np.bool_))
    assert bytes(body.body) == codec.encode(equal, 5)
    assert codec.opened(body) == equal


@given(history=histories())
def test_every_row_of_the_image_in_the_order_of_its_names(history):
    image = image_of(history)
    rows = image.all_rows()
    table = image.partitions
    named = [(image.topic_in(table.topic[row]).name, int(table.index[row])) for row in rows]
    assert named == [(ref.topic.name, ref.index) for ref in image.all_partitions()]
    assert image.in_order(rows[::-1]).tolist() == rows.tolist()
    assert image.rows_of(named).tolist() == rows.tolist()
    assert image.rows_of([("nobody's", 0)]).tolist() == [-1]


@given(history=histories(), draw=st.data())
def test_who_hosts_which_rows(history, draw):
    image = image_of(history)
    rows = rows_of(image, some_of(image, draw))
    found = image.partitions.places_by_host(rows)
    expected: dict[int, list[int]] = {}
    for place, row in enumerate(rows.tolist()):
        for host in image.partitions.replicas(row):
            expected.setdefault(host, []).append(place)
    assert {host: places.tolist() for host, places in found.items()} == expected


def a_topic_with(*isr_lengths: int) -> ClusterImage:
    """A topic whose partitions have shapes that alternate."""
    topic = UUID(int=1)
    records: list[MetadataRecord] = [m.TopicRecord(name="t", topic_id=topic)]
    for index, length in enumerate(isr_lengths):
        isr = (1, 2, 3)[:length]
        records.append(
            m.PartitionRecord(partition_id=index, topic_id=topic, replicas=(1, 2, 3), isr=isr, leader=1)
        )
    return image_of(records)


def test_without_any_registered_broker_every_replica_is_offline():
    image = a_topic_with(3, 1, 2, 3)
    body = control_bodies.update_metadata(um.UpdateMetadataRequest(), 8, image, image.all_rows())
    (topic,) = codec.opened(body).topic_states
    assert [each.offline_replicas for each in topic.partition_states] == [(1, 2, 3)] * 4
    assert [len(each.isr) for each in topic.partition_states] == [3, 1, 2, 3]


class TestEncoded:
    body = Encoded(um.UpdateMetadataRequest, 8, bytes(2000))

    def test_its_buffer_is_sent_as_it_is(self):
        (part,) = codec.encode_parts(self.body, 8)
        assert part is self.body.body

    def test_it_has_one_version_only(self):
        with pytest.raises(EncodeError, match="was asked for in version 7"):
            codec.encode(self.body, 7)

    def test_its_receiver_holds_a_message_of_the_class(self):
        assert codec.class_of(self.body) is um.UpdateMetadataRequest
        assert codec.class_of(um.UpdateMetadataResponse()) is um.UpdateMetadataResponse

    def test_it_cannot_be_written_to_and_says_little_of_itself(self):
        assert self.body.body.readonly
        assert repr(self.body) == "<UpdateMetadataRequest v8, 2000 bytes>"

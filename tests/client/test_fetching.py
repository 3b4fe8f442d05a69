"""A range is read to its end, whatever the cluster does meanwhile, and never past it."""

from __future__ import annotations

import threading

import pytest

from epoka.client.cluster import EARLIEST, LATEST, ClusterClient
from epoka.client.columns import VALUE
from epoka.client.errors import OffsetOutOfRange, TopicGone, Unreachable
from epoka.client.fetching import Range, RangeReader
from epoka.client.settings import settings_from
from epoka.cluster.cluster import Cluster
from tests.client.topics import Topics


@pytest.fixture
def client(cluster: Cluster) -> object:
    with ClusterClient(settings_from({"bootstrap.servers": cluster.bootstrap})) as opened:
        yield opened


def values(reader: RangeReader) -> list[bytes | None]:
    return [each.value for chunk in reader.columns() for each in chunk.records()]


def test_a_topic_is_seen_with_its_id_partitions_and_leaders(client: ClusterClient, topics: Topics) -> None:
    name = topics.create(3)
    view = client.topics([name, "no-such-topic"])
    assert [*view] == [name]
    assert sorted(view[name].partitions) == [0, 1, 2]
    assert view[name].id.int
    assert {each.leader for each in view[name].partitions.values()} <= {1, 2, 3}


def test_a_pattern_finds_whole_names_only(client: ClusterClient, topics: Topics) -> None:
    for name in ("like-a", "like-b", "unlike-a"):
        topics.create(name=name)
    assert sorted(client.topics_like("like-.")) == ["like-a", "like-b"]


def test_offsets_by_end_and_by_time(client: ClusterClient, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"a", b"b", b"c"], timestamps=[1000, 2000, 3000])
    key = (name, 0)
    found = {when: client.offsets({key: when})[key].offset for when in (EARLIEST, LATEST, 1500, 2000, 3001)}
    assert found == {EARLIEST: 0, LATEST: 3, 1500: 1, 2000: 1, 3001: -1}


def test_a_range_in_the_middle_is_read_exactly(client: ClusterClient, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"%d" % number for number in range(5000)])
    read = values(RangeReader(client, Range(name, 0, 1234, 3456), fields=VALUE))
    assert read == [b"%d" % number for number in range(1234, 3456)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_of_a_real_producer_is_read(client: ClusterClient, topics: Topics, codec: str) -> None:
    name = topics.create()
    topics.fill(name, [b"%d" % number * 20 for number in range(2000)], compression_type=codec)
    assert values(RangeReader(client, Range(name, 0, 0, 2000))) == [b"%d" % n * 20 for n in range(2000)]


def test_a_batch_larger_than_a_fetch_is_read(cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [bytes(300_000), b"after"])
    settings = settings_from({"bootstrap.servers": cluster.bootstrap, "max.partition.fetch.bytes": "1000"})
    with ClusterClient(settings) as client:
        assert [len(value or b"") for value in values(RangeReader(client, Range(name, 0, 0, 2)))] == [
            300_000,
            5,
        ]


def test_an_offset_below_the_log_says_where_it_begins(client: ClusterClient, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"x"] * 10)
    topics.delete_before(name, 0, 4)
    with pytest.raises(OffsetOutOfRange) as caught:
        values(RangeReader(client, Range(name, 0, 0, 10)))
    assert (caught.value.first, caught.value.end) == (4, 10)


def test_a_topic_made_anew_is_not_taken_for_the_old_one(client: ClusterClient, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"old"] * 10)
    old = client.topic(name).id_text
    topics.delete(name)
    topics.create(name=name)
    topics.fill(name, [b"new"] * 10)
    client.forget(name)
    with pytest.raises(TopicGone, match="another topic by now"):
        values(RangeReader(client, Range(name, 0, 0, 10, old)))


def test_a_read_rides_out_bounced_leaders(cluster: Cluster, topics: Topics) -> None:
    name = topics.create(1, replicas=3)
    expected = [b"%d" % number for number in range(20_000)]
    topics.fill(name, expected)
    settings = settings_from({"bootstrap.servers": cluster.bootstrap, "max.partition.fetch.bytes": "2000"})
    with ClusterClient(settings) as client:
        reader = RangeReader(client, Range(name, 0, 0, len(expected)))
        read: list[bytes | None] = []
        bounces: list[threading.Thread] = []
        for chunk in reader.columns():
            read += [each.value for each in chunk.records()]
            if len(bounces) < 2 and len(read) > 5000 * (len(bounces) + 1):
                leader = client.topic(name).partitions[0].leader
                bounces.append(threading.Thread(target=cluster.bounce, args=(leader, "unclean")))
                bounces[-1].start()
                if len(bounces) == 1:
                    bounces[-1].join()
        for bounce in bounces:
            bounce.join()
    assert len(bounces) == 2
    assert read == expected


def test_nothing_is_waited_for_in_vain_beyond_its_time(client: ClusterClient, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"x"])
    reader = RangeReader(client, Range(name, 0, 1, 2), patience_ms=300)
    with pytest.raises(Unreachable, match="gave up"):
        values(reader)


def test_nobody_at_the_address_is_said_with_the_address() -> None:
    settings = settings_from({"bootstrap.servers": "127.0.0.1:1", "retry.backoff.ms": "0"})
    with (
        ClusterClient(settings, patience_ms=50) as client,
        pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"),
    ):
        client.topics(["any"])


def test_a_group_without_members_can_be_told_its_offsets(client: ClusterClient, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"x"] * 3)
    client.commit("some-query", {(name, 0): 2})
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked = topics.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("some-query")])
    (committed,) = asked["some-query"].result(30).topic_partitions
    assert (committed.topic, committed.partition, committed.offset) == (name, 0, 2)

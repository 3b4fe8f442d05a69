"""A range is read to its end, whatever the cluster does meanwhile, and never past it."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from epoka.client import fetching
from epoka.client.cluster import EARLIEST, LATEST, ClusterClient
from epoka.client.columns import VALUE
from epoka.client.connection import Connection
from epoka.client.errors import OffsetOutOfRange, TopicGone, Unreachable
from epoka.client.fetching import Range, RangeReader
from epoka.client.sampling import UNKNOWN, bytes_per_offset
from epoka.client.settings import settings_from
from epoka.cluster.cluster import Cluster
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import fetch as wire
from tests.client.topics import Topics, two_of_one_leader


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


def test_the_time_that_records_wait_to_be_taken_is_not_held_against_the_cluster(
    cluster: Cluster, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topics.create()
    expected = [b"%d" % number for number in range(2000)]
    for some in (expected[:1000], expected[1000:]):
        topics.fill(name, some)
    late_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late_s, sleep=time.sleep)
    monkeypatch.setattr(fetching, "time", clock)
    settings = settings_from({"bootstrap.servers": cluster.bootstrap, "max.partition.fetch.bytes": "2000"})
    with ClusterClient(settings) as client:
        read: list[bytes | None] = []
        for chunk in RangeReader(client, Range(name, 0, 0, len(expected))).columns():
            if not read:
                # Spark has better things to do for an hour, and the broker does not wait that long.
                late_s += 3600
                client.leader(name, 0).close()
            read += [each.value for each in chunk.records()]
    assert read == expected


def test_a_range_that_is_left_in_the_middle_spoils_no_other(cluster: Cluster, topics: Topics) -> None:
    """Its next answer is on its way when it is left, and would be taken for the next range's."""
    name = topics.create(4, replicas=1)
    settings = settings_from({"bootstrap.servers": cluster.bootstrap, "max.partition.fetch.bytes": "500"})
    with ClusterClient(settings) as client:
        left, other = two_of_one_leader(client, name)
        for partition in (left, other) * 2:
            topics.fill(name, [b"%d" % partition] * 100, partition=partition)
        for _ in RangeReader(client, Range(name, left, 0, 200)).columns():
            break
        assert values(RangeReader(client, Range(name, other, 0, 200))) == [b"%d" % other] * 200


def test_what_an_offset_is_worth_is_not_known_of_what_cannot_be_read(
    client: ClusterClient, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads it says so, with its place."""
    name = topics.create()
    monkeypatch.setattr(RangeReader, "peek", lambda *_: memoryview(bytes(100)))
    assert bytes_per_offset(client, name, 0, 0) == UNKNOWN


def test_a_replica_nearby_that_is_behind_is_left_for_the_leader(
    client: ClusterClient, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a follower does not hold yet is not lost."""
    name = topics.create(1, replicas=3)
    topics.fill(name, [b"%d" % number for number in range(10)])
    nearby = next(each for each in (1, 2, 3) if each != client.topic(name).partitions[0].leader)
    told = [
        wire.FetchPartitionResponse(partition_index=0, preferred_read_replica=nearby),
        wire.FetchPartitionResponse(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
    ]
    take = Connection.take

    def answered(connection: Connection, *, wait_ms: int = 0) -> Any:
        answer = take(connection, wait_ms=wait_ms)
        if not isinstance(answer, wire.FetchResponse) or not told:
            return answer
        return wire.FetchResponse(responses=(wire.FetchableTopicResponse(partitions=(told.pop(0),)),))

    monkeypatch.setattr(Connection, "take", answered)
    assert values(RangeReader(client, Range(name, 0, 0, 10))) == [b"%d" % number for number in range(10)]
    assert not told


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

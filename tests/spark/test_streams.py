"""Streams, a test a line of what the Kafka connector promises and where we promise more; without Spark."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from epoka.cluster.cluster import Cluster
from epoka.spark.offsets import DataLoss
from epoka.spark.options import BadOption, read_options
from epoka.spark.stream import TopicStreamReader
from tests.client.topics import Topics
from tests.spark.reading import options_for

ALL = ReadAllAvailable()


def stream(cluster: Cluster, **options: str) -> TopicStreamReader:
    return TopicStreamReader(read_options(options_for(cluster, **options), streaming=True))


def offsets(position: dict[str, Any], topic: str) -> dict[str, int]:
    return position[topic]


def tasks(
    reader: TopicStreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[tuple[int, int, int]]:
    # Offsets go through Spark's log as JSON; nothing may depend on more than that.
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    found = [each.wanted for each in reader.partitions(start, end)]
    return [(each.partition, each.first, each.end) for each in found]


def values(reader: TopicStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    return [
        row["value"]
        for task in reader.partitions(start, end)
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


def test_a_new_stream_begins_at_the_end(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"old"] * 3)
    reader = stream(spark_cluster, subscribe=name)
    start = reader.initialOffset()
    assert offsets(start, name) == {"0": 3}
    topics.fill(name, [b"new"])
    end = reader.latestOffset(start, ALL)
    assert values(reader, start, end) == [b"new"]
    assert reader.latestOffset(end, ALL) == end


@pytest.mark.parametrize(
    ("given", "first"),
    [("earliest", 0), ('{"%s":{"0":1}}', 1), ('{"%s":{"0":-2}}', 0), ('{"%s":{"0":-1}}', 3)],
)
def test_a_stream_begins_where_it_is_told(
    spark_cluster: Cluster, topics: Topics, given: str, first: int
) -> None:
    name = topics.create()
    topics.fill(name, [b"x"] * 3)
    text = given % name if "%" in given else given
    reader = stream(spark_cluster, subscribe=name, startingOffsets=text)
    assert offsets(reader.initialOffset(), name) == {"0": first}


def test_a_start_outside_the_log_is_data_loss(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"x"] * 3)
    outside = {"subscribe": name, "startingOffsets": f'{{"{name}":{{"0":9}}}}'}
    with pytest.raises(DataLoss, match=f"{name}-0 holds offsets 0 to 3, startingOffsets=9"):
        stream(spark_cluster, **outside).initialOffset()
    start = stream(spark_cluster, failOnDataLoss="false", **outside).initialOffset()
    assert offsets(start, name) == {"0": 0}


def test_the_first_batch_tells_where_it_began(spark_cluster: Cluster, topics: Topics) -> None:
    """The hole of every Python source: a first batch that was planned and not finished before a restart."""
    name = topics.create()
    topics.fill(name, [b"before"] * 3)
    first_life = stream(spark_cluster, subscribe=name)
    start = first_life.initialOffset()
    topics.fill(name, [b"planned"] * 2)
    end = first_life.latestOffset(start, ALL)
    topics.fill(name, [b"meanwhile"] * 4)

    second_life = stream(spark_cluster, subscribe=name)
    asked_again = second_life.initialOffset()
    assert offsets(asked_again, name) == {"0": 9}
    assert values(second_life, asked_again, end) == [b"planned"] * 2
    following = second_life.latestOffset(end, ALL)
    assert values(second_life, end, following) == [b"meanwhile"] * 4


def test_a_first_batch_without_records_tells_it_too(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    first_life = stream(spark_cluster, subscribe=name)
    end = first_life.latestOffset(first_life.initialOffset(), ALL)
    topics.fill(name, [b"meanwhile"])
    second_life = stream(spark_cluster, subscribe=name)
    assert tasks(second_life, second_life.initialOffset(), end) == []
    assert values(second_life, end, second_life.latestOffset(end, ALL)) == [b"meanwhile"]


def test_a_trigger_reads_at_most_so_many_offsets(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create(2)
    topics.fill(name, [b"x"] * 90)
    topics.fill(name, [b"x"] * 10, partition=1)
    reader = stream(spark_cluster, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(20)
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert tasks(reader, start, end) == [(0, 0, 18), (1, 0, 2)]
    everything = reader.latestOffset(start, ALL)
    assert offsets(everything, name) == {"0": 90, "1": 10}, "Trigger.Once asks for all"


def test_a_trigger_waits_for_so_many_offsets_but_not_for_ever(
    spark_cluster: Cluster, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0
    monkeypatch.setattr("epoka.spark.stream.time.monotonic", lambda: now_s)
    name = topics.create()
    topics.fill(name, [b"x"] * 2)
    reader = stream(
        spark_cluster,
        subscribe=name,
        startingOffsets="earliest",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="30s",
    )
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    first = reader.latestOffset(reader.initialOffset(), limit)
    assert offsets(first, name) == {"0": 2}, "the first trigger does not wait"
    topics.fill(name, [b"x"] * 9)
    assert reader.latestOffset(first, limit) == first
    topics.fill(name, [b"x"])
    second = reader.latestOffset(first, limit)
    assert offsets(second, name) == {"0": 12}
    topics.fill(name, [b"x"])
    assert reader.latestOffset(second, limit) == second
    now_s += 30
    assert offsets(reader.latestOffset(second, limit), name) == {"0": 13}


def test_both_limits_hold_at_once(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    reader = stream(
        spark_cluster,
        subscribe=name,
        startingOffsets="earliest",
        minOffsetsPerTrigger="5",
        maxOffsetsPerTrigger="6",
    )
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(reader.initialOffset(), limit)
    topics.fill(name, [b"x"] * 4)
    assert reader.latestOffset(first, limit) == first
    topics.fill(name, [b"x"] * 10)
    assert offsets(reader.latestOffset(first, limit), name) == {"0": 6}


def test_a_trigger_reads_about_so_many_bytes(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [bytes(1000)] * 500)
    reader = stream(spark_cluster, subscribe=name, startingOffsets="earliest", maxBytesPerTrigger="100k")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxBytes(100 << 10)
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert 80 <= offsets(end, name)["0"] <= 105


def test_available_now_ends_where_it_began_to_look(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"x"] * 5)
    reader = stream(
        spark_cluster,
        subscribe=name,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="3",
        minOffsetsPerTrigger="3",
    )
    reader.prepareForTriggerAvailableNow()
    topics.fill(name, [b"late"] * 5)
    topics.grow(name, 2)
    topics.fill(name, [b"late"], partition=1)
    limit = reader.getDefaultReadLimit()
    position = reader.initialOffset()
    ends = []
    for _ in range(5):
        following = reader.latestOffset(position, limit)
        if following == position:
            break
        ends.append(offsets(following, name)["0"])
        position = following
    assert ends == [3, 5]


def test_partitions_that_come_later_are_read_from_their_beginning(
    spark_cluster: Cluster, topics: Topics
) -> None:
    name = topics.create()
    topics.fill(name, [b"old"])
    reader = stream(spark_cluster, subscribe=name)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ALL)
    topics.grow(name, 2)
    topics.fill(name, [b"new"] * 3, partition=1)
    second = reader.latestOffset(first, ALL)
    assert tasks(reader, first, second) == [(1, 0, 3)]


def test_a_new_partition_that_has_lost_its_beginning_is_data_loss(
    spark_cluster: Cluster, topics: Topics
) -> None:
    name = topics.create()
    strict, lenient = (
        stream(spark_cluster, subscribe=name),
        stream(spark_cluster, subscribe=name, failOnDataLoss="false"),
    )
    starts = [each.latestOffset(each.initialOffset(), ALL) for each in (strict, lenient)]
    topics.grow(name, 2)
    topics.fill(name, [b"x"] * 5, partition=1)
    topics.delete_before(name, 1, 2)
    with pytest.raises(DataLoss, match=f"{name}-1 is new and begins at offset 2"):
        strict.latestOffset(starts[0], ALL)
    end = lenient.latestOffset(starts[1], ALL)
    assert tasks(lenient, starts[1], end) == [(1, 2, 5)]


def test_a_topic_made_anew_is_noticed_by_its_id(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"old"] * 3)
    strict, lenient = (
        stream(spark_cluster, subscribe=name, startingOffsets="earliest", failOnDataLoss=fail)
        for fail in ("true", "false")
    )
    starts = [each.latestOffset(each.initialOffset(), ALL) for each in (strict, lenient)]
    topics.delete(name)
    topics.create(name=name)
    topics.fill(name, [b"new"] * 5)
    with pytest.raises(DataLoss, match=f"{name} was deleted and made anew"):
        strict.latestOffset(starts[0], ALL)
    end = lenient.latestOffset(starts[1], ALL)
    assert values(lenient, starts[1], end) == [b"new"] * 5


@pytest.mark.parametrize("kept_ms", ["0", "600000"])
def test_a_topic_that_is_gone_is_data_loss(spark_cluster: Cluster, topics: Topics, kept_ms: str) -> None:
    """However long metadata is kept."""
    gone, kept = topics.create(), topics.create()
    asked = {"subscribe": f"{gone},{kept}", "partition__metadata__cache__ttl__ms": kept_ms}
    strict, lenient = (stream(spark_cluster, failOnDataLoss=fail, **asked) for fail in ("true", "false"))
    starts = [each.latestOffset(each.initialOffset(), ALL) for each in (strict, lenient)]
    topics.delete(gone)
    topics.fill(kept, [b"x"])
    with pytest.raises(DataLoss, match=f"{gone}-0 are gone"):
        strict.latestOffset(starts[0], ALL)
    assert values(lenient, starts[1], lenient.latestOffset(starts[1], ALL)) == [b"x"]


def test_available_now_goes_on_without_a_topic_that_is_gone_if_it_may(
    spark_cluster: Cluster, topics: Topics
) -> None:
    gone, kept = topics.create(), topics.create()
    asked = {"subscribe": f"{gone},{kept}", "startingOffsets": "earliest"}
    first_life = stream(spark_cluster, **asked)
    position = first_life.latestOffset(first_life.initialOffset(), ALL)
    topics.delete(gone)
    topics.fill(kept, [b"x"])
    strict, lenient = (stream(spark_cluster, failOnDataLoss=fail, **asked) for fail in ("true", "false"))
    for reader in (strict, lenient):
        reader.prepareForTriggerAvailableNow()
    with pytest.raises(DataLoss, match=f"{gone}-0 are gone"):
        strict.latestOffset(position, ALL)
    assert values(lenient, position, lenient.latestOffset(position, ALL)) == [b"x"]


def test_a_stream_over_a_topic_that_never_was_does_not_begin(spark_cluster: Cluster) -> None:
    with pytest.raises(BadOption, match="no-such-topic"):
        stream(spark_cluster, subscribe="no-such-topic").initialOffset()


def test_offsets_that_went_backwards_are_data_loss(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"x"] * 5)
    reader = stream(spark_cluster, subscribe=name)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    further = json.loads(json.dumps(end))
    further[name]["0"] = 8
    with pytest.raises(DataLoss, match=f"{name}-0 ends at offset 5, 8 was reached before"):
        reader.latestOffset(further, ALL)


@pytest.mark.parametrize("told", ["PartitionView", "FoundOffset"])
def test_a_log_that_was_cut_back_is_noticed_by_its_leader_epoch(
    spark_cluster: Cluster, topics: Topics, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """What was read is gone, and the log has grown past it again: offsets alone would not tell.

    Metadata may be old, or kept by `partition.metadata.cache.ttl.ms`; then only the leader tells its epoch.
    """
    name = topics.create()
    topics.fill(name, [b"x"] * 9)
    strict, lenient = (
        stream(spark_cluster, subscribe=name, failOnDataLoss=fail) for fail in ("true", "false")
    )
    positions = []
    for reader in (strict, lenient):
        position = reader.latestOffset(reader.initialOffset(), ALL)
        before = json.loads(json.dumps(position))
        before[name]["0"], before["@epochs"][name]["0"] = 7, 0
        positions.append(before)
    monkeypatch.setattr("epoka.client.cluster.ClusterClient.end_of_epoch", lambda *_: (0, 4))
    monkeypatch.setattr(f"epoka.client.cluster.{told}.leader_epoch", 1)
    with pytest.raises(DataLoss, match=f"{name}-0 was cut back to offset 4, 7 was reached before"):
        strict.latestOffset(positions[0], ALL)
    end = lenient.latestOffset(positions[1], ALL)
    assert tasks(lenient, positions[1], end) == [(0, 4, 9)]


def test_tasks_of_a_stream_are_cut_as_asked(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"x"] * 10)
    reader = stream(spark_cluster, subscribe=name, startingOffsets="earliest", minPartitions="4")
    start = reader.initialOffset()
    assert len(tasks(reader, start, reader.latestOffset(start, ALL))) == 4


def test_progress_tells_where_the_topics_end(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"x"] * 4)
    assert stream(spark_cluster, subscribe=name).reportLatestOffset() == {name: {"0": 4}}


def test_progress_that_nobody_can_tell_fails_no_query() -> None:
    nowhere = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "1"}
    options = read_options(nowhere | {"subscribe": "any"}, streaming=True)
    reader = TopicStreamReader(msgspec.structs.replace(options, offset_patience_ms=1))
    assert reader.reportLatestOffset() is None


def test_lag_tools_see_a_query_that_commits(spark_cluster: Cluster, topics: Topics) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions

    name = topics.create()
    topics.fill(name, [b"x"] * 6)
    reader = stream(
        spark_cluster,
        subscribe=name,
        startingOffsets="earliest",
        commitOffsets="true",
        kafka__group__id="lagging",
    )
    reader.commit(reader.latestOffset(reader.initialOffset(), ALL))
    asked = topics.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("lagging")])
    (committed,) = asked["lagging"].result(30).topic_partitions
    assert (committed.topic, committed.offset) == (name, 6)

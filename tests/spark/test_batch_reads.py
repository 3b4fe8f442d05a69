"""Batch reads, a test a line of what Spark's Kafka connector promises; the planner and the tasks without
Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from epoka.client.errors import CorruptBatch, Unreachable
from epoka.cluster.cluster import Cluster
from epoka.spark.offsets import DataLoss
from epoka.spark.options import BadOption
from tests.client.topics import Topics
from tests.spark.reading import plan, rows


@pytest.fixture
def filled(topics: Topics) -> str:
    """Two partitions: offsets 0 to 9 at times 1000, 1100, ... and offsets 0 to 4 at 5000, 5100, ..."""
    name = topics.create(2)
    topics.fill(name, [b"a%d" % n for n in range(10)], timestamps=[1000 + 100 * n for n in range(10)])
    topics.fill(
        name, [b"b%d" % n for n in range(5)], partition=1, timestamps=[5000 + 100 * n for n in range(5)]
    )
    return name


def test_all_columns_of_the_connector(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"v"], keys=[b"k"], timestamps=[1_700_000_000_123])
    assert rows(spark_cluster, subscribe=name) == [
        {
            "key": b"k",
            "value": b"v",
            "topic": name,
            "partition": 0,
            "offset": 0,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC),
            "timestampType": 0,
        }
    ]


def test_a_log_that_stamps_records_itself_says_so(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create(message_timestamp_type="LogAppendTime")
    topics.fill(name, [b"v"], timestamps=[1000])
    (row,) = rows(spark_cluster, subscribe=name)
    assert row["timestampType"] == 1
    assert row["timestamp"].year > 2000


def test_headers_are_null_where_a_record_has_none(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"with"], headers=[("h", b"x"), ("h", None), ("", b"")])
    topics.fill(name, [b"without"])
    read = rows(spark_cluster, subscribe=name, includeHeaders="true")
    assert [row["headers"] for row in read] == [
        [{"key": "h", "value": b"x"}, {"key": "h", "value": None}, {"key": "", "value": b""}],
        None,
    ]
    assert "headers" not in rows(spark_cluster, subscribe=name)[0]


def test_null_keys_and_values_are_null(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [None, b""], keys=[b"", None])
    read = rows(spark_cluster, subscribe=name, columns="key,value")
    assert read == [{"key": b"", "value": None}, {"key": None, "value": b""}]


def test_by_default_everything_from_earliest_to_latest(spark_cluster: Cluster, filled: str) -> None:
    assert plan(spark_cluster, subscribe=filled) == [(f"{filled}-0", 0, 10), (f"{filled}-1", 0, 5)]


def test_subscribe_takes_many_topics(spark_cluster: Cluster, topics: Topics, filled: str) -> None:
    other = topics.create()
    topics.fill(other, [b"x"])
    assert {task[0] for task in plan(spark_cluster, subscribe=f"{filled},{other}")} == {
        f"{filled}-0",
        f"{filled}-1",
        f"{other}-0",
    }


def test_subscribe_refuses_a_topic_that_does_not_exist(spark_cluster: Cluster, filled: str) -> None:
    with pytest.raises(BadOption, match="no-such"):
        plan(spark_cluster, subscribe=f"{filled},no-such")


def test_a_pattern_takes_whole_names(spark_cluster: Cluster, topics: Topics) -> None:
    for name in ("pattern-1", "pattern-22"):
        topics.create(name=name)
        topics.fill(name, [b"x"])
    assert [task[0] for task in plan(spark_cluster, subscribePattern=r"pattern-\d")] == ["pattern-1-0"]
    assert plan(spark_cluster, subscribePattern="nothing-is-called-so") == []


def test_assign_takes_single_partitions(spark_cluster: Cluster, filled: str) -> None:
    assert plan(spark_cluster, assign=f'{{"{filled}":[1]}}') == [(f"{filled}-1", 0, 5)]
    with pytest.raises(BadOption, match=f"{filled}-7"):
        plan(spark_cluster, assign=f'{{"{filled}":[7]}}')


def test_offsets_for_each_partition(spark_cluster: Cluster, filled: str) -> None:
    tasks = plan(
        spark_cluster,
        subscribe=filled,
        startingOffsets=f'{{"{filled}":{{"0":3,"1":-2}}}}',
        endingOffsets=f'{{"{filled}":{{"0":7,"1":-1}}}}',
    )
    assert tasks == [(f"{filled}-0", 3, 7), (f"{filled}-1", 0, 5)]


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"])
def test_offsets_name_every_partition_and_no_other(spark_cluster: Cluster, filled: str, option: str) -> None:
    with pytest.raises(BadOption, match=f"{option} says nothing of {filled}-1"):
        plan(spark_cluster, subscribe=filled, **{option: f'{{"{filled}":{{"0":3}}}}'})
    with pytest.raises(BadOption, match=f"{option} names {filled}-2"):
        plan(spark_cluster, subscribe=filled, **{option: f'{{"{filled}":{{"0":3,"1":3,"2":3}}}}'})


def test_times_for_each_partition_find_the_first_record_not_older(
    spark_cluster: Cluster, filled: str
) -> None:
    tasks = plan(
        spark_cluster,
        subscribe=filled,
        startingOffsetsByTimestamp=f'{{"{filled}":{{"0":1250,"1":5100}}}}',
        endingOffsetsByTimestamp=f'{{"{filled}":{{"0":1800,"1":9999}}}}',
    )
    assert tasks == [(f"{filled}-0", 3, 8), (f"{filled}-1", 1, 5)]


def test_a_start_time_without_a_record_is_an_error_or_the_end(spark_cluster: Cluster, filled: str) -> None:
    with pytest.raises(BadOption, match=f"startingTimestamp: {filled}-0 has no record at or after 2000"):
        plan(spark_cluster, subscribe=filled, startingTimestamp="2000")
    tasks = plan(
        spark_cluster,
        subscribe=filled,
        startingTimestamp="2000",
        startingOffsetsByTimestampStrategy="latest",
    )
    assert tasks == [(f"{filled}-1", 0, 5)]


def test_an_end_time_without_a_record_is_the_end(spark_cluster: Cluster, filled: str) -> None:
    assert plan(spark_cluster, subscribe=filled, endingTimestamp="2000") == [(f"{filled}-0", 0, 10)]


def test_tasks_are_cut_as_asked(spark_cluster: Cluster, filled: str) -> None:
    assert len(plan(spark_cluster, subscribe=filled, minPartitions="6")) == 6
    tasks = plan(spark_cluster, subscribe=filled, maxRecordsPerPartition="4")
    assert max(end - first for _, first, end in tasks) <= 4
    read = rows(spark_cluster, subscribe=filled, maxRecordsPerPartition="4", columns="value")
    assert sorted(row["value"] for row in read) == sorted(
        [b"a%d" % n for n in range(10)] + [b"b%d" % n for n in range(5)]
    )


def test_columns_are_chosen_and_ordered(spark_cluster: Cluster, filled: str) -> None:
    (first, *_) = rows(spark_cluster, assign=f'{{"{filled}":[1]}}', columns="offset,value")
    assert list(first.items()) == [("offset", 0), ("value", b"b0")]


def test_deleted_records_are_data_loss(spark_cluster: Cluster, topics: Topics, filled: str) -> None:
    topics.delete_before(filled, 0, 4)
    ranges = {"startingOffsets": f'{{"{filled}":{{"0":1,"1":0}}}}'}
    with pytest.raises(DataLoss, match=f"{filled}-0 begins at offset 4, asked for 1"):
        plan(spark_cluster, subscribe=filled, **ranges)
    read = rows(spark_cluster, subscribe=filled, failOnDataLoss="false", columns="value", **ranges)
    assert [row["value"] for row in read][:6] == [b"a%d" % n for n in range(4, 10)]


def test_an_end_that_the_log_does_not_reach_is_data_loss(spark_cluster: Cluster, filled: str) -> None:
    ranges = {"endingOffsets": f'{{"{filled}":{{"0":99,"1":5}}}}'}
    with pytest.raises(DataLoss, match=f"{filled}-0 ends at offset 10, asked for 99"):
        plan(spark_cluster, subscribe=filled, **ranges)
    assert len(rows(spark_cluster, subscribe=filled, failOnDataLoss="false", **ranges)) == 15


def test_records_deleted_after_planning_are_data_loss_in_the_task(
    spark_cluster: Cluster, topics: Topics, filled: str
) -> None:
    from epoka.spark.options import read_options
    from epoka.spark.source import TopicReader, read_range
    from tests.spark.reading import options_for

    def read(fail: str) -> list[int]:
        chosen = read_options(
            options_for(spark_cluster, subscribe=filled, failOnDataLoss=fail, columns="offset"),
            streaming=False,
        )
        return [row["offset"] for batch in read_range(chosen, tasks[0]) for row in batch.to_pylist()]

    options = options_for(spark_cluster, subscribe=filled)
    tasks = TopicReader(read_options(options, streaming=False)).partitions()
    topics.delete_before(filled, 0, 7)
    topics.fill(filled, [b"later"])
    with pytest.raises(DataLoss, match="7 to 11, asked for 0"):
        read("true")
    assert read("false") == [7, 8, 9], "not beyond what was planned"


def test_a_topic_that_vanishes_after_planning_is_data_loss(
    spark_cluster: Cluster, topics: Topics, filled: str
) -> None:
    from epoka.spark.options import read_options
    from epoka.spark.source import TopicReader, read_range
    from tests.spark.reading import options_for

    given = options_for(spark_cluster, subscribe=filled)
    tasks = TopicReader(read_options(given, streaming=False)).partitions()
    topics.delete(filled)
    topics.create(2, name=filled)
    topics.fill(filled, [b"other"] * 20)
    with pytest.raises(DataLoss, match="another topic"):
        list(read_range(read_options(given, streaming=False), tasks[0]))
    kept = read_options(given | {"failOnDataLoss": "false"}, streaming=False)
    assert list(read_range(kept, tasks[0])) == []


def test_a_damaged_batch_fails_the_task_by_name(
    spark_cluster: Cluster, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epoka.client.columns.crc_ok", lambda *_: False)
    with pytest.raises(CorruptBatch, match=rf"{filled}-0: the batch at offset \d+ is damaged"):
        rows(spark_cluster, subscribe=filled)


def test_a_cluster_that_is_not_there_is_named() -> None:
    from epoka.spark.options import read_options
    from epoka.spark.source import TopicReader

    given = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.request.timeout.ms": "200",
        "subscribe": "t",
        "fetchOffset.numRetries": "0",
    }
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        TopicReader(read_options(given, streaming=False)).partitions()

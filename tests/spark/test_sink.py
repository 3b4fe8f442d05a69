"""What a task of a sink writes, and what it writes when it is run again; without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructType

from epoka.client import producing
from epoka.client.connection import Connection
from epoka.client.errors import Refused
from epoka.client.producing import Outgoing
from epoka.cluster.cluster import Cluster
from epoka.spark import sink
from epoka.spark.options import write_options
from epoka.spark.sink import REMEMBERED, Names, _Task, _Writing
from tests.client.topics import Topics
from tests.spark.reading import rows
from tests.waiting import wait_until

SCHEMA = StructType().add("key", BinaryType()).add("value", BinaryType())
NOBODY = Names()


def write(
    cluster: Cluster, topic: str, values: Iterable[bytes], names: Names = NOBODY, **options: str
) -> list[tuple[int, int, int]]:
    """Write values under one key as one task would; what each partition took."""
    values = list(values)
    return run(cluster, topic, [batch_of([b"k"] * len(values), values)], names, **options)


def run(
    cluster: Cluster, topic: str, batches: list[pa.RecordBatch], names: Names, **options: str
) -> list[tuple[int, int, int]]:
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}
    given |= {name.replace("__", "."): value for name, value in options.items()}
    written = _Writing(SCHEMA, write_options(given)).run(iter(batches), names)
    return [(each.first_offset, each.last_offset, each.count) for each in written.acknowledged]


def batch_of(keys: list[bytes], values: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.binary()), pa.array(values, pa.binary())], names=["key", "value"]
    )


def values_of(cluster: Cluster, topic: str) -> list[bytes]:
    return [row["value"] for row in rows(cluster, subscribe=topic, columns="value")]


def some(count: int, letter: bytes = b"v") -> list[bytes]:
    return [b"%s%d" % (letter, number) for number in range(count)]


def test_a_task_tells_what_was_acknowledged(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    assert write(spark_cluster, name, some(10)) == [(0, 9, 10)]
    assert values_of(spark_cluster, name) == some(10)


def test_a_batch_write_that_is_run_again_writes_again(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    for _ in range(2):
        write(spark_cluster, name, some(3))
    assert values_of(spark_cluster, name) == some(3) * 2


def test_a_task_of_a_stream_that_is_run_again_writes_once(spark_cluster: Cluster, topics: Topics) -> None:
    """Also when it has more batches than a broker remembers of one producer."""
    name = topics.create()
    many = some(60)
    for _ in range(2):
        taken = write(spark_cluster, name, many, Names("q", 0, 1), kafka__batch__size="200")
        assert taken == [(0, 59, 60)]
    assert values_of(spark_cluster, name) == many
    batches = len(rows(spark_cluster, subscribe=name)) / 60
    assert batches == 1
    assert REMEMBERED < 60 // 4


@pytest.fixture
def slow_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever does not wait for an answer finds none, so that a request stays under way."""
    monkeypatch.setattr(Connection, "answered", lambda _: False)


@pytest.mark.usefixtures("slow_answers")
def test_more_partitions_than_brokers_are_written_once(spark_cluster: Cluster, topics: Topics) -> None:
    """A leader of two partitions has a batch of one under way when it is the other one's turn."""
    name = topics.create(6)
    for _ in range(2):
        run(spark_cluster, name, [batch_of(some(100), some(100))], Names("q", 0, 0))
    assert sorted(values_of(spark_cluster, name)) == sorted(some(100))
    assert len({row["partition"] for row in rows(spark_cluster, subscribe=name)}) == 6


@pytest.mark.usefixtures("slow_answers")
def test_partitions_that_come_up_later_are_written_once(
    spark_cluster: Cluster, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topics.create(6)
    monkeypatch.setattr(sink, "CHUNK_BYTES", 1)
    for _ in range(2):
        run(spark_cluster, name, [batch_of([each], [each]) for each in some(40)], Names("q", 0, 0))
    assert sorted(values_of(spark_cluster, name)) == sorted(some(40))


def test_duplicates_are_not_kept_in_memory(
    spark_cluster: Cluster, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are compared chunk by chunk, so a task that is run again needs no more room."""
    name = topics.create()
    monkeypatch.setattr(sink, "CHUNK_BYTES", 1)
    monkeypatch.setattr(producing, "MOST_WAITING_BYTES", 0)
    held: list[int] = []
    written = _Task._written

    def counted(task: _Task, outgoing: Outgoing) -> None:
        written(task, outgoing)
        held.append(len(task._again))

    monkeypatch.setattr(_Task, "_written", counted)
    for _ in range(2):
        run(spark_cluster, name, [batch_of([b"k"], [each]) for each in some(20)], Names("q", 0, 0))
    assert held == [0] * 20 + [1] * 20
    assert values_of(spark_cluster, name) == some(20)


def test_other_tasks_queries_and_batches_are_not_taken_for_it(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    for names in (Names("q", 0, 1), Names("q", 0, 2), Names("p", 0, 1), Names("q", 1, 1), Names("q", 2, 1)):
        write(spark_cluster, name, some(2), names)
    assert values_of(spark_cluster, name) == some(2) * 5


def test_other_rows_the_second_time_are_written(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    write(spark_cluster, name, some(3), Names("q", 0, 0))
    write(spark_cluster, name, some(3, b"w"), Names("q", 0, 0))
    assert values_of(spark_cluster, name) == [*some(3), *some(3, b"w")]


@pytest.mark.usefixtures("slow_answers")
def test_other_rows_for_many_partitions_are_written(
    spark_cluster: Cluster, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when they are more than may wait: none is sent while others are still compared."""
    name = topics.create(6)
    monkeypatch.setattr(producing, "MOST_WAITING_BYTES", 1000)
    for letter in (b"v", b"w"):
        run(spark_cluster, name, [batch_of(some(100), some(100, letter))], Names("q", 0, 0))
    assert sorted(values_of(spark_cluster, name)) == sorted([*some(100), *some(100, b"w")])


def test_another_number_of_rows_the_second_time_is_written(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    write(spark_cluster, name, some(3), Names("q", 0, 0))
    write(spark_cluster, name, some(4, b"w"), Names("q", 0, 0))
    assert values_of(spark_cluster, name) == [*some(3), *some(4, b"w")]


@pytest.mark.parametrize(("before", "after"), [("100", "300"), ("300", "100")])
def test_a_task_that_was_broken_off_is_completed_with_other_cuts(
    spark_cluster: Cluster, topics: Topics, before: str, after: str
) -> None:
    """At least once then: what is cut otherwise cannot be known again."""
    name = topics.create()
    write(spark_cluster, name, some(60)[:20], Names("q", 0, 0), kafka__batch__size=before)
    write(spark_cluster, name, some(60), Names("q", 0, 0), kafka__batch__size=after)
    found = values_of(spark_cluster, name)
    assert {*found} == {*some(60)}
    assert [each for each in found if each not in some(20)] == some(60)[20:]


def test_a_task_that_was_broken_off_is_completed(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    write(spark_cluster, name, some(8)[:4], Names("q", 0, 0), kafka__batch__size="100")
    write(spark_cluster, name, some(8), Names("q", 0, 0), kafka__batch__size="100")
    assert values_of(spark_cluster, name) == some(8)


def test_a_task_of_an_older_batch_is_refused(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    write(spark_cluster, name, some(1), Names("q", 5, 0))
    with pytest.raises(Refused, match="INVALID_PRODUCER_EPOCH"):
        write(spark_cluster, name, some(1, b"w"), Names("q", 4, 0))
    assert values_of(spark_cluster, name) == some(1)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_asked(spark_cluster: Cluster, topics: Topics, codec: str) -> None:
    name = topics.create()
    write(spark_cluster, name, some(100), kafka__compression__type=codec)
    assert values_of(spark_cluster, name) == some(100)


@pytest.mark.parametrize("acks", ["1", "all"])
def test_acknowledgements_are_as_asked(spark_cluster: Cluster, topics: Topics, acks: str) -> None:
    name = topics.create()
    write(spark_cluster, name, some(3), kafka__acks=acks)
    # A leader alone may acknowledge what nobody can read yet.
    wait_until(lambda: values_of(spark_cluster, name) == some(3), "the rows to be there")


def test_rows_without_keys_are_spread_over_partitions(spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create(3)
    given = {"kafka.bootstrap.servers": spark_cluster.bootstrap, "topic": name}
    writing = _Writing(StructType().add("value", StringType()), write_options(given))
    for task in range(3):
        batch = pa.RecordBatch.from_arrays([pa.array(["x"] * 5)], names=["value"])
        writing.run(iter([batch]), Names(task=task))
    assert {row["partition"] for row in rows(spark_cluster, subscribe=name)} == {0, 1, 2}


def test_columns_of_large_types_are_written_as_they_are(spark_cluster: Cluster, topics: Topics) -> None:
    """Spark gives those with spark.sql.execution.arrow.useLargeVarTypes."""
    name = topics.create()
    header = StructType().add("key", StringType()).add("value", BinaryType())
    schema = StructType().add("key", BinaryType()).add("value", StringType())
    schema = schema.add("topic", StringType()).add("headers", ArrayType(header))
    large_header = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
    columns: list[Any] = [
        pa.array([b"skipped", b"k", None, b"key"], pa.large_binary()),
        pa.array(["skipped", "ä", "", None], pa.large_string()),
        pa.array(["skipped", name, name, name], pa.large_string()),
        pa.array(
            [
                [],
                [{"key": "a", "value": b"1"}, {"key": "bc", "value": None}],
                None,
                [{"key": None, "value": b""}],
            ],
            pa.list_(large_header),
        ),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=schema.names).slice(1)
    given = {"kafka.bootstrap.servers": spark_cluster.bootstrap}
    _Writing(schema, write_options(given)).run(iter([batch]), NOBODY)
    found = rows(spark_cluster, subscribe=name, includeHeaders="true")
    assert [(row["key"], row["value"], row["headers"]) for row in found] == [
        (b"k", "ä".encode(), [{"key": "a", "value": b"1"}, {"key": "bc", "value": None}]),
        (None, b"", None),
        (b"key", None, [{"key": "", "value": b""}]),
    ]

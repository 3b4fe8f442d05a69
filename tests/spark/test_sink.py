"""What a task of a sink writes, and what it writes when it is run again; without Spark."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from epoka.client.errors import Refused
from epoka.cluster.cluster import Cluster
from epoka.spark.options import write_options
from epoka.spark.sink import REMEMBERED, Names, _Writing
from tests.client.topics import Topics
from tests.spark.reading import rows
from tests.waiting import wait_until

SCHEMA = StructType().add("key", BinaryType()).add("value", BinaryType())
NOBODY = Names()


def write(
    cluster: Cluster, topic: str, values: Iterable[bytes], names: Names = NOBODY, **options: str
) -> list[tuple[int, int, int]]:
    """Write values with keys as one task would; what each partition took."""
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}
    given |= {name.replace("__", "."): value for name, value in options.items()}
    values = list(values)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b"k"] * len(values), pa.binary()), pa.array(values, pa.binary())], names=["key", "value"]
    )
    written = _Writing(SCHEMA, write_options(given)).run(iter([batch]), names)
    return [(each.first_offset, each.last_offset, each.count) for each in written.acknowledged]


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

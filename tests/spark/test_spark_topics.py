"""Topics through Spark itself: found without being registered, read, filtered, written."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

from epoka.cluster.cluster import Cluster
from tests.client.topics import Topics
from tests.spark.reading import rows

SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
    "timestampType:int>"
)


def reading(spark: Any, cluster: Cluster, **options: str) -> Any:
    reader = spark.read.format("epoka").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.options(**options).load()


def test_the_format_is_found_without_being_registered(
    spark: Any, spark_cluster: Cluster, topics: Topics
) -> None:
    name = topics.create(2)
    topics.fill(name, [b"a%d" % n for n in range(100)])
    topics.fill(name, [b"b%d" % n for n in range(50)], partition=1)
    frame = reading(spark, spark_cluster, subscribe=name)
    assert frame.schema.simpleString() == SCHEMA
    counted = frame.groupBy("topic", "partition").agg(F.count("*"), F.min("offset"), F.max("offset"))
    assert sorted(map(tuple, counted.collect())) == [(name, 0, 100, 0, 99), (name, 1, 50, 0, 49)]
    assert frame.rdd.getNumPartitions() == 2


def test_a_schema_of_the_user_is_refused(spark: Any, spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    reader = spark.read.format("epoka").schema("value string").option("subscribe", name)
    with pytest.raises(Exception, match="cannot be given"):
        reader.option("kafka.bootstrap.servers", spark_cluster.bootstrap).load().collect()


def test_a_wrong_option_reaches_the_user_with_its_name(spark: Any, spark_cluster: Cluster) -> None:
    with pytest.raises(Exception, match="startingOffsets=latest"):
        reading(spark, spark_cluster, subscribe="t", startingOffsets="latest").collect()


def test_columns_and_headers_make_the_schema(spark: Any, spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create()
    topics.fill(name, [b"v"], headers=[("h", b"x")])
    topics.fill(name, [b"w"])
    frame = reading(spark, spark_cluster, subscribe=name, includeHeaders="true")
    assert frame.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    assert [row.headers for row in frame.orderBy("offset").collect()] == [[("h", b"x")], None]
    narrow = reading(spark, spark_cluster, subscribe=name, columns="value,offset")
    assert narrow.schema.simpleString() == "struct<value:binary,offset:bigint>"
    assert [tuple(row) for row in narrow.collect()] == [(b"v", 0), (b"w", 1)]


def test_an_empty_topic_is_an_empty_table(spark: Any, spark_cluster: Cluster, topics: Topics) -> None:
    assert reading(spark, spark_cluster, subscribe=topics.create()).count() == 0


def test_filters_are_pushed_into_the_fetch(spark: Any, spark_cluster: Cluster, topics: Topics) -> None:
    name = topics.create(3)
    for partition in range(3):
        topics.fill(
            name,
            [b"%d" % n for n in range(100)],
            partition=partition,
            timestamps=[1_600_000_000_000 + 1000 * n for n in range(100)],
        )
    every = reading(spark, spark_cluster, subscribe=name)
    pushed = reading(spark, spark_cluster, subscribe=name, pushdown="true")
    some = (
        (F.col("partition").isin(0, 2))
        & (F.col("offset") >= 20)
        & (F.col("offset") < 40)
        & (F.col("timestamp") >= F.lit("2020-09-13 12:27:05").cast("timestamp"))
    )
    columns = ("partition", "offset")
    expected = sorted(map(tuple, every.where(some).select(*columns).collect()))
    assert len(expected) == 2 * 15
    frame = pushed.where(some)
    assert sorted(map(tuple, frame.select(*columns).collect())) == expected
    assert frame.rdd.getNumPartitions() == 2
    # OR is not pushed and still holds.
    either = (F.col("offset") == 3) | (F.col("partition") == 1)
    fresh = reading(spark, spark_cluster, subscribe=name, pushdown="true")
    assert fresh.where(either).count() == every.where(either).count() == 102
    fresh = reading(spark, spark_cluster, subscribe=name, pushdown="true")
    assert fresh.where((F.col("topic") == "other") & (F.col("offset") == 3)).count() == 0


def test_rows_are_written_with_keys_headers_and_partitions(
    spark: Any, spark_cluster: Cluster, topics: Topics
) -> None:
    name = topics.create(4)
    frame = spark.sql(
        "select cast(id as string) key, concat('v', id) value, "
        "array(named_struct('key', 'h', 'value', cast(cast(id as string) as binary))) headers from range(100)"
    )
    written = frame.write.format("epoka").mode("append").option("topic", name)
    written.option("kafka.bootstrap.servers", spark_cluster.bootstrap).save()
    found = rows(spark_cluster, subscribe=name, includeHeaders="true")
    assert sorted(row["value"] for row in found) == sorted(b"v%d" % n for n in range(100))
    assert all(row["value"] == b"v" + row["key"] for row in found)
    assert all(len(row["headers"]) == 1 for row in found)

    keys = [b"%d" % number for number in range(100)]
    topics.fill(name, [b""] * 100, partition=-1, keys=keys, partitioner="murmur2_random")
    places: dict[bytes, set[int]] = {}
    for row in rows(spark_cluster, subscribe=name):
        places.setdefault(row["key"], set()).add(row["partition"])
    assert all(len(partitions) == 1 for partitions in places.values())


def test_a_row_names_its_topic_and_partition(spark: Any, spark_cluster: Cluster, topics: Topics) -> None:
    one, two = topics.create(2), topics.create(2)
    frame = spark.createDataFrame(
        [(one, 0, "a"), (two, 1, "b"), (one, 1, "c")], "topic string, partition int, value string"
    )
    writer = frame.coalesce(1).write.format("epoka").mode("append")
    writer.option("kafka.bootstrap.servers", spark_cluster.bootstrap).save()
    found = rows(spark_cluster, subscribe=f"{one},{two}")
    assert sorted((row["topic"], row["partition"], row["value"]) for row in found) == sorted(
        [(one, 0, b"a"), (one, 1, b"c"), (two, 1, b"b")]
    )


@pytest.mark.parametrize(
    ("query", "options", "complaint"),
    [
        ("select 1 as id", {"topic": "t"}, "no column value"),
        ("select 'x' as value", {}, "neither the option topic nor a column topic"),
        ("select 1 as value", {"topic": "t"}, "the column value is string or binary, not int"),
        ("select 'x' as value, 1.5 as key", {"topic": "t"}, "the column key is"),
        ("select 'x' as value, 'p' as partition", {"topic": "t"}, "the column partition is int"),
        ("select 'x' as value, 1 as topic", {}, "the column topic is string"),
        ("select 'x' as value", {"topic": "no-such-topic"}, "no-such-topic, which does not exist"),
        ("select 'x' as value, cast(null as string) as topic", {}, "the column topic is null"),
    ],
)
def test_rows_that_cannot_be_written_are_refused(
    spark: Any, spark_cluster: Cluster, query: str, options: dict[str, str], complaint: str
) -> None:
    writer = spark.sql(query).write.format("epoka").mode("append").options(**options)
    with pytest.raises(Exception, match=complaint):
        writer.option("kafka.bootstrap.servers", spark_cluster.bootstrap).save()


def test_a_topic_is_never_written_over(spark: Any, spark_cluster: Cluster, topics: Topics) -> None:
    writer = spark.sql("select 'x' as value").write.format("epoka").mode("overwrite")
    writer = writer.option("topic", topics.create())
    with pytest.raises(Exception, match="use append"):
        writer.option("kafka.bootstrap.servers", spark_cluster.bootstrap).option(
            "topic", topics.create()
        ).save()

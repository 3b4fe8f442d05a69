"""Streams through Spark itself, broken off and restarted at every step: no row lost, none twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from epoka.cluster.cluster import Cluster
from tests.client.topics import Topics
from tests.spark.reading import rows
from tests.waiting import wait_until


def streaming(spark: Any, cluster: Cluster, **options: str) -> Any:
    reader = spark.readStream.format("epoka").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.options(**options).load()


def into_table(frame: Any, folder: Path) -> Any:
    """Every batch in a folder of its own, written over when it comes again: rows are there exactly once."""

    def write(batch: Any, number: int) -> None:
        batch.selectExpr("partition", "offset", "cast(value as string) value").write.mode(
            "overwrite"
        ).parquet(str(folder / "table" / f"batch_id={number}"))

    return frame.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))


def run(query: Any) -> None:
    started = query.trigger(availableNow=True).start()
    try:
        assert started.awaitTermination(100), "the query did not end"
    finally:
        started.stop()


def table(spark: Any, folder: Path) -> list[str]:
    found = spark.read.parquet(*map(str, sorted((folder / "table").glob("batch_id=*"))))
    return sorted(row.value for row in found.collect())


def test_available_now_reads_what_is_there_and_goes_on_later(
    spark: Any, spark_cluster: Cluster, topics: Topics, tmp_path: Path
) -> None:
    name = topics.create(2)
    topics.fill(name, [f"a{n:02d}" for n in range(30)])
    topics.fill(name, [f"b{n:02d}" for n in range(10)], partition=1)
    frame = streaming(
        spark, spark_cluster, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="16"
    )
    run(into_table(frame, tmp_path))
    assert table(spark, tmp_path) == [f"a{n:02d}" for n in range(30)] + [f"b{n:02d}" for n in range(10)]
    assert len([*(tmp_path / "table").iterdir()]) >= 3, "the limit makes several batches"
    topics.fill(name, ["c"])
    run(into_table(frame, tmp_path))
    assert table(spark, tmp_path)[-1] == "c"
    assert len(table(spark, tmp_path)) == 41


def test_a_first_batch_that_was_planned_and_not_finished_is_not_lost(
    spark: Any, spark_cluster: Cluster, topics: Topics, tmp_path: Path
) -> None:
    name = topics.create()
    topics.fill(name, ["before"] * 5)
    attempts: list[int] = []

    def fail(batch: Any, number: int) -> None:
        attempts.append(batch.count())
        if attempts[-1]:
            raise RuntimeError("broken off on purpose")

    frame = streaming(spark, spark_cluster, subscribe=name)
    checkpoint = str(tmp_path / "checkpoint")
    query = frame.writeStream.foreachBatch(fail).option("checkpointLocation", checkpoint).start()
    wait_until(lambda: attempts or query.exception(), "the first batch")
    topics.fill(name, [f"planned{n}" for n in range(5)])
    wait_until(lambda: query.exception() is not None, "the batch to fail")
    topics.fill(name, [f"meanwhile{n}" for n in range(5)])
    run(into_table(frame, tmp_path))
    assert table(spark, tmp_path) == [f"meanwhile{n}" for n in range(5)] + [f"planned{n}" for n in range(5)]


@pytest.mark.parametrize("step", ["in the task", "in the table", "before the commit"])
def test_a_query_broken_off_anywhere_loses_and_doubles_nothing(
    spark: Any, spark_cluster: Cluster, topics: Topics, tmp_path: Path, step: str
) -> None:
    name = topics.create(2)
    topics.fill(name, [f"a{n}" for n in range(20)])
    topics.fill(name, [f"b{n}" for n in range(20)], partition=1)
    frame = streaming(
        spark, spark_cluster, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="15"
    )
    flag = tmp_path / "broken"

    def write(batch: Any, number: int) -> None:
        broken = number == 1 and not flag.exists()
        if broken and step == "in the task":
            flag.touch()
            batch.selectExpr("raise_error('on purpose')").collect()
        target = str(tmp_path / "table" / f"batch_id={number}")
        batch.selectExpr("partition", "offset", "cast(value as string) value").write.mode(
            "overwrite"
        ).parquet(target)
        if broken and step == "in the table":
            flag.touch()
            raise RuntimeError("on purpose")

    checkpoint = tmp_path / "checkpoint"
    query = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    for _ in range(2):
        started = query.trigger(availableNow=True).start()
        wait_until(lambda query=started: not query.isActive, "the query to end", within_s=100)
        if step == "before the commit" and not flag.exists():
            # As if the driver had died between the last batch and its entry in the commit log.
            flag.touch()
            last = max(int(each.name) for each in (checkpoint / "commits").iterdir() if each.name.isdigit())
            for each in (checkpoint / "commits").glob(f"*{last}*"):
                each.unlink()
        topics.fill(name, ["later"])
    expected = [f"{letter}{n}" for letter in "ab" for n in range(20)] + ["later"]
    assert table(spark, tmp_path) == sorted(expected)


def test_offsets_are_those_of_the_connector_with_ids_and_epochs(
    spark: Any, spark_cluster: Cluster, topics: Topics, tmp_path: Path
) -> None:
    name = topics.create()
    topics.fill(name, ["x"] * 3)
    frame = streaming(spark, spark_cluster, subscribe=name, startingOffsets="earliest")
    started = into_table(frame, tmp_path).trigger(availableNow=True).start()
    assert started.awaitTermination(100)
    source = started.lastProgress["sources"][0]
    end = source["endOffset"] if isinstance(source["endOffset"], dict) else json.loads(source["endOffset"])
    assert end[name] == {"0": 3}
    assert set(end["@ids"]) == {name}
    assert end["@epochs"][name]["0"] >= 0


@pytest.mark.parametrize(("idempotent", "times"), [("true", 1), ("false", 2)])
def test_a_stream_is_written_once_though_its_batch_comes_twice(
    spark: Any, spark_cluster: Cluster, topics: Topics, tmp_path: Path, idempotent: str, times: int
) -> None:
    source, target = topics.create(2), topics.create(3)
    topics.fill(source, [f"a{n}" for n in range(50)], keys=[b"%d" % n for n in range(50)])
    topics.fill(source, [f"b{n}" for n in range(50)], partition=1)
    frame = streaming(spark, spark_cluster, subscribe=source, startingOffsets="earliest").select(
        "key", "value"
    )
    checkpoint = tmp_path / "checkpoint"
    query = (
        frame.writeStream.format("epoka")
        .option("kafka.bootstrap.servers", spark_cluster.bootstrap)
        .option("topic", target)
        .option("idempotent", idempotent)
        .option("checkpointLocation", str(checkpoint))
    )
    run(query)
    expected = sorted([b"a%d" % n for n in range(50)] + [b"b%d" % n for n in range(50)])
    assert sorted(row["value"] for row in rows(spark_cluster, subscribe=target)) == expected
    for each in (checkpoint / "commits").glob("*0*"):
        each.unlink()
    run(query)
    found = sorted(row["value"] for row in rows(spark_cluster, subscribe=target))
    assert found == sorted(expected * times)

"""The data pipeline beside Spark itself: topics beside Parquet, the sink beside Spark's writer, the audit
beside SQL.

Every round measures both sides one after the other in one session; the first rounds warm Java up and are
thrown away. `EPOKA_BENCH_ROWS` makes it shorter or longer.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.figures import Figure
from epoka.client.batching import Rows, batch_of
from epoka.client.cluster import ClusterClient
from epoka.client.columns import BytesColumn
from epoka.client.producing import BatchWriter, Outgoing
from epoka.client.settings import settings_from
from epoka.cluster.cluster import Cluster
from epoka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

ROWS = int(os.environ.get("EPOKA_BENCH_ROWS", 10_000_000))
AUDIT_EVENTS = 2 * ROWS
PARTITIONS = 4
WARM, ROUNDS = 2, 5


def run() -> list[Figure]:
    from epoka.spark.session import build_session

    spark = build_session("local", name="benchmark", conf={"spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    figures: list[Figure] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            with Cluster(brokers=2, processes=True, data=Path(folder) / "cluster") as cluster:
                figures += _topics(spark, cluster, Path(folder))
            figures += _audit(spark, Path(folder))
    finally:
        spark.stop()
    return figures


def _topics(spark: Any, cluster: Cluster, folder: Path) -> list[Figure]:
    small, large = _filled(cluster, "small", ROWS, 100), _filled(cluster, "large", ROWS // 10, 1000)

    def reading(topic: str, **options: str) -> Any:
        reader = spark.read.format("epoka").option("kafka.bootstrap.servers", cluster.bootstrap)
        return reader.option("subscribe", topic).options(**options).load()

    figures = []
    for topic, what, rows, aim in ((small, "100 B", ROWS, 0.40), (large, "1 KB", ROWS // 10, 0.55)):
        path = str(folder / f"{topic}.parquet")
        reading(topic).write.parquet(path)
        found = _rounds(
            lambda topic=topic: _noop(reading(topic)),  # type: ignore[misc]
            lambda path=path: _noop(spark.read.parquet(path)),  # type: ignore[misc]
        )
        figures.append(_faster(f"read of {rows:,} x {what}", "M rows/s", rows / 1e6, "Parquet", *found, aim))
    found = _rounds(lambda: _noop(reading(small, columns="value")), lambda: _noop(reading(small)))
    figures.append(_faster("read, columns=value", "M rows/s", ROWS / 1e6, "all columns", *found, 1.8))

    pairs = spark.read.parquet(str(folder / "small.parquet")).select("key", "value").cache()
    pairs.count()
    _create(cluster, "sink")
    writer = pairs.write.format("epoka").option("kafka.bootstrap.servers", cluster.bootstrap)
    found = _rounds(
        lambda: writer.option("topic", "sink").mode("append").save(),
        lambda: pairs.write.mode("overwrite").parquet(str(folder / "pairs.parquet")),
        rounds=3,
    )
    pairs.unpersist()
    figures.append(_faster("write of key and value", "M rows/s", ROWS / 1e6, "Parquet", *found, 0.8))
    return figures


def _audit(spark: Any, folder: Path) -> list[Figure]:
    """The check of leader epochs over a history, over one sorted and bucketed table, three ways."""
    from epoka.spark.audit.layout import count_breaks, write_sorted

    events = spark.range(AUDIT_EVENTS).selectExpr(
        "'r' as run",
        "concat('t', id % 2000) as topic",
        "int(id % 3) as partition",
        "id as time_ms",
        "id as event_id",
        "int(id % 5) as leader",
        "int(id / 2000) as leader_epoch",
    )
    plain, layout = folder / "plain", folder / "sorted"
    events.write.parquet(str(plain))
    write_sorted(events, layout, files=8)
    query = (
        "select count(*), sum(leader_epoch) from (select leader_epoch, lag(leader_epoch) over"
        " (partition by run, topic, partition order by time_ms, event_id) as before from {})"
        " where leader_epoch < before"
    )
    spark.read.parquet(str(plain)).createOrReplaceTempView("plain")
    spark.read.parquet(str(layout)).createOrReplaceTempView("sorted")
    expected = tuple(spark.sql(query.format("plain")).collect()[0])
    assert count_breaks(spark, layout) == (expected[0], expected[1] or 0)
    fast = lambda: count_breaks(spark, layout)  # noqa: E731
    figures = []
    slow = _rounds(fast, lambda: spark.sql(query.format("plain")).collect(), rounds=3)
    figures.append(
        _faster("audit, one invariant", "M events/s", AUDIT_EVENTS / 1e6, "SQL, plain files", *slow, 5.0)
    )
    scan = _rounds(
        fast, lambda: spark.sql("select sum(leader_epoch), sum(time_ms) from sorted").collect(), rounds=3
    )
    figures.append(_faster("audit, one invariant", "M events/s", AUDIT_EVENTS / 1e6, "bare scan", *scan, 0.6))
    return figures


def _noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _rounds(
    ours: Callable[[], object], peer: Callable[[], object], *, rounds: int = ROUNDS
) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(WARM + rounds):
        for side, work in zip(times, (ours, peer)):
            began = time.perf_counter()
            work()
            if number >= WARM:
                side.append(time.perf_counter() - began)
    return times


def _faster(
    name: str, unit: str, size: float, peer_name: str, ours: list[float], peer: list[float], aim: float
) -> Figure:
    """How many times the peer's rate ours is."""
    ratios = [theirs / mine for mine, theirs in zip(ours, peer, strict=True)]
    return Figure(
        name,
        unit,
        size / median(ours),
        peer_name,
        size / median(peer),
        median(ratios),
        aim,
        at_most=False,
        spread=(min(ratios), max(ratios)),
    )


def _create(cluster: Cluster, topic: str) -> None:
    with ClusterClient(settings_from({"bootstrap.servers": cluster.bootstrap})) as client:
        wanted = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1)
        answer = client.anyone().ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=30_000))
        assert not answer.topics[0].error_code, answer.topics[0].error_message


def _filled(cluster: Cluster, topic: str, rows: int, size: int) -> str:
    _create(cluster, topic)
    chunk = 10_000 if size < 500 else 1_000
    content = np.random.default_rng(1).integers(32, 127, chunk * size, dtype=np.uint8)
    values = BytesColumn(np.arange(0, chunk * size + 1, size, dtype=np.int32), content)
    keys = BytesColumn(np.arange(0, chunk * 8 + 1, 8, dtype=np.int32), content[: chunk * 8].copy())
    everything = np.arange(chunk)
    with ClusterClient(settings_from({"bootstrap.servers": cluster.bootstrap})) as client:
        writer = BatchWriter(client)
        part = max(1, chunk // 10)
        for number in range(rows // part):
            chosen = everything[part * (number % 10) : part * (number % 10) + part]
            batch = batch_of(Rows(values, keys), chosen, timestamp_ms=1_700_000_000_000 + number)
            writer.add(Outgoing(topic, number % PARTITIONS, batch, len(chosen)))
        writer.flush()
    return topic

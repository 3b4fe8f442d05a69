"""Makes the audit's tables: at once from files, or in steps from a live topic.

A folder holds `bronze`, `silver` and `gold/<table>` as Parquet. A stream adds one part of bronze a batch,
under the batch's number and written over when the batch comes again; everything else is made of all of
bronze. So the tables are the same for any split of the input, and a crash anywhere is mended by the next
step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from epoka.model.ledger import LedgerEvent
from epoka.spark.audit import invariants, ledger, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEDGER_FILES = ("ledger.jsonl", "ledger.jsonl.1")


class Summary(msgspec.Struct, frozen=True):
    """What an audit found, in numbers."""

    folder: str
    events: int
    runs: int
    generations: int
    partitions: int
    refused: dict[str, int]
    """Refusals by rule."""
    failover_ms: int | None
    """The longest time from a fault, or a last sign of life, to the last new leader."""
    leaderless_ms: int
    under_replicated_ms: int
    unknown: dict[str, int]
    violations: dict[str, int]

    @property
    def sound(self) -> bool:
        return not self.violations


def find_ledgers(paths: list[Path]) -> dict[str, list[Path]]:
    """Ledger files by run: each file given is a run of its own, each folder one run of all ledgers inside."""
    runs: dict[str, list[Path]] = {}
    for path in paths:
        if path.is_dir():
            found = sorted(each for name in LEDGER_FILES for each in path.rglob(name))
            found = found or sorted(path.glob("*.jsonl"))
        else:
            found = [path] if path.is_file() else []
        if not found:
            raise FileNotFoundError(f"there is no ledger in {path}")
        runs.setdefault(path.resolve().name, []).extend(found)
    return runs


def audit_files(spark: SparkSession, paths: list[Path], target: Path) -> Summary:
    """The tables of ledgers in files."""
    bronze = ledger.bronze_from_files(spark, {**find_ledgers(paths)})
    bronze.write.mode("overwrite").parquet(str(target / "bronze" / "batch_id=0"))
    return refresh(spark, target)


def audit_topic(spark: SparkSession, options: dict[str, str], target: Path, run: str = "live") -> Summary:
    """The tables of a cluster's ledger as far as its topic goes now; another call goes on from there."""
    given = {"subscribe": ledger.TOPIC, "startingOffsets": "earliest", **options}
    frame = spark.readStream.format("epoka").options(**given).load()
    query = (
        ledger.bronze_from_topic(frame, run)
        .writeStream.foreachBatch(lambda batch, number: add_bronze(batch, target, number))
        .option("checkpointLocation", str(target / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return refresh(spark, target)


def follow_topic(
    spark: SparkSession, options: dict[str, str], target: Path, run: str, *, trigger: str
) -> Any:
    """A stream that adds the ledger's topic to bronze as it grows, until it is stopped."""
    given = {"subscribe": ledger.TOPIC, "startingOffsets": "earliest", **options}
    frame = spark.readStream.format("epoka").options(**given).load()
    return (
        ledger.bronze_from_topic(frame, run)
        .writeStream.foreachBatch(lambda batch, number: add_bronze(batch, target, number))
        .option("checkpointLocation", str(target / "checkpoint"))
        .trigger(processingTime=trigger)
        .start()
    )


def add_events(spark: SparkSession, events: Sequence[LedgerEvent], target: Path, run: str) -> None:
    """Add events that are in no topic, such as what was done to the cluster on purpose."""
    lines = [(run, "events", at, msgspec.json.encode(event).decode()) for at, event in enumerate(events)]
    added = spark.createDataFrame(lines, ledger.BRONZE)
    added.coalesce(1).write.mode("overwrite").parquet(str(target / "bronze" / "batch_id=added"))


def has_event(spark: SparkSession, target: Path, node: int, event_id: int) -> bool:
    """Whether bronze has an event."""
    wanted = (
        f"get_json_object(value, '$.node') = {node} and get_json_object(value, '$.event_id') = {event_id}"
    )
    return not bronze(spark, target).where(wanted).isEmpty()


def bronze(spark: SparkSession, target: Path) -> DataFrame:
    parts = sorted(str(each) for each in (target / "bronze").glob("batch_id=*"))
    return (
        spark.read.schema(ledger.BRONZE).parquet(*parts)
        if parts
        else spark.createDataFrame([], ledger.BRONZE)
    )


def add_bronze(batch: DataFrame, target: Path, number: int) -> None:
    batch.write.mode("overwrite").parquet(str(target / "bronze" / f"batch_id={number}"))


def refresh(
    spark: SparkSession, target: Path, *, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Summary:
    """Silver and gold of all the bronze that there is; `progress` is told tables that are done and all."""
    order = ["run", "topic", "partition", *ledger.ORDER]
    (
        ledger.silver_from_bronze(bronze(spark, target))
        .repartition("run", "topic", "partition")
        .sortWithinPartitions(*order)
        .write.mode("overwrite")
        .parquet(str(target / "silver"))
    )
    silver = spark.read.parquet(str(target / "silver"))
    made = tables.gold(silver) | {"violations": invariants.violations(spark, silver)}
    for done, (name, frame) in enumerate(made.items(), 1):
        progress(done, len(made) + 1)
        frame.coalesce(1).write.mode("overwrite").parquet(str(target / "gold" / name))
    return summary(spark, target)


def table(spark: SparkSession, target: Path, name: str) -> DataFrame:
    return spark.read.parquet(str(target / "gold" / name))


def summary(spark: SparkSession, target: Path) -> Summary:
    silver = spark.read.parquet(str(target / "silver"))
    (counts,) = silver.selectExpr("count(*) as events", "count(distinct run) as runs").collect()
    refused = table(spark, target, "decisions").where("verdict = 'refused'").groupBy("rule").sum("times")
    spans = table(spark, target, "availability").selectExpr(
        "count(*) as partitions",
        "coalesce(sum(leaderless_ms), 0) as leaderless",
        "coalesce(sum(under_replicated_ms), 0) as under",
    )
    (span,) = spans.collect()
    (slowest,) = table(spark, target, "latencies").selectExpr("max(failover_ms) as slowest").collect()
    return Summary(
        folder=str(target),
        events=counts.events,
        runs=counts.runs,
        generations=table(spark, target, "generations").count(),
        partitions=span.partitions,
        refused={row[0]: row[1] for row in refused.collect()},
        failover_ms=slowest.slowest,
        leaderless_ms=span.leaderless,
        under_replicated_ms=span.under,
        unknown=_counts(table(spark, target, "unknown").groupBy("kind").sum("times")),
        violations=_counts(table(spark, target, "violations").groupBy("invariant").count()),
    )


def _counts(frame: Any) -> dict[str, int]:
    return {row[0]: row[1] for row in sorted(frame.collect())}

"""Makes the audit's tables: at once from files, or in steps from a live topic.

A folder holds `bronze`, `silver` and `gold/<table>`. A step adds one batch of the ledger: to bronze as it is,
to silver what silver does not have yet, and to the tallies that are carried from batch to batch. `finish`
makes gold: of the tallies what can be told by sums, minima and maxima (generations, decisions, unknown), and
of all of silver what an event of a later batch may still change (leadership, ISR, availability, latencies,
violations). So the tables are the same for any split of the input, and a batch that comes again after a crash
changes nothing.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.compute as pc

from epoka.model.ledger import LedgerEvent
from epoka.spark.audit import invariants, ledger, tables
from epoka.spark.storage import read, read_arrow
from epoka.spark.storage import storage as tables_storage

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
    """Ledger files by run: each file given is a run of its own, each folder one run of all ledgers inside.

    A run is called by the last element of its path, or by the whole path where another has the same: ids of
    events are only unique within a run, so two runs under one name would lose what they seem to share.
    """
    runs: dict[str, list[Path]] = {}
    given = dict.fromkeys(path.resolve() for path in paths)
    namesakes = Counter(path.name for path in given)
    for path in given:
        if path.is_dir():
            found = sorted(each for name in LEDGER_FILES for each in path.rglob(name))
            found = found or sorted(path.glob("*.jsonl"))
        else:
            found = [path] if path.is_file() else []
        if not found:
            raise FileNotFoundError(f"there is no ledger in {path}")
        runs[path.name if namesakes[path.name] == 1 else str(path)] = found
    return runs


def audit_files(spark: SparkSession, paths: list[Path], target: Path, *, storage: str = "parquet") -> Summary:
    """The tables of ledgers in files."""
    bronze = ledger.bronze_from_files(spark, {**find_ledgers(paths)})
    for name in ("bronze", "silver", "added", "tallies", "gold", "checkpoint"):
        shutil.rmtree(target / name, ignore_errors=True)
    step(bronze, target, 0, storage=storage)
    return finish(spark, target, storage=storage)


def audit_topic(
    spark: SparkSession,
    options: Mapping[str, str],
    target: Path,
    run: str = "live",
    *,
    storage: str = "parquet",
) -> Summary:
    """The tables of a cluster's ledger as far as its topic goes now; another call goes on from there."""
    query = _stream(spark, options, target, run, storage).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return finish(spark, target, storage=storage)


def follow_topic(
    spark: SparkSession,
    options: Mapping[str, str],
    target: Path,
    run: str = "live",
    *,
    trigger: str = "1 second",
    storage: str = "parquet",
) -> Any:
    """A stream that adds the ledger's topic as it grows, until it is stopped; `finish` makes gold of it."""
    return _stream(spark, options, target, run, storage).trigger(processingTime=trigger).start()


def _stream(spark: SparkSession, options: Mapping[str, str], target: Path, run: str, storage: str) -> Any:
    given = {"subscribe": ledger.TOPIC, "startingOffsets": "earliest", **options}
    frame = spark.readStream.format("epoka").options(**given).load()
    return (
        ledger.bronze_from_topic(frame, run)
        .writeStream.foreachBatch(lambda batch, number: step(batch, target, number, storage=storage))
        .option("checkpointLocation", str(target / "checkpoint"))
    )


def step(batch: DataFrame, target: Path, number: int, *, storage: str = "parquet") -> None:
    """Add one batch of bronze; the same batch again changes nothing.

    Silver comes last: where it has the batch, everything else has it.
    """
    keep = tables_storage(storage)
    spark = batch.sparkSession
    if keep.has(target / "silver", number):
        return
    # Read once and used five times.
    batch = batch.persist()
    keep.append(batch, target / "bronze", number)
    typed = ledger.silver_from_bronze(batch)
    known = read(spark, target / "silver", ledger.SILVER, before=number).select(*ledger.IDENTITY)
    new = typed.join(known.where("event_id >= 0"), [*ledger.IDENTITY], "left_anti").select(*typed.columns)
    order = ["run", "topic", "partition", *ledger.ORDER]
    fresh = new.repartition("run", "topic", "partition").sortWithinPartitions(*order).persist()
    try:
        for name, (tally, _) in tables.CARRIED.items():
            _carry(target / "tallies" / name, tally, tally.of(fresh), number)
        keep.append(fresh, target / "silver", number)
    finally:
        fresh.unpersist()
        batch.unpersist()


def _carry(folder: Path, tally: tables.Tally, added: DataFrame, number: int) -> None:
    """The tally of everything up to a batch, from the one before it; older ones are needed no more."""
    before = [each for each in _numbers(folder) if each < number]
    parts = [added]
    if before:
        parts.append(added.sparkSession.read.parquet(str(folder / f"batch_id={before[-1]}")))
    tally.merged(*parts).coalesce(1).write.mode("overwrite").parquet(str(folder / f"batch_id={number}"))
    for each in before[:-1]:
        shutil.rmtree(folder / f"batch_id={each}")


def _numbers(folder: Path) -> list[int]:
    """The batches whose tally is whole."""
    return sorted(
        int(each.parent.name.removeprefix("batch_id=")) for each in folder.glob("batch_id=*/_SUCCESS")
    )


def add_events(spark: SparkSession, events: Sequence[LedgerEvent], target: Path, run: str) -> None:
    """Add events that are in no topic, such as what was done to the cluster on purpose."""
    lines = [(run, "events", at, msgspec.json.encode(event).decode()) for at, event in enumerate(events)]
    added = ledger.silver_from_bronze(spark.createDataFrame(lines, ledger.BRONZE))
    added.coalesce(1).write.mode("overwrite").parquet(str(target / "added"))


def silver(spark: SparkSession, target: Path) -> DataFrame:
    """Every event."""
    told = read(spark, target / "silver", ledger.SILVER)
    return told.unionByName(read(spark, target / "added", ledger.SILVER))


def has_event(spark: SparkSession, target: Path, node: int, event_id: int) -> bool:
    return not silver(spark, target).where(f"node = {node} and event_id = {event_id}").isEmpty()


def finish(
    spark: SparkSession,
    target: Path,
    *,
    storage: str = "parquet",
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Summary:
    """Gold of all the steps that were made; `progress` is told tables that are done and all."""
    keep = tables_storage(storage)
    events = silver(spark, target)
    added = read(spark, target / "added", ledger.SILVER)
    made = {}
    for name, (tally, told) in tables.CARRIED.items():
        folder = target / "tallies" / name
        parts = [spark.read.parquet(str(folder / f"batch_id={each}")) for each in _numbers(folder)[-1:]]
        made[name] = told(tally.merged(*parts, tally.of(added)))
    made |= tables.recomputed(events) | {"violations": invariants.violations(spark, events)}
    for done, (name, frame) in enumerate(made.items(), 1):
        progress(done, len(made) + 1)
        keep.replace(frame.coalesce(1), target / "gold" / name)
    return summary(spark, target)


def table(spark: SparkSession, target: Path, name: str) -> DataFrame:
    return read(spark, target / "gold" / name)


def summary(spark: SparkSession, target: Path) -> Summary:
    (counts,) = (
        silver(spark, target).selectExpr("count(*) as events", "count(distinct run) as runs").collect()
    )

    def gold(name: str, *columns: str) -> Any:
        return read_arrow(target / "gold" / name, list(columns))

    decisions = gold("decisions", "rule", "verdict", "times")
    refused = decisions.filter(pc.equal(decisions.column("verdict"), "refused"))
    spans = gold("availability", "leaderless_ms", "under_replicated_ms")
    return Summary(
        folder=str(target),
        events=counts.events,
        runs=counts.runs,
        generations=gold("generations", "generation").num_rows,
        partitions=spans.num_rows,
        refused=_sums(refused, "rule"),
        failover_ms=pc.max(gold("latencies", "failover_ms").column(0)).as_py(),
        leaderless_ms=pc.sum(spans.column("leaderless_ms")).as_py() or 0,
        under_replicated_ms=pc.sum(spans.column("under_replicated_ms")).as_py() or 0,
        unknown=_sums(gold("unknown", "kind", "times"), "kind"),
        violations=dict(sorted(Counter(gold("violations", "invariant").column(0).to_pylist()).items())),
    )


def _sums(table: Any, key: str) -> dict[str, int]:
    """How many times in all, by key."""
    summed = table.group_by(key).aggregate([("times", "sum")]).to_pylist()
    return {row[key]: row["times_sum"] for row in sorted(summed, key=lambda row: row[key])}

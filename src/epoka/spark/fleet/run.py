"""The jobs of a fleet, as functions: a batch of seeds, a campaign into tables, rules taken away, shrinking.

    summary = simulate(spark, {"seeds": "0:10000"})
    summary = campaign(spark, {"seeds": "0:1000000"}, Path("campaign"))      # again: goes on where it ended

A campaign's folder holds `results` (one row a seed, one part a batch, written over when the batch comes
again), and made of it `metrics` and `failures` as Parquet, `ledgers/seed-N.jsonl` and `schedules/seed-N.json`
of failing seeds. Nothing depends on how seeds were cut into tasks and batches.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from epoka.sim import steps
from epoka.spark.fleet.options import EACH, FleetOptions, fleet_options
from epoka.spark.fleet.seeds import CRASHED, HUNG, OK, VIOLATION, SeedRow
from epoka.spark.fleet.source import NAME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TASKS_PER_CORE: Final = 4
LARGEST_TASK: Final = 500
MADE_SMALL: Final = 20
"""So many failing seeds at most are shrunk, the lowest first: most fail for the same few reasons."""
LEDGERS: Final = 1_000
"""So many ledgers at most become files; all of them are in the table."""

Progress = Callable[[int, int], None]
"""Told how many seeds are done, and of how many."""


class Failing(msgspec.Struct, frozen=True):
    """A seed that did not end well."""

    seed: int
    mode: str
    profile: str
    without: str
    outcome: str
    what: str
    story: str = ""
    event: int = -1
    events: int = 0
    trace: str = ""


class Fleet(msgspec.Struct, frozen=True):
    """What many seeds came to."""

    seeds: int
    outcomes: dict[str, int]
    events: int
    simulated_ms: int
    acknowledged: int
    exceptions: int
    downgraded: int
    faults: dict[str, int]
    digest: str
    """Of all rows; equal digests mean equal rows, whatever Spark did with them."""
    busy_s: float
    """The time of all seeds one after the other."""
    failing: tuple[Failing, ...] = ()
    folder: str = ""

    @property
    def good(self) -> bool:
        return not self.failing


class Noticed(msgspec.Struct, frozen=True):
    """One rule taken away, and what many seeds made of it."""

    rule: str
    mode: str
    profile: str
    seeds: int
    noticed: int
    """Seeds in which something was violated."""
    first: int | None
    """How many seeds it took, counted from 1."""
    checkers: tuple[str, ...]
    """Who objected, the most frequent first."""
    crashed: int
    hung: int


# Tables.


def simulations(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """One row a seed, not run yet."""
    return spark.read.format(NAME).options(**options).load()


def metrics(results: DataFrame) -> DataFrame:
    """One row for each thing that seeds were asked: outcomes, sums, and the digest of its rows."""
    from pyspark.sql import functions as F

    middle = F.percentile_approx("events", 0.5).alias("events_p50")
    highest = F.max("events").alias("events_max")
    return results.groupBy("scenario", "mode", "profile", "without").agg(*_sums(), middle, highest)


def _sums() -> list[Column]:
    from pyspark.sql import functions as F

    ends = [F.count_if(F.col("outcome") == each).alias(each) for each in (OK, VIOLATION, CRASHED, HUNG)]
    numbers = ("events", "simulated_ms", "acknowledged", "exceptions", "downgraded", "wall_ms")
    return [
        F.count("*").alias("seeds"),
        *ends,
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in numbers),
        F.bit_xor("digest").alias("digest_xor"),
        # Two equal rows would cancel each other in the first, and a sum of bigints may not overflow.
        F.sum(F.col("digest").cast("decimal(20,0)")).alias("digest_sum"),
    ]


def failures(results: DataFrame) -> DataFrame:
    """The seeds that did not end well, without their ledgers."""
    from pyspark.sql import functions as F

    return results.where(F.col("outcome") != OK).drop("ledger")


def noticed(results: DataFrame) -> DataFrame:
    """One row for each rule that was taken away: how many seeds noticed, and which was the first."""
    from pyspark.sql import functions as F

    violated = F.col("outcome") == VIOLATION
    return results.groupBy("without", "mode", "profile").agg(
        F.count("*").alias("seeds"),
        F.count_if(violated).alias("noticed"),
        (F.min(F.when(violated, F.col("seed"))) - F.min("seed") + 1).alias("first"),
        F.collect_list(F.when(violated, F.col("what"))).alias("checkers"),
        F.count_if(F.col("outcome") == CRASHED).alias("crashed"),
        F.count_if(F.col("outcome") == HUNG).alias("hung"),
    )


def digest_of(seeds: int, digest_xor: int, digest_sum: int) -> str:
    """The digest of many rows, from what can be added up in any order."""
    return f"{seeds}-{digest_xor & _64_BITS:016x}-{digest_sum & _64_BITS:016x}"


_64_BITS: Final = (1 << 64) - 1


# Jobs.


def simulate(spark: SparkSession, options: Mapping[str, str], *, progress: Progress | None = None) -> Fleet:
    """Run the seeds as one job and add up."""
    checked = fleet_options(options, streaming=False)
    asked = {**_sized(spark, options, _count(checked)), "totals": "true", "ledger": "false"}
    with _watched(spark, _count(checked), progress):
        parts = [row.asDict() for row in simulations(spark, asked).collect()]
    failing = [msgspec.json.decode(each, type=SeedRow) for part in parts for each in part["failing"]]
    return _fleet(parts, failing)


def campaign(
    spark: SparkSession,
    options: Mapping[str, str],
    target: Path,
    *,
    progress: Progress | None = None,
    shrinks: bool = False,
) -> Fleet:
    """Run the seeds that this folder has not seen yet into its tables, and add all of them up."""
    checked = fleet_options(options, streaming=True)
    span = checked.seeds[0]
    options = _sized(spark, options, checked.seeds_per_trigger * len(checked.asked))
    frame = spark.readStream.format(NAME).options(**options).load()

    def write(batch: Any, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(target / "results" / f"batch_id={number}"))

    query = (
        frame.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(target / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        while not query.awaitTermination(0.2):
            told = query.lastProgress
            if progress is not None and told and span.end is not None:
                progress(_seed(told["sources"][0]["endOffset"]) - span.first, span.end - span.first)
    finally:
        query.stop()
    return _tables(spark, options, target, shrinks=shrinks)


def _seed(offset: Any) -> int:
    found = msgspec.json.decode(offset) if isinstance(offset, str) else offset
    return int(found["seed"])


def _tables(spark: SparkSession, options: Mapping[str, str], target: Path, *, shrinks: bool) -> Fleet:
    results = spark.read.parquet(str(target / "results")).drop("batch_id")
    metrics(results).coalesce(1).write.mode("overwrite").parquet(str(target / "metrics"))
    failed = failures(results).coalesce(1).sortWithinPartitions("without", "seed")
    failed.write.mode("overwrite").parquet(str(target / "failures"))
    found = msgspec.structs.replace(summary(results), folder=str(target))
    several = options.get("without", "").strip().startswith(EACH)
    if not found.good:
        _write_ledgers(results, target / "ledgers", several=several)
    if shrinks and not several:
        for seed, schedule in shrink(spark, options, [each.seed for each in found.failing]).items():
            _write(target / "schedules" / f"seed-{seed}.json", schedule)
    return found


def _write_ledgers(results: DataFrame, folder: Path, *, several: bool) -> None:
    kept = results.where("ledger is not null").select("seed", "without", "ledger").orderBy("seed")
    for row in kept.limit(LEDGERS).toLocalIterator():
        name = f"seed-{row.seed}-without-{row.without}.jsonl" if several else f"seed-{row.seed}.jsonl"
        _write(folder / name, "".join(f"{line}\n" for line in row.ledger))


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def summary(results: DataFrame) -> Fleet:
    """What the rows come to. They are read twice if any has failed: keep them in a cache or in a file."""
    rows = [row.asDict() for row in _totals(results).collect()]
    parts = [row | {"faults": {}} for row in rows if row["kind"] is None]
    for row in rows:
        if row["kind"] is not None:
            parts[0]["faults"][row["kind"]] = row["times"]
    failing = failures(results).collect() if any(part["seeds"] > part[OK] for part in parts) else []
    return _fleet(parts, failing)


def _fleet(parts: Sequence[Mapping[str, Any]], failing: Sequence[Any]) -> Fleet:
    """The sum of sums."""

    def total(name: str) -> int:
        return int(sum(part[name] for part in parts))

    faults: Counter[str] = Counter()
    together = 0
    for part in parts:
        faults.update(part["faults"])
        together ^= part["digest_xor"]
    return Fleet(
        seeds=total("seeds"),
        outcomes={each: total(each) for each in (OK, VIOLATION, CRASHED, HUNG)},
        events=total("events"),
        simulated_ms=total("simulated_ms"),
        acknowledged=total("acknowledged"),
        exceptions=total("exceptions"),
        downgraded=total("downgraded"),
        faults=dict(sorted(faults.items())),
        digest=digest_of(total("seeds"), together, total("digest_sum")),
        busy_s=round(sum(part["wall_ms"] for part in parts) / 1000, 3),
        failing=tuple(_failing(row) for row in sorted(failing, key=lambda row: (row.without, row.seed))),
    )


def _totals(results: DataFrame) -> DataFrame:
    """Sums of seeds where `kind` is null, and of each kind of fault where it is not, in one pass."""
    from pyspark.sql import functions as F

    kinds = F.concat(F.array(F.lit(None).cast("string")), F.coalesce(F.map_keys("faults"), F.array()))
    counted = results.withColumn("kind", F.explode(kinds))
    times = F.sum(F.element_at("faults", F.col("kind"))).alias("times")
    return counted.groupBy("kind").agg(*_sums(), times)


def _failing(row: Any) -> Failing:
    return Failing(
        row.seed,
        row.mode,
        row.profile,
        row.without,
        row.outcome,
        row.what or "",
        row.story or "",
        -1 if row.event is None else row.event,
        row.events or 0,
        row.trace or "",
    )


def shrink(spark: SparkSession, options: Mapping[str, str], seeds: Sequence[int]) -> dict[int, str]:
    """Small schedules of failing seeds as JSON, by seed: one task a seed, on whatever cores there are."""
    wanted = sorted(set(seeds))[:MADE_SMALL]
    if not wanted:
        return {}
    asked = {**options, "seeds": ",".join(map(str, wanted)), "seedsPerTask": "1", "shrink": "true"}
    rows = simulations(spark, asked).where("schedule is not null").select("seed", "schedule").collect()
    return {row.seed: _pretty(row.schedule) for row in sorted(rows, key=lambda row: row.seed)}


def _pretty(schedule: str) -> str:
    return steps.encode(steps.decode(schedule.encode())).decode()


def rules_off(
    spark: SparkSession, options: Mapping[str, str], *, progress: Progress | None = None
) -> list[Noticed]:
    """Every rule taken away, one at a time, for all the seeds, as one job."""
    given = {"without": EACH, "ledger": "false", **options}
    checked = fleet_options(given, streaming=False)
    with _watched(spark, _count(checked), progress):
        rows = noticed(simulations(spark, _sized(spark, given, _count(checked)))).collect()
    return [
        Noticed(
            row.without,
            row.mode,
            row.profile,
            row.seeds,
            row.noticed,
            row.first,
            _most_frequent(row.checkers),
            row.crashed,
            row.hung,
        )
        for row in sorted(rows, key=lambda row: (row.without, row.profile))
    ]


def _most_frequent(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names), key=lambda name: (-names.count(name), name)))


def _count(options: FleetOptions) -> int:
    return len(options.asked) * sum((span.end or span.first) - span.first for span in options.seeds)


def _sized(spark: SparkSession, options: Mapping[str, str], seeds: int) -> Mapping[str, str]:
    """The options with tasks that suit the cores: some a core, so that a slow one is not waited for long, and
    none so large that losing it hurts."""
    if any(name.lower() == "seedspertask" for name in options):
        return options
    tasks = TASKS_PER_CORE * int(spark.sparkContext.defaultParallelism)
    return {**options, "seedsPerTask": str(min(LARGEST_TASK, max(1, -(-seeds // tasks))))}


@contextlib.contextmanager
def _watched(spark: SparkSession, seeds: int, progress: Progress | None) -> Iterator[None]:
    """Tell `progress` of the tasks that are done while the jobs inside run."""
    if progress is None:
        yield
        return
    group = f"epoka-fleet-{time.monotonic_ns()}"
    context = spark.sparkContext
    context.setJobGroup(group, "simulations")
    over = threading.Event()

    def look() -> None:
        tracker = context.statusTracker()
        while not over.wait(0.3):
            done, every = 0, 0
            for job in tracker.getJobIdsForGroup(group):
                found = tracker.getJobInfo(job)
                for stage in [] if found is None else found.stageIds:
                    about = tracker.getStageInfo(stage)
                    # The largest stage is the one that runs seeds; what comes behind it only adds up.
                    if about is not None and about.numTasks > every:
                        done, every = about.numCompletedTasks, about.numTasks
            if every:
                progress(seeds * done // every, seeds)

    watcher = threading.Thread(target=look, name=group, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)
    progress(seeds, seeds)

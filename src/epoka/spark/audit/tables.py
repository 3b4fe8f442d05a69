"""Gold: what became of brokers and partitions, one pure function of silver a table.

Every interval is half open, from the event that began it to the one that ended it; one that is still open
ends with the last event of its run. Times are milliseconds of the nodes' clocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import Window
from pyspark.sql import functions as F

from epoka.spark.audit.ledger import KINDS, ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION = ("run", "topic", "partition")
CHANGES = ("leader", "isr", "reassignment")


def _in_order(*keys: str) -> Any:
    return Window.partitionBy(*keys).orderBy(*ORDER)


def _with_end(events: DataFrame) -> DataFrame:
    """Each event with the end of its run."""
    return events.withColumn("run_end_ms", F.max("time_ms").over(Window.partitionBy("run")))


class Tally(msgspec.Struct, frozen=True):
    """Sums, minima and maxima by key: those of two parts of a history make those of both together.

    So a stream carries them from batch to batch, and any split of the input comes to the same.
    """

    keys: tuple[str, ...]
    where: str
    columns: dict[str, tuple[str, str]]
    """By name: `sum`, `min` or `max`, and of what."""

    def of(self, events: DataFrame) -> DataFrame:
        made = [F.expr(f"{how}({what})").alias(name) for name, (how, what) in self.columns.items()]
        return events.where(self.where).groupBy(*self.keys).agg(*made)

    def merged(self, *parts: DataFrame) -> DataFrame:
        made = [F.expr(f"{how}({name})").alias(name) for name, (how, _) in self.columns.items()]
        return reduce(lambda one, other: one.unionByName(other), parts).groupBy(*self.keys).agg(*made)


LIVES = Tally(
    ("run", "broker", "broker_epoch"),
    "broker >= 0 and broker_epoch >= 0",
    {
        "registered_ms": ("min", "if(kind = 'registered', time_ms, null)"),
        "began": ("min", "if(kind = 'registered', detail, null)"),
        "unfenced_ms": ("min", "if(kind = 'unfenced', time_ms, null)"),
        "stopping_ms": ("min", "if(kind = 'stopping', time_ms, null)"),
        "fenced_ms": ("max", "if(kind = 'fenced', time_ms, null)"),
        "times_fenced": ("sum", "if(kind = 'fenced', 1, 0)"),
        "times_self_fenced": ("sum", "if(kind = 'self-fenced', 1, 0)"),
        "refusals": ("sum", "if(verdict = 'refused', 1, 0)"),
    },
)
DECISIONS = Tally(
    ("run", "rule", "kind", "verdict", "error"),
    "rule <> ''",
    {"times": ("sum", "1"), "first_ms": ("min", "time_ms"), "last_ms": ("max", "time_ms")},
)
UNKNOWN = Tally(
    ("run", "kind"),
    f"kind not in ({', '.join(repr(kind) for kind in sorted(KINDS))})",
    {"times": ("sum", "1"), "example": ("min", "detail")},
)


def generations(events: DataFrame) -> DataFrame:
    """Every life of every broker: how it began, what happened to it, how it ended."""
    return told_lives(LIVES.of(events))


def told_lives(lives: DataFrame) -> DataFrame:
    following = Window.partitionBy("run", "broker").orderBy("broker_epoch")
    return (
        lives.where("registered_ms is not null")
        .withColumn("replaced_ms", F.lead("registered_ms").over(following))
        .withColumn(
            "ended",
            F.expr(
                "case when stopping_ms is not null and fenced_ms >= stopping_ms then 'clean'"
                " when replaced_ms is null then 'lives'"
                " when fenced_ms is not null then 'fenced' else 'bounced' end"
            ),
        )
        .select(
            "run",
            "broker",
            F.col("broker_epoch").alias("generation"),
            "registered_ms",
            "unfenced_ms",
            "stopping_ms",
            "fenced_ms",
            "replaced_ms",
            "began",
            "ended",
            "times_fenced",
            "times_self_fenced",
            "refusals",
        )
    )


def decisions(events: DataFrame) -> DataFrame:
    """Verdicts by rule: how often each was asked and what it said."""
    return DECISIONS.of(events)


def leadership(events: DataFrame) -> DataFrame:
    """Who led each partition, from when to when, and why that began."""
    return _intervals(events, "leader").select(
        *PARTITION, "leader", "leader_epoch", "from_ms", "until_ms", "rule", "detail", "event_id"
    )


def isr_intervals(events: DataFrame) -> DataFrame:
    """The ISR of each partition, from when to when, and why that began."""
    return _intervals(events, *CHANGES).select(
        *PARTITION,
        "isr",
        F.size("isr").alias("size"),
        "leader",
        "partition_epoch",
        "from_ms",
        "until_ms",
        "rule",
        "detail",
        "event_id",
    )


def _intervals(events: DataFrame, *kinds: str) -> DataFrame:
    """Each change until the next one of its partition, or until its topic was deleted."""
    changes = events.where(F.col("kind").isin(*kinds))
    deleted = events.where("kind = 'topic-deleted'").select(
        "run", "topic", "kind", "time_ms", "node", "event_id"
    )
    ends = deleted.join(changes.select(*PARTITION).distinct(), ["run", "topic"])
    following = F.lead("time_ms").over(_in_order(*PARTITION))
    return (
        changes.unionByName(ends, allowMissingColumns=True)
        .withColumn("from_ms", F.col("time_ms"))
        .withColumn("until_ms", F.coalesce(following, F.col("run_end_ms")))
        .where("kind <> 'topic-deleted'")
    )


def availability(events: DataFrame) -> DataFrame:
    """For each partition: how long it was without a leader, and how long without all its replicas.

    A partition's replicas are taken to be as many as its largest ISR ever had.
    """
    spans = isr_intervals(events).withColumn("took_ms", F.col("until_ms") - F.col("from_ms"))
    return (
        spans.withColumn("replicas", F.max("size").over(Window.partitionBy(*PARTITION)))
        .groupBy(*PARTITION)
        .agg(
            F.max("replicas").alias("replicas"),
            F.sum("took_ms").alias("observed_ms"),
            F.sum(F.expr("if(leader < 0, took_ms, 0)")).alias("leaderless_ms"),
            F.sum(F.expr("if(size < replicas, took_ms, 0)")).alias("under_replicated_ms"),
            F.sum(F.expr("(replicas - size) * took_ms")).alias("missing_replica_ms"),
            (F.count("*") - 1).alias("changes"),
        )
        .withColumn(
            "available",
            F.expr("if(observed_ms > 0, 1 - leaderless_ms / observed_ms, 1.0D)"),
        )
    )


def latencies(events: DataFrame) -> DataFrame:
    """For each end of a life that moved partitions: from the last sign of life to the last new leader."""
    # A fault counts for the life it hit: what a registration notices happened to the life before it.
    lived = Window.partitionBy("run", "broker").orderBy(*ORDER).rowsBetween(Window.unboundedPreceding, -1)
    began = F.max(F.expr("if(kind = 'registered', time_ms, null)")).over(lived)
    roots = (
        events.where("kind in ('fenced', 'registered', 'stopping') and event_id >= 0")
        .withColumn("began_ms", F.coalesce(began, F.lit(0)))
        .select("run", "event_id", "time_ms", "kind", "rule", "broker", "broker_epoch", "began_ms")
    )
    faults = events.where("kind = 'fault'").select(
        "run",
        F.col("broker").alias("hit"),
        F.col("time_ms").alias("fault_at_ms"),
        F.col("given").alias("fault"),
    )
    moved = (
        events.where(F.col("kind").isin(*CHANGES) & (F.col("cause") >= 0))
        .groupBy("run", F.col("cause").alias("event_id"))
        .agg(
            F.max(F.expr("if(array_size(isr) < array_size(isr_before), time_ms, null)")).alias("shrunk_ms"),
            F.max(F.expr("if(kind = 'leader' and leader >= 0, time_ms, null)")).alias("elected_ms"),
            F.sum(F.expr("if(kind = 'leader', 1, 0)")).alias("elections"),
            F.count("*").alias("partitions"),
        )
    )
    silence = (
        events.where("kind = 'verdict' and rule = 'heartbeat.session' and verdict = 'refused'")
        .withColumn("silent_ms", F.regexp_extract("given", r"(\d+) ms", 1).try_cast("bigint"))
        .groupBy("run", "broker", "broker_epoch")
        .agg(F.min(F.col("time_ms") - F.col("silent_ms")).alias("last_heard_ms"))
    )
    before = roots.join(
        faults,
        (roots.run == faults.run)
        & (roots.broker == faults.hit)
        & faults.fault_at_ms.between(roots.began_ms, roots.time_ms),
        "left",
    ).groupBy(
        *[roots[name] for name in ("run", "event_id", "time_ms", "kind", "rule", "broker", "broker_epoch")]
    )
    return (
        before.agg(F.max_by("fault", "fault_at_ms").alias("fault"), F.max("fault_at_ms").alias("fault_ms"))
        .join(moved, ["run", "event_id"])
        .join(silence, ["run", "broker", "broker_epoch"], "left")
        .select(
            "run",
            "event_id",
            "broker",
            F.col("broker_epoch").alias("generation"),
            F.col("kind").alias("noticed_by"),
            "rule",
            "fault",
            "fault_ms",
            "last_heard_ms",
            F.col("time_ms").alias("noticed_ms"),
            "shrunk_ms",
            "elected_ms",
            "elections",
            "partitions",
            F.expr("elected_ms - coalesce(fault_ms, last_heard_ms, time_ms)").alias("failover_ms"),
        )
    )


def acknowledged(acknowledgements: DataFrame, present: DataFrame) -> DataFrame:
    """What clients were told is written against what is there, by topic.

    Both have `topic` and `id`, the record's own name; `present` has `partition` and `offset` too, and it may
    have `producer` and `sequence`, the order in which one producer wrote to one partition.
    """
    there = present.groupBy("topic", "id").agg(F.count("*").alias("copies"))
    told = acknowledgements.groupBy("topic", "id").agg(F.lit(True).alias("told"))
    joined = told.join(there, ["topic", "id"], "full")
    counts = joined.groupBy("topic").agg(
        F.sum(F.expr("if(told, 1, 0)")).alias("acknowledged"),
        F.sum(F.coalesce("copies", F.lit(0))).alias("present"),
        F.sum(F.expr("if(told and copies is null, 1, 0)")).alias("lost"),
        F.sum(F.expr("if(copies > 1, copies - 1, 0)")).alias("duplicated"),
        F.sum(F.expr("if(told is null, 1, 0)")).alias("unacknowledged"),
    )
    if "sequence" not in present.columns:
        return counts.withColumn("reordered", F.lit(None).cast("bigint"))
    order = Window.partitionBy("topic", "partition", "producer").orderBy("offset")
    wrong = (
        present.withColumn("before", F.max("sequence").over(order.rowsBetween(Window.unboundedPreceding, -1)))
        .groupBy("topic")
        .agg(F.sum(F.expr("if(before > sequence, 1, 0)")).alias("reordered"))
    )
    return counts.join(wrong, "topic", "left")


def unknown(events: DataFrame) -> DataFrame:
    """Entries of kinds that this version does not know, and lines that nobody can read."""
    return UNKNOWN.of(events)


def faults(events: DataFrame) -> DataFrame:
    """What was done to the cluster on purpose."""
    return events.where("kind = 'fault'").select(
        "run", "time_ms", "broker", F.col("given").alias("fault"), "detail"
    )


CARRIED: dict[str, tuple[Tally, Callable[[DataFrame], DataFrame]]] = {
    "generations": (LIVES, told_lives),
    "decisions": (DECISIONS, lambda tally: tally),
    "unknown": (UNKNOWN, lambda tally: tally),
}
"""Tables that a stream carries from batch to batch, and what makes the table of the tally."""
RECOMPUTED = {
    "leadership": leadership,
    "isr_intervals": isr_intervals,
    "availability": availability,
    "latencies": latencies,
    "faults": faults,
}
"""Tables that are made of all of silver: every interval ends with an event that a later batch may bring."""

NAMES = (*CARRIED, *RECOMPUTED)


def recomputed(silver: DataFrame) -> dict[str, DataFrame]:
    events = _with_end(silver)
    return {name: make(events) for name, make in RECOMPUTED.items()}


def gold(silver: DataFrame) -> dict[str, DataFrame]:
    """Every table of one silver."""
    return {name: told(tally.of(silver)) for name, (tally, told) in CARRIED.items()} | recomputed(silver)

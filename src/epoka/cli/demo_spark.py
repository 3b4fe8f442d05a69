"""The Spark side of `epoka demo`: two streams while the cluster works, then tables, a verdict and a report.

One stream copies the records into a table, the other one the cluster's ledger into the audit's bronze, at the
same time and through the bounce. Afterwards what clients were told is held against what the table has, the
audit checks every invariant, and the report is written. Nothing is ever deleted in a folder that a demo has
not made itself.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

from epoka.cli.output import Failed, plural
from epoka.cluster import fault_ledger
from epoka.ledger import file as ledger_file
from epoka.spark.audit import ledger, run, tables
from epoka.spark.audit.invariants import INVARIANTS
from epoka.spark.audit.report import write_report
from epoka.spark.session import BadSession, NoJava, build_session
from epoka.spark.storage import read
from epoka.spark.topics import follow_topics, reached

if TYPE_CHECKING:
    from epoka.cli.demo import Acknowledgement
    from epoka.cluster.cluster import Cluster

TOPIC = "demo"
RUN = "demo"
MARK = "made-by-epoka-demo"
"""A file that says that everything beside it may go when the next demo comes."""
PATIENCE_S = 120.0
TRIGGER = "500 milliseconds"
MOST_STARTS = 4

Step = Callable[[int], None]


class NoSpark(Exception):
    """Spark cannot run here; the text says why."""


class Watched(msgspec.Struct, frozen=True):
    """What Spark has seen and found."""

    acknowledged: int
    present: int
    lost: int
    duplicated: int
    reordered: int
    batches: int
    """Batches of the stream of records."""
    refused: dict[str, int]
    failover_ms: int | None
    events: int
    generations: int
    violations: dict[str, int]
    tables: str
    report: str

    @property
    def problems(self) -> list[str]:
        found = [
            f"{what}: {count:,}"
            for count, what in (
                (self.lost, "records that were acknowledged and are lost"),
                (self.duplicated, "records that are there more than once"),
                (self.reordered, "records out of order"),
            )
            if count
        ]
        if self.present != self.acknowledged + self.duplicated - self.lost:
            found.append(f"{self.acknowledged:,} records were acknowledged, {self.present:,} are there")
        return found + [f"violated {times:,} times: {each}" for each, times in self.violations.items()]

    def lines(self, longest_wait_ms: int) -> list[str]:
        refused = ", ".join(f"{rule} {times:,}x" for rule, times in sorted(self.refused.items()))
        failover = "no leader was lost" if self.failover_ms is None else f"{self.failover_ms:,} ms"
        held = f"all {len(INVARIANTS)} held" if not self.violations else f"violated: {[*self.violations]}"
        return [
            f"acknowledged  {self.acknowledged:,} records, as the clients were told",
            f"present       {self.present:,}, streamed by Spark in {self.batches} batches",
            f"lost          {self.lost:,}, duplicated {self.duplicated:,}, out of order {self.reordered:,}",
            f"refused       {refused or 'nothing'}",
            f"failover      {failover} from the kill to the last new leader; "
            f"a client waited {longest_wait_ms:,} ms at most",
            f"invariants    {held}, over {plural(self.events, 'event')} of {self.generations} generations",
            f"tables        {self.tables}",
            f"report        {self.report}",
        ]


@contextmanager
def watching(target: Path, tell: Callable[[str], None]) -> Iterator[Watch]:
    """Spark, started and told where to write; NoSpark where it cannot start."""
    _make_room(target)
    began = time.monotonic()
    log = target / "spark.log"
    with session(log) as spark:
        tell(f"Spark {pyspark.__version__} ready in {time.monotonic() - began:.2f} s, its log is {log}")
        watch = Watch(spark, target)
        try:
            yield watch
        finally:
            watch.end()


@contextmanager
def session(log: Path) -> Iterator[Any]:
    try:
        with _stderr_into(log):
            spark = build_session("test", master="local[*]", name="epoka demo")
    except (BadSession, NoJava) as error:
        raise NoSpark(str(error)) from error
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """What is started inside writes its complaints into a file as long as it lives."""
    sys.stderr.flush()
    before = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _make_room(target: Path) -> None:
    if target.exists() and any(target.iterdir()):
        if not (target / MARK).exists():
            raise Failed(f"{target} holds something that no demo has written; choose another with --to")
        shutil.rmtree(target)
    target.mkdir(parents=True, exist_ok=True)
    (target / MARK).write_text("The next `epoka demo` that writes here deletes this folder.\n")


class Watch:
    """Two streams over one cluster, and what becomes of them."""

    def __init__(self, spark: Any, target: Path) -> None:
        self._spark = spark
        self._target = target
        self._records = target / "records"
        self._audit = target / "audit"
        self._streams: list[_Stream] = []

    def begin(self, cluster: Cluster) -> None:
        """Start both streams, and return when they run."""
        options = {"kafka.bootstrap.servers": cluster.bootstrap}
        _until(lambda: cluster.image().topic(ledger.TOPIC) is not None, "the ledger's topic")
        spark, records, audit = self._spark, self._records, self._audit
        for start in (
            lambda: follow_topics(spark, {"subscribe": TOPIC, **options}, records, trigger=TRIGGER),
            lambda: run.follow_topic(spark, options, audit, RUN, trigger=TRIGGER),
        ):
            stream = _Stream(start)
            self._streams.append(stream)
            _until(stream.runs, "Spark to start a stream")

    def catch_up(self, records: int, cluster: Cluster, step: Step) -> None:
        """Until both streams have everything; then they end."""
        records_stream = self._streams[0]

        def whole() -> bool:
            done = records_stream.reached()
            step(min(done, records))
            return done >= records

        _until(whole, "Spark to stream every record", self._check)
        events = [each for each in cluster.ledger() if each.node == cluster.controller_id]
        last = events[-1]
        _until(
            lambda: run.has_event(self._spark, self._audit, last.node, last.event_id),
            "Spark to stream the end of the ledger",
            self._check,
        )
        # What was done to the cluster on purpose stands in a file of its own and not in the topic.
        faults = list(ledger_file.read(cluster.data / fault_ledger.FILE_NAME))
        run.add_events(self._spark, faults, self._audit, RUN)
        self.end()

    def finish(self, told: Sequence[Acknowledgement], broker: int, generation: int, step: Step) -> Watched:
        """The tables, the report and the verdict. The broker is the one that was killed, in that life."""
        found = run.finish(self._spark, self._audit, progress=lambda done, every: step(100 * done // every))
        acknowledgements = self._write_acknowledgements(told)
        present = read(self._spark, self._records / "data")
        named = present.selectExpr(
            "topic",
            "partition",
            "offset",
            "cast(key as string) as id",
            "'demo' as producer",
            "cast(cast(key as string) as bigint) as sequence",
        )
        account = tables.acknowledged(acknowledgements, named)
        account.selectExpr(f"'{RUN}' as run", "*").coalesce(1).write.mode("overwrite").parquet(
            str(self._audit / "gold" / "acknowledged")
        )
        (row,) = run.table(self._spark, self._audit, "acknowledged").collect()
        latencies = run.table(self._spark, self._audit, "latencies")
        killed = latencies.where(f"broker = {broker} and generation = {generation} and fault is not null")
        (failover,) = killed.selectExpr("max(failover_ms) as ms").collect()
        report = write_report(self._audit, self._target / "report.html")
        step(100)
        return Watched(
            acknowledged=row.acknowledged,
            present=row.present,
            lost=row.lost,
            duplicated=row.duplicated,
            reordered=row.reordered,
            batches=len([*(self._records / "data").glob("batch_id=*")]),
            refused=found.refused,
            failover_ms=failover.ms,
            events=found.events,
            generations=found.generations,
            violations=found.violations,
            tables=str(self._target),
            report=str(report),
        )

    def end(self) -> None:
        for stream in self._streams:
            stream.query.stop()
        self._streams = []

    def _check(self) -> None:
        for stream in self._streams:
            stream.runs()

    def _write_acknowledgements(self, told: Sequence[Acknowledgement]) -> Any:
        path = self._target / "acknowledged.parquet"
        columns = {
            "topic": pa.array([TOPIC] * len(told), pa.string()),
            "partition": pa.array([each.partition for each in told], pa.int32()),
            "offset": pa.array([each.offset for each in told], pa.int64()),
            "id": pa.array([each.key.decode() for each in told], pa.string()),
            "time_ms": pa.array([each.time_ms for each in told], pa.int64()),
        }
        pq.write_table(pa.table(columns), path)
        return self._spark.read.parquet(str(path))


class _Stream:
    """A query that is started again when it breaks off: its checkpoint sees to it that nothing is lost.

    Spark gives a Python process ten seconds to report, which is too little on a machine that is busy enough.
    """

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._starts = 1
        self.query = start()

    def runs(self) -> bool:
        """Whether it is beyond its beginnings; Failed when it breaks off again and again."""
        failure = self.query.exception()
        if failure is not None:
            if self._starts == MOST_STARTS:
                reason = str(failure).strip().splitlines()[0]
                raise Failed(f"the demo failed: a stream of Spark's broke off {MOST_STARTS} times: {reason}")
            self._starts += 1
            self.query = self._start()
        return not self.query.status["message"].startswith("Initializing")

    def reached(self) -> int:
        """How many offsets are done."""
        return sum(offset for parts in reached(self.query.lastProgress).values() for offset in parts.values())


def _until(condition: Callable[[], bool], what: str, check: Callable[[], None] = lambda: None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        check()
        if time.monotonic() > deadline:
            raise Failed(f"the demo failed: waited {PATIENCE_S:g} s in vain for {what}")
        time.sleep(0.1)

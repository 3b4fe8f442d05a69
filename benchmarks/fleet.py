"""Fleets of simulations beside multiprocessing.Pool, beside a stock session, and with an executor killed.

Sessions live in processes of their own and take turns, so each round measures both sides one after the other
with the same seeds; the first rounds warm up and are thrown away. What a task costs is the time of many small
tasks less that of few large ones, the same seeds in both. `EPOKA_BENCH_SEEDS` makes it shorter or longer.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import msgspec
import psutil

from benchmarks.figures import Figure, paired
from epoka.sim.runner import Options, Result
from epoka.sim.runner import run as run_seed

SEEDS = int(os.environ.get("EPOKA_BENCH_SEEDS", 1_000))
TASKS = 60
WARM, ROUNDS = 1, int(os.environ.get("EPOKA_BENCH_ROUNDS", 5))
CORES = 2
PIECE = 20
OURS, STOCK, CLUSTER = "ours", "stock", "cluster"


class Ask(msgspec.Struct, frozen=True):
    """What a session is asked to run."""

    first: int
    seeds: int
    per_task: int
    kill_after_s: float = 0.0
    """Then one executor is killed; 0: none is."""


class Told(msgspec.Struct, frozen=True):
    seconds: float
    digest: str


def run() -> list[Figure]:
    figures = []
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(_session(OURS))
        figures.append(_beside_pool(ours))
        stock = stack.enter_context(_session(STOCK))
        figures.append(_tax(ours, stock))
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(_session(OURS))
        cluster = stack.enter_context(_session(CLUSTER))
        figures.append(_killed(ours, cluster))
    return figures


def _beside_pool(ours: Session) -> Figure:
    per_task = -(-SEEDS // (4 * CORES))
    mine, theirs = [], []
    pieces = [range(at, min(at + PIECE, SEEDS)) for at in range(0, SEEDS, PIECE)]
    with multiprocessing.get_context("spawn").Pool(CORES) as pool:
        for number in range(WARM + ROUNDS):
            told = ours.ask(Ask(0, SEEDS, per_task))
            began = time.perf_counter()
            results = [result for piece in pool.imap_unordered(_piece, pieces) for result in piece]
            spent = time.perf_counter() - began
            assert len(results) == SEEDS and told.digest.startswith(f"{SEEDS}-")
            if number >= WARM:
                mine.append(told.seconds)
                theirs.append(spent)
    ratios = [peer / own for own, peer in zip(mine, theirs, strict=True)]
    return Figure(
        f"fleet of {SEEDS:,} seeds",
        "seeds/s",
        SEEDS / median(mine),
        "Pool",
        SEEDS / median(theirs),
        median(ratios),
        0.93,
        at_most=False,
        spread=(min(ratios), max(ratios)),
    )


def _piece(seeds: range) -> list[Result]:
    return [run_seed(seed, Options()) for seed in seeds]


def _tax(ours: Session, stock: Session) -> Figure:
    """Core time of a task beside what its seeds take."""
    mine: list[float] = []
    theirs: list[float] = []
    for number in range(WARM + ROUNDS):
        for session, taxes in ((ours, mine), (stock, theirs)):
            many = session.ask(Ask(0, TASKS, 1)).seconds
            few = session.ask(Ask(0, TASKS, TASKS // CORES)).seconds
            if number >= WARM:
                taxes.append(1000 * CORES * (many - few) / (TASKS - CORES))
    # Differences of noisy times: one round says little, and a ratio of two such differences nothing.
    one, other = median(mine), median(theirs)
    return Figure("tax of a task", "ms of a core", one, "stock session", other, one / other, 0.5)


def _killed(ours: Session, cluster: Session) -> Figure:
    per_task = -(-SEEDS // (4 * CORES))
    expected = ours.ask(Ask(0, SEEDS, per_task)).digest
    whole, broken = [], []
    for number in range(WARM + 3):
        told = cluster.ask(Ask(0, SEEDS, per_task))
        assert told.digest == expected, "other executors, other rows"
        if number >= WARM:
            killed = cluster.ask(Ask(0, SEEDS, per_task, kill_after_s=0.4 * told.seconds))
            assert killed.digest == expected, "an executor was killed, and rows have changed"
            whole.append(told.seconds)
            broken.append(killed.seconds)
    return paired("fleet, an executor killed", "s", broken, "undisturbed", whole, at_most=2.0)


class Session:
    """A Spark session in a process of its own, which runs what it is asked and tells how long it took."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, ask: Ask) -> Told:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(ask) + b"\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(b"{"):
                return msgspec.json.decode(line, type=Told)
        raise RuntimeError(f"a session ended with code {self._process.wait()}")


@contextlib.contextmanager
def _session(kind: str) -> Iterator[Session]:
    words = [sys.executable, "-m", "benchmarks.fleet", kind]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    try:
        yield Session(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(60)
        finally:
            process.kill()


# In the session's process.


def serve(kind: str) -> None:
    spark = _stock() if kind == STOCK else _built(kind)
    spark.sparkContext.setLogLevel("OFF")
    work = _in_stock if kind == STOCK else _in_ours
    for line in sys.stdin.buffer:
        ask = msgspec.json.decode(line, type=Ask)
        killer = threading.Timer(ask.kill_after_s, _kill_an_executor)
        if ask.kill_after_s:
            killer.start()
        began = time.perf_counter()
        digest = work(spark, ask)
        seconds = time.perf_counter() - began
        if ask.kill_after_s:
            killer.join()
        sys.stdout.buffer.write(msgspec.json.encode(Told(seconds, digest)) + b"\n")
        sys.stdout.buffer.flush()
    spark.stop()


def _built(kind: str) -> Any:
    from epoka.spark.session import build_session

    conf = {"spark.ui.enabled": "false"}
    if kind == CLUSTER:
        return build_session("cluster", master=f"local-cluster[{CORES},1,1024]", conf=conf)
    return build_session("local", master=f"local[{CORES}]", conf=conf)


def _stock() -> Any:
    """As PySpark starts a session by itself, with nothing said but which Python."""
    from pyspark.sql import SparkSession

    from epoka.spark.java import find_java
    from epoka.spark.session import cache_folder

    os.environ["JAVA_HOME"] = str(find_java(cache_folder()).home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{CORES}]")
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    return builder.config(map=quiet).getOrCreate()


def _in_ours(spark: Any, ask: Ask) -> str:
    from epoka.spark.fleet.run import simulate

    options = {"seeds": f"{ask.first}:{ask.first + ask.seeds}", "seedsPerTask": str(ask.per_task)}
    return simulate(spark, options).digest


def _in_stock(spark: Any, ask: Ask) -> str:
    """The same seeds and the same kind of sum the way anybody would write it."""
    tasks = -(-ask.seeds // ask.per_task)
    seeds = spark.range(ask.first, ask.first + ask.seeds, 1, tasks)
    rows = seeds.mapInArrow(_rows, "seed bigint, events bigint, trace string").cache()
    (told,) = rows.selectExpr("count(*)", "sum(events)", "bit_xor(xxhash64(trace))").collect()
    rows.unpersist()
    return "-".join(map(str, told))


def _rows(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        seeds = batch.column(0).to_pylist()
        results = [run_seed(seed, Options()) for seed in seeds]
        events = [result.events for result in results]
        traces = [result.trace for result in results]
        yield pa.RecordBatch.from_pydict({"seed": seeds, "events": events, "trace": traces})


def _kill_an_executor() -> None:
    """The first executor that is a descendant of this process."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                process.kill()
                return


if __name__ == "__main__":
    from benchmarks.fleet import serve as serve_by_name

    # Under its importable name, so that workers find the functions that they are sent.
    serve_by_name(sys.argv[1])

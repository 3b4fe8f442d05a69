"""Fleets on Spark itself: the same rows as in one process, whatever becomes of a seed, a query or a task."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epoka.cli import fleet as cli_fleet
from epoka.cli import spark_session
from epoka.cli.main import run as epoka
from epoka.sim import steps
from epoka.sim.runner import Run, replay
from epoka.spark.fleet import run as fleet
from epoka.spark.fleet import seeds
from epoka.spark.fleet.options import Asked, Limits, fleet_options
from epoka.spark.fleet.source import NAME, SimulationSource
from epoka.spark.fleet.table import arrow_schema
from tests.waiting import wait_until

STALE_JOIN = ("--seeds", "0:3", "--without", "isr.generation", "--profile", "stale-join", "--json")


@pytest.fixture
def commands_use(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take the session that is there."""

    @contextlib.contextmanager
    def session(master: str | None) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(cli_fleet, "session", session)
    monkeypatch.setattr(spark_session, "session", session)


def in_this_process(options: dict[str, str]) -> str:
    checked = fleet_options(options, streaming=False)
    rows = [
        seeds.run_seed(seed, asked, checked.limits)
        for asked in checked.asked
        for span in checked.seeds
        for seed in range(span.first, span.end or 0)
    ]
    together = 0
    for row in rows:
        together ^= row.digest
    return fleet.digest_of(len(rows), together, sum(row.digest for row in rows))


def test_a_fleet_has_the_digest_of_one_process(spark: Any) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    options = {"seeds": "0:9"}
    told: list[tuple[int, int]] = []
    found = fleet.simulate(spark, {**options, "seedsPerTask": "4"}, progress=lambda *now: told.append(now))
    assert found.digest == in_this_process(options)
    assert found.outcomes == {"ok": 9, "violation": 0, "crashed": 0, "hung": 0}
    assert found.events and found.acknowledged and found.faults and found.good
    assert told[-1] == (9, 9)
    frame = fleet.simulations(spark, options)
    assert to_arrow_schema(frame.schema, timezone="UTC") == arrow_schema()


def test_a_seed_that_crashes_or_hangs_is_a_row_and_the_others_are_as_ever(spark: Any) -> None:
    # Made here, so that it goes to the workers by value.
    def planted(seed: int, asked: Asked, limits: Limits) -> Run:
        if seed == 1:
            raise LookupError("planted")
        if seed == 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        if seed == 3:
            sys.exit(7)
        if seed == 4:
            while True:
                pass
        if seed == 5:
            # As if it were stuck where no line of Python is reached, and its time on the wall were over.
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            time.sleep(100)
        if seed == 6:
            os._exit(0)
        return seeds.begin(seed, asked, limits)

    class Planted(SimulationSource):
        begin = staticmethod(planted)

        @classmethod
        def name(cls) -> str:
            return "epoka-sim-planted"

    spark.dataSource.register(Planted)
    reader = spark.read.format("epoka-sim-planted").option("seeds", "0:9").option("seedsPerTask", "9")
    rows = {row.seed: row for row in reader.option("secondsPerSeed", "1").load().collect()}
    assert {seed: row.outcome for seed, row in rows.items()} == {
        0: "ok",
        1: "crashed",
        2: "crashed",
        3: "crashed",
        4: "hung",
        5: "hung",
        6: "crashed",
        7: "ok",
        8: "ok",
    }
    assert rows[1].what == "LookupError: planted" and "planted" in rows[1].story
    assert rows[2].what == "ended by SIGSEGV"
    assert "while True" in rows[4].story, "a row says where it hung"
    good = fleet_options({"seeds": "7"}, streaming=False)
    assert rows[7].digest == seeds.run_seed(7, good.asked[0], good.limits).digest


def test_a_campaign_broken_off_anywhere_runs_every_seed_once_and_goes_on_later(
    spark: Any, tmp_path: Path
) -> None:
    options = {"seeds": "0:6", "seedsPerTrigger": "3"}
    broken: list[str] = []

    def write(batch: Any, number: int) -> None:
        if not broken:
            broken.append("in the task")
            batch.selectExpr("raise_error('on purpose')").collect()
        batch.write.mode("overwrite").parquet(str(tmp_path / "results" / f"batch_id={number}"))
        if number == 1:
            broken.append("after the table, before the commit")
            raise RuntimeError("on purpose")

    frame = spark.readStream.format(NAME).options(**options).load()
    query = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
    for _ in range(2):
        started = query.trigger(availableNow=True).start()
        wait_until(lambda query=started: not query.isActive, "the query to end", within_s=100)
    assert broken == ["in the task", "after the table, before the commit"]
    found = fleet.campaign(spark, {**options, "seeds": "0:8"}, tmp_path)
    kept = sorted(row.seed for row in spark.read.parquet(str(tmp_path / "results")).collect())
    assert kept == list(range(8))
    assert found.digest == in_this_process({"seeds": "0:8"})
    (row,) = spark.read.parquet(str(tmp_path / "metrics")).collect()
    assert (row.seeds, row.ok, row.profile) == (8, 8, "swarm")


@pytest.mark.usefixtures("commands_use")
def test_every_rule_taken_away_is_one_job_and_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    rules = ["isr.generation", "isr.eligible", "control.generation", "fetch.leader-epoch"]
    words = [word for rule in rules for word in ("--without", rule)]
    assert epoka(["pipeline", "fleet", "--seeds", "0:3", "--rules-off", *words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["rule"], row["seeds"]) for row in rows] == [(rule, 3) for rule in sorted(rules)]
    by_rule = {row["rule"]: row for row in rows}
    assert by_rule["isr.generation"]["first"] == 1
    assert by_rule["isr.generation"]["checkers"] == ["2: ISR members have everything"]
    assert by_rule["control.generation"]["mode"] == "zookeeper"
    unnoticed = by_rule["fetch.leader-epoch"]
    assert unnoticed["noticed"] == 0 and unnoticed["first"] is None


def test_an_option_that_is_wrong_is_told_by_spark_too(spark: Any) -> None:
    with pytest.raises(Exception, match="seeds=4:2 names no seed"):
        spark.read.format(NAME).option("seeds", "4:2").load().collect()


@pytest.mark.usefixtures("commands_use")
def test_simulate_on_spark_tells_what_the_simulator_alone_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert epoka(["simulate", *STALE_JOIN, "--processes", "1"]) == 1
    alone = json.loads(capsys.readouterr().out)
    small = tmp_path / "small.json"
    assert epoka(["simulate", *STALE_JOIN, "--spark", "local[2]", "--shrink", "--output", str(small)]) == 1
    on_spark = json.loads(capsys.readouterr().out)
    same = ("schedules", "failed", "events", "simulated_ms", "acked", "exceptions", "downgraded", "faults")
    assert {name: on_spark[name] for name in same} == {name: alone[name] for name in same}
    traces = [[(each["seed"], each["trace"]) for each in told["failures"]] for told in (alone, on_spark)]
    assert traces[0] == traces[1]
    assert on_spark["failures"][0]["again"] == alone["failures"][0]["again"]
    assert len(steps.decode(small.read_bytes()).plan.steps) <= 8


@pytest.mark.usefixtures("commands_use")
def test_a_failing_seed_carries_its_ledger_and_is_made_small_by_a_task(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert epoka(["pipeline", "fleet", *STALE_JOIN, "--to", str(tmp_path), "--shrink"]) == 1
    told = json.loads(capsys.readouterr().out)
    failing = told["failing"]
    assert told["outcomes"]["violation"] == len(failing) >= 1
    first, what = failing[0]["seed"], failing[0]["what"]
    assert what == "2: ISR members have everything"
    ledger = (tmp_path / "ledgers" / f"seed-{first}.jsonl").read_text().splitlines()
    assert {"isr", "registered"} <= {json.loads(line)["kind"] for line in ledger}
    assert {path.name for path in (tmp_path / "schedules").iterdir()} == {
        f"seed-{each['seed']}.json" for each in failing
    }
    small = steps.decode((tmp_path / "schedules" / f"seed-{first}.json").read_bytes())
    assert len(small.plan.steps) <= 8
    assert replay(small).go().violations[0].checker == what
    results = spark.read.parquet(str(tmp_path / "results"))
    assert results.where("ledger is not null and outcome = 'ok'").count() == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--seeds", "5:5"], "seeds=5:5"),
        (["--seeds", "0:5", "--without", "nonsense"], "'nonsense'"),
        (["--seeds", "0:5", "--option", "seedsPerTask=x"], "seedsPerTask"),
        (["--seeds", "0:5", "--rules-off", "--mode", "log"], "mode=log"),
        (["--seeds", "0:5", "--rules-off", "--to", "x"], "--rules-off"),
        (["--seeds", "0:5", "--shrink"], "--shrink needs --to"),
    ],
)
def test_a_command_that_makes_no_sense_ends_with_2_before_spark_is_started(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert epoka(["pipeline", "fleet", *words]) == 2
    assert told in capsys.readouterr().err

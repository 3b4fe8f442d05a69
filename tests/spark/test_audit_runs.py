"""Whole audits: the same tables for any split of the input, from files and from a live cluster."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epoka.cli import pipeline
from epoka.cli.main import run as epoka
from epoka.cluster.cluster import Cluster
from epoka.spark.audit import ledger, report
from epoka.spark.audit.run import add_bronze, audit_files, audit_topic, refresh, table
from tests.client.topics import Topics
from tests.spark import histories
from tests.spark.test_audit import harmed, story
from tests.waiting import wait_until

GOLD = ("generations", "leadership", "availability", "violations")


def rows(spark: Any, target: Path) -> dict[str, list[str]]:
    return {name: sorted(map(str, table(spark, target, name).collect())) for name in GOLD}


@pytest.fixture
def same_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the tests' session."""

    @contextlib.contextmanager
    def session(_: str | None) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(pipeline, "_session", session)


def test_any_split_of_the_input_gives_the_same_tables(spark: Any, tmp_path: Path) -> None:
    chance = random.Random(7)
    events = harmed(histories.sound(7).events, chance)
    path = histories.write(tmp_path / "whole.jsonl", events)
    whole = tmp_path / "whole"
    assert audit_files(spark, [path], whole).violations

    parts = tmp_path / "parts"
    cuts = sorted(chance.sample(range(1, len(events)), 2))
    lines = [msgspec.json.encode(event).decode() for event in events]
    chance.shuffle(lines)
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(lines)])):
        # A producer that was not answered writes again: some lines come in two parts.
        some = [("whole.jsonl", "t", at, line) for at, line in enumerate(lines[max(start - 5, 0) : end])]
        add_bronze(spark.createDataFrame(some, ledger.BRONZE), parts, number)
    add_bronze(spark.createDataFrame(some, ledger.BRONZE), parts, number)
    refresh(spark, parts)
    assert rows(spark, parts) == rows(spark, whole)


def test_a_live_cluster_that_was_bounced_is_audited_from_its_topic(
    spark: Any, spark_cluster: Cluster, topics: Topics, tmp_path: Path
) -> None:
    topics.create(3, replicas=3)
    lives = [spark_cluster.bounce(2, "fast") for _ in range(3)]
    target = tmp_path / "audit"
    options = {"kafka.bootstrap.servers": spark_cluster.bootstrap}

    def generations() -> list[int]:
        found = audit_topic(spark, options, target)
        assert found.sound, found.violations
        told = table(spark, target, "generations").where("broker = 2").collect()
        return sorted(row.generation for row in told)

    last = lives[-1][1]
    found = wait_until(lambda: (last in (known := generations())) and known, "the last life", within_s=90)
    assert {new for _, new in lives} <= {*found}
    # What was said in the topic is what the nodes' own files say.
    in_topic = {
        (row.node, row.event_id)
        for row in spark.read.parquet(str(target / "silver")).where("event_id >= 0").collect()
    }
    in_files = {(event.node, event.event_id) for event in spark_cluster.ledger()}
    assert in_topic <= in_files
    controller = spark_cluster.controller_id
    first_told = min(event for node, event in in_topic if node == controller)
    last_told = max(event for node, event in in_topic if node == controller)
    assert {
        (node, event) for node, event in in_files if node == controller and first_told <= event <= last_told
    } <= in_topic


def test_the_command_audits_files_and_draws_the_page(
    spark: Any, same_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = histories.write(tmp_path / "story.jsonl", story().events)
    target = tmp_path / "audit"
    assert epoka(["pipeline", "audit", str(path), "--to", str(target), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["generations"], told["failover_ms"]) == (4, 100)
    assert told["refused"] == {"heartbeat.session": 1}
    assert epoka(["pipeline", "report", str(target)]) == 0
    page = Path(capsys.readouterr().out.strip()).read_text()
    assert "Every invariant held" in page
    assert "killed" in page or "kill" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_violation_fails_the_command_and_stands_on_the_page(
    spark: Any, same_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = story()
    history.change("t", 0, (2, 3), 1)
    path = histories.write(tmp_path / "<b>run.jsonl", history.events)
    target = tmp_path / "audit"
    assert epoka(["pipeline", "audit", str(path), "--to", str(target)]) == 1
    assert "VIOLATED 1 times: leader-is-in-isr" in capsys.readouterr().out
    page = report.write_report(target, tmp_path / "page.html").read_text()
    assert "leader-is-in-isr" in page
    assert "&lt;b&gt;run.jsonl" in page
    assert "<b>run" not in page


def test_what_is_missing_is_said(
    same_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert epoka(["pipeline", "audit", str(tmp_path / "nowhere"), "--to", str(tmp_path / "a")]) == 1
    assert "there is no ledger in" in capsys.readouterr().err
    assert epoka(["pipeline", "report", str(tmp_path / "nowhere")]) == 1
    assert "there are no tables in" in capsys.readouterr().err


def test_topics_become_a_table_that_grows(
    spark: Any,
    spark_cluster: Cluster,
    topics: Topics,
    same_session: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = topics.create(2)
    topics.fill(name, [b"a"] * 10)
    words = [
        "pipeline",
        "topics",
        name,
        "--to",
        str(tmp_path / "t"),
        "--bootstrap",
        spark_cluster.bootstrap,
        "--json",
    ]
    assert epoka(words) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 10
    topics.fill(name, [b"b"] * 5, partition=1)
    assert epoka(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["offsets"]) == (5, {name: {"0": 10, "1": 5}})
    assert spark.read.parquet(str(tmp_path / "t" / "data")).count() == 15

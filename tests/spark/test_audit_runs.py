"""Whole audits: the same tables for any split of the input, and the commands that make them."""

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
from epoka.spark.audit import ledger, report, run, tables
from epoka.spark.audit.run import audit_files, find_ledgers, finish, step
from epoka.spark.storage import read_arrow
from tests.client.topics import Topics
from tests.spark import histories
from tests.spark.test_audit import harmed, story

GOLD = (*tables.CARRIED, *tables.RECOMPUTED, "violations")


def rows(target: Path) -> dict[str, list[str]]:
    """Every row of every table."""
    return {name: sorted(map(str, read_arrow(target / "gold" / name).to_pylist())) for name in GOLD}


@pytest.fixture
def same_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the tests' session."""

    @contextlib.contextmanager
    def session(_: str | None) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(pipeline, "_session", session)


@pytest.mark.timeout(400)
def test_any_split_of_the_input_gives_the_same_tables_though_a_step_breaks_off(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    events = harmed(histories.sound(7).events, chance)
    path = histories.write(tmp_path / "whole.jsonl", events)
    whole = tmp_path / "whole"
    assert audit_files(spark, [path], whole).violations

    parts = tmp_path / "parts"
    lines = [msgspec.json.encode(event).decode() for event in events]
    chance.shuffle(lines)
    cut = chance.randrange(10, len(lines) - 10)
    for number, (start, end) in enumerate([(0, cut), (cut, len(lines))]):
        # A producer that was not answered writes again: some lines come in both parts.
        some = [("whole.jsonl", "t", at, line) for at, line in enumerate(lines[max(start - 5, 0) : end])]
        batch = spark.createDataFrame(some, ledger.BRONZE)
        with monkeypatch.context() as patched:
            # The first tallies are there and the rest is not; then the batch comes again.
            carry = run._carry

            def broken(folder: Path, *rest: Any, carry: Any = carry) -> None:
                if folder.name == "unknown":
                    raise OSError("no space left")
                carry(folder, *rest)

            patched.setattr(run, "_carry", broken)
            with pytest.raises(OSError, match="no space left"):
                step(batch, parts, number)
        step(batch, parts, number)
    # And once more, as it does when only its commit was lost.
    step(batch, parts, number)
    finish(spark, parts)
    assert rows(parts) == rows(whole)


def test_runs_whose_files_have_one_name_stay_two_runs(spark: Any, tmp_path: Path) -> None:
    events = story().events
    paths = [tmp_path / name / "ledger.jsonl" for name in ("run-1", "run-2")]
    for path in paths:
        path.parent.mkdir()
        histories.write(path, events)
    told = audit_files(spark, paths, tmp_path / "audit")
    assert (told.runs, told.events) == (2, 2 * len(events))


def test_a_run_is_named_by_its_whole_path_only_where_its_name_is_not_enough(tmp_path: Path) -> None:
    for name in ("1/a.jsonl", "2/a.jsonl", "2/b.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    one, two, other = tmp_path / "1" / "a.jsonl", tmp_path / "2" / "a.jsonl", tmp_path / "2" / "b.jsonl"
    again = tmp_path / "2" / ".." / "1" / "a.jsonl"
    assert find_ledgers([one, two, other, again]) == {str(one): [one], str(two): [two], "b.jsonl": [other]}
    assert find_ledgers([one, again, other]) == {"a.jsonl": [one], "b.jsonl": [other]}


def test_an_audit_of_files_finds_nothing_of_an_earlier_audit_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what was added to it, and no place in a topic to go on from."""
    for name in ("bronze", "silver", "added", "tallies", "gold", "checkpoint"):
        (tmp_path / "audit" / name).mkdir(parents=True)
    (tmp_path / "ledger.jsonl").touch()
    left: list[str] = []
    monkeypatch.setattr(ledger, "bronze_from_files", lambda *_: None)
    monkeypatch.setattr(run, "finish", lambda *_, **__: None)
    monkeypatch.setattr(
        run, "step", lambda *_, **__: left.extend(each.name for each in (tmp_path / "audit").iterdir())
    )
    audit_files(None, [tmp_path / "ledger.jsonl"], tmp_path / "audit")  # type: ignore[arg-type]
    assert left == []


@pytest.mark.parametrize("storage", ["parquet", "delta"])
def test_the_command_audits_files_and_draws_the_page(
    spark: Any, same_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], storage: str
) -> None:
    path = histories.write(tmp_path / "story.jsonl", story().events)
    target = tmp_path / "audit"
    words = ["pipeline", "audit", str(path), "--to", str(target), "--format", storage, "--json"]
    assert epoka(words) == 0
    assert (target / "gold" / "violations" / "_delta_log").is_dir() == (storage == "delta")
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

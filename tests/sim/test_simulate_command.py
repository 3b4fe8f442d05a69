"""`epoka simulate`: exit codes, JSON, and the line that repeats a failure."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from epoka.cli.main import run


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    code = run(["simulate", *words, "--processes", "1", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_good_seeds_end_with_0_and_their_sums(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _json(capsys, "--seeds", "0:5")
    assert code == 0
    assert answer["schedules"] == 5 and answer["failed"] == 0
    assert answer["events"] and answer["acked"] and answer["faults"]


def test_a_failing_seed_ends_with_1_and_repeats_by_its_own_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["--seeds", "0:5", "--without", "isr.generation", "--profile", "stale-join"]
    small = tmp_path / "small.json"
    code, answer = _json(capsys, *words, "--shrink", "--output", str(small))
    assert code == 1
    failures = answer["failures"]
    assert isinstance(failures, list)
    line = shlex.split(failures[0]["again"])
    assert line[:2] == ["epoka", "simulate"]
    code, again = _json(capsys, *line[2:])
    repeated = again["failures"]
    assert isinstance(repeated, list)
    assert code == 1 and repeated[0]["trace"] == failures[0]["trace"]
    ledger = tmp_path / "ledger.jsonl"
    assert run(["simulate", "--schedule", str(small), "--ledger", str(ledger)]) == 1
    assert "ISR members have everything" in capsys.readouterr().out
    kinds = {json.loads(text)["kind"] for text in ledger.read_text().splitlines()}
    assert {"registered", "isr"} <= kinds


@pytest.mark.parametrize(
    "words",
    [
        ["--seeds", "5:5"],
        ["--seeds", "many"],
        ["--seeds", "0:1", "--without", "no.such.rule"],
        ["--seeds", "0:1", "--profile", "nonsense"],
        ["--seeds", "0:1", "--level", "legacy"],
        [],
    ],
)
def test_nonsense_ends_with_2(words: list[str]) -> None:
    assert run(["simulate", *words]) == 2


def test_a_file_that_is_no_schedule_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    assert run(["simulate", "--schedule", str(bad)]) != 0
    assert "is no schedule" in capsys.readouterr().err


def test_the_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--rules", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"isr.generation", "ack-before-high-watermark", "two-reads"} <= set(rows)
    assert "isr.leader" in rows[rows["isr.leader"]["covered_by"]]["parts"]


def test_the_rules_are_listed_with_how_they_are_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--rules"]) == 0
    told = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert told["isr.generation"].split()[-1] == "alone"
    assert told["isr.leader-epoch"].split()[-1] == "isr.leader-epoch+isr.partition-epoch"

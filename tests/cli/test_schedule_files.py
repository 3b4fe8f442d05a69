"""`epoka scenario run FILE`: a schedule that `--shrink` has written, told as the documents' stories are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epoka.cli.schedules import _wrong
from epoka.sim import steps
from epoka.sim.profiles import PROFILES, plan
from epoka.sim.runner import replay
from epoka.sim.scenarios import SCENARIOS
from tests.cli.commands import inside, is_one_line

SIM = Path(__file__).parent.parent / "sim"
EVERY = sorted(SIM.glob("*/*.json"))
STALE_JOIN = SIM / "schedules" / "isr.generation.json"


def test_what_shrink_has_written_is_told_message_by_message(tmp_path: Path) -> None:
    small = tmp_path / "small.json"
    words = ("--seeds", "0:5", "--without", "isr.generation", "--profile", "stale-join", "--processes", "1")
    shrunk = inside("simulate", *words, "--shrink", "--output", str(small))
    assert shrunk.code == 1 and f"epoka scenario run {small}\n" in shrunk.out
    before = list(SCENARIOS)
    outcome = inside("scenario", "run", str(small))
    assert outcome.code == 0, outcome
    assert "with: every rule but isr.generation" in outcome.out
    assert re.search(r"\+\d\.\d{3} s +\* ambush AlterPartitionRequest", outcome.out)
    assert re.search(r"broker \d: loses power and what it had not flushed", outcome.out)
    assert re.search(r"broker \d -> controller +AlterPartition v3 .*ISR", outcome.out)
    assert "harm, seen by the checker [2: ISR members have everything]" in outcome.out
    assert f"again: epoka scenario run {small}\n" in outcome.out
    assert list(SCENARIOS) == before


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_it_is_the_very_run_that_simulate_repeats(path: Path) -> None:
    told = inside("scenario", "run", str(path), "--json").json
    result = replay(steps.decode(path.read_bytes())).go()
    assert told["trace"] == result.trace
    assert told["safe"] == (result.ok and not result.exceptions)


@pytest.mark.parametrize("mode", ["log", "zookeeper"])
def test_whatever_the_faults_the_run_is_the_same_and_can_be_drawn(mode: str, tmp_path: Path) -> None:
    path, chart = tmp_path / "schedule.json", tmp_path / "chart.html"
    for profile in ("swarm", "stragglers", "strangers", "doubles", "lost-offices", "disk-replies"):
        schedule = steps.Schedule(1, mode, plan(1, mode, None, profile))
        path.write_bytes(steps.encode(schedule))
        told = inside("scenario", "run", str(path), "--json", "--html", str(chart))
        assert told.json["trace"] == replay(schedule).go().trace, profile
        assert "<svg" in chart.read_text(encoding="utf-8")


def test_the_chart_is_a_page_with_the_story(tmp_path: Path) -> None:
    chart = tmp_path / "chart.html"
    assert inside("scenario", "run", str(STALE_JOIN), "--html", str(chart)).code == 0
    drawn = chart.read_text(encoding="utf-8")
    assert "broker 2 (life 5) of generation 11 is in the ISR" in drawn
    assert drawn.count('<path class="arrow') >= 3 and 'class="lane dead"' in drawn


def test_a_message_that_was_held_back_says_for_how_long() -> None:
    outcome = inside("scenario", "run", str(SIM / "schedules" / "control.max-generation.json"))
    assert "(held back for 0.196" in " ".join(outcome.out.split())


def test_a_run_that_does_not_end_as_its_file_says_is_a_failure(tmp_path: Path) -> None:
    kept = steps.decode(STALE_JOIN.read_bytes())
    path = tmp_path / "mended.json"
    path.write_bytes(steps.encode(msgspec.structs.replace(kept, mutants=())))
    outcome = inside("scenario", "run", str(path))
    assert outcome.code == 1
    assert "NOT what the story says: expected harm seen by [2: ISR members have everything]" in outcome.out
    path.write_bytes(steps.encode(msgspec.structs.replace(kept, mutants=(), story="")))
    assert inside("scenario", "run", str(path)).code == 0


def test_a_file_decides_itself_what_is_missing_and_another_file_is_no_schedule(tmp_path: Path) -> None:
    outcome = inside("scenario", "run", str(STALE_JOIN), "--without-rule")
    assert outcome.code == 2 and is_one_line(outcome)
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    outcome = inside("scenario", "run", str(bad))
    assert outcome.code == 2 and is_one_line(outcome) and "is no schedule" in outcome.err
    outcome = inside("scenario", "run", str(tmp_path / "none.json"))
    assert outcome.code == 2 and "there is no scenario" in outcome.err
    outcome = inside("simulate", "--schedule", str(tmp_path / "none.json"))
    assert outcome.code == 2 and is_one_line(outcome) and "cannot be read" in outcome.err


def with_step(**changes: object) -> dict[str, object]:
    return {"steps": [{"at": 1, "kind": "kill", **changes}]}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"mode": "foo"}, "there is no mode 'foo'"),
        ({"plan": {"level": 0}}, "log mode begins at level heartbeats"),
        ({"plan": {"brokers": 0}}, "brokers is 0, it must be 3 to 48"),
        ({"plan": {"controllers": 0}}, "controllers is 0"),
        ({"plan": {"partitions": 0}}, "partitions is 0"),
        ({"plan": {"length_ms": -1}}, "length_ms is -1"),
        ({"plan": {"settings": {"colour": 1}}}, "settings has no number named 'colour'"),
        ({"plan": {"controller": {"session_timeout_ms": 0}}}, "controller.session_timeout_ms is 0"),
        ({"plan": with_step(kind="earthquake")}, "there is no step of the kind 'earthquake'"),
        ({"plan": with_step(target="king")}, "nobody plays 'king'"),
        ({"plan": with_step(kind="reset", other="broker:9")}, "nobody plays 'broker:9'"),
        ({"plan": with_step(kind="fast-bounce", disk="floppy")}, "no disk 'floppy'"),
        ({"plan": with_step(at=-5)}, "-5 ms"),
        ({"plan": with_step(kind="climb", ms=77)}, "no level 77"),
        (
            {"plan": with_step(kind="ambush", then=[{"at": 0, "kind": "produce"}])},
            "there is no fault of the kind 'produce'",
        ),
    ],
)
def test_a_file_that_means_nothing_is_refused_before_it_runs(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    kept = json.loads(STALE_JOIN.read_bytes())
    path = tmp_path / "edited.json"
    path.write_text(json.dumps({**kept, **changes, "plan": {**kept["plan"], **changes.get("plan", {})}}))
    for words in (("simulate", "--schedule", str(path)), ("scenario", "run", str(path))):
        outcome = inside(*words)
        assert outcome.code == 2 and is_one_line(outcome) and text in outcome.err, outcome


@pytest.mark.parametrize("mode", ["log", "zookeeper"])
def test_whatever_a_seed_can_plan_means_something(mode: str) -> None:
    for profile in PROFILES:
        for seed in range(20):
            schedule = steps.Schedule(seed, mode, plan(seed, mode, None, profile))
            assert list(_wrong(schedule)) == [], profile

"""The short forms that `make bench` has of the simulator's long measurements count rightly and can object."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import campaign, mutants, simulator, twice
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.figures import Figure
from epoka.sim.checkers import Violation
from epoka.sim.mutants import MUTANTS
from epoka.sim.runner import Options, Result
from epoka.sim.steps import Step

OTHER_IDS = """
import uuid
from epoka.sim.world import World
def new_id(world):
    world._ids += 1
    return uuid.UUID(int=(0xBAD << 100) + world._ids)
World.new_id = new_id
"""


def _python_that_begins_with(planted: str, folder: Path) -> str:
    """A Python whose `-c` runs something else first."""
    (folder / "planted.py").write_text(planted)
    liar = folder / "python"
    liar.write_text(
        f'#!/bin/sh\nshift\ncode="$1"\nshift\nPYTHONPATH="{folder}:$PYTHONPATH" '
        f'exec {sys.executable} -c "import planted\n$code" "$@"\n'
    )
    liar.chmod(0o755)
    return str(liar)


def test_the_same_events_with_something_else_in_them_are_another_run(tmp_path: Path) -> None:
    liar = _python_that_begins_with(OTHER_IDS, tmp_path)
    compared = twice.compare((sys.executable, liar), ("1", "1"), "log", range(2), None)
    assert compared.differing == ["log 0", "log 1"]
    honest = _python_that_begins_with("", tmp_path)
    assert not twice.compare((sys.executable, honest), ("1", "1"), "log", range(1), None).differing


@pytest.mark.parametrize(("differing", "met"), [([], True), (["log 7"], False)])
def test_two_results_that_differ_miss_the_aim(
    monkeypatch: pytest.MonkeyPatch, differing: list[str], met: bool
) -> None:
    compared = twice.Compared(["3.11"] * 2, ["1", "2"], ["log"], 0, schedules=200, differing=differing)
    monkeypatch.setattr(twice, "compare", lambda *asked: compared)
    assert [figure.met for figure in twice.measure()] == [met]


@pytest.mark.parametrize(
    ("noticed", "met"),
    [
        (["isr.generation", "isr.eligible"], [True, True, True]),
        (["isr.eligible"], [False, True, True]),
        ([], [False]),
    ],
)
def test_a_missing_rule_that_goes_unnoticed_misses_the_aim(
    monkeypatch: pytest.MonkeyPatch, noticed: list[str], met: list[bool]
) -> None:
    def go(self: mutants.Measurement, processes: int, minutes: float | None) -> None:
        for track in self.tracks():
            piece = self.next_piece(track)
            assert piece is not None
            self.take_in(piece, {name: 3 for name in piece.names if name in noticed})

    chosen = [MUTANTS["isr.generation"], MUTANTS["isr.eligible"]]
    monkeypatch.setattr(mutants, "open_mutants", lambda names: chosen)
    monkeypatch.setattr(mutants.Measurement, "go", go)
    figures = mutants.measure()
    assert [figure.met for figure in figures] == met
    assert [figure.ours for figure in figures] == [len(noticed), 3, 3][: len(met)]


@pytest.mark.parametrize(
    ("found", "met"), [((), True), ((Violation("liveness", 1, 1, "planted"),), False)], ids=["good", "bad"]
)
def test_a_violated_schedule_of_the_short_campaign_misses_the_aim(
    monkeypatch: pytest.MonkeyPatch, found: tuple[Violation, ...], met: bool
) -> None:
    asked: list[tuple[range, Options]] = []

    def spread(pieces: list[tuple[range, Options]], workers: int) -> list[tuple[list[Result], float]]:
        asked.extend(pieces)
        results = [Result(seed, 1, 1, {}, 0, 0, 0, found, "", 0) for seeds, _ in pieces for seed in seeds]
        return [(results, 1.0)]

    monkeypatch.setattr(campaign, "spread", spread)
    assert [figure.met for figure in campaign.measure()] == [met]
    assert {options.mode for _, options in asked} == {"log", "zookeeper"}
    assert {options.profile for _, options in asked} == set(campaign.PROFILES)
    assert sum(len(seeds) for seeds, _ in asked) >= 300


def test_all_of_them_are_part_of_the_bench() -> None:
    assert {"campaign", "mutants", "simulator", "twice"} <= set(BENCHMARKS)


@pytest.mark.parametrize(("binding", "code", "told"), [(True, 1, "NO"), (False, 0, "no, as known")])
def test_an_aim_that_is_out_of_reach_is_told_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], binding: bool, code: int, told: str
) -> None:
    missed = Figure("planted", "1/s", 1.0, "aim", 2.0, 0.5, 1.0, at_most=False, binding=binding)
    monkeypatch.setitem(BENCHMARKS, "simulator", lambda: [missed])
    assert main(["simulator"]) == code
    assert told in capsys.readouterr().out


def test_decisions_of_an_ambush_count_too() -> None:
    inner = Step(3, "pause")
    assert simulator.decisions([Step(1, "kill"), Step(2, "ambush", then=(inner, inner))]) == 4


def test_a_seed_made_small_is_told_with_its_events_and_those_of_booting_alone() -> None:
    small = simulator.made_small("isr.generation")
    assert 0 < small.steps < small.steps_before and 0 < small.booting < small.events
    worse = simulator.Small(60, 9, 300, 75, 1.0)
    figures = {figure.name: figure for figure in simulator._shrinking([small, small, worse])}
    assert figures["3 failing seeds made small, worst: decisions (steps)"].ours == 9
    assert figures["3 failing seeds made small, median: decisions (steps)"].ours == small.steps
    assert figures["3 failing seeds made small, worst: events"].met is False
    assert figures["3 failing seeds made small, worst: events of booting alone"].ours == 75
    assert figures["3 failing seeds made small, worst: time"].met is True

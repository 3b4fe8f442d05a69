"""Shrunken runs that are kept: each shows a rule's race in a few steps, whatever becomes of the profiles."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from epoka.sim import steps
from epoka.sim.runner import replay

KEPT = sorted((Path(__file__).parent / "schedules").glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_schedule_fails_without_its_rule_and_holds_with_it(path: Path) -> None:
    schedule = steps.decode(path.read_bytes())
    assert schedule.mutants == (path.stem,)
    harmed = replay(schedule).go()
    assert harmed.violations and schedule.story.startswith(harmed.violations[0].checker)
    assert replay(msgspec.structs.replace(schedule, mutants=())).go().ok


def test_some_are_kept() -> None:
    assert len(KEPT) >= 5

"""A failing run becomes small, stays failing, and is a file that anybody can repeat."""

from __future__ import annotations

import pytest

from epoka.sim import steps
from epoka.sim.runner import Options, replay, run
from epoka.sim.shrink import shrink

STALE_JOIN = Options(without=("isr.generation",), profile="stale-join")


def _failing(options: Options) -> int:
    return next(seed for seed in range(100) if not run(seed, options).ok)


def test_a_failing_seed_becomes_a_schedule_of_few_steps() -> None:
    seed = _failing(STALE_JOIN)
    small = shrink(seed, STALE_JOIN, seconds=30)
    assert small is not None
    assert len(small.schedule.plan.steps) <= 8 < small.steps_before
    assert "isr.generation" in small.schedule.without


def test_a_schedule_survives_its_file_and_fails_in_the_same_way() -> None:
    small = shrink(_failing(STALE_JOIN), STALE_JOIN, seconds=30)
    assert small is not None
    again = steps.decode(steps.encode(small.schedule))
    result = replay(again).go()
    assert result.violations == small.result.violations
    assert result.trace == small.result.trace


def test_a_schedule_is_safe_with_the_rule() -> None:
    small = shrink(_failing(STALE_JOIN), STALE_JOIN, seconds=30)
    assert small is not None
    safe = steps.Schedule(small.schedule.seed, small.schedule.mode, small.schedule.plan)
    assert replay(safe).go().ok


def test_a_seed_that_does_not_fail_is_not_shrunk() -> None:
    assert shrink(0, Options(), seconds=5) is None


def test_a_file_that_is_no_schedule_is_refused() -> None:
    with pytest.raises(Exception, match="seed"):
        steps.decode(b"{}")

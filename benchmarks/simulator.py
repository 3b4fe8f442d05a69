"""How fast the simulator is, and how much of its time goes into checking.

The limits are the aims of the simulator's issue: schedules, events and simulated seconds a second and core.
Schedules run as they do in a campaign, in a process of their own. Time is processor time, and of every piece
the best of three rounds counts, so that neighbours on the machine count less. The share of the checkers is
what the calls after every event and the last questions of a run take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks.figures import Figure
from epoka.sim.checkers import Checkers
from epoka.sim.fleet import campaign, cut, spread
from epoka.sim.history import History
from epoka.sim.runner import Options, run
from epoka.sim.shrink import shrink

MODES = ("log", "zookeeper")
SEEDS = range(5_000, 5_200)
ROUNDS = 3
WARM_UP = range(20)
SCHEDULES_AIM, EVENTS_AIM, SIMULATED_AIM = 50.0, 150_000.0, 150.0
QUESTIONS: tuple[tuple[type, str], ...] = (
    (Checkers, "after"),
    (Checkers, "converged"),
    (Checkers, "logs_agree"),
    (History, "anomalies"),
)


class Speed(msgspec.Struct):
    """What all seeds came to; seconds of a processor."""

    spent: float = 0.0
    schedules: int = 0
    events: int = 0
    simulated_s: float = 0.0


def run_all(mode: str) -> Speed:
    speed = Speed()
    rounds = [spread(cut(SEEDS, Options(mode=mode)), workers=1) for _ in range(ROUNDS)]
    for tries in zip(*map(list, rounds), strict=True):
        results, _ = tries[0]
        assert all(each.ok for each in results), "a run was violated: see `epoka simulate`"
        speed.spent += min(cpu_s for _, cpu_s in tries)
        speed.schedules += len(results)
        speed.events += sum(each.events for each in results)
        speed.simulated_s += sum(each.simulated_ms for each in results) / 1000
    return speed


class _Stopwatch:
    """Adds up the time inside of some calls, of which none calls another."""

    def __init__(self) -> None:
        self.inside = 0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            began = time.process_time_ns()
            try:
                return call(*given)
            finally:
                self.inside += time.process_time_ns() - began

        return timed


def checkers_share(mode: str) -> float:
    """The part of the time that is spent in asking whether all is as it should be."""
    watch = _Stopwatch()
    originals = [(where, name, getattr(where, name)) for where, name in QUESTIONS]
    try:
        for where, name, original in originals:
            setattr(where, name, watch.timed(original))
        tally = campaign(SEEDS, Options(mode=mode), processes=1)
        return watch.inside / 1e9 / tally.cpu_s
    finally:
        for where, name, original in originals:
            setattr(where, name, original)


def _at_least(name: str, unit: str, ours: float, aim: float) -> Figure:
    return Figure(name, unit, ours, "aim", aim, ours / aim, 1.0, at_most=False)


def measure() -> list[Figure]:
    for seed in WARM_UP:
        run(seed)
        run(seed, Options(mode="zookeeper"))
    figures = []
    for mode in MODES:
        speed = run_all(mode)
        spent = speed.spent
        figures += [
            _at_least(f"schedules, {mode} mode", "1/s/core", speed.schedules / spent, SCHEDULES_AIM),
            _at_least(f"events, {mode} mode", "1/s/core", speed.events / spent, EVENTS_AIM),
            _at_least(f"simulated time, {mode} mode", "s/s/core", speed.simulated_s / spent, SIMULATED_AIM),
        ]
    for mode in MODES:
        share = checkers_share(mode)
        figures.append(
            Figure(f"checkers' share of the time, {mode} mode", "part", share, "everything", 1.0, share)
        )
    began = time.monotonic()
    options = Options(without=("isr.generation",), profile="stale-join")
    seed = next(seed for seed in range(100) if not run(seed, options).ok)
    small = shrink(seed, options)
    assert small is not None
    seconds = time.monotonic() - began
    figures.append(Figure("a failing seed made small", "s", seconds, "aim", 60.0, seconds / 60.0, 1.0))
    steps = float(len(small.schedule.plan.steps))
    figures.append(Figure("its steps", "steps", steps, "aim", 50.0, steps / 50.0, 1.0))
    return figures

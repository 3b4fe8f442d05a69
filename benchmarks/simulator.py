"""How fast the simulator is, and how much of its time goes into checking.

The limits are the aims of the simulator's issue: schedules, events and simulated seconds a second and core.
The share of the checkers is what the calls after every event take.
Time is processor time of one process, so that neighbours on the machine count less.
"""

from __future__ import annotations

import gc
import time

from benchmarks.figures import Figure
from epoka.model.events import Event
from epoka.sim.checkers import Checkers
from epoka.sim.process import Process
from epoka.sim.runner import Options, run
from epoka.sim.shrink import shrink

SEEDS = range(5_000, 5_300)
WARM_UP = range(20)
SCHEDULES_AIM, EVENTS_AIM, SIMULATED_AIM = 50.0, 150_000.0, 150.0


def run_all(mode: str) -> tuple[float, int, int]:
    """Processor seconds, events and simulated milliseconds of all seeds."""
    options = Options(mode=mode)
    gc.collect()
    began = time.process_time()
    results = [run(seed, options) for seed in SEEDS]
    spent = time.process_time() - began
    assert all(result.ok for result in results), "a run was violated: see `epoka simulate`"
    return spent, sum(each.events for each in results), sum(each.simulated_ms for each in results)


def checkers_share() -> float:
    """The part of the time that is spent in what is asked after every event."""
    after = Checkers.after
    inside = 0

    def timed(self: Checkers, process: Process, event: Event) -> None:
        nonlocal inside
        began = time.perf_counter_ns()
        try:
            after(self, process, event)
        finally:
            inside += time.perf_counter_ns() - began

    try:
        Checkers.after = timed  # type: ignore[method-assign]
        began = time.perf_counter_ns()
        for seed in SEEDS:
            run(seed)
        return inside / (time.perf_counter_ns() - began)
    finally:
        Checkers.after = after  # type: ignore[method-assign]


def _at_least(name: str, unit: str, ours: float, aim: float) -> Figure:
    return Figure(name, unit, ours, "aim", aim, ours / aim, 1.0, at_most=False)


def measure() -> list[Figure]:
    for seed in WARM_UP:
        run(seed)
        run(seed, Options(mode="zookeeper"))
    figures = []
    for mode in ("log", "zookeeper"):
        spent, events, simulated_ms = run_all(mode)
        figures += [
            _at_least(f"schedules, {mode} mode", "1/s/core", len(SEEDS) / spent, SCHEDULES_AIM),
            _at_least(f"events, {mode} mode", "1/s/core", events / spent, EVENTS_AIM),
            _at_least(f"simulated time, {mode} mode", "s/s/core", simulated_ms / 1000 / spent, SIMULATED_AIM),
        ]
    share = checkers_share()
    figures.append(Figure("checkers' share of the time", "part", share, "everything", 1.0, share))
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

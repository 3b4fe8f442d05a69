"""How fast the simulator is, and how much of its time goes into checking.

The limits are schedules, events and simulated seconds a second and core. The aim for events was set by a toy
without cores; no Python reaches it, so it does not bind, and neither does that for the events of a small run.
Schedules run as they do in a campaign, in a process of their own. Time is processor time, and of every piece
the best of three rounds counts, so that neighbours on the machine count less. The share of the checkers is
what the calls after every event and the last questions of a run take.

Failing seeds are made small, one for each of some missing rules. The aim is 50 events or fewer in under a
minute. An event is a call of a core's `handle`: to boot a cluster takes about 50 of them in log mode
and 75 in zookeeper mode, so nothing that fails can have so few; and one that fails by not becoming well again
has 20 simulated seconds of waiting in it. What shrinking takes away are decisions (steps), so these are
counted as well, with those that an ambush has in `then`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from statistics import median_low
from typing import Any

import msgspec

from benchmarks.figures import Figure
from benchmarks.mutants import AIMED, options
from epoka.sim import profiles
from epoka.sim.checkers import Checkers
from epoka.sim.fleet import campaign, cut, spread
from epoka.sim.history import History
from epoka.sim.mutants import MUTANTS
from epoka.sim.runner import Options, Run, run
from epoka.sim.shrink import shrink
from epoka.sim.steps import Step

MODES = ("log", "zookeeper")
SEEDS = range(5_000, 5_200)
ROUNDS = 3
WARM_UP = range(20)
SCHEDULES_AIM, EVENTS_AIM, SIMULATED_AIM = 50.0, 150_000.0, 150.0
SMALL_EVENTS_AIM, SMALL_SECONDS_AIM = 50.0, 60.0
MADE_SMALL = (
    "isr.generation",
    "leader.eligible",
    "isr.partition-epoch",
    "heartbeat.generation",
    "fetch.generation",
    "ack-before-high-watermark",
    "join-without-epoch-start",
    "truncate-to-high-watermark",
    "control.max-generation",
    "registry.bounce",
    "start-before-failure",
)
"""Missing rules of both modes; of each, the first seed from `FIRST_SMALL` on that notices is made small."""
FIRST_SMALL = 1_000
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


class Small(msgspec.Struct, frozen=True):
    """One failing seed, made small."""

    steps_before: int
    steps: int
    events: int
    booting: int
    """Of those events, the ones before anything was done to the cluster."""
    seconds: float
    """Of a processor."""


class _Booted(Run):
    booting = 0

    def _live(self) -> None:
        self.booting = self.world.events
        super()._live()


def decisions(steps: Iterable[Step]) -> int:
    """All steps, those of ambushes too."""
    return sum(1 + decisions(step.then) for step in steps)


def made_small(name: str) -> Small:
    asked = options(MUTANTS[name], AIMED)
    seed = next(seed for seed in range(FIRST_SMALL, 2 * FIRST_SMALL) if not run(seed, asked).ok)
    began = time.process_time()
    small = shrink(seed, asked)
    seconds = time.process_time() - began
    assert small is not None
    again = _Booted(seed, asked, small.schedule.plan)
    result = again.go()
    assert result == small.result, "a small schedule is another one when it is run again"
    whole = profiles.plan(seed, asked.mode, asked.level, asked.profile)
    return Small(decisions(whole.steps), decisions(again.plan.steps), result.events, again.booting, seconds)


def _shrinking(found: Sequence[Small]) -> list[Figure]:
    figures = []
    for way, of in (("median", median_low), ("worst", max)):
        about = f"{len(found)} failing seeds made small, {way}"
        steps, before = of([(each.steps, each.steps_before) for each in found])
        figures.append(
            Figure(f"{about}: decisions (steps)", "steps", steps, "before", before, steps / before)
        )
        events, booting = of([each.events for each in found]), of([each.booting for each in found])
        figures += [
            _at_most(f"{about}: events", "events", events, SMALL_EVENTS_AIM, binding=False),
            Figure(f"{about}: events of booting alone", "events", booting, "all", events, booting / events),
            _at_most(f"{about}: time", "s", of([each.seconds for each in found]), SMALL_SECONDS_AIM),
        ]
    return figures


def _at_most(name: str, unit: str, ours: float, aim: float, *, binding: bool = True) -> Figure:
    return Figure(name, unit, ours, "aim", aim, ours / aim, 1.0, binding=binding)


def _at_least(name: str, unit: str, ours: float, aim: float, *, binding: bool = True) -> Figure:
    return Figure(name, unit, ours, "aim", aim, ours / aim, 1.0, at_most=False, binding=binding)


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
            _at_least(f"events, {mode} mode", "1/s/core", speed.events / spent, EVENTS_AIM, binding=False),
            _at_least(f"simulated time, {mode} mode", "s/s/core", speed.simulated_s / spent, SIMULATED_AIM),
        ]
    for mode in MODES:
        share = checkers_share(mode)
        figures.append(
            Figure(f"checkers' share of the time, {mode} mode", "part", share, "everything", 1.0, share)
        )
    return figures + _shrinking([made_small(name) for name in MADE_SMALL])

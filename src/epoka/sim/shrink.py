"""Makes a failing run small: takes decisions away as long as the same checker still objects.

Delta debugging over the steps of the schedule: large pieces first, then smaller ones, then single steps; then
what is left is made calmer (one broker's worth of network noise less, no codec, one partition). Everything is
tried by running it, so what comes out fails for certain, and for the reason that was asked about.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from epoka.sim import profiles
from epoka.sim.runner import Options, Result, Run
from epoka.sim.steps import Plan, Schedule, Step

CALMER: Sequence[dict[str, object]] = (
    {"codec": False},
    {"spike_chance": 0.0},
    {"spread_ms": 0},
    {"partitions": 1},
    {"brokers": 3},
    {"metadata_max_bytes": 8 << 20},
    {"most_queued": 500},
    {"in_flight": 1},
)


class Shrunk(msgspec.Struct, frozen=True):
    schedule: Schedule
    result: Result
    """Of the small schedule."""
    steps_before: int
    runs: int
    """How many schedules were tried."""


def shrink(seed: int, options: Options, *, seconds: float = 50.0, plan: Plan | None = None) -> Shrunk | None:
    """The smallest failing schedule that could be found in that time; None when the seed does not fail."""
    whole = plan or profiles.plan(seed, options.mode, options.level, options.profile)
    first = Run(seed, options, whole).go()
    if first.ok:
        return None
    search = _Search(seed, options, whole, first, time.monotonic() + seconds)
    search.take_away()
    search.calm()
    search.take_away()
    return Shrunk(
        as_schedule(seed, options, search.plan, search.result),
        search.result,
        len(whole.steps),
        search.runs,
    )


def as_schedule(seed: int, options: Options, plan: Plan, result: Result) -> Schedule:
    story = f"{result.violations[0].checker}: {result.violations[0].story}" if result.violations else ""
    return Schedule(
        seed=seed,
        mode=options.mode,
        without=options.without,
        mutants=options.mutants,
        plan=plan,
        story=story,
    )


class _Search:
    def __init__(self, seed: int, options: Options, plan: Plan, result: Result, until: float) -> None:
        self.seed = seed
        self.options = options
        self.plan = plan
        self.result = result
        self.runs = 1
        self._until = until
        self._checker = result.violations[0].checker

    def _fails(self, plan: Plan) -> bool:
        """Whether this one fails too, for the same reason; if so it is the best so far."""
        if time.monotonic() > self._until:
            return False
        self.runs += 1
        result = Run(self.seed, self.options, plan).go()
        if not result.violations or result.violations[0].checker != self._checker:
            return False
        self.plan, self.result = plan, result
        return True

    def take_away(self) -> None:
        size = max(len(self.plan.steps) // 2, 1)
        while True:
            if not self._one_round(size):
                if size == 1:
                    return
                size = max(size // 2, 1)

    def _one_round(self, size: int) -> bool:
        """Try without each piece of that size; True when something could go and another round may pay."""
        gone = False
        at = 0
        while at < len(self.plan.steps):
            left = (*self.plan.steps[:at], *self.plan.steps[at + size :])
            if self._fails(_with_steps(self.plan, left)):
                gone = True
            else:
                at += size
        return gone and size == 1

    def calm(self) -> None:
        for change in CALMER:
            calmer = msgspec.structs.replace(self.plan, **change)
            if calmer != self.plan:
                self._fails(calmer)
        if self.result.violations and self.result.violations[0].checker != "liveness":
            last = max((step.at for step in self.plan.steps), default=0)
            self._fails(msgspec.structs.replace(self.plan, length_ms=max(last + 200, 100)))


def _with_steps(plan: Plan, steps: Sequence[Step]) -> Plan:
    return msgspec.structs.replace(plan, steps=tuple(steps))

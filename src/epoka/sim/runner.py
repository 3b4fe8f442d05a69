"""One run: a plan, a world, faults and clients until the time is up, healing, and the last questions."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

from epoka.broker import metadata_feed
from epoka.controller import push
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FeatureLevel
from epoka.sim import client, mutants, profiles
from epoka.sim.checkers import Checkers, Violated, Violation
from epoka.sim.history import History
from epoka.sim.nemesis import Nemesis
from epoka.sim.oracle import Oracle
from epoka.sim.steps import Plan, Schedule, Step
from epoka.sim.workload import Workload
from epoka.sim.world import BORN_MS, LOG, StoodStill, World

HEALING_MS: Final = 20_000
"""How long a healed cluster may take until all is well; simulated time."""
LOOK_MS: Final = 50


class Options(msgspec.Struct, frozen=True):
    """What is asked of a run beside its seed."""

    mode: str = LOG
    level: FeatureLevel | None = None
    """None: the seed decides."""
    without: tuple[str, ...] = ()
    """Fencing rules that are switched off."""
    mutants: tuple[str, ...] = ()
    """Other rules that are taken away; names of `sim/mutants.py`."""
    profile: str = profiles.SWARM
    over_budget: bool = False


class Result(msgspec.Struct, frozen=True):
    seed: int
    events: int
    simulated_ms: int
    faults: dict[str, int]
    acked: int
    exceptions: int
    """How often the last replica standing had lost its tail."""
    downgraded: int
    violations: tuple[Violation, ...]
    trace: str
    steps: int

    @property
    def ok(self) -> bool:
        return not self.violations


class Run:
    """A run that can be looked into; `run` is the short way."""

    def __init__(
        self, seed: int, options: Options, plan: Plan | None = None, *, ledger: bool = False
    ) -> None:
        self.seed = seed
        self.options = options
        self.plan = plan or profiles.plan(seed, options.mode, options.level, options.profile)
        self.wants_ledger = ledger
        self.world: World
        self.checkers: Checkers
        self.nemesis: Nemesis | None = None
        self.workload: Workload
        self.history = History()
        self.oracle = Oracle()
        self.violations: list[Violation] = []

    def go(self) -> Result:
        plan = self.plan
        before = metadata_feed.MAX_BYTES, push.MOST_QUEUED
        metadata_feed.MAX_BYTES, push.MOST_QUEUED = plan.metadata_max_bytes, plan.most_queued
        try:
            with mutants.applied(self.options.mutants):
                try:
                    self._set_up()
                    self._live()
                    self._heal()
                except Violated:
                    pass
                except StoodStill:
                    story = "; ".join(["the cluster did not come up, before any fault", *self.world.broken])
                    self.violations.append(Violation("liveness", self.world.events, self.world.now, story))
        finally:
            metadata_feed.MAX_BYTES, push.MOST_QUEUED = before
        return self._result()

    def _set_up(self) -> None:
        plan, options = self.plan, self.options
        settings: dict[str, Any] = dict(plan.settings)
        world = self.world = World(
            self.seed,
            mode=options.mode,
            level=plan.level,
            brokers=plan.brokers,
            controllers=plan.controllers,
            without=(*options.without, *mutants.rules_off(options.mutants)),
            codec=plan.codec,
            controller=plan.controller,
            boot=False,
            **settings,
        )
        world.run_until(world.all_active, HEALING_MS)
        world.keeps_ledger = self.wants_ledger
        assignments = [[(first + at) % 3 + 1 for at in range(3)] for first in range(plan.partitions)]
        client.create_topic(world, "t", *assignments, min_insync_replicas=str(plan.min_isr))
        mutants.set_up(world, options.mutants)
        world.weather.spread_ms = plan.spread_ms
        world.weather.spike_chance = plan.spike_chance
        world.network.late_share = 0.3
        world.chores_ms = plan.chores_ms
        for process in world.brokers():
            world.later(plan.chores_ms + 7 * process.node_id, world.chores, process)
        self.checkers = Checkers(world, self.oracle)
        self.violations = self.checkers.violations
        nemesis = self.nemesis = Nemesis(world, self.checkers, Random(self.seed ^ 0x5EED_0003), plan.min_isr)
        nemesis.over_budget = options.over_budget
        self.workload = Workload(
            world, self.checkers, self.history, Random(self.seed ^ 0x5EED_0004), plan.in_flight
        )
        self.workload.adopt_topic("t")
        start = world.now
        for step in plan.steps:
            world.schedule(start + step.at, self._do, step)
        self.workload.start()

    def _do(self, step: Step) -> None:
        assert self.nemesis is not None
        if self.nemesis.knows(step.kind):
            self.nemesis.do(step)
        else:
            self.workload.do(step)

    def _live(self) -> None:
        self.world.run_to(self.world.now + self.plan.length_ms)

    def _heal(self) -> None:
        """No more faults: everything must become well in time, and everything be there."""
        world, checkers = self.world, self.checkers
        assert self.nemesis is not None
        self.nemesis.heal()
        self.workload.read_again()
        end = world.now + HEALING_MS
        missing: str | None = "nothing was looked at"
        while world.now < end:
            world.run_to(world.now + LOOK_MS)
            missing = self._missing()
            if missing is None:
                break
        if missing is not None:
            checkers.fail("liveness", f"{HEALING_MS} ms after all faults were healed: {missing}")
        checkers.logs_agree()
        for anomaly in self.history.anomalies():
            checkers.fail(anomaly.split(":")[0], anomaly)

    def _missing(self) -> str | None:
        missing = self.checkers.converged() or self.workload.idle()
        if missing is None and not self.workload.read_everything():
            missing = "a consumer has not read everything"
        return missing

    def _result(self) -> Result:
        world = self.world
        return Result(
            seed=self.seed,
            events=world.events,
            simulated_ms=world.now - BORN_MS,
            faults=dict(sorted(self.nemesis.counts.items())) if self.nemesis else {},
            acked=self.history.acked,
            exceptions=self.oracle.exceptions,
            downgraded=self.nemesis.downgraded if self.nemesis else 0,
            violations=tuple(self.violations),
            trace=world.trace_hash(),
            steps=len(self.plan.steps),
        )

    @property
    def ledger(self) -> list[LedgerEvent]:
        return self.world.ledger


def run(seed: int, options: Options | None = None, plan: Plan | None = None) -> Result:
    """One seed, one result, always the same."""
    return Run(seed, options or Options(), plan).go()


def replay(schedule: Schedule, *, ledger: bool = False) -> Run:
    """A run of exactly these steps; `.go()` it."""
    options = Options(mode=schedule.mode, without=schedule.without, mutants=schedule.mutants)
    return Run(schedule.seed, options, schedule.plan, ledger=ledger)


__all__ = ["HEALING_MS", "Options", "Result", "Run", "StoodStill", "replay", "run"]

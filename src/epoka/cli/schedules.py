"""Schedules from files: `epoka simulate --schedule` and `epoka scenario run` read them here.

A file may be edited by hand, so what decodes is looked through before it runs: whatever the simulator would
stumble over is wrong use, told in one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from re import fullmatch
from typing import Final

import msgspec

from epoka.broker.config import BrokerConfig
from epoka.cli.output import usage
from epoka.cli.rules import misplaced, unknown
from epoka.controller.config import ControllerConfig
from epoka.model.levels import FeatureLevel
from epoka.sim import steps
from epoka.sim.nemesis import AIMED, KINDS, STRANGER
from epoka.sim.world import KEEP, LOSE, TEAR, WIPE

MODES: Final = ("log", "zookeeper")
FAULTS: Final = frozenset((*KINDS, *AIMED))
ASKED: Final = frozenset(
    {
        "produce",
        "create-topic",
        "delete-topic",
        "use-side-topic",
        "reassign",
        "cancel-reassign",
        "elect",
        "climb",
    }
)
"""Steps of clients and operators: all that are no faults."""
ROLES: Final = r"(any|leader|follower|insider|outsider|controller)(@\d{1,9})?|broker:(\d{1,9})"
DISKS: Final = ("", KEEP, LOSE, TEAR, WIPE)
PROPOSALS: Final = ("", "grows", "shrinks")
"""What an ambush has for a disk: which proposals it waits for."""
REPLICAS: Final = 3
"""Of every partition, on the first three brokers."""
MOST_CONTROLLERS: Final = 9


def read_schedule(path: Path) -> steps.Schedule:
    """The schedule in a file; wrong use if there is none that can be run."""
    try:
        schedule = steps.decode(path.read_bytes())
    except OSError as error:
        usage(f"{path} cannot be read: {error.strerror or error}")
    except msgspec.MsgspecError as error:
        usage(f"{path} is no schedule: {error}")
    if (wrong := next(_wrong(schedule), None)) is not None:
        usage(f"{path} is no schedule: {wrong}")
    if found := misplaced((*schedule.without, *schedule.mutants), schedule.mode):
        name, mode = found
        usage(f"{path} is of {schedule.mode} mode, where nothing asks {name}, a rule of {mode} mode")
    return schedule


def _wrong(schedule: steps.Schedule) -> Iterator[str]:
    """Whatever in it means nothing."""
    plan = schedule.plan
    if schedule.mode not in MODES:
        yield f"there is no mode {schedule.mode!r}"
    if name := unknown((*schedule.without, *schedule.mutants)):
        yield f"there is no rule named {name}"
    if schedule.mode == "log" and plan.level < FeatureLevel.HEARTBEATS:
        yield f"log mode begins at level heartbeats, there is no {plan.level} in it"
    for name, value, lowest, highest in (
        ("brokers", plan.brokers, REPLICAS, STRANGER - 1),
        ("controllers", plan.controllers, 1, MOST_CONTROLLERS),
        ("partitions", plan.partitions, 1, 1_000),
        ("min_isr", plan.min_isr, 1, REPLICAS),
        ("length_ms", plan.length_ms, 0, 1 << 31),
        ("spread_ms", plan.spread_ms, 0, 1 << 31),
        ("spike_chance", plan.spike_chance, 0, 1),
        ("chores_ms", plan.chores_ms, 1, 1 << 31),
        ("metadata_max_bytes", plan.metadata_max_bytes, 1, 1 << 31),
        ("most_queued", plan.most_queued, 1, 1 << 31),
        *((f"settings.{name}", value, 1, 1 << 31) for name, value in plan.settings.items()),
        *((f"controller.{name}", value, 1, 1 << 31) for name, value in plan.controller.items()),
    ):
        if not lowest <= value <= highest:
            yield f"{name} is {value}, it must be {lowest} to {highest}"
    for of, given, known in (
        ("settings", plan.settings, BrokerConfig),
        ("controller", plan.controller, ControllerConfig),
    ):
        numbers = {field.name for field in msgspec.structs.fields(known) if field.type is int}
        if strange := given.keys() - numbers:
            yield f"{of} has no number named {min(strange)!r}"
    for step in plan.steps:
        yield from _wrong_in(step, plan.brokers, FAULTS | ASKED)


def _wrong_in(step: steps.Step, brokers: int, kinds: frozenset[str]) -> Iterator[str]:
    if step.kind not in kinds:
        yield f"there is no {'fault' if kinds is FAULTS else 'step'} of the kind {step.kind!r}"
    for role in (step.target, step.other):
        played = fullmatch(ROLES, role)
        if role and (played is None or (played[3] and not 1 <= int(played[3]) <= brokers)):
            yield f"nobody plays {role!r}"
    if step.disk not in (PROPOSALS if step.kind == "ambush" else DISKS):
        yield f"a step has no disk {step.disk!r}"
    if min(step.at, step.ms) < 0:
        yield f"a step is {min(step.at, step.ms)} ms away, or takes so long"
    if step.kind == "climb" and step.ms not in tuple(FeatureLevel):
        yield f"there is no level {step.ms} to climb to"
    for each in step.then:
        # What an ambush springs is done to the cluster, never asked of it.
        yield from _wrong_in(each, brokers, FAULTS)

"""The options of `format("epoka-sim")`: which seeds, which cluster, which rules, and how far a seed may go.

Decides which options are good and what each means; every complaint names the option and its value. Never
decides what a run does: that is the simulator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from epoka.fencing import RULES
from epoka.model.levels import LOWEST_IN_LOG_MODE, FeatureLevel
from epoka.sim import steps
from epoka.sim.mutants import MUTANTS
from epoka.sim.profiles import PROFILES, SWARM
from epoka.sim.runner import Options
from epoka.sim.world import LOG, ZOOKEEPER
from epoka.spark.options import BadOption, number, truth

MODES: Final = (LOG, ZOOKEEPER)
EACH: Final = "each"
"""`without=each`: every rule that can be taken away, one after the other."""
ITS_RULE: Final = "rule"
"""`without=rule`, of a scenario: whatever protects it."""
SEEDS_PER_TASK: Final = 200
SEEDS_PER_TRIGGER: Final = 2_000
SECONDS_PER_SEED: Final = 60.0
EVENTS_PER_SEED: Final = 100_000
SHRINK_SECONDS: Final = 50.0
_KNOWN: Final = (
    "seeds",
    "scenario",
    "mode",
    "level",
    "without",
    "profile",
    "seedsPerTask",
    "seedsPerTrigger",
    "secondsPerSeed",
    "eventsPerSeed",
    "ledger",
    "totals",
    "shrink",
    "shrinkSeconds",
)


class Span(msgspec.Struct, frozen=True):
    """Seeds from the first up to, not including the end; None: without end."""

    first: int
    end: int | None

    def __str__(self) -> str:
        return f"{self.first}:{'' if self.end is None else self.end}"


class Asked(msgspec.Struct, frozen=True):
    """What every seed is asked, beside its number."""

    options: Options
    without: str = ""
    """As it stands in the table."""
    scenario: str = ""
    story: bool = False
    """The scenario is one of the gallery's stories, and `without` takes its rule away."""
    plan: steps.Plan | None = None
    """The scenario is a schedule from a file: these steps, whatever the seed."""

    def __str__(self) -> str:
        options = self.options
        words = [self.scenario or options.profile, options.mode, str(options.level or "any level")]
        return ", ".join([*words, f"without {self.without}"] if self.without else words)


class Limits(msgspec.Struct, frozen=True):
    """How far a seed may go, and what is kept of one that fails."""

    seconds: float = SECONDS_PER_SEED
    """Of processor time; a seed that uses none is given HARD times as long."""
    events: int = EVENTS_PER_SEED
    ledger: bool = True
    shrink_seconds: float | None = None
    """None: failing seeds are not made small."""


class FleetOptions(msgspec.Struct, frozen=True):
    seeds: tuple[Span, ...]
    asked: tuple[Asked, ...]
    limits: Limits
    totals: bool
    """One row a task, its sums, instead of one a seed."""
    seeds_per_task: int
    seeds_per_trigger: int


def fleet_options(given: Mapping[str, str], *, streaming: bool) -> FleetOptions:
    """What the options mean; BadOption names the first that is wrong."""
    options = {name.lower(): value for name, value in given.items()}
    known = {name.lower() for name in _KNOWN}
    for name, value in given.items():
        if name.lower() not in known:
            raise BadOption(f"{name}={value} is not known; there are {', '.join(_KNOWN)}")
    limits = Limits(
        seconds=_seconds(options, "secondsPerSeed", SECONDS_PER_SEED),
        events=_count(options, "eventsPerSeed", EVENTS_PER_SEED),
        ledger=truth(options, "ledger", True),
        shrink_seconds=_seconds(options, "shrinkSeconds", SHRINK_SECONDS)
        if truth(options, "shrink", False)
        else None,
    )
    return FleetOptions(
        seeds=_spans(options, streaming),
        asked=_asked(options),
        limits=limits,
        totals=truth(options, "totals", False),
        seeds_per_task=_count(options, "seedsPerTask", SEEDS_PER_TASK),
        seeds_per_trigger=_count(options, "seedsPerTrigger", SEEDS_PER_TRIGGER),
    )


def _spans(options: Mapping[str, str], streaming: bool) -> tuple[Span, ...]:
    text = options.get("seeds", "").strip()
    if not text:
        raise BadOption("seeds is not set: seeds=0:1000 runs from 0 up to, not including 1000")
    spans = tuple(_span(text, each.strip()) for each in text.split(","))
    if streaming and len(spans) > 1:
        raise BadOption(f"seeds={text} names several ranges; a stream goes through one")
    if not streaming and any(span.end is None for span in spans):
        raise BadOption(f"seeds={text} has no end, which only a stream can do without")
    ordered = sorted(spans, key=lambda span: span.first)
    for one, other in pairwise(ordered):
        if one.end is None or other.first < one.end:
            raise BadOption(f"seeds={text} names seed {other.first} twice")
    return spans


def _span(whole: str, text: str) -> Span:
    first, separator, last = text.partition(":")
    try:
        begin = int(first)
        end = (int(last) if last.strip() else None) if separator else begin + 1
    except ValueError:
        raise BadOption(f"seeds is written as A:B, two numbers, not {whole!r}") from None
    if begin < 0 or (end is not None and end <= begin):
        raise BadOption(f"seeds={whole} names no seed: B must be above A, and A not below 0")
    if max(begin, end or 0) > 1 << 62:
        raise BadOption(f"seeds={whole} is more than a table's column of seeds can hold")
    return Span(begin, end)


def _asked(options: Mapping[str, str]) -> tuple[Asked, ...]:
    scenario = options.get("scenario", "").strip()
    if scenario:
        for name in ("mode", "level", "profile"):
            if name in options:
                raise BadOption(
                    f"{name}={options[name]} is decided by scenario={scenario} and cannot be given"
                )
        return (_of_scenario(scenario, options),)
    without = options.get("without", "").strip()
    if without == EACH or without.startswith(f"{EACH}:"):
        return _of_each_rule(without, options)
    mode = options.get("mode", LOG).strip().lower()
    if mode not in MODES:
        raise BadOption(f"mode is {' or '.join(MODES)}, not {mode!r}")
    return (
        Asked(
            _with(Options(mode, _level(options, mode), profile=_profile(options, SWARM)), without), without
        ),
    )


def _of_each_rule(without: str, options: Mapping[str, str]) -> tuple[Asked, ...]:
    for name in ("mode", "level"):
        if name in options:
            raise BadOption(
                f"{name}={options[name]} cannot be given with without={without}: each rule has its own"
            )
    _, _, listed = without.partition(":")
    names = [_rule(name.strip(), without) for name in listed.split(",")] if listed else list(MUTANTS)
    asked = []
    for name in names:
        mutant = MUTANTS[name]
        profile = _profile(options, mutant.profile)
        asked.append(Asked(Options(mutant.mode, mutant.level, mutants=(name,), profile=profile), name))
    return tuple(asked)


def _of_scenario(name: str, options: Mapping[str, str]) -> Asked:
    from epoka.sim.scenarios import SCENARIOS

    without = options.get("without", "").strip()
    told = SCENARIOS.get(name)
    if told is not None:
        if without not in ("", ITS_RULE, ",".join(told.rules)):
            own = ",".join(told.rules) or ITS_RULE
            raise BadOption(f"without={without} is not what protects scenario={name}: that is {own}")
        asked = Options(told.mode, told.level)
        return Asked(asked, told.protection if without else "", name, story=True)
    path = Path(name)
    if path.suffix != ".json":
        raise BadOption(
            f"scenario={name} is neither a story of `epoka scenario list` nor a schedule's .json file"
        )
    try:
        schedule = steps.decode(path.read_bytes())
    except OSError as error:
        raise BadOption(f"scenario={name} cannot be read: {error.strerror or error}") from None
    except msgspec.MsgspecError as error:
        raise BadOption(f"scenario={name} is no schedule: {error}") from None
    plan = schedule.plan
    asked = Options(schedule.mode, plan.level)
    if "without" in options:
        return Asked(_with(asked, without), without, name, plan=plan)
    taken = (*schedule.without, *schedule.mutants)
    asked = msgspec.structs.replace(asked, without=schedule.without, mutants=schedule.mutants)
    return Asked(asked, ",".join(taken), name, plan=plan)


def _with(options: Options, without: str) -> Options:
    names = [_rule(name.strip(), without) for name in without.split(",")] if without else []
    return msgspec.structs.replace(
        options,
        without=tuple(name for name in names if name in RULES),
        mutants=tuple(name for name in names if name not in RULES),
    )


def _rule(name: str, without: str) -> str:
    if name not in RULES and name not in MUTANTS:
        raise BadOption(
            f"without={without} names {name!r}, which is no rule; `epoka simulate --rules` has the names"
        )
    return name


def _profile(options: Mapping[str, str], usual: str) -> str:
    name = options.get("profile", "").strip() or usual
    if name not in PROFILES:
        raise BadOption(f"profile={name} is not known; there are {', '.join(PROFILES)}")
    return name


def _level(options: Mapping[str, str], mode: str) -> FeatureLevel | None:
    text = options.get("level", "").strip()
    if not text:
        return None
    try:
        level = FeatureLevel.parse(text)
    except ValueError as error:
        raise BadOption(f"level={text}: {error}") from None
    if mode == LOG and level < LOWEST_IN_LOG_MODE:
        raise BadOption(f"level={text} is not in mode=log, which begins at {LOWEST_IN_LOG_MODE}")
    return level


def _count(options: Mapping[str, str], name: str, usual: int) -> int:
    return number(options, name, usual, least=1)


def _seconds(options: Mapping[str, str], name: str, usual: float) -> float:
    text = options.get(name.lower())
    if text is None:
        return usual
    try:
        seconds = float(text)
    except ValueError:
        raise BadOption(f"{name} is a number of seconds, not {text!r}") from None
    if not 0 < seconds < 1e6:
        raise BadOption(f"{name} is above 0 and below a million, not {text}")
    return seconds

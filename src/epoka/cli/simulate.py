"""`epoka simulate`: seeds on all cores, what was violated, and how to see it again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from epoka.cli.output import EXIT_FAILED, EXIT_GOOD, plural, say, say_json, table, usage
from epoka.cli.progress import bar
from epoka.cli.rules import misplaced, refuse, unknown
from epoka.cli.schedules import read_schedule
from epoka.fencing import RULES
from epoka.model.levels import FeatureLevel
from epoka.sim import steps
from epoka.sim.checkers import Violation
from epoka.sim.fleet import Tally, campaign
from epoka.sim.mutants import MUTANTS
from epoka.sim.profiles import PROFILES, SWARM, plan
from epoka.sim.runner import Options, Result, Run, replay
from epoka.sim.shrink import Shrunk, shrink

if TYPE_CHECKING:
    from epoka.spark.fleet.run import Failing


def simulate(
    seeds: str | None,
    schedule: Path | None,
    mode: str | None,
    level: str | None,
    without: list[str],
    profile: str | None,
    shrink: bool,
    output: Path | None,
    ledger: Path | None,
    processes: int | None,
    master: str | None,
    rules: bool,
    json: bool,
) -> int:
    if rules:
        return _list_rules(json)
    if schedule is not None:
        asked = {
            "--seeds": seeds,
            "--mode": mode,
            "--level": level,
            "--without": without,
            "--profile": profile,
            "--shrink": shrink,
            "--output": output,
            "--processes": processes,
            "--spark": master,
        }
        if others := [name for name, value in asked.items() if value]:
            usage(f"--schedule repeats the run of a file as it is; leave {', '.join(others)} out")
        return _replay(schedule, ledger, json)
    if output is not None and not shrink:
        usage("--output is where --shrink writes; give both")
    if seeds is None:
        usage("which seeds? --seeds A:B runs from A up to, not including B")
    wanted = _range(seeds)
    options = _options(mode or "log", level, without, profile)
    if ledger is not None:
        if len(wanted) != 1:
            usage("--ledger is for a single seed")
        run = Run(wanted[0], options, ledger=True)
        run.go()
        _write_ledger(ledger, run)
    if master is not None and processes is not None:
        usage("--processes is for this machine; with --spark the master decides")
    began = time.monotonic()
    small: Shrunk | None = None
    if master is not None:
        tally, schedules = _on_spark(master, wanted, options, shrink=shrink)
        small = _smallest(schedules, options, output)
    else:
        tally = _campaign(wanted, options, processes)
    seconds = time.monotonic() - began
    if shrink and tally.failures and master is None:
        small = _shrunk(tally.failures[0].seed, options, output)
    if json:
        say_json(_plain(tally, seconds, options, small, output))
    else:
        _tell(tally, seconds, options, small, output)
    return EXIT_FAILED if tally.failures else EXIT_GOOD


def _range(text: str) -> range:
    first, separator, last = text.partition(":")
    try:
        start = int(first)
        stop = int(last) if separator else start + 1
    except ValueError:
        usage(f"seeds are written as A:B, two numbers, not {text!r}")
    if start < 0 or stop <= start:
        usage(f"{text!r} names no seed: B must be above A, and A not below 0")
    return range(start, stop)


def _options(mode: str, level: str | None, without: list[str], profile: str | None) -> Options:
    if name := unknown(without):
        usage(f"there is no rule named {name}; `epoka simulate --rules` has the names")
    if found := misplaced(without, mode):
        refuse(*found, mode)
    if profile is not None and profile not in PROFILES:
        usage(f"there is no profile named {profile}; there are {', '.join(PROFILES)}")
    chosen: FeatureLevel | None = None
    if level is not None:
        try:
            chosen = FeatureLevel.parse(level)
        except ValueError as error:
            usage(str(error))
        if mode == "log" and chosen < FeatureLevel.HEARTBEATS:
            usage(f"log mode begins at level heartbeats, there is no {chosen} in it")
    return Options(
        mode=mode,
        level=chosen,
        without=tuple(name for name in without if name in RULES),
        mutants=tuple(name for name in without if name not in RULES),
        profile=profile or SWARM,
    )


def _campaign(seeds: range, options: Options, processes: int | None) -> Tally:
    with bar("schedules") as move:
        move(0, len(seeds), "0 failed")

        def progress(_: int, tally: Tally) -> None:
            move(tally.schedules, len(seeds), f"{len(tally.failures):,} failed")

        return campaign(seeds, options, processes=processes, progress=progress)


def _on_spark(
    master: str, seeds: range, options: Options, *, shrink: bool
) -> tuple[Tally, dict[int, steps.Schedule]]:
    """The same campaign on any Spark master; failing runs are made small there as well."""
    from epoka.cli.fleet import options_of
    from epoka.cli.spark_session import installed, session

    with installed():
        from epoka.spark.fleet import run as fleet
    level = None if options.level is None else str(options.level)
    rules = [*options.without, *options.mutants]
    given = options_of(f"{seeds.start}:{seeds.stop}", None, options.mode, level, rules, options.profile)
    with session(master) as spark, bar("schedules") as progress:
        found = fleet.simulate(spark, given, progress=progress)
        failing = [each.seed for each in found.failing]
        small = fleet.shrink(spark, given, failing) if shrink else {}
    tally = Tally(
        found.seeds,
        found.events,
        found.simulated_ms,
        found.acknowledged,
        found.exceptions,
        found.downgraded,
        found.faults,
        [_as_result(each) for each in found.failing],
        found.busy_s,
    )
    return tally, {seed: steps.decode(text.encode()) for seed, text in small.items()}


def _as_result(failing: Failing) -> Result:
    checker = failing.what if failing.outcome == "violation" else f"{failing.outcome}: {failing.what}"
    violation = Violation(checker, failing.event, 0, failing.story)
    return Result(failing.seed, failing.events, 0, {}, 0, 0, 0, (violation,), failing.trace, 0)


def _smallest(schedules: dict[int, steps.Schedule], options: Options, output: Path | None) -> Shrunk | None:
    """The one with the fewest steps, kept in a file and repeated here."""
    if not schedules:
        return None
    best = min(schedules.values(), key=lambda schedule: (len(schedule.plan.steps), schedule.seed))
    _write(_kept(best, output), steps.encode(best))
    before = plan(best.seed, options.mode, options.level, options.profile)
    return Shrunk(best, replay(best).go(), len(before.steps), runs=0)


def command(seed: int, options: Options) -> str:
    """The line that repeats a run."""
    words = ["epoka", "simulate", "--seeds", str(seed)]
    if options.mode != "log":
        words += ["--mode", options.mode]
    if options.level is not None:
        words += ["--level", str(options.level)]
    for name in (*options.without, *options.mutants):
        words += ["--without", name]
    if options.profile != SWARM:
        words += ["--profile", options.profile]
    return " ".join(words)


def _shrunk(seed: int, options: Options, output: Path | None) -> Shrunk | None:
    small = shrink(seed, options)
    if small is not None:
        _write(_kept(small.schedule, output), steps.encode(small.schedule))
    return small


def _kept(schedule: steps.Schedule, output: Path | None) -> Path:
    """The file of a run that was made small."""
    return output or Path(f"schedule-{schedule.seed}.json")


def _replay(path: Path, ledger: Path | None, json: bool) -> int:
    schedule = read_schedule(path)
    run = replay(schedule, ledger=ledger is not None)
    result = run.go()
    if ledger is not None:
        _write_ledger(ledger, run)
    if json:
        say_json(result)
    else:
        say(f"{plural(len(schedule.plan.steps), 'step')}, {plural(result.events, 'event')}")
        _tell_failure(result)
        if result.ok:
            say("nothing was violated")
    return EXIT_GOOD if result.ok else EXIT_FAILED


def _write_ledger(path: Path, run: Run) -> None:
    encoder = msgspec.json.Encoder()
    _write(path, b"".join(encoder.encode(event) + b"\n" for event in run.ledger))


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        usage(f"{path} cannot be written: {error.strerror or error}")


def _tell(tally: Tally, seconds: float, options: Options, small: Shrunk | None, output: Path | None) -> None:
    for result in tally.failures[:10]:
        _tell_failure(result)
        say(f"  again: {command(result.seed, options)}")
    if len(tally.failures) > 10:
        say(f"and {len(tally.failures) - 10:,} more")
    if small is not None:
        before, after = small.steps_before, len(small.schedule.plan.steps)
        path = _kept(small.schedule, output)
        tries = f", {small.runs} tries" if small.runs else ""
        say(f"seed {small.schedule.seed} made small: {before} steps to {after}{tries}")
        say(f"  again: epoka simulate --schedule {path}")
        say(f"  told:  epoka scenario run {path}")
    faults = sum(tally.faults.values())
    say(
        f"{plural(tally.schedules, 'schedule')}, {len(tally.failures):,} failed; "
        f"{plural(tally.events, 'event')}, {plural(faults, 'fault')}, "
        f"{plural(tally.acked, 'acknowledged record')}"
    )
    say(
        f"{tally.simulated_ms / 1000:,.0f} simulated seconds in {seconds:.1f}; "
        f"{tally.schedules / max(tally.cpu_s, 1e-9):.0f} schedules and "
        f"{tally.events / max(tally.cpu_s, 1e-9):,.0f} events a second and core"
    )
    if tally.exceptions:
        say(f"the last replica standing had lost its tail: {plural(tally.exceptions, 'time')} (KIP-903)")


def _tell_failure(result: Result) -> None:
    for violation in result.violations:
        say(f"seed {result.seed}, event {violation.event}: {violation.checker}")
        say(f"  {violation.story}")


def _plain(
    tally: Tally, seconds: float, options: Options, small: Shrunk | None, output: Path | None
) -> dict[str, object]:
    return {
        "schedules": tally.schedules,
        "failed": len(tally.failures),
        "events": tally.events,
        "simulated_ms": tally.simulated_ms,
        "acked": tally.acked,
        "exceptions": tally.exceptions,
        "downgraded": tally.downgraded,
        "faults": tally.faults,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(tally.cpu_s, 3),
        "failures": [
            {
                "seed": result.seed,
                "violations": msgspec.to_builtins(result.violations),
                "trace": result.trace,
                "again": command(result.seed, options),
            }
            for result in tally.failures
        ],
        "shrunk": None
        if small is None
        else {
            "file": str(_kept(small.schedule, output)),
            "steps_before": small.steps_before,
            "steps_after": len(small.schedule.plan.steps),
            "schedule": msgspec.to_builtins(small.schedule),
        },
    }


def _list_rules(json: bool) -> int:
    rows = [
        {
            "name": each.name,
            "document": each.document,
            "mode": each.mode,
            "profile": each.profile,
            "missing": each.about,
            "parts": each.parts,
            "covered_by": each.covered_by,
        }
        for each in MUTANTS.values()
    ]
    if json:
        say_json(rows)
    else:
        table(
            ("rule", "profile", "mode", "noticed"),
            [
                (each.name, each.profile, each.mode, f"in {each.covered_by}" if each.covered_by else "alone")
                for each in MUTANTS.values()
            ],
        )
    return EXIT_GOOD

"""`epoka pipeline fleet`: very many seeds on Spark, into tables that a later call goes on with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from epoka.cli.output import EXIT_FAILED, EXIT_GOOD, plural, say, say_json, settings_of, table, usage
from epoka.cli.progress import bar
from epoka.cli.rules import misplaced, refuse
from epoka.cli.spark_session import installed, session

if TYPE_CHECKING:
    from epoka.spark.fleet.run import Fleet, Noticed

SHOWN = 10


def fleet(
    seeds: str,
    scenario: str | None,
    mode: str | None,
    level: str | None,
    without: list[str],
    profile: str | None,
    rules_off: bool,
    shrink: bool,
    target: str | None,
    options: list[str],
    master: str | None,
    json: bool,
) -> int:
    if rules_off and (target is not None or shrink):
        usage("--rules-off is a table of its own: it goes with neither --to nor --shrink")
    if shrink and target is None:
        usage("--shrink needs --to, the folder whose `schedules` it fills; `epoka simulate` can do without")
    given = options_of(seeds, scenario, mode, level, without, profile) | settings_of(options)
    _check(given, streaming=target is not None, rules_off=rules_off)
    with installed():
        from epoka.spark.fleet import run

    with session(master) as spark, bar("seeds") as progress:
        if rules_off:
            rows = run.rules_off(spark, _each(given), progress=progress)
        elif target is not None:
            found = run.campaign(spark, given, Path(target), progress=progress, shrinks=shrink)
        else:
            found = run.simulate(spark, given, progress=progress)
    if rules_off:
        _tell_rules(rows, json)
        return EXIT_GOOD
    if json:
        say_json(found)
    else:
        _tell(found)
    return EXIT_GOOD if found.good else EXIT_FAILED


def options_of(
    seeds: str,
    scenario: str | None,
    mode: str | None,
    level: str | None,
    without: list[str],
    profile: str | None,
) -> dict[str, str]:
    """The words of a command line as options of `format("epoka-sim")`."""
    given = {"seeds": seeds, "scenario": scenario, "mode": mode, "level": level, "profile": profile}
    found = {name: value for name, value in given.items() if value is not None}
    return found | ({"without": ",".join(without)} if without else {})


def _check(given: dict[str, str], *, streaming: bool, rules_off: bool) -> None:
    """Say what is wrong before a session is started, which takes seconds."""
    with installed():
        from epoka.spark.fleet.options import fleet_options
        from epoka.spark.options import BadOption
    try:
        checked = fleet_options(_each(given) if rules_off else given, streaming=streaming)
    except BadOption as error:
        usage(str(error))
    for asked in checked.asked:
        options = asked.options
        if found := misplaced((*options.without, *options.mutants), options.mode):
            refuse(*found, options.mode)


def _each(given: dict[str, str]) -> dict[str, str]:
    """The rules that are named, or all of them, one at a time."""
    return given | {"without": f"each:{given['without']}" if given.get("without") else "each"}


def _tell(found: Fleet) -> None:
    for each in found.failing[:SHOWN]:
        say(f"seed {each.seed} {each.outcome}: {each.what}")
    if len(found.failing) > SHOWN:
        say(f"and {len(found.failing) - SHOWN:,} more")
    faults = sum(found.faults.values())
    say(
        f"{plural(found.seeds, 'seed')}, {len(found.failing):,} failed; {plural(found.events, 'event')}, "
        f"{plural(faults, 'fault')}, {plural(found.acknowledged, 'acknowledged record')}"
    )
    say(f"digest {found.digest}")
    if found.folder:
        say(f"tables in {found.folder}")


def _tell_rules(rows: list[Noticed], json: bool) -> None:
    if json:
        say_json(rows)
        return
    table(
        ("rule taken away", "mode", "profile", "seeds", "noticed", "first", "by"),
        [
            (row.rule, row.mode, row.profile, row.seeds, row.noticed, row.first, row.checkers[:1])
            for row in rows
        ],
    )

"""`epoka scenario`: the documents' stories, and schedules that `--shrink` has written, played and told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from epoka.cli.output import EXIT_FAILED, EXIT_GOOD, Failed, say, say_json, table, usage
from epoka.sim.scenarios import SCENARIOS, Outcome
from epoka.sim.scenarios import run as play


class Listed(msgspec.Struct, frozen=True):
    name: str
    document: str
    title: str
    protection: str
    harm: str
    mode: str
    level: str


def list_all(json: bool) -> int:
    rows = [
        Listed(each.name, each.document, each.title, each.protection, each.harm, each.mode, str(each.level))
        for each in SCENARIOS.values()
    ]
    if json:
        say_json(rows)
    else:
        table(
            ("scenario", "document", "what happens"),
            [(each.name, each.document, each.title) for each in rows],
        )
    return EXIT_GOOD


def run(name: str, without_rule: bool, html: str | None, json: bool) -> int:
    if name not in SCENARIOS and name.endswith(".json") and Path(name).is_file():
        if without_rule:
            usage(f"{name} says itself which rules are missing: it is played as it is")
        from epoka.cli.played import played

        with played(Path(name)) as outcome:
            return _tell(outcome, html, json)
    scenario = SCENARIOS.get(name)
    if scenario is None:
        usage(f"there is no scenario {name}; `epoka scenario list` has the names")
    return _tell(play(scenario, without_rule=without_rule), html, json)


def _tell(outcome: Outcome, html: str | None, json: bool) -> int:
    if html is not None:
        _write(Path(html), outcome)
    if json:
        say_json(_plain(outcome))
    else:
        from epoka.sim.scenarios.text import told

        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        for text in told(outcome, colour=colour):
            for line in text.split("\n"):
                say(line, as_it_is=colour)
        if html is not None:
            say(f"chart: {html}")
    return EXIT_GOOD if outcome.as_told else EXIT_FAILED


def _write(path: Path, outcome: Outcome) -> None:
    from epoka.sim.scenarios.page import page

    try:
        path.write_text(page(outcome), encoding="utf-8")
    except OSError as error:
        raise Failed(f"the chart cannot be written: {error}") from error


def _plain(outcome: Outcome) -> dict[str, object]:
    """The outcome and what follows from it."""
    found: dict[str, object] = msgspec.to_builtins(outcome)
    return {**found, "safe": outcome.safe, "as_told": outcome.as_told, "refusals": outcome.refusals}

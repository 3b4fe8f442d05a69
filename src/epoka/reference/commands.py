"""`docs/commands.md`: every command with every option, from the words that the command line reads."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from epoka.cli.commands import HELP, Command
from epoka.cli.main import TABLE
from epoka.reference.markdown import code, page, table

_HEAD = """\
# Commands and options

Every command takes `--help` too. How they are used, with examples, is in
[command-line.md](command-line.md). Exit code 0 is good, 1 unhealthy or failed, 2 wrong use.

This page is written from the code by `python -m epoka.reference`.
"""


def written() -> str:
    parts: list[str | Iterable[str]] = [_HEAD]
    for entry in TABLE:
        found = entry.load()
        parts.append(f"## epoka {entry.name}")
        if isinstance(found, Command):
            parts.extend(_told(found, f"epoka {entry.name}"))
            continue
        parts.append(entry.about)
        for verb in found:
            parts.append(f"### epoka {entry.name} {verb.name}")
            parts.extend(_told(verb, f"epoka {entry.name} {verb.name}"))
    return page(*parts)


def _told(command: Command, path: str) -> Iterable[str | Iterable[str]]:
    yield f"{command.about} {' '.join(command.more.split())}".strip()
    actions = [action for action in _actions(command, path) if action.option_strings != list(HELP)]
    rows = [(_names(action), _help(action)) for action in actions if action.help != argparse.SUPPRESS]
    yield table(("argument", "meaning"), rows)


def _actions(command: Command, path: str) -> list[argparse.Action]:
    # argparse has no public list of what a parser takes.
    return command.parser(path)._actions


def _help(action: argparse.Action) -> str:
    # argparse takes `%` for the beginning of a field, unless it is written twice.
    return (action.help or "").replace("%%", "%")


def _names(action: argparse.Action) -> str:
    value = _values(action)
    if not action.option_strings:
        return code(value)
    names = ", ".join(code(name) for name in sorted(action.option_strings, key=len))
    return f"{names} {code(value)}" if value else names


def _values(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    metavar = action.metavar if isinstance(action.metavar, str) else None
    named = metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if action.option_strings or action.nargs is None:
        return named
    return (
        f"[{named}]" if action.nargs == "?" else f"[{named} ...]" if action.nargs == "*" else f"{named} ..."
    )

"""How the words on a command line become one call: nouns, verbs, arguments, help.

A command declares its arguments with argparse and names the function that does the work as `module:function`;
the function is imported when it is called, and takes the arguments by their names. So `--help` and completion
pay for the table of words and for nothing else. Typer and click were here before: importing either of them
costs more than the whole answer may.

This module and everything in `arguments/` is imported before anybody knows what is wanted. It must not import
msgspec, numpy, asyncio, typing or anything else of Epoka.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from epoka.cli.failures import EXIT_GOOD, EXIT_USAGE, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

WIDEST = 100
HELP = ("-h", "--help")
CLIENT_CONFIG = "command_config"
"""The argument that is about how a cluster is reached, and so no command's own."""


class Command:
    """Something to do: its arguments, and where the function is that does it."""

    def __init__(
        self,
        name: str,
        about: str,
        run: str,
        declare: Callable[[Parser], None] | None = None,
        more: str = "",
        json_names: Sequence[str] = ("--json",),
    ) -> None:
        self.name = name
        self.about = about
        self.run = run
        self.more = more
        self._json_names = json_names
        self._declare = declare

    def parser(self, path: str) -> Parser:
        description = f"{self.about}\n\n{self.more}" if self.more else self.about
        parser = Parser(path, description)
        if self._declare is not None:
            self._declare(parser)
        parser.add_argument(*self._json_names, action="store_true", help="answer in JSON")
        return parser

    def function(self) -> Callable[..., int]:
        module, _, name = self.run.partition(":")
        found: Callable[..., int] = getattr(import_module(module), name)
        return found


class Entry:
    """A first word, and the module that knows what may follow: it has `COMMAND`, or `VERBS` for a noun."""

    def __init__(self, name: str, about: str, module: str) -> None:
        self.name = name
        self.about = about
        self.module = module

    def load(self) -> Command | tuple[Command, ...]:
        module = import_module(self.module)
        found: Command | tuple[Command, ...] = getattr(module, "COMMAND", None) or module.VERBS
        return found


class Parser(argparse.ArgumentParser):
    """Arguments of one command; what is wrong with them is one line and exit code 2."""

    def __init__(self, path: str, description: str) -> None:
        super().__init__(
            prog=path,
            description=description,
            allow_abbrev=False,
            add_help=False,
            formatter_class=_Formatter,
        )
        self.add_argument(*HELP, action="help", help="show this and do nothing else")

    def error(self, message: str) -> NoReturn:
        usage(f"{message} (see `{self.prog} --help`)")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=_width())

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        # The value once, behind the last name, and not behind every one.
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(sorted(action.option_strings, key=len))} {value}"


def _width() -> int:
    # Asked for here because argparse would import a good deal more to ask the same. A terminal that does not
    # know how wide it is has no columns.
    try:
        return min(WIDEST, os.get_terminal_size().columns or WIDEST) - 2
    except OSError:
        return WIDEST - 2


def call(table: Sequence[Entry], words: Sequence[str], about: str) -> int:
    """Do what the words say; returns the exit code."""
    for word in words:
        if not word.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in word):
            usage(f"not text in UTF-8: {os.fsencode(word)[:40]!r}")
    if not words or words[0] in HELP:
        return _help("epoka", about, table, "COMMAND", asked_for=bool(words))
    entry = _find(table, words[0], "command", "epoka")
    found = entry.load()
    path, rest = f"epoka {entry.name}", words[1:]
    if not isinstance(found, Command):
        if not rest or rest[0] in HELP:
            return _help(path, entry.about, found, "VERB", asked_for=bool(rest))
        found = _find(found, rest[0], "verb", path)
        path, rest = f"{path} {found.name}", rest[1:]
    command: Command = found
    arguments = vars(command.parser(path).parse_args(rest))
    config = arguments.pop(CLIENT_CONFIG, None)
    if config is not None:
        import_module("epoka.cli.finding").ClientConfig.read(config)
    return command.function()(**arguments)


def _find(known: Sequence[Any], word: str, what: str, path: str) -> Any:
    for each in known:
        if each.name == word:
            return each
    if word.startswith("-"):
        usage(f"`{path}` has no option {word}; a {what} comes first (see `{path} --help`)")
    import difflib

    close = difflib.get_close_matches(word, [each.name for each in known], 1)
    meant = f"; did you mean {close[0]!r}?" if close else f" (see `{path} --help`)"
    usage(f"there is no {what} {word!r} in `{path}`{meant}")


def _help(path: str, about: str, known: Sequence[Any], what: str, *, asked_for: bool) -> int:
    longest = max(len(each.name) for each in known)
    lines = [f"Usage: {path} {what} ...", "", about, "", "Commands:" if what == "COMMAND" else "Verbs:"]
    lines += [f"  {each.name:<{longest}}  {each.about}" for each in known if each.about]
    lines += ["", f"`{path} {what} --help` tells more."]
    print("\n".join(lines), file=sys.stdout if asked_for else sys.stderr)
    return EXIT_GOOD if asked_for else EXIT_USAGE

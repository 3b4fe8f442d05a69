"""Completion: what may stand where the cursor is, from the table of words alone; and the shells' side of it.

As light as the help, for the same reason: somebody waits between two keys. So it asks no cluster.
"""

from __future__ import annotations

from epoka.cli.arguments.common import LEVELS
from epoka.cli.commands import Command
from epoka.cli.failures import EXIT_GOOD, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from epoka.cli.commands import Entry

ASK = "__complete"
"""The word by which shells ask."""

SCRIPTS = {
    "bash": """\
_epoka() {
    local IFS=$'\\n'
    COMPREPLY=($(epoka __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _epoka epoka
""",
    "zsh": """\
#compdef epoka
_epoka() {
    local -a answers
    answers=("${(@f)$(epoka __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$answers[1]" ]]; then
        _describe epoka "${(@)answers//$'\\t'/:}"
    else
        _files
    fi
}
compdef _epoka epoka
""",
    "fish": """\
complete -c epoka -a '(epoka __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}


def show_script(shell: str, json: bool) -> int:
    """What a shell reads at its start."""
    if shell not in SCRIPTS:
        usage(f"there is completion for {', '.join(SCRIPTS)}, not for {shell}")
    if json:
        from epoka.cli.output import say_json

        say_json({"shell": shell, "script": SCRIPTS[shell]})
    else:
        print(SCRIPTS[shell], end="")
    return EXIT_GOOD


def answer(table: Sequence[Entry], words: Sequence[str]) -> int:
    """Print what may follow, one a line, with what it means behind a tab."""
    for word, about in candidates(table, words):
        print(f"{word}\t{about}" if about else word)
    return EXIT_GOOD


def candidates(table: Sequence[Entry], words: Sequence[str]) -> list[tuple[str, str]]:
    """What the last word may become."""
    *before, current = words or [""]
    found = _follow(table, before)
    if not isinstance(found, Command):
        return [(each.name, each.about) for each in found if each.name.startswith(current)]
    parser = found.parser("epoka")
    rest = before[1 if before[0] == found.name else 2 :]
    by_name = {name: action for action in parser._actions for name in action.option_strings}
    last = by_name.get(rest[-1]) if rest else None
    if last is not None and last.nargs != 0:
        return [(value, "") for value in _values(last) if value.startswith(current)]
    if current.startswith("-"):
        return [
            (name, action.help or "")
            for action in parser._actions
            for name in action.option_strings
            if name.startswith(current) and name.startswith("--") and name not in rest
        ]
    positional = [action for action in parser._actions if not action.option_strings]
    return [
        (value, "") for action in positional[:1] for value in _values(action) if value.startswith(current)
    ]


def _follow(table: Sequence[Entry], words: Sequence[str]) -> Sequence[Entry | Command] | Command:
    """Where the words lead: to names to choose from, or to a command."""
    if not words:
        return table
    entry = next((each for each in table if each.name == words[0]), None)
    if entry is None:
        return ()
    found = entry.load()
    if isinstance(found, Command) or len(words) == 1:
        return found
    return next((verb for verb in found if verb.name == words[1]), ())


def _values(action: argparse.Action) -> Sequence[str]:
    """What an argument may be, as far as its declaration says."""
    if action.choices is not None:
        return [str(each) for each in action.choices]
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if metavar == "LEVEL":
        return LEVELS
    return [each for each in metavar.split("|") if each.islower()] if "|" in metavar else []

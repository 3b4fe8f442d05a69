"""How a command fails: exit codes, and the one line that tells the user why. Imports nothing of Epoka."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

EXIT_GOOD = 0
EXIT_FAILED = 1
EXIT_USAGE = 2


class Failed(Exception):
    """The command could not do what it was asked to; the text is for the user."""

    def __init__(self, text: str, code: int = EXIT_FAILED) -> None:
        super().__init__(text)
        self.code = code


def complain(text: str) -> None:
    """A problem, on standard error; several lines only when there are several problems."""
    for line in text.splitlines() or [""]:
        print(f"epoka: {printable(line)}", file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """One line, whatever it is made of: what a terminal would act on is written as Python writes it."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def usage(text: str) -> NoReturn:
    """The command was called wrongly."""
    raise Failed(text, EXIT_USAGE)

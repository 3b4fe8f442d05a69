"""How a command fails: exit codes, and the one line that tells the user why. Imports nothing."""

from __future__ import annotations

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


def usage(text: str) -> NoReturn:
    """The command was called wrongly."""
    raise Failed(text, EXIT_USAGE)

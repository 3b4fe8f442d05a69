"""How commands speak: values as JSON or as text, failures as one line on standard error.

Nothing is coloured unless a person looks at it, and nothing heavy is imported before it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epoka.cli.failures import EXIT_FAILED as EXIT_FAILED
from epoka.cli.failures import EXIT_GOOD as EXIT_GOOD
from epoka.cli.failures import EXIT_USAGE as EXIT_USAGE
from epoka.cli.failures import Failed as Failed
from epoka.cli.failures import complain as complain
from epoka.cli.failures import printable
from epoka.cli.failures import usage as usage


def say(text: str = "", *, as_it_is: bool = False) -> None:
    """One line. Names that others have chosen can neither move the cursor nor begin a line of their own."""
    print(text if as_it_is else printable(text), flush=True)


def say_json(value: Any) -> None:
    """One line of JSON."""
    import msgspec

    say(msgspec.json.encode(value).decode(), as_it_is=True)


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as they need to be; numbers to the right."""
    cells = [[printable(_text(value)) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells)]
    right = [all(isinstance(row[i], int | None) for row in rows) for i in range(len(heads))]
    for line in ([head.upper() for head in heads], *cells):
        padded = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right)
        )
        say("  ".join(padded).rstrip())


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ",".join(map(str, value)) or "-"
    return str(value)


def settings_of(pairs: Sequence[str]) -> dict[str, str]:
    """`key=value` texts as a mapping."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            usage(f"a setting is written as key=value, not {pair!r}")
        if name in settings:
            usage(f"{name} is set twice")
        settings[name.strip()] = value
    return settings


def plural(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"

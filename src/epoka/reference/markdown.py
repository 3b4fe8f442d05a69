"""Tables and words as Markdown. Whatever a cell holds, the table stays whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [_row(head), "|" + "---|" * len(head)]
    return lines + [_row(row) for row in rows]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def page(*parts: str | Iterable[str]) -> str:
    """Paragraphs and tables with an empty line between them."""
    texts = [part if isinstance(part, str) else "\n".join(part) for part in parts]
    return "\n\n".join(text.strip("\n") for text in texts if text) + "\n"

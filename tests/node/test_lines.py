"""The lines a node writes."""

from __future__ import annotations

import io
import logging

from epoka.node.lines import LineFormatter, Sparing


def record(text: str, level: int = logging.WARNING, **extra: int) -> logging.LogRecord:
    made = logging.LogRecord("epoka", level, __file__, 1, text, (), None)
    made.created = 1_700_000_000.5
    made.__dict__.update(extra)
    return made


def test_a_line_has_time_level_node_and_text() -> None:
    assert LineFormatter(3).format(record("hello")) == "2023-11-14T22:13:20.500Z WARNING node=3 hello"
    assert LineFormatter(3).format(record("hello", node=4)).endswith("WARNING node=4 hello")


def test_text_with_line_breaks_stays_on_one_line() -> None:
    assert LineFormatter(1).format(record("a\r\nFAKE node=1 b")).endswith(r" a\r\nFAKE node=1 b")


def test_colours_are_for_terminals_only() -> None:
    assert "\x1b" not in LineFormatter(1).format(record("x"))
    assert LineFormatter(1, colours=True).format(record("x")).startswith("\x1b[33m")
    assert not io.StringIO().isatty()


def test_a_flood_of_lines_is_cut_and_counted() -> None:
    written: list[str] = []
    now = [0.0]
    spare = Sparing(written.append, burst=2, window_s=1.0, clock=lambda: now[0])
    for number in range(5):
        spare(f"line {number}")
    assert written == ["line 0", "line 1"]
    now[0] = 1.0
    spare("line 5")
    assert written[2].startswith("3 more connections") and written[3] == "line 5"
    now[0] = 2.0
    spare("line 6")
    assert written[4:] == ["line 6"]

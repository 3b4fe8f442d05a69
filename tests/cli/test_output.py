"""How commands write tables and lines."""

from __future__ import annotations

import json

import pytest

from epoka.cli.output import complain, say_json, table


def test_a_cell_can_not_forge_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    table(("group", "state"), [("a\n\x1b[1mb", "Empty"), ("plain", "Stable"), ("blåbær", ["x\ty"])])
    assert capsys.readouterr().out.splitlines() == [
        "GROUP        STATE",
        r"a\n\x1b[1mb  Empty",
        "plain        Stable",
        r"blåbær       x\ty",
    ]


def test_a_complaint_can_not_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    complain("no group \x1b[2J\nnor another")
    assert capsys.readouterr().err == "epoka: no group \\x1b[2J\nepoka: nor another\n"


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    say_json({"group": "a\n\x1b\x7f\x9b"})
    assert json.loads(capsys.readouterr().out) == {"group": "a\n\x1b\x7f\x9b"}

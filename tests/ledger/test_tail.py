"""Ledger files as they grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epoka.ledger.file import LedgerFile, older
from epoka.ledger.tail import Tail
from epoka.model.ledger import LedgerEvent


def event(number: int) -> LedgerEvent:
    return LedgerEvent(kind="active", time_ms=number, event_id=number)


def numbers(tail: Tail) -> list[int]:
    return [each.event_id for each in tail.new()]


def test_each_event_is_given_once_and_in_the_order_of_time(tmp_path: Path) -> None:
    one, other = LedgerFile(tmp_path / "one"), LedgerFile(tmp_path / "other")
    tail = Tail(lambda: [one.path, other.path])
    assert numbers(tail) == []
    one.write(event(1))
    one.write(event(3))
    other.write(event(2))
    one.flush()
    other.flush()
    assert numbers(tail) == [1, 2, 3]
    assert numbers(tail) == []
    one.write(event(4))
    one.flush()
    assert numbers(tail) == [4]


def test_a_file_is_followed_over_its_turn(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path / "ledger", max_bytes=100)
    tail = Tail(lambda: [ledger.path])
    seen = []
    for number in range(12):
        ledger.write(event(number))
        ledger.flush()
        if number % 2:
            seen += numbers(tail)
    assert seen == list(range(12))


@pytest.mark.parametrize("opened", [1, 2])
def test_a_turn_in_the_middle_of_a_look_gives_each_event_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: int
) -> None:
    ledger = LedgerFile(tmp_path / "ledger", max_bytes=400)
    tail = Tail(lambda: [ledger.path])
    seen: list[int] = []
    number = 0
    while not older(ledger.path).exists():
        ledger.write(event(number))
        ledger.flush()
        seen += numbers(tail)
        number += 1
    open_file = Path.open
    looks: list[Path] = []

    def turn_over_behind(path: Path, mode: str) -> Any:
        file = open_file(path, mode)
        if mode == "rb":
            looks.append(path)
            if len(looks) == opened:
                # The file turns over just when this one has been opened.
                ledger.write(event(number))
                ledger.max_bytes = 1
                ledger.flush()
        return file

    monkeypatch.setattr(Path, "open", turn_over_behind)
    seen += numbers(tail)
    seen += numbers(tail)
    assert seen == list(range(number + 1))


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(b'{"kind":"active","event_id":1}\n{"kind":"act')
    tail = Tail(lambda: [path])
    assert numbers(tail) == [1]
    with path.open("ab") as file:
        file.write(b'ive","event_id":2}\nnonsense\n{"kind":"new","newer":[],"event_id":3}\n')
    assert numbers(tail) == [2, 3]

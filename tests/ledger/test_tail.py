"""Ledger files as they grow."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from epoka.ledger.file import LedgerFile, older, read
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


def test_a_file_that_was_turned_over_and_has_no_successor_yet_gives_each_event_once(tmp_path: Path) -> None:
    # Its node was killed, or its disk was full, just when the next file was to begin.
    ledger = LedgerFile(tmp_path / "ledger")
    tail = Tail(lambda: [ledger.path])
    ledger.write(event(1))
    ledger.flush()
    seen = numbers(tail)
    ledger.write(event(2))
    ledger.flush()
    ledger.path.replace(older(ledger.path))
    for _ in range(3):
        seen += numbers(tail)
    ledger.write(event(3))
    ledger.flush()
    for _ in range(2):
        seen += numbers(tail)
    assert seen == [1, 2, 3]


def test_a_file_that_somebody_has_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path / "ledger")
    tail = Tail(lambda: [ledger.path])
    for number in (1, 2, 3):
        ledger.write(event(number))
    ledger.flush()
    assert numbers(tail) == [1, 2, 3]
    os.truncate(ledger.path, 0)
    seen = []
    for number in (4, 5, 6, 7):
        ledger.write(event(number))
        ledger.flush()
        seen += numbers(tail)
    assert seen == [4, 5, 6, 7]


def test_a_file_that_cannot_be_read_now_costs_the_others_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = LedgerFile(tmp_path / "one"), LedgerFile(tmp_path / "other")
    tail = Tail(lambda: [one.path, other.path])
    for number, ledger in enumerate((one, other)):
        ledger.write(event(number))
        ledger.flush()
    open_file = Path.open

    def no_more_files(path: Path, mode: str) -> Any:
        if path == other.path:
            raise OSError(errno.EMFILE, "Too many open files")
        return open_file(path, mode)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", no_more_files)
        with pytest.raises(OSError, match="Too many"):
            tail.new()
    assert numbers(tail) == [0, 1]


def test_a_line_that_is_no_text_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(b'{"kind":"active","event_id":1}\n{"kind":"\xff\xfe"}\n{"kind":"active","event_id":2}\n')
    assert numbers(Tail(lambda: [path])) == [1, 2]
    assert [each.event_id for each in read(path)] == [1, 2]


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(b'{"kind":"active","event_id":1}\n{"kind":"act')
    tail = Tail(lambda: [path])
    assert numbers(tail) == [1]
    with path.open("ab") as file:
        file.write(b'ive","event_id":2}\nnonsense\n{"kind":"new","newer":[],"event_id":3}\n')
    assert numbers(tail) == [2, 3]

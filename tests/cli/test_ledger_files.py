"""`epoka ledger` and `epoka why` on files, and what they say of files that hold no ledger."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec
import pytest

from epoka.model.ledger import LedgerEvent
from tests.cli.commands import inside, is_one_line

REGISTERED = LedgerEvent(kind="registered", time_ms=1_000, event_id=1, broker=1, broker_epoch=7)
PLACED = LedgerEvent(
    kind="leader", time_ms=2_000, event_id=2, topic="t", partition=0, leader=1, leader_epoch=1, isr=(1,)
)
EVENTS = (REGISTERED, PLACED)


def written(path: Path, *events: LedgerEvent) -> str:
    path.write_bytes(msgspec.json.Encoder().encode_lines(events))
    return str(path)


@pytest.mark.parametrize(("last", "shown"), [("0", 0), ("1", 1), ("2", 2), ("3", 2)])
def test_the_last_so_many_are_as_many(tmp_path: Path, last: str, shown: int) -> None:
    outcome = inside("ledger", "--file", written(tmp_path / "ledger.jsonl", *EVENTS), "--last", last)
    assert (outcome.code, outcome.out.count("\n")) == (0, shown)


def test_a_topic_that_the_ledger_does_not_know_takes_nothing(tmp_path: Path) -> None:
    placed = msgspec.structs.replace(PLACED, topic="gone", event_id=3)
    deleted = LedgerEvent(kind="topic-deleted", time_ms=3_000, topic="gone", event_id=4)
    file = written(tmp_path / "ledger.jsonl", *EVENTS, placed, deleted)
    assert inside("why", "produce", "t", "--file", file).code == 0
    for topic in ("nosuchtopic", "gone"):
        for more in ((), ("--json",)):
            outcome = inside("why", "produce", topic, "--file", file, *more)
            assert outcome.code == 1 and is_one_line(outcome) and topic in outcome.err, outcome


def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    file, pipe = written(tmp_path / "ledger.jsonl", *EVENTS), tmp_path / "pipe"
    os.mkfifo(pipe)
    for words in (("ledger",), ("why", "broker", "1")):
        writer = threading.Thread(target=written, args=(pipe, *EVENTS), daemon=True)
        writer.start()
        piped = inside(*words, "--file", str(pipe))
        if piped.code != 0:
            # Nobody else would let the writer go.
            pipe.read_bytes()
        writer.join()
        assert piped == inside(*words, "--file", file)


@pytest.mark.parametrize("content", ["# Read me\n\nNo events.\n", ""])
def test_a_file_without_events_is_named(tmp_path: Path, content: str) -> None:
    other = tmp_path / "README.md"
    other.write_text(content)
    for words in (("ledger",), ("ledger", "--json"), ("why", "produce")):
        outcome = inside(*words, "--file", str(other))
        assert (
            outcome.code == 1 and is_one_line(outcome) and f"no ledger events are in {other}" in outcome.err
        )


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    outcome = inside("ledger", "--file", str(tmp_path))
    assert outcome.code == 1 and is_one_line(outcome) and str(tmp_path) in outcome.err


def test_a_time_that_no_calendar_has_is_told_as_a_number(tmp_path: Path) -> None:
    far = msgspec.structs.replace(REGISTERED, time_ms=999_999_999_999_999_999)
    file = written(tmp_path / "ledger.jsonl", far)
    assert inside("ledger", "--file", file).out.startswith("999999999999999999 ms  ")
    assert (
        "\n  999999999999999999 ms  broker 1 registered" in inside("why", "broker", "1", "--file", file).out
    )


def test_what_others_have_written_can_neither_move_the_cursor_nor_forge_a_line(tmp_path: Path) -> None:
    forged = msgspec.structs.replace(PLACED, topic="t\x1b[2K\nforged", detail="a\r\x9bb")
    told = inside("ledger", "--file", written(tmp_path / "ledger.jsonl", forged))
    assert told.code == 0 and told.out.count("\n") == 1 and told.out.rstrip("\n").isprintable()
    assert r"t\x1b[2K\nforged-0 is led by 1" in told.out

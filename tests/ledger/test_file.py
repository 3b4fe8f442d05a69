"""The ledger's file: bounded, readable, never in the way."""

import contextlib
import errno
import os
from types import SimpleNamespace

from epoka.ledger.file import LedgerFile, older, read
from epoka.model.ledger import LedgerEvent


def event(number: int) -> LedgerEvent:
    return LedgerEvent(kind="fenced", time_ms=number, broker=2, given="3", expected="7")


def test_what_was_written_is_read_back_in_order(tmp_path):
    ledger = LedgerFile(tmp_path / "ledger.jsonl")
    for number in range(10):
        ledger.write(event(number))
    ledger.flush()
    assert list(read(ledger.path)) == [event(number) for number in range(10)]


def test_nothing_is_written_before_the_flush(tmp_path):
    ledger = LedgerFile(tmp_path / "ledger.jsonl")
    ledger.write(event(1))
    assert not ledger.path.exists()


def test_a_full_file_gives_way_to_a_new_one_and_the_one_before_is_kept(tmp_path):
    ledger = LedgerFile(tmp_path / "ledger.jsonl", max_bytes=1_000)
    for number in range(100):
        ledger.write(event(number))
        ledger.flush()
    assert ledger.path.stat().st_size <= 1_000
    assert older(ledger.path).stat().st_size <= 1_000
    kept = [each.time_ms for each in read(ledger.path)]
    assert kept == list(range(kept[0], 100))


def test_a_torn_last_line_is_left_out(tmp_path):
    ledger = LedgerFile(tmp_path / "ledger.jsonl")
    ledger.write(event(1))
    ledger.flush()
    with ledger.path.open("ab") as file:
        file.write(b'{"kind": "fen')
    assert list(read(ledger.path)) == [event(1)]


def test_a_life_after_a_torn_line_goes_on_in_a_line_of_its_own(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"kind": "fen')
    ledger = LedgerFile(path)
    ledger.write(event(1))
    ledger.flush()
    ledger.write(event(2))
    ledger.flush()
    assert list(read(path)) == [event(1), event(2)]


def test_a_line_that_a_full_disk_has_torn_takes_no_other_with_it(tmp_path, monkeypatch):
    ledger = LedgerFile(tmp_path / "ledger.jsonl")
    ledger.write(event(1))
    ledger.flush()
    with monkeypatch.context() as full_disk:
        full_disk.setattr(type(ledger.path), "open", _open_on_a_full_disk)
        ledger.write(event(2))
        ledger.flush()
    ledger.write(event(3))
    ledger.flush()
    assert list(read(ledger.path)) == [event(1), event(3)]
    assert ledger.dropped == 1


@contextlib.contextmanager
def _open_on_a_full_disk(path, mode):
    """A file that takes ten bytes and no more."""

    def write(text):
        os.write(file.fileno(), text[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with open(path, mode) as file:  # noqa: PTH123
        yield SimpleNamespace(write=write, tell=file.tell)


def test_a_file_that_is_turned_over_while_it_is_read_is_read_once(tmp_path):
    ledger = LedgerFile(tmp_path / "ledger.jsonl", max_bytes=400)
    number = 0
    while not older(ledger.path).exists():
        ledger.write(event(number))
        ledger.flush()
        number += 1
    expected = [each.time_ms for each in read(ledger.path)]
    assert expected == list(range(number))
    events = read(ledger.path)
    seen = [next(events).time_ms]
    ledger.max_bytes = 1
    ledger.write(event(number))
    ledger.flush()
    seen += [each.time_ms for each in events]
    assert seen == expected


def test_a_ledger_that_cannot_be_written_is_counted_and_stays_out_of_the_way(tmp_path):
    ledger = LedgerFile(tmp_path / "missing" / "ledger.jsonl")
    ledger.write(event(1))
    ledger.flush()
    assert ledger.dropped == 1


def test_fields_of_a_newer_version_do_not_disturb_the_reader(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"kind": "fenced", "colour": "blue", "broker": 2}\n')
    assert [each.broker for each in read(path)] == [2]

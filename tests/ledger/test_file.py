"""The ledger's file: bounded, readable, never in the way."""

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


def test_a_ledger_that_cannot_be_written_is_counted_and_stays_out_of_the_way(tmp_path):
    ledger = LedgerFile(tmp_path / "missing" / "ledger.jsonl")
    ledger.write(event(1))
    ledger.flush()
    assert ledger.dropped == 1


def test_fields_of_a_newer_version_do_not_disturb_the_reader(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"kind": "fenced", "colour": "blue", "broker": 2}\n')
    assert [each.broker for each in read(path)] == [2]

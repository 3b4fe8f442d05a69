"""The metadata log on a store: what lasts, what is cut, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoka.controller import MetadataLogFailed
from epoka.coordination.metadata_log import HEADER_SIZE, MetadataLogCorrupt, StoredMetadataLog, encode_batch
from epoka.log.store import FileStore, MemoryStore, Store
from tests.controller.office import Office

FIRST_FILE = f"metadata-{0:020d}.log"


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else FileStore(tmp_path)


def contents(log: StoredMetadataLog) -> list[bytes]:
    return list(log.load().tail)


def overwrite(store: Store, name: str, content: bytes) -> None:
    store.replace(name, content)


def test_what_was_appended_is_there_after_a_restart(store: Store) -> None:
    log = StoredMetadataLog(store)
    assert (log.append([b"one", b"two"]), log.append([b""]), log.append([b"four"])) == (0, 2, 3)
    log.close()
    again = StoredMetadataLog(store)
    assert contents(again) == [b"one", b"two", b"", b"four"]
    assert (again.start_offset, again.end_offset) == (0, 4)
    assert again.append([b"five"]) == 4
    assert again.load().notes == ()


def test_an_append_survives_a_loss_of_power() -> None:
    store = MemoryStore()
    StoredMetadataLog(store).append([b"one"])
    store.crash(None)
    assert contents(StoredMetadataLog(store)) == [b"one"]


def test_what_a_killed_process_left_unflushed_is_flushed_before_it_is_read() -> None:
    store = MemoryStore()
    StoredMetadataLog(store).append([b"one"])
    store.open(FIRST_FILE).append([encode_batch(1, [b"two"])])
    assert contents(StoredMetadataLog(store)) == [b"one", b"two"]
    store.crash(None)
    assert contents(StoredMetadataLog(store)) == [b"one", b"two"]


def test_a_log_that_cannot_be_flushed_is_not_opened() -> None:
    store = MemoryStore("metadata-folder")
    store.fail_flushes = True
    with pytest.raises(MetadataLogFailed, match="metadata-folder"):
        StoredMetadataLog(store)


def test_records_are_read_from_any_offset(store: Store) -> None:
    log = StoredMetadataLog(store)
    log.append([b"aa", b"bb", b"cc"])
    assert log.read(1, 100) == [b"bb", b"cc"]
    assert log.read(0, 4) == [b"aa", b"bb"]
    assert log.read(2, 0) == [b"cc"]
    assert log.read(3, 100) == []


@pytest.mark.parametrize("kept", [1, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 1, HEADER_SIZE + 6])
def test_a_torn_tail_is_cut_and_said(store: Store, kept: int) -> None:
    log = StoredMetadataLog(store)
    log.append([b"one"])
    whole = len(store.read_all(FIRST_FILE) or b"")
    log.append([b"two"])
    log.close()
    content = store.read_all(FIRST_FILE) or b""
    overwrite(store, FIRST_FILE, content[: whole + kept])
    again = StoredMetadataLog(store)
    assert contents(again) == [b"one"]
    (note,) = again.load().notes
    assert FIRST_FILE in note and f"position {whole}" in note and f"last {kept} bytes" in note
    assert again.append([b"three"]) == 1
    again.close()
    assert contents(StoredMetadataLog(store)) == [b"one", b"three"]


@pytest.mark.parametrize("junk", [bytes(50), b"\xff" * 50, b"x"])
def test_junk_behind_the_last_batch_is_cut(store: Store, junk: bytes) -> None:
    log = StoredMetadataLog(store)
    log.append([b"one"])
    log.close()
    overwrite(store, FIRST_FILE, (store.read_all(FIRST_FILE) or b"") + junk)
    again = StoredMetadataLog(store)
    assert contents(again) == [b"one"] and len(again.load().notes) == 1


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_byte_before_the_last_batch_is_refused_and_nothing_is_changed(
    where: int, flip: int
) -> None:
    store = MemoryStore()
    log = StoredMetadataLog(store)
    for number in range(4):
        log.append([b"record %d" % number] * 2)
    last = len(store.read_all(FIRST_FILE) or b"") - len(encode_batch(0, [b"record 0"] * 2))
    content = bytearray(store.read_all(FIRST_FILE) or b"")
    content[where % last] ^= flip
    overwrite(store, FIRST_FILE, bytes(content))
    with pytest.raises(MetadataLogCorrupt, match=f"{FIRST_FILE} at position \\d+"):
        StoredMetadataLog(store)
    assert store.read_all(FIRST_FILE) == content


def test_a_batch_that_is_missing_in_the_middle_is_refused(store: Store) -> None:
    log = StoredMetadataLog(store)
    log.append([b"one"])
    size = len(store.read_all(FIRST_FILE) or b"")
    log.append([b"two"])
    log.append([b"six"])
    log.close()
    content = store.read_all(FIRST_FILE) or b""
    overwrite(store, FIRST_FILE, content[:size] + content[2 * size :])
    with pytest.raises(MetadataLogCorrupt, match="offset 2 where 1 should be"):
        StoredMetadataLog(store)


def with_snapshots(store: Store) -> Office:
    office = Office(log=StoredMetadataLog(store), snapshot_after_records=10)
    office.join(1, 2, 3)
    for number in range(20):
        office.create(f"t{number}", [1, 2, 3])
    return office


def test_a_restart_reads_a_snapshot_and_a_tail(store: Store) -> None:
    office = with_snapshots(store)
    before = office.image
    office.restart(StoredMetadataLog(store))
    assert office.image == before
    loaded = StoredMetadataLog(store).load()
    assert 0 <= loaded.snapshot_offset < before.offset and loaded.tail


def test_old_files_go_but_a_reader_a_little_behind_still_finds_its_records(store: Store) -> None:
    office = with_snapshots(store)
    names = store.names()
    snapshots = [name for name in names if name.startswith("snapshot-")]
    files = [name for name in names if name.startswith("metadata-")]
    assert len(snapshots) == 1 and len(files) == 2
    snapshot_offset = StoredMetadataLog(store).load().snapshot_offset
    assert 0 < office.log.start_offset <= snapshot_offset
    assert office.log.read(snapshot_offset, 1)


def test_a_crash_between_a_snapshot_and_its_new_file_loses_nothing() -> None:
    store = MemoryStore()
    office = with_snapshots(store)
    newest = max(name for name in store.names() if name.startswith("metadata-"))
    if not store.read_all(newest):
        store.delete(newest)
    before = office.image
    office.restart(StoredMetadataLog(store))
    assert office.image == before


def test_a_damaged_snapshot_is_refused(store: Store) -> None:
    with_snapshots(store)
    (name,) = (name for name in store.names() if name.startswith("snapshot-"))
    content = bytearray(store.read_all(name) or b"")
    content[-1] ^= 1
    overwrite(store, name, bytes(content))
    with pytest.raises(MetadataLogCorrupt, match=name):
        StoredMetadataLog(store)


def test_a_missing_file_is_refused(store: Store) -> None:
    with_snapshots(store)
    files = [name for name in store.names() if name.startswith("metadata-")]
    store.delete(files[-1])
    store.open(f"metadata-{10**6:020d}.log").close()
    with pytest.raises(MetadataLogCorrupt, match="a file is missing"):
        StoredMetadataLog(store)


def test_a_snapshot_without_the_log_it_was_taken_of_is_refused(store: Store) -> None:
    with_snapshots(store)
    for name in store.names():
        if name.startswith("metadata-"):
            store.delete(name)
    log = StoredMetadataLog(store)
    assert log.end_offset == log.load().snapshot_offset + 1
    log.append([b"x"])
    overwrite(store, f"snapshot-{10**6:020d}.image", encode_batch(10**6, []))
    with pytest.raises(MetadataLogCorrupt, match="the log ends at"):
        StoredMetadataLog(store)


@pytest.mark.parametrize("fault", ["full", "fail_writes", "fail_flushes"])
def test_an_append_that_does_not_last_is_an_error_that_names_the_place(fault: str) -> None:
    store = MemoryStore("metadata-folder")
    log = StoredMetadataLog(store)
    log.append([b"one"])
    setattr(store, fault, True)
    with pytest.raises(MetadataLogFailed, match="metadata-folder"):
        log.append([b"two"])
    assert log.end_offset == 1 and log.read(0, 100) == [b"one"]


def test_a_torn_tail_is_told_to_the_ledger(store: Store) -> None:
    office = Office(log=StoredMetadataLog(store))
    office.join(1)
    overwrite(store, FIRST_FILE, (store.read_all(FIRST_FILE) or b"")[:-1])
    office.restart(StoredMetadataLog(store))
    (event,) = office.events("recovered")
    assert FIRST_FILE in event.detail

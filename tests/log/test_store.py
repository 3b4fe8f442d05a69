"""What a store promises, whatever is behind it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from epoka.log import FileStore, MemoryStore, StorageError, Store


def test_appended_parts_are_read_back_in_order(store: Store) -> None:
    blob = store.open("a")
    assert blob.append([b"one", bytearray(b"two")]) == 0
    assert blob.append([memoryview(b"three")]) == 6
    assert blob.size == 11
    assert blob.read(3, 5) == b"twoth"


def test_a_read_at_the_end_is_short_and_beyond_it_empty(store: Store) -> None:
    blob = store.open("a")
    blob.append([b"abc"])
    assert blob.read(1, 100) == b"bc"
    assert blob.read(3, 10) == b""
    assert blob.read(50, 10) == b""


def test_an_append_after_a_truncation_goes_on_at_the_cut(store: Store) -> None:
    blob = store.open("a")
    blob.append([b"abcdef"])
    blob.truncate(2)
    assert blob.append([b"XY"]) == 2
    assert blob.read(0, 10) == b"abXY"
    blob.truncate(10)
    assert blob.size == 4


def test_a_blob_opened_again_has_what_was_written(store: Store) -> None:
    blob = store.open("a")
    blob.append([b"abc"])
    blob.flush()
    blob.close()
    again = store.open("a")
    assert again.size == 3
    assert again.append([b"d"]) == 3
    assert store.read_all("a") == b"abcd"


def test_names_deletion_and_renaming(store: Store) -> None:
    store.open("b").append([b"1"])
    store.open("a").append([b"2"])
    assert store.names() == ["a", "b"]
    store.rename("a", "b")
    assert (store.names(), store.read_all("b")) == (["b"], b"2")
    store.delete("b")
    store.delete("never there")
    assert not store.exists("b")
    assert store.read_all("b") is None
    with pytest.raises(StorageError):
        store.rename("gone", "x")


def test_a_deleted_blob_can_still_be_read_by_whoever_holds_it(store: Store) -> None:
    blob = store.open("a")
    blob.append([b"abc"])
    store.delete("a")
    assert blob.read(0, 3) == b"abc"


def test_replace_puts_the_new_content_in_place_of_the_old(store: Store) -> None:
    store.replace("c", b"old")
    store.replace("c", b"new")
    assert store.read_all("c") == b"new"
    assert store.names() == ["c"]


def test_two_threads_may_replace_the_same_name_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync
    other = Thread(target=store.replace, args=("c", b"other"))

    def slow_fsync(descriptor: int) -> None:
        if other.ident is None:
            other.start()
            # It has to wait for this one; if it did not, it would be over now.
            other.join(0.1)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow_fsync)
    store.replace("c", b"one")
    if other.ident is None:
        other.start()
    other.join(30)
    assert store.read_all("c") == b"other"
    assert store.names() == ["c"]


def test_folders_are_stores_of_their_own(store: Store) -> None:
    inner = store.folder("t-0")
    inner.open("x").append([b"in"])
    store.open("x").append([b"out"])
    assert store.folders() == ["t-0"]
    assert store.folder("t-0").read_all("x") == b"in"
    store.delete_folder("t-0")
    store.delete_folder("t-0")
    assert store.folders() == []
    assert store.read_all("x") == b"out"
    assert store.folder("t-0").names() == []


def test_a_locked_store_is_refused_to_a_second_holder(store: Store, tmp_path: Path) -> None:
    other = FileStore(tmp_path / "log") if isinstance(store, FileStore) else store
    store.lock()
    with pytest.raises(StorageError, match="in use by another process"):
        other.lock()
    store.unlock()
    other.lock()


HOLDER = """
import sys
from epoka.log import FileStore
FileStore(sys.argv[1]).lock()
print("held", flush=True)
input()
"""


def test_the_lock_of_a_dead_process_is_free_again(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    store = FileStore(tmp_path)
    with pytest.raises(StorageError):
        store.lock()
    process.kill()
    process.wait(30)
    store.lock()


def test_a_half_deleted_folder_is_gone_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "t-0~deleted").mkdir()
    (tmp_path / "t-0~deleted" / "x").write_bytes(b"x")
    store = FileStore(tmp_path)
    assert store.folders() == []
    assert list(tmp_path.iterdir()) == []


def test_a_crash_loses_what_was_not_flushed_and_keeps_what_was() -> None:
    store = MemoryStore()
    blob = store.folder("t-0").open("a")
    blob.append([b"safe"])
    blob.flush()
    blob.append([b"lost"])
    store.replace("c", b"durable")
    store.crash()
    assert store.folder("t-0").read_all("a") == b"safe"
    assert store.read_all("c") == b"durable"
    with pytest.raises(StorageError, match="before the crash"):
        blob.append([b"x"])


def test_a_crash_may_tear_or_keep_the_unflushed_tail() -> None:
    store = MemoryStore()
    for name in ("a", "b"):
        store.open(name).append([b"0123456789"])
    asked: list[tuple[str, int]] = []

    def keep(name: str, unflushed: int) -> int:
        asked.append((name, unflushed))
        return 3 if name.endswith("a") else unflushed

    store.crash(keep)
    assert asked == [("memory/a", 10), ("memory/b", 10)]
    assert (store.read_all("a"), store.read_all("b")) == (b"012", b"0123456789")


def test_a_truncation_takes_from_what_was_flushed() -> None:
    store = MemoryStore()
    blob = store.open("a")
    blob.append([b"abcdef"])
    blob.flush()
    blob.truncate(2)
    blob.append([b"ZZ"])
    store.crash()
    assert store.read_all("a") == b"ab"


def test_a_wiped_store_has_nothing() -> None:
    store = MemoryStore()
    store.folder("t-0").replace("x", b"x")
    store.replace("y", b"y")
    store.wipe()
    assert (store.names(), store.folders()) == ([], [])

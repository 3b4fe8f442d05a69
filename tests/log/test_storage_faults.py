"""Disk full, failed writes, failed flushes: refused, said, and what was there stays readable."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epoka.log import FileStore, LogConfig, MemoryStore, Refused, StorageError, Store
from epoka.log.store import FileBlob, MemoryBlob
from epoka.wire.error_codes import ErrorCode
from tests.log.logs import append, append_sequence, open_log, try_append, values_in

Fault = Callable[[], Callable[[], None]]


@pytest.fixture(params=["full", "failing", "short"])
def break_writes(request: pytest.FixtureRequest, store: Store, monkeypatch: pytest.MonkeyPatch) -> Fault:
    """Breaks the disk; the answer repairs it."""
    kind = request.param

    def break_memory() -> Callable[[], None]:
        assert isinstance(store, MemoryStore)
        store.full = kind != "failing"
        store.fail_writes = kind == "failing"

        def repair() -> None:
            store.full = store.fail_writes = False

        return repair

    def break_files() -> Callable[[], None]:
        real_writev, real_write = os.writev, os.write

        def refuse(descriptor: int, parts: object) -> int:
            if kind == "short":
                return real_write(descriptor, b"".join(parts)[:7])  # type: ignore[call-overload,no-any-return]
            raise OSError(errno.ENOSPC if kind == "full" else errno.EIO, "planted")

        def refuse_rest(descriptor: int, rest: object) -> int:
            raise OSError(errno.ENOSPC, "planted")

        monkeypatch.setattr(os, "writev", refuse)
        monkeypatch.setattr(os, "write", refuse_rest)

        def repair() -> None:
            monkeypatch.setattr(os, "writev", real_writev)
            monkeypatch.setattr(os, "write", real_write)

        return repair

    return break_memory if isinstance(store, MemoryStore) else break_files


def test_a_failed_append_is_refused_and_what_was_there_stays_readable(
    store: Store, break_writes: Fault
) -> None:
    log = open_log(store)
    append(log, b"a")
    size = log.size_bytes
    repair = break_writes()
    refused = try_append(log, b"b")
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.end_offset, log.size_bytes) == (1, size)
    assert values_in(log) == [b"a"]
    repair()
    assert append(log, b"c").base_offset == 1
    assert values_in(log) == [b"a", b"c"]
    assert open_log(store).recovery.cut is None


def test_a_refused_batch_is_not_taken_for_a_duplicate_when_it_comes_again(
    store: Store, break_writes: Fault
) -> None:
    log = open_log(store)
    append_sequence(log, 0, b"a")
    repair = break_writes()
    assert isinstance(append_sequence(log, 1, b"b"), Refused)
    repair()
    done = append_sequence(log, 1, b"b")
    assert not isinstance(done, Refused)
    assert (done.duplicate, done.base_offset) == (False, 1)


def test_a_write_that_comes_in_pieces_is_still_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "writev", lambda fd, parts: real(fd, b"".join(parts)[:10]))
    monkeypatch.setattr(os, "write", lambda fd, rest: real(fd, rest[:10]))
    log = open_log(FileStore(tmp_path))
    append(log, b"a" * 100)
    append(log, b"b" * 100)
    assert values_in(log) == [b"a" * 100, b"b" * 100]


def test_a_blob_that_cannot_be_cut_back_takes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(FileStore(tmp_path))
    append(log, b"a")

    def fail(*_arguments: object) -> int:
        raise OSError(errno.EIO, "planted")

    with monkeypatch.context() as broken:
        broken.setattr(os, "writev", fail)
        broken.setattr(os, "ftruncate", fail)
        assert isinstance(try_append(log, b"b"), Refused)
    refused = try_append(log, b"c")
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert values_in(log) == [b"a"]


def test_a_failed_flush_makes_the_log_refuse_appends_for_good(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(store)
    append(log, b"a")

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "planted")

    with monkeypatch.context() as broken:
        if isinstance(store, MemoryStore):
            store.fail_flushes = True
        else:
            broken.setattr(os, "fdatasync", fail)
        with pytest.raises(StorageError):
            log.flush()
    if isinstance(store, MemoryStore):
        store.fail_flushes = False
    refused = try_append(log, b"b")
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(StorageError):
        log.flush()
    with pytest.raises(StorageError):
        log.close()
    assert log.recovery_point == 0
    assert values_in(log) == [b"a"]


def test_a_failed_flush_of_a_sealed_segment_counts_as_much() -> None:
    store = MemoryStore()
    log = open_log(store, LogConfig(segment_bytes=300))
    for _ in range(3):
        append(log, b"x" * 150)
    store.fail_flushes = True
    with pytest.raises(StorageError):
        log.flush_sealed()
    store.fail_flushes = False
    assert isinstance(try_append(log, b"y"), Refused)
    with pytest.raises(StorageError):
        log.flush()
    assert log.recovery_point == 0


def test_flushing_the_sealed_segments_moves_the_recovery_point_to_the_active_one() -> None:
    store = MemoryStore()
    log = open_log(store, LogConfig(segment_bytes=300))
    for _ in range(3):
        append(log, b"x" * 150)
    assert log.flush_sealed()
    assert log.recovery_point == log.segment_bases[-1] == 2
    assert not log.flush_sealed()
    store.crash()
    assert open_log(store, recovery_point=2).end_offset == 2


def during_the_first_flush(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Does something between the flush of a blob and what follows, as another thread may."""
    acts = [act]

    def interrupt(flush: Callable[[Any], None]) -> Callable[[Any], None]:
        def flush_and_act(blob: Any) -> None:
            flush(blob)
            if acts:
                acts.pop()()

        return flush_and_act

    for kind in (FileBlob, MemoryBlob):
        monkeypatch.setattr(kind, "flush", interrupt(kind.flush))


def test_a_segment_that_was_cut_off_during_a_flush_does_not_come_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(store, LogConfig(segment_bytes=300))
    for _ in range(5):
        append(log, b"x" * 150)
    during_the_first_flush(monkeypatch, lambda: log.truncate_to(1))
    log.flush_sealed()
    assert log.segment_bases == [0, 1]
    assert [name for name in store.names() if name[:20].isdigit() and int(name[:20]) > 1] == []
    log.config = LogConfig(segment_bytes=30_000)
    for _ in range(5):
        append(log, b"y" * 150)
    log.close()
    assert open_log(store, recovery_point=log.recovery_point, clean=True).end_offset == 6


def test_a_log_that_is_emptied_during_a_flush_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(store, LogConfig(segment_bytes=300))
    for _ in range(4):
        append(log, b"x" * 150)
    during_the_first_flush(monkeypatch, lambda: log.truncate_fully(0))
    log.flush_sealed()
    assert log.failure is None
    assert [name for name in store.names() if name.endswith(".log")] == [f"{0:020d}.log"]
    assert append(log, b"y").base_offset == 0


def test_a_partition_made_again_during_a_flush_gets_no_segment_of_the_deleted_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(store.folder("t-0"), LogConfig(segment_bytes=300))
    for _ in range(4):
        append(log, b"x" * 150, epoch=3)

    def make_again() -> None:
        log.close(clean=False)
        store.delete_folder("t-0")
        open_log(store.folder("t-0"))

    during_the_first_flush(monkeypatch, make_again)
    log.flush_sealed()
    assert store.folder("t-0").names() == [f"{0:020d}.log"]


def test_what_is_written_after_a_truncation_during_a_flush_does_not_count_as_flushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    log = open_log(store, LogConfig(segment_bytes=1000))
    for _ in range(8):
        append(log, b"x" * 150)
    assert log.segment_bases == [0, 4]

    def cut_and_go_on() -> None:
        log.truncate_to(1)
        for _ in range(3):
            append(log, b"y" * 150)

    during_the_first_flush(monkeypatch, cut_and_go_on)
    log.flush_sealed()
    assert log.recovery_point <= 1
    log.flush()
    assert log.recovery_point == 4
    store.crash()
    assert open_log(store, recovery_point=4).end_offset == 4


def test_an_append_that_must_be_flushed_is_refused_when_the_flush_fails() -> None:
    store = MemoryStore()
    log = open_log(store, LogConfig(flush_messages=1))
    append(log, b"a")
    assert log.recovery_point == 1
    store.fail_flushes = True
    assert isinstance(try_append(log, b"b"), Refused)
    assert isinstance(try_append(log, b"c"), Refused)


def test_a_segment_that_cannot_be_rolled_refuses_the_append(store: Store, break_writes: Fault) -> None:
    log = open_log(store, LogConfig(segment_bytes=300))
    append(log, b"x" * 150)
    repair = break_writes()
    assert isinstance(try_append(log, b"y" * 150), Refused)
    repair()
    append(log, b"z" * 150)
    assert values_in(log) == [b"x" * 150, b"z" * 150]
    assert values_in(open_log(store, LogConfig(segment_bytes=300))) == [b"x" * 150, b"z" * 150]


LIMITED = """
import sys
from epoka.log import FileStore, LogConfig, PartitionLog, Refused
from epoka.wire.records import encode_batch, validate
log = PartitionLog.open(FileStore(sys.argv[1]), LogConfig(), recovery_point=0, clean=False, now=0)
appended = 0
while True:
    batch = encode_batch([(None, b"x" * 10_000, 5)])
    done = log.append_as_leader(batch, validate(batch, max_batch_bytes=1 << 20), 0, 0)
    if isinstance(done, Refused):
        break
    appended += 1
assert done.code.name == "KAFKA_STORAGE_ERROR", done
assert log.end_offset == appended
assert len([header for _, header in log.batches(0)]) == appended
print(appended)
"""


def test_a_file_that_may_not_grow_refuses_and_leaves_no_half_batch(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (205_000, 205_000))

    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], preexec_fn=limit, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    appended = int(done.stdout)
    assert appended == 20
    log = open_log(FileStore(tmp_path))
    assert (log.end_offset, log.recovery.cut) == (appended, None)

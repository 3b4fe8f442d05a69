"""A log directory: whose it is, what is in it, how its last life ended."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from uuid import UUID

import pytest

from epoka.log import DirectoryRefused, FileStore, LogConfig, LogDirectory, MemoryStore, StorageError, Store
from epoka.log.directory import parse_folder
from tests.log.logs import NOW, append, values_in

TOPIC = UUID(int=0x1234)
DIRECTORY = UUID(int=0x99)


def open_directory(store: Store, *, cluster: str = "c1", node: int = 1, **options: object) -> LogDirectory:
    return LogDirectory.open(
        store,
        cluster_id=cluster,
        node_id=node,
        now=NOW,
        directory_id=DIRECTORY,
        **options,  # type: ignore[arg-type]
    )


def test_a_new_directory_is_marked_as_ours(store: Store) -> None:
    directory = open_directory(store)
    assert directory.directory_id == DIRECTORY
    assert (directory.previous_generation, directory.was_clean, directory.logs) == (-1, False, {})
    content = (store.read_all("meta.properties") or b"").decode()
    assert "cluster.id=c1" in content
    assert "node.id=1" in content
    assert f"directory.id={DIRECTORY}" in content


def test_a_directory_of_another_cluster_or_node_is_refused_by_name(store: Store) -> None:
    open_directory(store).shutdown(1)
    with pytest.raises(DirectoryRefused, match="cluster c1, this is cluster c2"):
        open_directory(store, cluster="c2")
    with pytest.raises(DirectoryRefused, match="node 1, this is node 2"):
        open_directory(store, node=2)
    open_directory(store)


def test_partitions_without_an_owner_are_refused(store: Store) -> None:
    store.folder("t-0").replace("x", b"x")
    with pytest.raises(DirectoryRefused, match=r"meta\.properties"):
        open_directory(store)


def test_a_directory_in_use_is_refused(store: Store, tmp_path: Path) -> None:
    open_directory(store)
    other = FileStore(tmp_path / "log") if isinstance(store, FileStore) else store
    with pytest.raises(StorageError, match="in use"):
        open_directory(other)


def test_the_generation_of_a_clean_shutdown_is_known_to_the_next_life_and_only_to_it(store: Store) -> None:
    directory = open_directory(store)
    append(directory.create("t", 0, TOPIC), b"a")
    directory.shutdown(4711)
    second = open_directory(store)
    assert (second.previous_generation, second.was_clean) == (4711, True)
    assert second.recoveries["t", 0].clean
    second.abandon()
    third = open_directory(store)
    assert (third.previous_generation, third.was_clean) == (-1, False)


def test_the_last_generation_is_known_to_every_later_life_however_it_ended(store: Store) -> None:
    first = open_directory(store)
    assert first.last_generation == -1
    first.remember(17)
    first.abandon()
    second = open_directory(store)
    assert (second.last_generation, second.previous_generation) == (17, -1)
    second.abandon()
    assert open_directory(store).last_generation == 17


def test_an_unreadable_marker_is_no_marker(store: Store) -> None:
    first = open_directory(store)
    first.remember(5)
    first.shutdown(5)
    store.replace(".kafka_cleanshutdown", b"{broken")
    store.replace(".epoka_generation", b"{broken")
    directory = open_directory(store)
    assert (directory.previous_generation, directory.was_clean, directory.last_generation) == (-1, False, -1)


def test_logs_come_back_with_their_records_ids_and_high_watermarks(store: Store) -> None:
    directory = open_directory(store)
    for name, partition in (("t", 0), ("a-b-c", 12)):
        log = directory.create(name, partition, TOPIC)
        for index in range(5):
            append(log, b"%d" % index, epoch=2)
        log.high_watermark = 3
    directory.shutdown(1)
    again = open_directory(store)
    assert sorted(again.logs) == [("a-b-c", 12), ("t", 0)]
    log = again.logs["a-b-c", 12]
    assert (log.topic_id, log.end_offset, log.high_watermark, log.last_epoch) == (TOPIC, 5, 3, 2)
    assert values_in(log) == [b"0", b"1", b"2", b"3", b"4"]


def test_only_what_follows_the_checkpoint_is_checked_after_a_crash(store: Store) -> None:
    directory = open_directory(store)
    log = directory.create("t", 0, TOPIC)
    for _ in range(5):
        append(log, b"x")
    log.flush()
    directory.checkpoint({("t", 0): 4})
    append(log, b"y")
    directory.abandon()
    again = open_directory(store)
    recovery = again.recoveries["t", 0]
    assert (recovery.clean, recovery.from_offset, recovery.checked_batches) == (False, 5, 1)
    assert again.logs["t", 0].high_watermark == 4


def test_a_crash_of_the_machine_keeps_the_flushed_records() -> None:
    store = MemoryStore()
    directory = open_directory(store)
    log = directory.create("t", 0, TOPIC)
    append(log, b"a")
    log.flush()
    directory.checkpoint()
    append(log, b"b")
    store.crash()
    again = open_directory(store)
    assert values_in(again.logs["t", 0]) == [b"a"]


def test_a_high_watermark_above_what_is_left_is_lowered() -> None:
    store = MemoryStore()
    directory = open_directory(store)
    log = directory.create("t", 0, TOPIC)
    append(log, b"a")
    directory.checkpoint({("t", 0): 1})
    store.crash()
    assert open_directory(store).logs["t", 0].high_watermark == 0


def test_truncation_lowers_the_checkpoint_before_the_log(store: Store) -> None:
    directory = open_directory(store)
    log = directory.create("t", 0, TOPIC)
    for _ in range(9):
        append(log, b"x")
    log.flush()
    directory.checkpoint()
    log.truncate_to(4)
    append(log, b"new")
    directory.abandon()
    again = open_directory(store)
    assert again.recoveries["t", 0].from_offset == 4
    assert again.recoveries["t", 0].checked_batches == 1


def test_truncation_inside_a_batch_lowers_the_checkpoint_to_where_the_log_ends(store: Store) -> None:
    directory = open_directory(store)
    log = directory.create("t", 0, TOPIC)
    append(log, b"a", b"b")
    append(log, b"c", b"d", b"e")
    log.flush()
    directory.checkpoint()
    assert log.truncate_to(4) == 2
    append(log, b"new", epoch=3)
    directory.abandon()
    again = open_directory(store)
    assert again.recoveries["t", 0].from_offset == 2
    assert list(again.logs["t", 0].epochs) == [(0, 0), (3, 2)]


def test_a_partition_of_another_topic_id_is_refused_and_after_deletion_welcome(store: Store) -> None:
    directory = open_directory(store)
    log = directory.create("t", 0, TOPIC)
    append(log, b"old")
    log.flush()
    directory.checkpoint({("t", 0): 1})
    assert directory.create("t", 0, TOPIC) is log
    other = UUID(int=5)
    with pytest.raises(DirectoryRefused, match=str(other)):
        directory.create("t", 0, other)
    directory.delete("t", 0)
    assert directory.log("t", 0) is None
    fresh = directory.create("t", 0, other)
    assert (fresh.end_offset, fresh.topic_id) == (0, other)
    append(fresh, b"new")
    directory.abandon()
    again = open_directory(store)
    assert again.recoveries["t", 0].from_offset == 0
    assert again.logs["t", 0].high_watermark == 0
    assert values_in(again.logs["t", 0]) == [b"new"]


def test_the_configuration_of_a_topic_is_asked_for_by_name(store: Store) -> None:
    directory = open_directory(store, config_of=lambda topic: LogConfig(segment_bytes=len(topic)))
    assert directory.create("four", 0, TOPIC).config.segment_bytes == 4
    directory.shutdown(0)
    again = open_directory(store, config_of=lambda topic: LogConfig(segment_bytes=7))
    assert again.logs["four", 0].config.segment_bytes == 7


def test_a_damaged_checkpoint_means_everything_is_checked(store: Store) -> None:
    directory = open_directory(store)
    log = directory.create("t", 0, TOPIC)
    append(log, b"x")
    log.flush()
    directory.checkpoint()
    directory.abandon()
    for content in (b"", b"0\n5\n", b"junk", b"0\n1\nt 0 x\n", b"\xff\xfe"):
        store.replace("recovery-point-offset-checkpoint", content)
        again = open_directory(store)
        assert again.recoveries["t", 0].checked_batches == 1
        again.abandon()


def test_a_folder_made_just_before_a_crash_is_cleared_away(store: Store) -> None:
    directory = open_directory(store)
    store.folder("t-0")
    directory.abandon()
    assert open_directory(store).logs == {}
    assert store.folders() == []


def test_a_shutdown_whose_flush_fails_leaves_no_marker(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = open_directory(store)
    append(directory.create("t", 0, TOPIC), b"a")

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "planted")

    log = directory.logs["t", 0]
    if isinstance(store, MemoryStore):
        store.fail_flushes = True
        with pytest.raises(StorageError):
            log.flush()
        store.fail_flushes = False
    else:
        monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StorageError):
        directory.shutdown(9)
    monkeypatch.undo()
    again = open_directory(store)
    assert (again.was_clean, again.previous_generation) == (False, -1)


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("t-0", ("t", 0)),
        ("a-b-12", ("a-b", 12)),
        ("t", None),
        ("-1", None),
        ("t-", None),
        ("t-x", None),
        ("t-²", None),
    ],
)
def test_a_folder_name_is_a_partition_or_is_not(name: str, partition: tuple[str, int] | None) -> None:
    assert parse_folder(name) == partition

"""Compaction: the latest of every key stays, nothing else changes."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoka.log import Appended, LogConfig, MemoryStore, PartitionLog, Store
from epoka.log import compaction as compaction_module
from epoka.log.store import FileBlob, MemoryBlob, StorageError
from epoka.wire.records import HEADER_SIZE, ControlType, encode_end_transaction_marker, headers, read_header
from tests.log.logs import (
    NOW,
    append,
    append_bytes,
    append_sequence,
    batch_of,
    forged,
    garbage,
    open_log,
    records_in,
)

CONFIG = LogConfig(
    segment_bytes=600, cleanup_policy=("compact",), min_cleanable_ratio=0.01, delete_retention_ms=10_000
)


def put(log: PartitionLog, key: bytes, value: bytes | None, now: int = NOW, codec: str = "none") -> int:
    return append(log, (key, value, now), now=now, codec=codec).base_offset


def seal(log: PartitionLog) -> None:
    """Everything so far becomes compactable: a fresh, empty segment is the active one."""
    log._roll(NOW, log.end_offset)


def contents(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_in(log)]


def test_only_the_latest_of_every_key_stays_at_its_own_offset(store: Store) -> None:
    log = open_log(store, CONFIG)
    for index in range(20):
        put(log, b"k%d" % (index % 3), b"v%d" % index)
    seal(log)
    stats = log.compact(NOW, log.end_offset)
    assert stats is not None
    assert contents(log) == [(17, b"k2", b"v17"), (18, b"k0", b"v18"), (19, b"k1", b"v19")]
    assert (stats.records_before, stats.records_kept, stats.cleaned_up_to) == (20, 3, 20)
    assert stats.bytes_after < stats.bytes_before
    assert (log.log_start_offset, log.end_offset) == (0, 20)
    assert append(log, (b"k", b"next", NOW)).base_offset == 20


def test_a_thinned_batch_is_no_later_than_it_was(store: Store) -> None:
    """What the parts of a timestamp add up to may be more than a timestamp can be."""
    log = open_log(store, CONFIG)
    late = batch_of([(b"a", b"1", 0), (b"b", b"2", (1 << 63) - 1), (b"a", b"3", 0)])
    append_bytes(log, forged(late, base_timestamp=NOW, max_timestamp=NOW))
    seal(log)
    assert log.compact(NOW, log.end_offset) is not None
    assert read_header(log.read(0, 1 << 20) or b"").max_timestamp == NOW


def test_a_batch_that_cannot_be_read_stays(store: Store) -> None:
    """It was written before the topic was compacted, when nobody looked inside."""
    log = open_log(store)
    put(log, b"a", b"1")
    bad = garbage()
    append_bytes(log, bad)
    put(log, b"a", b"2")
    log.config = CONFIG
    seal(log)
    stats = log.compact(NOW, log.end_offset, always=True)
    assert stats is not None and (stats.records_before, stats.records_kept) == (3, 2)
    kept = [(header.base_offset, bytes(batch[HEADER_SIZE:])) for batch, header in log.batches(0)]
    assert kept[0] == (1, bytes(bad[HEADER_SIZE:])) and [offset for offset, _ in kept] == [1, 2]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_is_thinned_in_place_whatever_its_codec(store: Store, codec: str) -> None:
    log = open_log(store, CONFIG)
    append(log, (b"a", b"1", NOW), (b"b", b"2", NOW + 1), (b"a", b"3", NOW + 2), codec=codec)
    append(log, (b"b", b"4", NOW))
    seal(log)
    assert log.compact(NOW, log.end_offset) is not None
    assert contents(log) == [(2, b"a", b"3"), (3, b"b", b"4")]
    first = read_header(log.read(0, 1 << 20) or b"")
    assert (first.base_offset, first.last_offset, first.records_count) == (0, 2, 1)
    assert first.codec.name.lower() == codec


def test_the_active_segment_is_never_touched(store: Store) -> None:
    log = open_log(store, LogConfig(cleanup_policy=("compact",)))
    put(log, b"k", b"1")
    put(log, b"k", b"2")
    assert log.compact(NOW, log.end_offset, always=True) is None
    assert len(contents(log)) == 2


def test_nothing_beyond_the_limit_is_cleaned_nor_counts(store: Store) -> None:
    log = open_log(store, CONFIG)
    put(log, b"k", b"1")
    put(log, b"other", b"1")
    seal(log)
    put(log, b"k", b"2")
    seal(log)
    assert log.compact(NOW, 2, always=True) is not None
    assert [record.value for record in records_in(log)] == [b"1", b"1", b"2"]
    log.compact(NOW, log.end_offset, always=True)
    assert [(r.key, r.value) for r in records_in(log)] == [(b"other", b"1"), (b"k", b"2")]


def test_a_tombstone_stays_for_its_time_and_then_goes(store: Store) -> None:
    log = open_log(store, CONFIG)
    put(log, b"k", b"1")
    put(log, b"k", None)
    put(log, b"z", b"last")
    seal(log)
    stats = log.compact(NOW, log.end_offset)
    assert stats is not None
    assert stats.tombstones_kept == 1
    assert contents(log) == [(1, b"k", None), (2, b"z", b"last")]
    assert log.compact(NOW + 9_000, log.end_offset) is None
    log.compact(NOW + 9_000, log.end_offset, always=True)
    assert contents(log)[0] == (1, b"k", None)
    assert log.compact(NOW + 10_100, log.end_offset) is not None
    assert contents(log) == [(2, b"z", b"last")]


def test_a_tombstones_time_is_counted_also_across_a_restart(store: Store) -> None:
    log = open_log(store, CONFIG)
    put(log, b"k", None)
    put(log, b"z", b"last")
    seal(log)
    log.compact(NOW, log.end_offset)
    log.close()
    again = open_log(store, CONFIG, recovery_point=2, clean=True)
    again.compact(NOW + 20_000, again.end_offset)
    assert contents(again) == [(1, b"z", b"last")]


def test_the_end_offset_is_not_lost_when_the_last_record_goes(store: Store) -> None:
    log = open_log(store, CONFIG)
    put(log, b"a", b"1")
    put(log, b"k", None)
    seal(log)
    log.compact(NOW, log.end_offset)
    log.compact(NOW + 20_000, log.end_offset)
    assert contents(log) == [(0, b"a", b"1")]
    replica = open_log(store.folder("replica"), CONFIG)
    content = log.read(0, 1 << 20)
    assert content is not None
    assert isinstance(replica.append_as_follower(content), Appended)
    assert replica.end_offset == log.end_offset == 2
    log.close()
    assert open_log(store, CONFIG, recovery_point=2, clean=True).end_offset == 2


def test_the_sequences_of_a_producer_outlive_its_records(store: Store) -> None:
    log = open_log(store, CONFIG)
    append_sequence(log, 0, (b"k", b"1", NOW))
    append_sequence(log, 1, (b"k", b"2", NOW))
    put(log, b"k", b"3")
    seal(log)
    log.compact(NOW, log.end_offset)
    assert contents(log) == [(2, b"k", b"3")]
    replica = open_log(store.folder("replica"), CONFIG)
    replica.append_as_follower(log.read(0, 1 << 20) or b"")
    done = append_sequence(replica, 1, (b"k", b"2", NOW))
    assert isinstance(done, Appended)
    assert (done.duplicate, done.base_offset) == (True, 1)


def test_control_batches_stay(store: Store) -> None:
    log = open_log(store, CONFIG)
    put(log, b"k", b"1")
    marker = encode_end_transaction_marker(
        ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
    )
    log.append_as_leader(marker, [read_header(marker)], 0, NOW)
    put(log, b"k", b"2")
    seal(log)
    log.compact(NOW, log.end_offset)
    assert [h.is_control for _p, h in headers(log.read(0, 1 << 20) or b"")] == [True, False]


def test_a_clean_log_is_left_alone_until_enough_of_it_is_dirty(store: Store) -> None:
    log = open_log(store, LogConfig(segment_bytes=600, cleanup_policy=("compact",), min_cleanable_ratio=0.5))
    for index in range(30):
        put(log, b"k%d" % index, b"v" * 50)
    seal(log)
    assert log.compact(NOW, log.end_offset) is not None
    assert log.compact(NOW, log.end_offset) is None
    put(log, b"k1", b"new")
    seal(log)
    assert log.compact(NOW, log.end_offset) is None
    for index in range(40):
        put(log, b"k%d" % index, b"w" * 50)
    seal(log)
    assert log.compact(NOW, log.end_offset) is not None


def test_young_segments_wait_for_their_lag(store: Store) -> None:
    log = open_log(
        store, LogConfig(cleanup_policy=("compact",), min_cleanable_ratio=0.0, min_compaction_lag_ms=500)
    )
    put(log, b"k", b"1")
    put(log, b"k", b"2")
    seal(log)
    assert log.compact(NOW + 499, log.end_offset) is None
    assert log.compact(NOW + 500, log.end_offset) is not None


def test_a_topic_that_is_not_compacted_is_not_compacted(store: Store) -> None:
    log = open_log(store, LogConfig(cleanup_policy=("delete",)))
    put(log, b"k", b"1")
    seal(log)
    assert log.compact(NOW, log.end_offset, always=True) is None


def test_small_segments_grow_together(store: Store) -> None:
    log = open_log(store, CONFIG)
    for index in range(60):
        put(log, b"k%d" % (index % 4), b"v%d" % index)
    seal(log)
    before = len(log.segment_bases)
    log.compact(NOW, log.end_offset)
    log.compact(NOW, log.end_offset, always=True)
    assert before > 5
    assert len(log.segment_bases) == 2
    assert len(contents(log)) == 4


def test_a_pass_with_more_keys_than_it_may_remember_goes_on_next_time(store: Store) -> None:
    log = open_log(store, CONFIG)
    for index in range(40):
        put(log, b"k%d" % (index % 20), b"v%d" % index)
    seal(log)
    for _ in range(10):
        log.compact(NOW, log.end_offset, always=True, max_keys=6)
    assert contents(log) == [(index, b"k%d" % (index % 20), b"v%d" % index) for index in range(20, 40)]


@pytest.mark.parametrize("stage", ["cleaned", "swap", "half-swapped"])
def test_a_crash_at_any_stage_of_the_swap_loses_nothing(
    store: Store, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(store, CONFIG)
    for index in range(20):
        put(log, b"k%d" % (index % 3), b"v%d" % index)
    assert len(log.segment_bases) > 2
    seal(log)
    log.flush()

    def stop(*_arguments: object) -> int:
        raise StorageError("planted crash")

    if stage == "cleaned":
        monkeypatch.setattr(type(store), "rename", stop)
    elif stage == "swap":
        monkeypatch.setattr(compaction_module, "finish_swap", stop)
    else:
        real = compaction_module.finish_swap

        def half(target: Store, swap: str) -> int:
            base, following, _suffix = swap.split(".")
            for name in target.names():
                if name.endswith(".log") and int(base) < int(name[:20]) < int(following):
                    target.delete(name)
            return stop()

        monkeypatch.setattr(compaction_module, "finish_swap", half)
        assert real is not half
    with pytest.raises(StorageError, match="planted"):
        log.compact(NOW, log.end_offset)
    monkeypatch.undo()
    if isinstance(store, MemoryStore):
        store.crash()
    again = open_log(store, CONFIG, recovery_point=0)
    assert again.recovery.cut is None
    assert again.end_offset == 20
    assert not [name for name in store.names() if name.endswith((".cleaned", ".swap"))]
    latest = {record.key: record.value for record in records_in(again)}
    assert latest == {b"k0": b"v18", b"k1": b"v19", b"k2": b"v17"}
    again.compact(NOW, again.end_offset, always=True)
    assert [offset for offset, _key, _value in contents(again)] == [17, 18, 19]


def test_the_gaps_that_compaction_makes_are_no_damage_to_recovery(store: Store) -> None:
    log = open_log(store, CONFIG)
    for index in range(60):
        put(log, b"k%d" % (index % 4 if index < 50 else index), b"v%02d" % index * 20)
    log.compact(NOW, log.end_offset, always=True)
    kept = contents(log)
    assert len(kept) < 30
    again = open_log(store, CONFIG, recovery_point=0)
    assert again.recovery.cut is None
    assert contents(again) == kept


def test_a_crash_between_two_swaps_takes_no_key_along(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    log = open_log(store, CONFIG)
    for index in range(40):
        put(log, b"k%d" % (index % 3), b"v%d" % index * 4)
    seal(log)
    real = PartitionLog._swap
    swapped: list[object] = []

    def swap_once(target: PartitionLog, cleaned: compaction_module.Cleaned, now: int) -> bool:
        if swapped:
            raise StorageError("planted crash")
        swapped.append(cleaned)
        return real(target, cleaned, now)

    monkeypatch.setattr(PartitionLog, "_swap", swap_once)
    with pytest.raises(StorageError, match="planted"):
        log.compact(NOW, log.end_offset)
    monkeypatch.undo()
    store.crash()
    again = open_log(store, CONFIG)
    assert again.end_offset == 40
    latest = {record.key: record.value for record in records_in(again)}
    assert latest == {b"k%d" % (index % 3): b"v%d" % index * 4 for index in range(37, 40)}


def test_what_is_written_after_a_truncation_is_dirty_again(store: Store) -> None:
    log = open_log(store, CONFIG)
    for index in range(10):
        put(log, b"k%d" % index, b"v%d" % index)
    seal(log)
    assert log.compact(NOW, log.end_offset) is not None
    log.truncate_to(4)
    for index in range(4, 8):
        put(log, b"same", b"w%d" % index)
    seal(log)
    assert log.compact(NOW, log.end_offset) is not None
    assert contents(log)[3:] == [(3, b"k3", b"v3"), (7, b"same", b"w7")]


def test_a_truncation_during_a_pass_wins(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(store, CONFIG)
    for index in range(20):
        put(log, b"k%d" % (index % 3), b"v%d" % index)
    seal(log)
    real = compaction_module.Cleaner.clean

    def clean(cleaner: object, group: object, following: object) -> object:
        done = real(cleaner, group, following)  # type: ignore[arg-type]
        log.truncate_fully(100)
        return done

    monkeypatch.setattr(compaction_module.Cleaner, "clean", clean)
    assert log.compact(NOW, 20, always=True) is None
    assert (log.log_start_offset, log.end_offset) == (100, 100)
    assert append(log, (b"k", b"v", NOW)).base_offset == 100
    assert open_log(store, CONFIG).end_offset == 101


def test_a_reader_misses_nothing_while_a_pass_loads_the_same_segments(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart a sealed segment is loaded by whoever needs it first, and both may at once."""
    log = open_log(store, CONFIG)
    for index in range(6):
        put(log, b"k%d" % index, b"v" * 100)
    seal(log)
    log.close()
    again = open_log(store, CONFIG, recovery_point=6, clean=True)
    readers = threading.current_thread()

    def slow(kind: type[FileBlob] | type[MemoryBlob]) -> None:
        real = kind.read

        def read(blob: FileBlob | MemoryBlob, position: int, length: int) -> bytes:
            if threading.current_thread() is not readers:
                time.sleep(0.02)
            return real(blob, position, length)  # type: ignore[arg-type]

        monkeypatch.setattr(kind, "read", read)

    slow(FileBlob)
    slow(MemoryBlob)
    cleaner = threading.Thread(target=lambda: again.compact(NOW, 6, always=True))
    cleaner.start()
    seen = set()
    while cleaner.is_alive():
        seen.add(read_header(again.read(0, 1 << 20) or b"").base_offset)
        time.sleep(0.002)
    assert seen == {0}


ACTIONS = ["put", "put", "put", "put", "delete", "seal", "compact", "reopen", "flush", "crash"]


def tear(sixths: int, _name: str, unflushed: int) -> int:
    return unflushed * sixths // 6


operations = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS),
        st.lists(st.integers(0, 6), min_size=1, max_size=4),
        st.sampled_from(["none", "lz4"]),
    ),
    max_size=60,
)


@given(operations=operations)
@settings(max_examples=120, deadline=None)
def test_a_compacted_log_reads_as_a_model_of_the_latest_values_does(
    operations: list[tuple[str, list[int], str]],
) -> None:
    config = LogConfig(
        segment_bytes=500,
        cleanup_policy=("compact",),
        min_cleanable_ratio=0.0,
        delete_retention_ms=1 << 50,
        index_interval_bytes=100,
    )
    store = MemoryStore()
    log = open_log(store, config)
    written: list[tuple[int, bytes, bytes | None]] = []
    for action, keys, codec in [*operations, ("seal", [0], "none"), ("compact", [0], "none")]:
        if action in ("put", "delete"):
            base = log.end_offset
            items = [
                (base + at, b"key-%d" % key, None if action == "delete" else b"value-%d" % (base + at))
                for at, key in enumerate(keys)
            ]
            append(log, *[(key, value, NOW) for _offset, key, value in items], codec=codec)
            written += items
        elif action == "seal":
            seal(log)
        elif action == "compact":
            log.compact(NOW, log.end_offset, always=True)
        elif action == "flush":
            log.flush()
        elif action == "crash":
            store.crash(partial(tear, keys[0]))
            log = open_log(store, config)
            written = [item for item in written if item[0] < log.end_offset]
        else:
            log.close()
            log = open_log(store, config, recovery_point=log.end_offset, clean=True)
        found = contents(log)
        assert [item for item in written if item in found] == found
        assert {key: value for _o, key, value in found} == {key: value for _o, key, value in written}
        assert log.end_offset == len(written)
    last_of = {key: offset for offset, key, _value in written}
    assert contents(log) == [item for item in written if last_of[item[1]] == item[0]]

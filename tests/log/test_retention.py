"""What is deleted from the front of a log, and what never is."""

from __future__ import annotations

from epoka.log import LogConfig, PartitionLog, Store
from tests.log.logs import NOW, append, open_log, values_in


def filled(store: Store, config: LogConfig, batches: int = 10) -> PartitionLog:
    """One batch a segment, one every 100 ms."""
    log = open_log(store, config)
    for index in range(batches):
        append(log, (None, b"v%d" % index * 50, NOW + 100 * index), now=NOW + 100 * index)
    assert len(log.segment_bases) == batches
    return log


def test_segments_older_than_the_limit_are_deleted(store: Store) -> None:
    log = filled(store, LogConfig(segment_bytes=200, retention_ms=1000))
    deleted = log.apply_retention(NOW + 1000 + 301, log.end_offset)
    assert [d.base_offset for d in deleted] == [0, 1, 2, 3]
    assert "retention.ms" in deleted[0].reason
    assert (log.log_start_offset, log.end_offset) == (4, 10)
    assert values_in(log)[0] == b"v4" * 50
    assert log.read(3, 100) is None
    assert [name for name in store.names() if name.startswith("0" * 19 + "0.")] == []


def test_a_segment_at_the_limit_is_kept(store: Store) -> None:
    log = filled(store, LogConfig(segment_bytes=200, retention_ms=1000))
    assert log.apply_retention(NOW + 1000, log.end_offset) == []


def test_an_old_active_segment_goes_too_and_offsets_go_on(store: Store) -> None:
    config = LogConfig(segment_bytes=200, retention_ms=1000)
    log = filled(store, config)
    assert len(log.apply_retention(NOW + 100_000, log.end_offset)) == 10
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (10, 10, 0)
    assert log.apply_retention(NOW + 100_000, log.end_offset) == []
    log.close()
    again = open_log(store, config, recovery_point=10, clean=True)
    assert append(again, b"next").base_offset == 10


def test_the_oldest_segments_go_until_the_log_is_small_enough(store: Store) -> None:
    log = filled(store, LogConfig(segment_bytes=200, retention_ms=-1, retention_bytes=500))
    before = log.size_bytes
    deleted = log.apply_retention(NOW, log.end_offset)
    assert deleted
    assert "retention.bytes" in deleted[0].reason
    assert log.size_bytes >= 500
    assert log.size_bytes - before // 10 < 500


def test_nothing_above_the_high_watermark_is_deleted(store: Store) -> None:
    log = filled(store, LogConfig(segment_bytes=200, retention_ms=1, retention_bytes=0))
    assert [d.next_offset for d in log.apply_retention(NOW + 10**9, 4)] == [1, 2, 3, 4]
    assert log.log_start_offset == 4


def test_segments_below_the_log_start_go_also_from_a_compacted_log(store: Store) -> None:
    log = open_log(store, LogConfig(segment_bytes=200, cleanup_policy=("compact",), retention_ms=1))
    for index in range(6):
        append(log, (b"k%d" % index, b"x" * 100, NOW))
    log.delete_records_before(3)
    deleted = log.apply_retention(NOW + 10**9, log.end_offset)
    assert [d.base_offset for d in deleted] == [0, 1, 2]
    assert log.apply_retention(NOW + 10**9, log.end_offset) == []


def test_deletion_moves_the_epoch_history_with_the_log_start(store: Store) -> None:
    log = open_log(store, LogConfig(segment_bytes=200, retention_ms=1))
    for index in range(6):
        append(log, (None, b"x" * 100, NOW), epoch=index // 2)
    log.apply_retention(NOW + 5, 3)
    assert list(log.epochs) == [(1, 3), (2, 4)]


def test_records_without_timestamps_age_from_when_they_were_written(store: Store) -> None:
    log = open_log(store, LogConfig(segment_bytes=200, retention_ms=1000))
    append(log, (None, b"x" * 100, -1))
    append(log, (None, b"y" * 100, -1), now=NOW + 500)
    assert log.apply_retention(NOW + 1000, 2) == []
    assert [d.base_offset for d in log.apply_retention(NOW + 1001, 2)] == [0]


def test_unlimited_retention_keeps_everything(store: Store) -> None:
    log = filled(store, LogConfig(segment_bytes=200, retention_ms=-1, retention_bytes=-1))
    assert log.apply_retention(NOW + 10**12, log.end_offset) == []


def test_a_damaged_segment_does_not_keep_the_ones_behind_it_for_ever(store: Store) -> None:
    config = LogConfig(segment_bytes=200, retention_ms=1000)
    log = filled(store, config)
    log.close()
    store.replace(f"{0:020d}.log", b"x" * 50)
    again = open_log(store, config, recovery_point=10, clean=True)
    assert [d.base_offset for d in again.apply_retention(NOW + 1500, 10)] == [0, 1, 2, 3, 4]

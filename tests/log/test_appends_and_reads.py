"""What goes in comes out: offsets, whole batches, limits, order."""

from __future__ import annotations

import os
import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoka.log import Appended, FileStore, LogConfig, MemoryStore, PartitionLog, Refused, StorageError, Store
from epoka.wire.error_codes import ErrorCode
from epoka.wire.records import crc_ok, decode_batch, encode_batch, headers, read_header, validate
from tests.log.logs import (
    NOW,
    append,
    append_bytes,
    batch_of,
    forged,
    garbage,
    offsets_in,
    open_log,
    records_in,
    try_append,
    values_in,
)


def test_offsets_count_on_from_batch_to_batch(store: Store) -> None:
    log = open_log(store)
    assert append(log, b"a", b"b").base_offset == 0
    second = append(log, b"c")
    assert (second.base_offset, second.last_offset, second.duplicate) == (2, 2, False)
    assert (log.log_start_offset, log.end_offset) == (0, 3)
    assert [record.offset for record in records_in(log)] == [0, 1, 2]
    assert values_in(log) == [b"a", b"b", b"c"]


def test_several_batches_in_one_call_are_one_write(store: Store) -> None:
    log = open_log(store)
    buffer = batch_of([b"a", b"b"]) + batch_of([b"c"]) + batch_of([b"d"])
    done = log.append_as_leader(buffer, validate(buffer, max_batch_bytes=1 << 20), 3, NOW)
    assert isinstance(done, Appended)
    assert (done.base_offset, done.last_offset) == (0, 3)
    content = log.read(0, 1 << 20)
    assert offsets_in(content) == [(0, 1), (2, 2), (3, 3)]
    assert all(header.partition_leader_epoch == 3 for _position, header in headers(content or b""))


def test_what_is_served_still_matches_its_checksum(store: Store) -> None:
    log = open_log(store)
    for index in range(5):
        append(log, b"v%d" % index, epoch=index)
    content = log.read(0, 1 << 20)
    assert content is not None
    for position, header in headers(content):
        assert crc_ok(content, position, header)


def test_a_read_begins_with_the_batch_that_holds_the_offset(store: Store) -> None:
    log = open_log(store)
    for _ in range(10):
        append(log, b"a", b"b", b"c")
    assert offsets_in(log.read(13, 1 << 20))[0] == (12, 14)


def test_a_read_stops_at_the_byte_limit_with_a_whole_batch(store: Store) -> None:
    log = open_log(store, LogConfig(index_interval_bytes=1 << 20))
    for _ in range(10):
        append(log, b"x" * 100)
    size = len(log.read(0, 1 << 20) or b"") // 10
    assert offsets_in(log.read(2, 3 * size + 5)) == [(2, 2), (3, 3), (4, 4)]
    assert offsets_in(log.read(2, 3 * size)) == [(2, 2), (3, 3), (4, 4)]


def test_the_first_batch_comes_even_if_it_is_too_large_unless_told_otherwise(store: Store) -> None:
    log = open_log(store)
    append(log, b"x" * 5000)
    append(log, b"y")
    assert offsets_in(log.read(0, 10)) == [(0, 0)]
    assert log.read(0, 10, min_one=False) == b""


def test_a_read_never_passes_the_offset_it_may_go_up_to(store: Store) -> None:
    log = open_log(store)
    for _ in range(6):
        append(log, b"a", b"b")
    assert offsets_in(log.read(0, 1 << 20, up_to_offset=6)) == [(0, 1), (2, 3), (4, 5)]
    assert offsets_in(log.read(0, 1 << 20, up_to_offset=5)) == [(0, 1), (2, 3)]
    assert log.read(6, 1 << 20, up_to_offset=6) == b""
    assert log.read(4, 1 << 20, up_to_offset=5) == b""


def test_the_end_is_in_range_and_empty_and_one_more_is_out_of_range(store: Store) -> None:
    log = open_log(store)
    append(log, b"a")
    assert log.read(1, 100) == b""
    assert log.read(2, 100) is None
    assert log.read(-1, 100) is None


def test_segments_roll_by_size_and_reads_cross_them(store: Store) -> None:
    log = open_log(store, LogConfig(segment_bytes=1000))
    for index in range(50):
        append(log, b"v%03d" % index * 20)
    assert len(log.segment_bases) > 3
    assert values_in(log) == [b"v%03d" % index * 20 for index in range(50)]
    for base in log.segment_bases[1:]:
        assert offsets_in(log.read(base, 1 << 20))[0][0] == base


def test_segments_roll_by_age(store: Store) -> None:
    log = open_log(store, LogConfig(segment_ms=100))
    append(log, b"a", now=NOW)
    append(log, b"b", now=NOW + 99)
    assert log.segment_bases == [0]
    append(log, b"c", now=NOW + 100)
    assert log.segment_bases == [0, 2]


def test_more_bytes_than_a_segment_holds_are_refused(store: Store) -> None:
    log = open_log(store, LogConfig(segment_bytes=500))
    refused = try_append(log, b"x" * 1000)
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.end_offset == 0


def test_a_batch_over_the_topics_limit_is_refused(store: Store) -> None:
    log = open_log(store, LogConfig(max_message_bytes=200))
    refused = try_append(log, b"x" * 1000)
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.MESSAGE_TOO_LARGE


def test_log_append_time_is_told_and_stored(store: Store) -> None:
    log = open_log(store, LogConfig(message_timestamp_type="LogAppendTime"))
    assert append(log, (None, b"a", 5), now=777).log_append_time_ms == 777
    assert [record.timestamp for record in records_in(log)] == [777]
    assert append(open_log(MemoryStore()), b"a").log_append_time_ms == -1


def test_timestamps_too_far_from_now_are_refused(store: Store) -> None:
    log = open_log(
        store, LogConfig(message_timestamp_after_max_ms=1000, message_timestamp_before_max_ms=2000)
    )
    for timestamp in (NOW + 1001, NOW - 2001):
        refused = try_append(log, (None, b"a", timestamp))
        assert isinstance(refused, Refused)
        assert refused.code is ErrorCode.INVALID_TIMESTAMP
    append(log, (None, b"a", NOW + 1000), (None, b"a", NOW - 2000))


def test_a_compacted_topic_takes_no_record_without_a_key(store: Store) -> None:
    log = open_log(store, LogConfig(cleanup_policy=("compact",)))
    refused = try_append(log, (b"k", b"v", NOW), (None, b"v", NOW))
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.INVALID_RECORD
    append(log, (b"k", None, NOW), codec="lz4")


def test_a_leader_of_an_older_epoch_cannot_append(store: Store) -> None:
    log = open_log(store)
    append(log, b"a", epoch=4)
    refused = try_append(log, b"b", epoch=3)
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.FENCED_LEADER_EPOCH


def test_a_follower_copies_a_leader_byte_for_byte(store: Store) -> None:
    leader = open_log(MemoryStore(), LogConfig(segment_bytes=2000))
    for index in range(40):
        append(leader, b"v%d" % index * 9, epoch=index // 10)
    follower = open_log(store, LogConfig(segment_bytes=1500))
    while follower.end_offset < leader.end_offset:
        content = leader.read(follower.end_offset, 700)
        assert content
        assert isinstance(follower.append_as_follower(content), Appended)
    assert records_in(follower) == records_in(leader)
    assert list(follower.epochs) == list(leader.epochs) == [(0, 0), (1, 10), (2, 20), (3, 30)]


def test_a_follower_leaves_a_cut_off_batch_out(store: Store) -> None:
    log = open_log(store)
    whole = batch_of([b"a"]) + batch_of([b"b"], base_offset=1)
    done = log.append_as_follower(bytes(whole[:-3]))
    assert isinstance(done, Appended)
    assert log.end_offset == 1
    refused = log.append_as_follower(bytes(whole[:20]))
    assert isinstance(refused, Refused)


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (batch_of([b"x"], base_offset=1), ErrorCode.OFFSET_OUT_OF_RANGE),
        (batch_of([b"x"], base_offset=2, leader_epoch=1), ErrorCode.FENCED_LEADER_EPOCH),
        (batch_of([b"x"], base_offset=2, leader_epoch=9)[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_follower_refuses_what_cannot_follow(store: Store, batch: bytearray, code: ErrorCode) -> None:
    log = open_log(store)
    append(log, b"a", b"b", epoch=5)
    refused = log.append_as_follower(bytes(batch))
    assert isinstance(refused, Refused)
    assert refused.code is code
    assert log.end_offset == 2


def test_a_follower_takes_the_gaps_a_compacted_leader_has(store: Store) -> None:
    log = open_log(store)
    log.append_as_follower(bytes(batch_of([b"a"], base_offset=0)))
    assert isinstance(log.append_as_follower(bytes(batch_of([b"b"], base_offset=10))), Appended)
    far = (1 << 31) + 50
    assert isinstance(log.append_as_follower(bytes(batch_of([b"c"], base_offset=far))), Appended)
    assert [record.offset for record in records_in(log)] == [0, 10, far]
    assert offsets_in(log.read(5, 1 << 20)) == [(10, 10)]
    assert offsets_in(log.read(11, 1 << 20)) == [(far, far)]


def test_truncation_takes_off_the_end_and_offsets_are_given_again(store: Store) -> None:
    log = open_log(store, LogConfig(segment_bytes=1000))
    for index in range(40):
        append(log, b"v%02d" % index * 20)
    assert log.truncate_to(25) == 25
    assert log.end_offset == 25
    assert append(log, b"new").base_offset == 25
    assert values_in(log)[24:] == [b"v24" * 20, b"new"]
    assert log.truncate_to(99) == 26


def test_truncation_inside_a_batch_takes_the_whole_batch(store: Store) -> None:
    log = open_log(store)
    append(log, b"a", b"b")
    append(log, b"c", b"d", b"e")
    assert log.truncate_to(3) == 2
    assert values_in(log) == [b"a", b"b"]


def test_what_was_known_of_a_truncated_tail_leads_no_reader_astray(store: Store) -> None:
    log = open_log(store)
    for _ in range(4):
        append(log, b"x" * 30)
    size = log.size_bytes // 4
    log.truncate_to(1)
    short = 30
    while len(batch_of([b"", b"y" * short])) > size:
        short -= 1
    append(log, b"", b"y" * short)
    append(log, b"z")
    assert log.size_bytes > 2 * size
    found = log.locate(2, 1 << 20)
    assert found is not None
    assert found.position == size


def test_truncation_of_a_batch_that_spans_the_log_start_leaves_an_empty_log(store: Store) -> None:
    log = open_log(store)
    append(log, b"a", b"b", b"c")
    log.delete_records_before(1)
    assert log.truncate_to(2) == 1
    assert (log.log_start_offset, log.end_offset) == (1, 1)
    assert append(log, b"d").base_offset == 1


def test_a_damaged_sealed_segment_is_said_and_never_skipped(store: Store) -> None:
    config = LogConfig(segment_bytes=300)
    log = open_log(store, config)
    for _ in range(4):
        append(log, b"x" * 150)
    log.close()
    store.replace(f"{1:020d}.log", (store.read_all(f"{1:020d}.log") or b"")[:-5])
    again = open_log(store, config, recovery_point=4, clean=True)
    for _ in range(3):
        with pytest.raises(StorageError):
            again.read(1, 1 << 20)
    assert offsets_in(again.read(2, 1 << 20)) == [(2, 2)]


def test_truncating_fully_starts_over_at_another_offset(store: Store) -> None:
    log = open_log(store, LogConfig(segment_bytes=300))
    for _ in range(10):
        append(log, b"x" * 100)
    log.truncate_fully(500)
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (500, 500, 0)
    assert append(log, b"y").base_offset == 500
    log.close()
    again = open_log(store, recovery_point=501, clean=True)
    assert (again.log_start_offset, again.end_offset) == (500, 501)
    again.truncate_fully(20)
    again.close()
    assert open_log(store, recovery_point=20, clean=True).log_start_offset == 20


def test_deleted_records_are_out_of_range_also_after_a_restart(store: Store) -> None:
    log = open_log(store)
    for index in range(10):
        append(log, b"v%d" % index)
    assert log.delete_records_before(4) == 4
    assert log.delete_records_before(2) == 4
    assert log.read(3, 100) is None
    assert values_in(log)[0] == b"v4"
    log.close()
    again = open_log(store, recovery_point=10, clean=True)
    assert again.log_start_offset == 4
    assert again.delete_records_before(999) == 10
    assert again.end_offset == 10


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_first_record_at_or_after_a_time_is_found(store: Store, codec: str) -> None:
    log = open_log(store, LogConfig(segment_bytes=800, index_interval_bytes=100))
    stamps = [100, 250, 220, 300, 270, 400, 380, 500, 650, 640, 700, 900]
    for index in range(0, len(stamps), 2):
        append(
            log, *[(None, b"x" * 50, stamp) for stamp in stamps[index : index + 2]], codec=codec, epoch=index
        )
    for asked in (0, 100, 101, 250, 260, 390, 500, 645, 899, 900):
        expected = next(index for index, stamp in enumerate(stamps) if stamp >= asked)
        assert log.offset_for_timestamp(asked) == (expected, stamps[expected], expected // 2 * 2)
    assert log.offset_for_timestamp(901) is None
    assert log.offset_for_timestamp(700, up_to=10) is None
    assert log.max_timestamp_offset() == (11, 900, 10)
    assert log.max_timestamp_offset(up_to=10) == (8, 650, 8)


def test_a_batch_that_cannot_be_read_is_found_by_its_header(store: Store) -> None:
    log = open_log(store)
    append(log, (None, b"a", NOW - 5))
    append_bytes(log, garbage())
    append(log, (None, b"b", NOW + 5))
    assert log.offset_for_timestamp(NOW) == (1, NOW, 0)
    assert log.offset_for_timestamp(NOW + 1) == (2, NOW + 5, 0)
    assert log.max_timestamp_offset(up_to=2) == (1, NOW, 0)


def test_a_record_is_no_later_than_its_batch_says(store: Store) -> None:
    """What the parts of a timestamp add up to may be more than a timestamp can be."""
    log = open_log(store)
    append_bytes(
        log,
        forged(
            batch_of([(None, b"a", 0), (None, b"b", (1 << 63) - 1)]), base_timestamp=NOW, max_timestamp=NOW
        ),
    )
    assert log.offset_for_timestamp(NOW) == (0, NOW, 0)
    assert log.max_timestamp_offset() == (0, NOW, 0)


def test_a_timestamp_lookup_starts_at_the_log_start(store: Store) -> None:
    log = open_log(store)
    append(log, (None, b"a", 10), (None, b"b", 20), (None, b"c", 30))
    log.delete_records_before(1)
    assert log.offset_for_timestamp(0) == (1, 20, 0)


@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 400)), min_size=1, max_size=40),
    segment_bytes=st.integers(1200, 4000),
    interval=st.integers(1, 1500),
    seed=st.integers(0, 1 << 30),
)
@settings(max_examples=60, deadline=None)
def test_any_read_of_any_log_returns_the_batches_a_list_would(
    sizes: list[tuple[int, int]], segment_bytes: int, interval: int, seed: int
) -> None:
    log = open_log(MemoryStore(), LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval))
    model: list[tuple[int, int, int]] = []
    for count, size in sizes:
        done = append(log, *[b"x" * (size // count)] * count)
        model.append((done.base_offset, done.last_offset, len(batch_of([b"x" * (size // count)] * count))))
    choose = random.Random(seed)
    for _ in range(30):
        offset = choose.randrange(log.end_offset)
        up_to = choose.randrange(log.end_offset + 1)
        max_bytes = choose.randrange(1, 3000)
        content = log.read(offset, max_bytes, up_to_offset=up_to)
        found = offsets_in(content)
        visible = [(base, last) for base, last, _size in model if last >= offset and last < up_to]
        assert found == visible[: len(found)]
        if visible and visible[0][0] <= offset:
            assert found
            assert len(content or b"") <= max_bytes or len(found) == 1


def test_a_large_append_copies_nothing(tmp_path: object) -> None:
    log = PartitionLog.open(
        FileStore(str(tmp_path)), LogConfig(max_message_bytes=1 << 21), recovery_point=0, clean=False, now=0
    )
    batch = encode_batch([(None, os.urandom(1000), 5) for _ in range(1000)])
    headers_found = validate(batch, max_batch_bytes=1 << 21)
    log.append_as_leader(batch, headers_found, 0, 1)
    tracemalloc.start()
    try:
        log.append_as_leader(batch, headers_found, 0, 1)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < len(batch) / 10


def test_an_append_writes_into_the_callers_buffer(store: Store) -> None:
    log = open_log(store)
    append(log, b"a")
    frame = bytearray(b"head") + batch_of([b"b"]) + b"tail"
    view = memoryview(frame)[4:-4]
    log.append_as_leader(view, validate(view, max_batch_bytes=1000), 2, NOW)
    assert read_header(frame, 4).base_offset == 1
    assert decode_batch(log.read(1, 1000) or b"")[0].value == b"b"

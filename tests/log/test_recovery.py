"""What is left of a log after a crash, and whether it is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoka.log import Appended, FileStore, LogConfig, MemoryStore, PartitionLog, Store
from epoka.wire.records import crc_ok
from tests.log.logs import append, append_sequence, batch_of, open_log, values_in

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300)


def filled(store: Store, batches: int = 40) -> PartitionLog:
    log = open_log(store, CONFIG)
    for index in range(batches):
        append(log, b"v%02d" % index * 20, epoch=index // 10)
    return log


def damage(store: Store, name: str, position: int, change: bytes | None) -> None:
    """Overwrites bytes of a file behind the log's back, or cuts it there."""
    content = bytearray(store.read_all(name) or b"")
    if change is None:
        del content[position:]
    else:
        content[position : position + len(change)] = change
    store.delete(name)
    store.replace(name, bytes(content))


def last_file(log: PartitionLog) -> str:
    return f"{log.segment_bases[-1]:020d}.log"


def test_nothing_is_cut_from_a_whole_log(store: Store) -> None:
    filled(store)
    again = open_log(store, CONFIG)
    assert again.recovery.cut is None
    assert again.recovery.checked_batches == 40
    assert again.end_offset == 40


def test_a_torn_tail_is_cut_at_the_last_whole_batch_and_said(store: Store) -> None:
    log = filled(store)
    name, size = last_file(log), log._active.size
    damage(store, name, size - 1, None)
    again = open_log(store, CONFIG)
    cut = again.recovery.cut
    assert cut is not None
    assert (cut.offset, cut.segment) == (39, name)
    assert cut.bytes == len(batch_of([b"v39" * 20])) - 1
    assert "bytes" in cut.reason
    assert str(cut.bytes) in str(again.recovery)
    assert values_in(again)[-1] == b"v38" * 20
    assert append(again, b"next", epoch=5).base_offset == 39


def test_a_tail_of_zeros_is_cut(store: Store) -> None:
    log = filled(store, 3)
    size = log._active.size
    damage(store, last_file(log), size, bytes(5000))
    again = open_log(store, CONFIG)
    assert again.recovery.cut is not None
    assert (again.recovery.cut.offset, again.recovery.cut.bytes) == (3, 5000)


def test_a_flipped_bit_after_the_recovery_point_cuts_everything_behind_it(store: Store) -> None:
    log = filled(store)
    assert len(log.segment_bases) > 2
    middle = log.segment_bases[1]
    batch = len(batch_of([b"v00" * 20]))
    damage(store, f"{middle:020d}.log", batch + 80, b"!")
    total = log.size_bytes
    again = open_log(store, CONFIG, recovery_point=middle)
    cut = again.recovery.cut
    assert cut is not None
    assert cut.offset == middle + 1
    assert "checksum" in cut.reason
    assert again.end_offset == middle + 1
    assert cut.bytes == total - again.size_bytes
    assert again.segment_bases == [0, middle]
    assert [name for name in store.names() if name.endswith(".log")] == [f"{b:020d}.log" for b in (0, middle)]
    assert again.last_epoch == (middle // 10)


def test_a_flipped_bit_before_the_recovery_point_is_not_looked_for(store: Store) -> None:
    log = filled(store)
    middle = log.segment_bases[1]
    damage(store, f"{middle:020d}.log", 80, b"!")
    again = open_log(store, CONFIG, recovery_point=40)
    assert again.recovery.cut is None
    assert again.recovery.checked_batches == 0
    assert again.end_offset == 40


def test_a_clean_log_is_not_read_but_a_short_file_is_cut_even_then(store: Store) -> None:
    log = filled(store)
    log.close()
    again = open_log(store, CONFIG, recovery_point=40, clean=True)
    assert (again.recovery.checked_batches, again.recovery.cut) == (0, None)
    again.close()
    damage(store, last_file(log), log._active.size - 4, None)
    third = open_log(store, CONFIG, recovery_point=40, clean=True)
    assert third.recovery.cut is not None
    assert third.end_offset == 39


def test_a_sealed_segment_that_lost_its_end_takes_the_ones_behind_it_along(store: Store) -> None:
    log = filled(store)
    middle = log.segment_bases[1]
    batch = len(batch_of([b"v00" * 20]))
    size = len(store.read_all(f"{0:020d}.log") or b"")
    damage(store, f"{0:020d}.log", size - batch, None)
    again = open_log(store, CONFIG, recovery_point=2)
    assert again.recovery.cut is not None
    assert again.recovery.cut.offset == again.end_offset == middle - 1
    assert str(middle) in again.recovery.cut.reason


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("batches", [5, 40])
def test_an_empty_segment_within_another_hides_nothing(store: Store, clean: bool, batches: int) -> None:
    log = filled(store, batches)
    log.close()
    for base in (2, 4):
        store.open(f"{base:020d}.log").close()
    again = open_log(store, CONFIG, recovery_point=batches, clean=clean)
    assert again.segment_bases == log.segment_bases
    assert again.recovery.cut is None
    assert len(values_in(again)) == again.end_offset == batches
    assert not store.exists(f"{2:020d}.log") and not store.exists(f"{4:020d}.log")


def test_what_a_killed_process_left_unflushed_is_flushed_by_the_next() -> None:
    store = MemoryStore()
    filled(store, 5)
    again = open_log(store, CONFIG)
    again.flush()
    store.crash()
    assert open_log(store, CONFIG, recovery_point=5).end_offset == 5


def test_epochs_above_the_recovery_point_come_back_from_the_batches(store: Store) -> None:
    log = open_log(store, CONFIG)
    for index in range(10):
        append(log, b"x", epoch=index // 5)
    log.flush()
    for index in range(10, 20):
        append(log, b"x", epoch=index // 5)
    again = open_log(store, CONFIG, recovery_point=log.recovery_point)
    assert list(again.epochs) == [(0, 0), (1, 5), (2, 10), (3, 15)]


def test_an_epoch_of_records_that_are_gone_is_forgotten(store: Store) -> None:
    log = filled(store, 12)
    log.flush()
    log.close(clean=False)
    store.replace("leader-epoch-checkpoint", b"0\n2\n0 0\n7 5\n")
    again = open_log(store, CONFIG, recovery_point=5)
    assert list(again.epochs) == [(0, 0), (1, 10)]


def test_a_gap_in_a_followers_log_is_no_damage(store: Store) -> None:
    log = open_log(store, LogConfig(segment_bytes=300))
    for offset in (0, 5, 40, 41, 90):
        assert isinstance(log.append_as_follower(bytes(batch_of([b"x" * 150], base_offset=offset))), Appended)
    assert len(log.segment_bases) == 5
    again = open_log(store, LogConfig(segment_bytes=300))
    assert again.recovery.cut is None
    assert [header.base_offset for _batch, header in again.batches(0)] == [0, 5, 40, 41, 90]


def test_a_lost_epoch_checkpoint_is_made_again_from_the_batches(store: Store) -> None:
    log = filled(store)
    log.close()
    for content in (None, b"garbage", b"0\n2\n5 1\n4 2\n"):
        store.delete("leader-epoch-checkpoint")
        if content is not None:
            store.replace("leader-epoch-checkpoint", content)
        again = open_log(store, CONFIG, recovery_point=40, clean=True)
        assert list(again.epochs) == [(0, 0), (1, 10), (2, 20), (3, 30)]


def test_truncation_makes_the_lower_recovery_point_known_first(store: Store) -> None:
    lowered: list[tuple[int, int]] = []
    log = PartitionLog.open(
        store,
        CONFIG,
        recovery_point=0,
        clean=False,
        now=0,
        on_recovery_point_lowered=lambda offset: lowered.append((offset, log.end_offset)),
    )
    for _ in range(10):
        append(log, b"x")
    log.flush()
    log.truncate_to(6)
    assert lowered == [(6, 10)]
    assert log.recovery_point == 6
    log.truncate_to(8)
    assert len(lowered) == 1


@given(data=st.data(), batches=st.integers(1, 40), flush_at=st.integers(0, 40))
@settings(max_examples=80, deadline=None)
def test_after_any_crash_a_prefix_that_holds_all_that_was_flushed_is_left(
    data: st.DataObject, batches: int, flush_at: int
) -> None:
    store = MemoryStore()
    log = open_log(store, CONFIG)
    flushed = 0
    for index in range(batches):
        append(log, b"v%02d" % index * 15, epoch=index // 7)
        if index == flush_at:
            log.flush()
            flushed = log.recovery_point
    store.crash(lambda name, unflushed: data.draw(st.integers(0, unflushed)))
    again = open_log(store, CONFIG, recovery_point=flushed)
    assert flushed <= again.end_offset <= batches
    assert values_in(again) == [b"v%02d" % index * 15 for index in range(again.end_offset)]
    assert append(again, b"next", epoch=9).base_offset == again.end_offset - 1
    content = again.read(0, 1 << 20)
    assert content is not None


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_damage_behind_the_recovery_point_leaves_only_batches_that_match_their_checksum(
    data: st.DataObject,
) -> None:
    store = MemoryStore()
    log = filled(store)
    base = data.draw(st.sampled_from(log.segment_bases))
    name = f"{base:020d}.log"
    size = len(store.read_all(name) or b"")
    change = data.draw(st.binary(min_size=1, max_size=30))
    damage(store, name, data.draw(st.integers(0, size - 1)), change)
    again = open_log(store, CONFIG)
    originals = [b"v%02d" % index * 20 for index in range(40)]
    seen = []
    for batch, header in again.batches(0):
        assert crc_ok(batch, 0, header)
        seen.append(header.base_offset)
    assert seen == sorted(set(seen))
    # The offset field itself is not under the checksum, so only what it guards can be compared.
    assert [v for v in values_in(again) if v in originals] == values_in(again)


WRITER = """
import sys
from epoka.log import FileStore, LogConfig, PartitionLog
from epoka.wire.records import encode_batch, validate
config = LogConfig(segment_bytes=200_000)
log = PartitionLog.open(FileStore(sys.argv[1]), config, recovery_point=0, clean=False, now=0)
index = 0
while True:
    batch = encode_batch([(None, b"%08d" % index * 50, 5) for index in range(index, index + 3)])
    done = log.append_as_leader(batch, validate(batch, max_batch_bytes=1 << 20), 0, 0)
    index = done.last_offset + 1
    sys.stdout.write("%d\\n" % done.last_offset)
    sys.stdout.flush()
"""


@pytest.mark.parametrize("acknowledged", [5, 900])
def test_every_acknowledged_record_survives_a_killed_writer(tmp_path: Path, acknowledged: int) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    last = -1
    for line in writer.stdout:
        last = int(line)
        if last >= acknowledged:
            break
    os.kill(writer.pid, signal.SIGKILL)
    for line in writer.stdout:
        if line.endswith(b"\n"):
            last = int(line)
    writer.wait(30)
    log = open_log(FileStore(tmp_path), LogConfig(segment_bytes=200_000))
    assert log.end_offset > last
    assert values_in(log) == [b"%08d" % index * 50 for index in range(log.end_offset)]
    assert append(log, b"next").base_offset == log.end_offset - 1


def test_producer_state_is_right_after_a_crash(store: Store) -> None:
    log = open_log(store, CONFIG)
    done = [append_sequence(log, index, b"v%02d" % index * 20) for index in range(30)]
    again = open_log(store, CONFIG)
    repeated = append_sequence(again, 29, b"v29" * 20)
    assert isinstance(repeated, Appended)
    assert isinstance(done[29], Appended)
    assert (repeated.duplicate, repeated.base_offset) == (True, done[29].base_offset)
    assert isinstance(append_sequence(again, 30, b"x"), Appended)

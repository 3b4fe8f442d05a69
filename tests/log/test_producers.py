"""Idempotent producers: each record once, in order, whatever is sent again."""

from __future__ import annotations

import pytest

from epoka.log import Appended, LogConfig, PartitionLog, Refused, Store
from epoka.log.producers import ProducerStates
from epoka.wire.error_codes import ErrorCode
from epoka.wire.records import ControlType, encode_end_transaction_marker, read_header
from tests.log.logs import NOW, append_sequence, open_log, try_append, values_in

MAX_SEQUENCE = (1 << 31) - 1


def refusal(done: object) -> ErrorCode:
    assert isinstance(done, Refused), done
    return done.code


def accepted(done: object) -> Appended:
    assert isinstance(done, Appended), done
    return done


def test_a_repeated_batch_is_answered_with_its_first_offsets(store: Store) -> None:
    log = open_log(store)
    first = accepted(append_sequence(log, 0, b"a", b"b"))
    accepted(append_sequence(log, 2, b"c"))
    again = accepted(append_sequence(log, 0, b"a", b"b"))
    assert (again.base_offset, again.last_offset, again.duplicate) == (
        first.base_offset,
        first.last_offset,
        True,
    )
    assert values_in(log) == [b"a", b"b", b"c"]


def test_the_last_five_batches_are_remembered_and_older_ones_are_out_of_order(store: Store) -> None:
    log = open_log(store)
    for index in range(8):
        accepted(append_sequence(log, index, b"v%d" % index))
    for index in range(3, 8):
        assert accepted(append_sequence(log, index, b"v")).base_offset == index
    assert refusal(append_sequence(log, 2, b"v")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 8


def test_a_gap_in_sequences_is_out_of_order(store: Store) -> None:
    log = open_log(store)
    accepted(append_sequence(log, 0, b"a"))
    assert refusal(append_sequence(log, 2, b"c")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    accepted(append_sequence(log, 1, b"b"))
    accepted(append_sequence(log, 2, b"c"))


def test_a_batch_that_overlaps_an_earlier_one_is_no_duplicate(store: Store) -> None:
    log = open_log(store)
    accepted(append_sequence(log, 0, b"a", b"b"))
    assert refusal(append_sequence(log, 0, b"a", b"b", b"c")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere(store: Store) -> None:
    accepted(append_sequence(open_log(store), 4711, b"a"))


def test_an_older_producer_epoch_is_fenced_and_a_newer_begins_at_zero(store: Store) -> None:
    log = open_log(store)
    accepted(append_sequence(log, 0, b"a", epoch=3))
    assert refusal(append_sequence(log, 1, b"b", epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(append_sequence(log, 1, b"b", epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    accepted(append_sequence(log, 0, b"b", epoch=4))
    assert refusal(append_sequence(log, 1, b"b", epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_duplicate_is_looked_for_in_its_own_producer_epoch_only(store: Store) -> None:
    log = open_log(store)
    accepted(append_sequence(log, 0, b"a", epoch=0))
    accepted(append_sequence(log, 0, b"b", epoch=1))
    again = accepted(append_sequence(log, 0, b"b", epoch=1))
    assert (again.base_offset, again.duplicate) == (1, True)


def test_producers_do_not_disturb_each_other(store: Store) -> None:
    log = open_log(store)
    for index in range(4):
        for producer in (1, 2, 3):
            accepted(append_sequence(log, index, b"%d" % producer, producer=producer))
    assert log.end_offset == 12
    accepted(try_append(log, b"no producer"))


def test_sequences_go_on_at_zero_after_the_greatest(store: Store) -> None:
    log = open_log(store)
    accepted(append_sequence(log, MAX_SEQUENCE - 1, b"a", b"b", b"c"))
    accepted(append_sequence(log, 1, b"d"))
    assert accepted(append_sequence(log, MAX_SEQUENCE - 1, b"a", b"b", b"c")).duplicate


@pytest.mark.parametrize("clean", [True, False])
def test_duplicates_are_known_after_a_restart(store: Store, clean: bool) -> None:
    config = LogConfig(segment_bytes=400)
    log = open_log(store, config)
    for index in range(12):
        accepted(append_sequence(log, index, b"v%02d" % index * 10))
    if clean:
        log.close()
    again = open_log(store, config, recovery_point=12 if clean else 0, clean=clean)
    for index in range(7, 12):
        done = accepted(append_sequence(again, index, b"v%02d" % index * 10))
        assert (done.base_offset, done.duplicate) == (index, True)
    assert refusal(append_sequence(again, 13, b"x")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    accepted(append_sequence(again, 12, b"x"))


def test_a_damaged_snapshot_is_ignored_and_the_log_read_instead(store: Store) -> None:
    config = LogConfig(segment_bytes=400)
    log = open_log(store, config)
    for index in range(12):
        accepted(append_sequence(log, index, b"v%02d" % index * 10))
    log.close()
    snapshots = [name for name in store.names() if name.endswith(".snapshot")]
    assert len(snapshots) > 1
    for name, content in zip(snapshots, (b"", b"\0" * 40, b"x"), strict=False):
        store.replace(name, content)
    again = open_log(store, config, recovery_point=12, clean=True)
    assert accepted(append_sequence(again, 11, b"v11" * 10)).duplicate


def test_a_truncated_batch_may_be_sent_again(store: Store) -> None:
    config = LogConfig(segment_bytes=400)
    log = open_log(store, config)
    for index in range(12):
        accepted(append_sequence(log, index, b"v%02d" % index * 10))
    log.truncate_to(9)
    done = accepted(append_sequence(log, 9, b"v09" * 10))
    assert (done.base_offset, done.duplicate) == (9, False)
    assert accepted(append_sequence(log, 8, b"v08" * 10)).duplicate


def test_a_follower_that_becomes_leader_knows_the_duplicates(store: Store) -> None:
    leader = open_log(store)
    for index in range(6):
        accepted(append_sequence(leader, index, b"v%d" % index))
    follower = open_log(store.folder("other"))
    content = leader.read(0, 1 << 20)
    assert content
    accepted(follower.append_as_follower(content))
    done = accepted(append_sequence(follower, 5, b"v5"))
    assert (done.base_offset, done.duplicate) == (5, True)


def test_a_silent_producer_is_forgotten_and_a_busy_one_is_not(store: Store) -> None:
    log = open_log(store, LogConfig(producer_id_expiration_ms=1000))
    accepted(append_sequence(log, 0, b"a", producer=1))
    try_append(log, b"b", now=NOW + 900, producer_id=2, producer_epoch=0, base_sequence=0)
    log.apply_retention(NOW + 1000, log.end_offset)
    assert [entry.producer_id for entry in log.producers.entries()] == [2]


def test_snapshots_do_not_pile_up(store: Store) -> None:
    log = open_log(store, LogConfig(segment_bytes=300))
    for index in range(40):
        accepted(append_sequence(log, index, b"x" * 150))
    assert len(log.segment_bases) > 10
    assert len([name for name in store.names() if name.endswith(".snapshot")]) <= 4


def test_a_transaction_marker_fences_older_epochs_and_ends_the_transaction(store: Store) -> None:
    log: PartitionLog = open_log(store)
    accepted(try_append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    assert log.producers.first_open_transaction_offset == 0
    marker = encode_end_transaction_marker(
        ControlType.COMMIT, producer_id=7, producer_epoch=1, coordinator_epoch=0, timestamp=NOW
    )
    accepted(log.append_as_leader(marker, [read_header(marker)], 0, NOW))
    assert log.producers.first_open_transaction_offset is None
    assert refusal(append_sequence(log, 1, b"b", epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    accepted(append_sequence(log, 0, b"b", epoch=1))


def test_an_open_transaction_keeps_its_producer(store: Store) -> None:
    log = open_log(store)
    accepted(try_append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    states: ProducerStates = log.producers
    assert states.expire(NOW * 10, 1) == 0
    assert len(states) == 1

"""The leader-epoch history: where each epoch ends, and what truncation does to it."""

from __future__ import annotations

from threading import Thread

import pytest

from epoka.log import Appended, EpochHistory, LogConfig, Store
from epoka.wire.records import assign
from tests.log.logs import append, batch_of, open_log


@pytest.fixture
def history(store: Store) -> EpochHistory:
    found = EpochHistory(store)
    for epoch, start in ((1, 0), (3, 10), (4, 25), (7, 40)):
        assert found.begin(epoch, start)
    return found


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 0)),
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 25)),
        (4, (4, 40)),
        (6, (4, 40)),
        (7, (7, 55)),
        (8, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_begins(
    history: EpochHistory, asked: int, answer: tuple[int, int]
) -> None:
    assert history.end_offset_for_epoch(asked, 55) == answer


def test_an_empty_history_knows_nothing(store: Store) -> None:
    assert EpochHistory(store).end_offset_for_epoch(0, 10) == (-1, -1)


def test_an_older_epoch_is_not_taken(history: EpochHistory) -> None:
    assert not history.begin(5, 50)
    assert history.begin(7, 60)
    assert list(history)[-1] == (7, 40)


def test_an_epoch_in_which_nothing_was_written_leaves_no_trace(history: EpochHistory) -> None:
    history.begin(8, 50)
    history.begin(9, 50)
    assert list(history) == [(1, 0), (3, 10), (4, 25), (7, 40), (9, 50)]


def test_truncation_from_the_end_forgets_epochs_that_began_there_or_later(history: EpochHistory) -> None:
    history.truncate_from_end(25)
    assert list(history) == [(1, 0), (3, 10)]


def test_truncation_from_the_start_keeps_the_epoch_it_falls_into(history: EpochHistory) -> None:
    history.truncate_from_start(30)
    assert list(history) == [(4, 30), (7, 40)]
    history.truncate_from_start(40)
    assert list(history) == [(7, 40)]
    history.truncate_from_start(99)
    assert list(history) == [(7, 99)]


def test_the_checkpoint_reads_back(history: EpochHistory, store: Store) -> None:
    history.save()
    again = EpochHistory(store)
    assert again.load()
    assert list(again) == list(history)
    assert store.read_all("leader-epoch-checkpoint") == b"0\n4\n1 0\n3 10\n4 25\n7 40\n"


def test_the_epoch_of_an_offset_is_the_one_it_was_written_in(history: EpochHistory) -> None:
    assert [history.epoch_of(offset) for offset in (0, 9, 10, 39, 40, 99)] == [1, 1, 3, 4, 7, 7]


def test_a_log_answers_for_its_epochs_before_and_after_truncation(store: Store) -> None:
    log = open_log(store, LogConfig(segment_bytes=300))
    for index in range(12):
        append(log, b"x" * 50, epoch=index // 3)
    assert log.end_offset_for_epoch(1) == (1, 6)
    assert log.end_offset_for_epoch(3) == (3, 12)
    log.truncate_to(7)
    assert log.end_offset_for_epoch(2) == (2, 7)
    assert log.end_offset_for_epoch(3) == (-1, -1)
    assert log.last_epoch == 2


def test_a_truncated_epoch_does_not_come_back_after_a_crash(store: Store) -> None:
    log = open_log(store)
    for epoch in range(4):
        append(log, b"x", epoch=epoch)
    log.flush()
    log.truncate_to(2)
    append(log, b"y", epoch=9)
    again = open_log(store, recovery_point=2)
    assert list(again.epochs) == [(0, 0), (1, 1), (9, 2)]


def test_a_truncation_writes_the_checkpoint_at_once(store: Store) -> None:
    log = open_log(store)
    for epoch in range(4):
        append(log, b"x", epoch=epoch)
    log.flush()
    log.truncate_to(2)
    assert store.read_all("leader-epoch-checkpoint") == b"0\n2\n0 0\n1 1\n"


def test_a_new_leader_may_begin_an_epoch_before_it_writes(store: Store) -> None:
    log = open_log(store)
    append(log, b"a", epoch=1)
    assert log.begin_epoch(5)
    assert log.end_offset_for_epoch(1) == (1, 1)
    assert log.end_offset_for_epoch(5) == (5, 1)
    assert not log.begin_epoch(4)


def test_of_two_threads_that_save_the_later_one_has_the_last_word(
    history: EpochHistory, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = store.replace

    def truncate() -> None:
        history.truncate_from_end(25)
        history.save(always=True)

    truncation = Thread(target=truncate)

    def slow_replace(name: str, content: bytes) -> None:
        if truncation.ident is None:
            truncation.start()
            # It has to wait for this one; if it did not, it would be over now.
            truncation.join(0.1)
        replace(name, content)

    monkeypatch.setattr(store, "replace", slow_replace)
    history.save()
    truncation.join(30)
    assert store.read_all("leader-epoch-checkpoint") == b"0\n2\n1 0\n3 10\n"


def test_a_log_that_starts_over_knows_nothing_of_the_epochs_of_what_is_gone(store: Store) -> None:
    """The leader's log may begin with an older epoch than the last one here (after an unclean election)."""
    log = open_log(store)
    append(log, b"a", epoch=5)
    append(log, b"b", epoch=7)
    log.truncate_fully(1000)
    batch = batch_of([b"c"])
    assign(batch, 0, 1000, 5, None)
    assert isinstance(log.append_as_follower(batch), Appended)
    assert list(log.epochs) == [(5, 1000)]

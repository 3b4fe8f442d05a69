"""The checker of histories, with every anomaly planted once: one that never fails proves nothing."""

from __future__ import annotations

import copy

import pytest

from tests.faults.history import NO_OFFSET, History, anomalies, summary


def good() -> History:
    """Two partitions, three values each, all acknowledged; one more value whose fate nobody knows."""
    history = History()
    for partition in (0, 1):
        for offset, value in enumerate(f"{partition}:{n}" for n in range(3)):
            history.sent[partition].append(value)
            history.acknowledged.append((partition, offset, value))
    history.sent[0].append("0:3")
    history.uncertain.append("0:3")
    everything = sorted(history.acknowledged)
    history.reads = [everything[:4], everything]
    return history


def names(history: History) -> set[str]:
    return {each.name for each in anomalies(history)}


def test_a_good_history_is_good() -> None:
    assert anomalies(good()) == []


def test_nothing_read_and_nothing_acknowledged_is_good() -> None:
    assert anomalies(History()) == []


@pytest.mark.parametrize("readers", [1, 2])
def test_a_value_that_nobody_is_sure_of_may_be_there(readers: int) -> None:
    history = good()
    for read in history.reads[-readers:]:
        read.append((0, 3, "0:3"))
    assert anomalies(history) == []


def test_two_values_at_one_offset() -> None:
    history = good()
    history.reads[0][0] = (0, 0, "0:3")
    assert "inconsistent-offsets" in names(history)


def test_two_values_acknowledged_at_one_offset() -> None:
    history = good()
    history.acknowledged.append((0, 2, "0:3"))
    assert "inconsistent-offsets" in names(history)


def test_one_value_at_two_offsets() -> None:
    history = good()
    history.reads[-1].append((1, 3, "1:2"))
    assert names(history) == {"duplicate"}


def test_a_value_that_was_acknowledged_and_passed_over_is_lost() -> None:
    history = good()
    history.reads = [[each for each in history.reads[-1] if each != (0, 1, "0:1")]]
    assert names(history) == {"lost-write", "poll-skip"}


def test_a_value_replaced_by_another_is_lost() -> None:
    history = good()
    history.reads = [[(0, 1, "0:3") if each == (0, 1, "0:1") else each for each in history.reads[-1]]]
    assert {"lost-write", "inconsistent-offsets"} <= names(history)


def test_an_acknowledged_end_that_nobody_sees() -> None:
    history = good()
    history.reads = [[each for each in history.reads[-1] if each != (1, 2, "1:2")]]
    assert names(history) == {"unseen"}


def test_a_value_acknowledged_somewhere_must_be_there_once() -> None:
    history = good()
    history.acknowledged = [
        (0, NO_OFFSET, "0:1") if each[2] == "0:1" else each for each in history.acknowledged
    ]
    assert anomalies(history) == []
    without = copy.deepcopy(history)
    without.reads = [[each for each in read if each[2] != "0:1"] for read in without.reads]
    assert names(without) == {"lost-write"}
    twice = copy.deepcopy(history)
    twice.reads[-1].append((0, 3, "0:1"))
    assert "duplicate" in names(twice)


def test_acknowledged_and_nothing_read_at_all() -> None:
    history = good()
    history.reads = []
    assert names(history) == {"unseen"}
    assert len(anomalies(history)) == 6


def test_what_an_earlier_reader_saw_does_not_save_the_last_one() -> None:
    history = good()
    history.reads.append(history.reads[-1][:-1])
    assert names(history) == {"unseen"}


def test_a_refused_value_is_read() -> None:
    history = good()
    history.uncertain.remove("0:3")
    history.refused.append("0:3")
    history.reads[-1].append((0, 3, "0:3"))
    assert names(history) == {"aborted-read"}


def test_a_value_out_of_nowhere() -> None:
    history = good()
    history.reads[-1].append((0, 3, "stranger"))
    assert names(history) == {"unknown-read"}


def test_a_value_in_another_partition_than_it_was_sent_to() -> None:
    history = good()
    history.reads[-1].append((1, 3, "0:3"))
    assert names(history) == {"wrong-partition"}


def test_values_of_one_producer_swap_places() -> None:
    history = good()
    swapped = {(0, 0, "0:0"): (0, 0, "0:1"), (0, 1, "0:1"): (0, 1, "0:0")}
    history.acknowledged = [swapped.get(each, each) for each in history.acknowledged]
    history.reads = [[swapped.get(each, each) for each in read] for read in history.reads]
    assert names(history) == {"nonmonotonic-send"}


def test_a_reader_goes_back() -> None:
    history = good()
    history.reads[0].append(history.reads[0][-1])
    assert names(history) == {"nonmonotonic-poll"}


def test_an_early_reader_passes_over_what_a_later_one_sees() -> None:
    history = good()
    history.reads[0] = [(0, 0, "0:0"), (0, 2, "0:2")]
    assert names(history) == {"poll-skip"}


def test_a_gap_that_nobody_knows_a_value_for_is_no_skip() -> None:
    history = good()
    moved = {(1, 2, "1:2"): (1, 7, "1:2")}
    history.acknowledged = [moved.get(each, each) for each in history.acknowledged]
    history.reads = [[moved.get(each, each) for each in read] for read in history.reads]
    assert anomalies(history) == []


def test_checking_changes_nothing() -> None:
    history = good()
    before = copy.deepcopy(history)
    anomalies(history)
    assert history == before


def test_the_summary_counts_and_shows_a_few() -> None:
    history = good()
    history.reads = []
    text = summary(anomalies(history), most=2)
    assert text.startswith("6 unseen")
    assert len(text.splitlines()) == 3

"""Ranges are cut and limited as Spark's Kafka connector does it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoka.client.fetching import Range
from epoka.spark.planning import cut, limited


def ends(ranges: list[Range]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.first, each.end) for each in ranges]


def test_without_options_every_partition_is_one_task_and_empty_ones_are_none() -> None:
    assert ends(cut([Range("t", 0, 1, 5), Range("t", 1, 7, 7), Range("t", 2, 9, 8)])) == [(0, 1, 5)]


def test_enough_partitions_stay_as_they_are() -> None:
    ranges = [Range("t", part, 0, 100) for part in range(3)]
    assert cut(ranges, min_partitions=3) == ranges


def test_a_range_is_cut_into_equal_parts_the_last_takes_the_rest() -> None:
    assert ends(cut([Range("t", 0, 1, 5)], min_partitions=3)) == [(0, 1, 2), (0, 2, 3), (0, 3, 5)]


def test_parts_follow_the_size_of_the_ranges() -> None:
    ranges = [Range("t", 0, 0, 100), Range("t", 1, 0, 300)]
    assert [each.partition for each in cut(ranges, min_partitions=4)] == [0, 1, 1, 1]


def test_small_ranges_stay_whole_and_leave_their_share_to_the_large() -> None:
    ranges = [Range("t", 0, 0, 1), Range("t", 1, 0, 1), Range("t", 2, 0, 10_000)]
    assert [each.partition for each in cut(ranges, min_partitions=6)] == [0, 1, 2, 2, 2, 2]


def test_no_task_reads_more_records_than_asked_for() -> None:
    assert ends(cut([Range("t", 0, 0, 10)], max_records=4)) == [(0, 0, 3), (0, 3, 6), (0, 6, 10)]


def test_the_larger_number_of_parts_wins() -> None:
    assert len(cut([Range("t", 0, 0, 100)], max_records=50, min_partitions=5)) >= 5
    assert len(cut([Range("t", 0, 0, 100)], max_records=10, min_partitions=5)) == 10


@given(
    sizes=st.lists(st.integers(0, 1000), max_size=6),
    least=st.none() | st.integers(1, 50),
    most=st.none() | st.integers(1, 200),
)
def test_a_cut_covers_exactly_what_was_there(sizes: list[int], least: int | None, most: int | None) -> None:
    ranges = [Range("t", part, 5, 5 + size) for part, size in enumerate(sizes)]
    parts = cut(ranges, min_partitions=least, max_records=most)
    covered = [(each.partition, offset) for each in parts for offset in range(each.first, each.end)]
    assert covered == [(each.partition, offset) for each in ranges for offset in range(each.first, each.end)]
    assert all(each.end > each.first for each in parts)
    if most is not None:
        assert all(each.end - each.first <= most for each in parts)


A, B, C = ("t", 0), ("t", 1), ("t", 2)


def test_a_limit_is_shared_by_what_waits() -> None:
    assert limited({A: 0, B: 0}, {A: 300, B: 100}, 40) == {A: 30, B: 10}


def test_a_share_below_one_becomes_one() -> None:
    assert limited({A: 0, B: 0}, {A: 10_000, B: 1}, 10) == {A: 9, B: 1}


def test_a_limit_never_goes_past_the_end() -> None:
    assert limited({A: 0, B: 5}, {A: 3, B: 5}, 1000) == {A: 3, B: 5}


def test_nothing_waiting_is_left_alone() -> None:
    assert limited({A: 3}, {A: 3}, 5) == {A: 3}


@pytest.mark.parametrize("most", [1, 7, 100])
def test_limited_batches_reach_the_end(most: int) -> None:
    start, end = {A: 0, B: 10, C: 0}, {A: 50, B: 10, C: 3}
    for _ in range(100):
        if start == end:
            return
        start = limited(start, end, most)
    pytest.fail("the end was not reached")

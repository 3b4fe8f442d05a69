"""Records a second from offsets that move, vanish and go back."""

from __future__ import annotations

from epoka.dashboard.rates import Meter, Turns


def test_a_rate_is_what_all_counters_did_between_two_looks() -> None:
    meter = Meter()
    meter.look({"a": 100, "b": 0}, 1_000)
    assert meter.per_second == 0
    meter.look({"a": 110, "b": 30}, 3_000)
    assert meter.per_second == 20


def test_a_counter_that_was_not_looked_at_keeps_its_rate_until_its_turn() -> None:
    meter = Meter()
    meter.look({"a": 0, "b": 0}, 0)
    meter.look({"a": 10, "b": 10}, 1_000)
    meter.look({"a": 10}, 2_000)
    assert meter.per_second == 10


def test_a_log_that_was_cut_counts_as_nothing_and_a_deleted_one_not_at_all() -> None:
    meter = Meter()
    meter.look({"a": 50, "b": 0}, 0)
    meter.look({"a": 10, "b": 5}, 1_000)
    assert meter.per_second == 5
    meter.keep(lambda key: key == "a")
    meter.look({"a": 12}, 2_000)
    assert meter.per_second == 2


def test_turns_pass_over_everything() -> None:
    turns, all_ = Turns(2), list("abcde")
    assert [turns.next(all_) for _ in range(4)] == [["a", "b"], ["c", "d"], ["e"], ["a", "b"]]
    assert turns.next(["x"]) == ["x"]

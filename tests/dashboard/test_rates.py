"""Records a second from offsets that move, vanish and go back."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from epoka.dashboard import rates
from epoka.dashboard.feed import Feed
from epoka.dashboard.rates import Meter, Sampler, Turns


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


def test_a_counter_that_was_asked_for_and_does_not_answer_has_no_rate() -> None:
    meter = Meter()
    meter.look({"a": 0, "b": 0, "c": 0}, 0)
    meter.look({"a": 10, "b": 100, "c": 1000}, 1_000)
    # The leader of b is gone; c has its turn later.
    meter.look({"a": 20}, 2_000, asked=["a", "b"])
    assert meter.per_second == 1_010
    meter.look({"a": 30, "b": 400}, 3_000, asked=["a", "b"])
    assert meter.per_second == 1_010
    meter.look({"a": 40, "b": 405}, 4_000, asked=["a", "b"])
    assert meter.per_second == 1_015


def test_partitions_without_a_leader_and_offsets_of_deleted_topics_have_no_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter(
        [
            (0, {("a", 0): 0, ("b", 0): 0}, {("a", 0): 0, ("b", 0): 0}),
            (1, {("a", 0): 10, ("b", 0): 10}, {("a", 0): 20, ("b", 0): 20}),
            # Nobody leads b-0 any more, and the group has no offset of it.
            (2, {("a", 0): 20}, {("a", 0): 40}),
        ]
    )
    sampler = Sampler(
        SimpleNamespace(client=nullcontext),  # type: ignore[arg-type]
        Feed(),
        lambda: None,
    )
    image: Any = SimpleNamespace(partition=lambda *_: "there")
    monkeypatch.setattr(sampler, "_all_partitions", lambda _: [("a", 0), ("b", 0)])
    monkeypatch.setattr(rates, "list_groups", lambda _: [SimpleNamespace(group="g")])
    for second, ends, offsets in answers:
        monkeypatch.setattr(rates, "time", SimpleNamespace(time=lambda second=second: second))
        monkeypatch.setattr(rates, "ends", lambda *_, ends=ends: ends)
        monkeypatch.setattr(rates, "committed", lambda *_, offsets=offsets: offsets)
        sampler._look(image)
    assert [(each["produced"], each["consumed"]) for each in sampler.points()] == [(0, 0), (20, 40), (10, 20)]


def test_turns_pass_over_everything() -> None:
    turns, all_ = Turns(2), list("abcde")
    assert [turns.next(all_) for _ in range(4)] == [["a", "b"], ["c", "d"], ["e"], ["a", "b"]]
    assert turns.next(["x"]) == ["x"]

"""What is said about an ensemble that cannot decide anything, and when nothing is."""

from __future__ import annotations

import pytest

from epoka.cluster.ensemble import trouble

THREE = "one:1,two:2,three:3/here"


def told(*states: str) -> str | None:
    by_port = dict(zip((1, 2, 3), states, strict=True))
    return trouble(THREE, lambda host, port: None if by_port[port] == "down" else by_port[port])


@pytest.mark.parametrize("third", ["serving", "waiting", "down"])
def test_a_majority_that_serves_is_no_trouble(third: str) -> None:
    assert told("serving", "serving", third) is None


@pytest.mark.parametrize("first", ["serving", "waiting"])
def test_half_an_ensemble_is_no_majority(first: str) -> None:
    wanted = f"ZooKeeper at {THREE}: 1 of 3 nodes answer, so it has no majority, and nothing is decided"
    assert told(first, "down", "down") == wanted


def test_nobody_at_all() -> None:
    assert "0 of 3 nodes answer, so there is nobody" in (told("down", "down", "down") or "")


def test_enough_nodes_that_have_no_leader_yet() -> None:
    assert "2 of 3 nodes answer, but they have not agreed on a leader" in (
        told("waiting", "waiting", "down") or ""
    )

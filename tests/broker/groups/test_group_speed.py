"""The path every member takes every three seconds does not grow with the group."""

from __future__ import annotations

import sys
from typing import Any

from epoka.wire.messages.heartbeat import HeartbeatRequest


def calls_of_heartbeats(make_desk: Any, members: int) -> float:
    """Function calls that one heartbeat costs in a group of so many members."""
    desk = make_desk(initial_rebalance_delay_ms=3_000)
    desk.checks_groups = False
    coordinator = desk.coordinator
    names = desk.stable(members, session_ms=1_800_000)
    requests = [HeartbeatRequest("g", desk.generation(), name, None) for name in names]
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    beats = 0
    sys.setprofile(count)
    try:
        while beats < 2_000:
            for number, request in enumerate(requests):
                effects = coordinator.heartbeat(
                    1_000_000 + beats * 1_000 + number, 4, request, desk.now + beats
                )
                assert len(effects) == 1
                assert coordinator.deadline is not None
                beats += 1
    finally:
        sys.setprofile(None)
    assert len(coordinator._timers._heap) < 3 * max(members, 1_000)
    return calls / beats


def test_a_heartbeat_costs_the_same_in_a_group_of_ten_and_of_a_thousand(make_desk: Any) -> None:
    assert calls_of_heartbeats(make_desk, 1_000) < 2 * calls_of_heartbeats(make_desk, 10)

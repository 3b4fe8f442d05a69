"""The path every member takes every three seconds does not grow with the group."""

from __future__ import annotations

import time
from typing import Any

from epoka.wire.messages.heartbeat import HeartbeatRequest


def test_ten_thousand_heartbeats_in_a_group_of_a_thousand_stay_fast(make_desk: Any) -> None:
    desk = make_desk(initial_rebalance_delay_ms=3_000)
    desk.checks_groups = False
    members = desk.stable(1_000, session_ms=1_800_000)
    coordinator, generation = desk.coordinator, desk.generation()
    requests = [HeartbeatRequest("g", generation, member, None) for member in members]

    began = time.perf_counter()
    for beat in range(10):
        for number, request in enumerate(requests):
            effects = coordinator.heartbeat(1_000_000 + beat * 1_000 + number, 4, request, desk.now + beat)
            assert len(effects) == 1
            assert coordinator.deadline is not None
    seconds = time.perf_counter() - began

    # A look at every member for every heartbeat would take minutes; the bound leaves room for a slow machine.
    assert seconds < 2.0
    assert len(coordinator._timers._heap) < 3_000

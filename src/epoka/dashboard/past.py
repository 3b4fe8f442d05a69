"""The cluster as it was at a moment, rebuilt from the ledger: brokers, the controller, partitions, faults.

Pure: a chronicle and a moment in, values out. It tells what the ledger knew by then and nothing of what came
later. What was forgotten or never written down is not guessed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from epoka.dashboard.chronicle import REFUSALS, Chronicle, Placement
from epoka.dashboard.lives import Fault, Life, Reign, TimeLine, time_line
from epoka.ledger.telling import sentence
from epoka.ledger.why import STANDING
from epoka.model.ledger import LedgerEvent

ENDING: Final = ("kill", "stop")


def notable(event: LedgerEvent) -> bool:
    """Worth a stop when somebody goes through the ledger step by step."""
    return event.kind != "verdict" or event.verdict in REFUSALS


def moment(chronicle: Chronicle, at_ms: int) -> dict[str, Any]:
    """Everything but the lists that come in pages."""
    events = chronicle.life_events(at_ms)
    line = time_line(events)
    last = {event.broker: event for event in events if event.kind in STANDING}
    placements = chronicle.placements(at_ms)
    before, after = chronicle.neighbours(at_ms, notable)
    _, refused = chronicle.verdicts(
        lambda event: event.time_ms <= at_ms and event.verdict in REFUSALS, page=0, size=1
    )
    return {
        "at_ms": at_ms,
        "first_ms": chronicle.first_ms(),
        "before_ms": before,
        "after_ms": after,
        "forgotten": chronicle.forgotten,
        "controller": _controller(line),
        "brokers": [
            _broker(broker, lane.lives[-1], line, last.get(broker))
            for broker, lane in line.lanes.items()
            if lane.lives
        ],
        "faults": [msgspec.to_builtins(fault) for fault in line.faults if fault.to_ms is None],
        "counts": {
            "partitions": len(placements),
            "out_of_sync": sum(bool(each.out) for each in placements.values()),
            "offline": sum(each.event.leader < 0 for each in placements.values()),
            "refusals": refused,
        },
    }


def partitions(
    chronicle: Chronicle, at_ms: int, query: str, only: str, page: int, size: int
) -> dict[str, Any]:
    """One page of the partitions that existed, by name."""
    wanted = query.casefold()
    found = [
        (key, placement)
        for key, placement in sorted(chronicle.placements(at_ms).items())
        if (not wanted or wanted in key[0].casefold()) and _fits(placement, only)
    ]
    return {
        "total": len(found),
        "page": page,
        "size": size,
        "rows": [
            {
                "topic": topic,
                "partition": index,
                "leader": placement.event.leader,
                "leader_epoch": placement.event.leader_epoch,
                "partition_epoch": placement.event.partition_epoch,
                "isr": placement.event.isr,
                "out": placement.out,
                "since_ms": placement.event.time_ms,
                "because": sentence(placement.event),
            }
            for (topic, index), placement in found[page * size : (page + 1) * size]
        ],
    }


def _fits(placement: Placement, only: str) -> bool:
    if only == "out-of-sync":
        return bool(placement.out)
    return only != "offline" or placement.event.leader < 0


def _controller(line: TimeLine) -> dict[str, Any] | None:
    if not line.reigns:
        return None
    reign = line.reigns[-1]
    return {**msgspec.to_builtins(reign), "down": _ended(reign, line.faults)}


def _ended(reign: Reign, faults: list[Fault]) -> bool:
    return any(
        fault.node == reign.node and fault.verb in ENDING and fault.from_ms >= reign.from_ms
        for fault in faults
    )


def _broker(broker: int, life: Life, line: TimeLine, last: LedgerEvent | None) -> dict[str, Any]:
    span = life.spans[-1] if life.spans else None
    paused = next(
        (each for each in line.faults if each.node == broker and each.verb == "pause" and each.to_ms is None),
        None,
    )
    if life.ended:
        state, since = "down", life.to_ms
    elif paused is not None:
        state, since = "paused", paused.from_ms
    else:
        state, since = (span.kind, span.from_ms) if span else ("registered", life.from_ms)
    told = f"{life.ended} end: {life.because}" if life.ended else sentence(last) if last is not None else ""
    return {
        "id": broker,
        "state": state,
        "generation": life.generation,
        "incarnation": life.incarnation,
        "since_ms": since,
        "because": told,
        "lives": len(line.lanes[broker].lives) + line.lanes[broker].before,
    }

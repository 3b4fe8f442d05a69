"""What was done to a cluster, over more than one run of it."""

from __future__ import annotations

from pathlib import Path

from epoka.cluster.fault_ledger import FILE_NAME, FaultLedger
from epoka.dashboard.lives import time_line
from epoka.ledger.file import read
from epoka.ledger.why import History
from epoka.model.ledger import LedgerEvent


def fenced(events: list[LedgerEvent], broker: int) -> list[LedgerEvent]:
    """A life that begins behind the events and is fenced, and those events."""
    last = events[-1].time_ms
    return [
        *events,
        *(
            LedgerEvent(kind=kind, time_ms=last + at, node=100, event_id=at, broker=broker, broker_epoch=9)
            for at, kind in enumerate(("registered", "unfenced", "fenced"), 1)
        ),
    ]


def test_what_lasted_in_one_run_is_no_cause_in_the_next(tmp_path: Path) -> None:
    first = FaultLedger(tmp_path)
    first.tell("isolate", 2, "cut broker 2 off from 100")
    first.tell("pause", 3, "paused broker 3")
    # The command is killed here, and started again.
    FaultLedger(tmp_path).begin()
    events = [*read(tmp_path / FILE_NAME)]
    for broker in (2, 3):
        answer = History(fenced(events, broker)).why_broker(broker)
        assert [step.event.kind for step in answer.steps] == ["fenced"]
    assert all(fault.to_ms is not None for fault in time_line(events).faults)


def test_a_run_that_finds_nothing_going_on_tells_nothing(tmp_path: Path) -> None:
    first = FaultLedger(tmp_path)
    first.begin()
    assert not (tmp_path / FILE_NAME).exists()
    first.tell("isolate", 2, "cut broker 2 off from 100")
    first.tell("heal", -1, "ended every isolation", undone=True)
    first.tell("pause", 3, "paused broker 3")
    first.tell("kill", 3, "killed broker 3")
    FaultLedger(tmp_path).begin()
    assert [each.given for each in read(tmp_path / FILE_NAME)] == ["isolate", "heal", "pause", "kill"]

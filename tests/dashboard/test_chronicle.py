"""The ledger in memory: bounded, and quick to ask."""

from __future__ import annotations

from epoka.dashboard.chronicle import Chronicle, told
from epoka.model.ledger import LedgerEvent


def event(number: int, kind: str = "verdict", **about: object) -> LedgerEvent:
    return LedgerEvent(kind=kind, time_ms=number, node=100, event_id=number, **about)  # type: ignore[arg-type]


def test_verdicts_come_newest_first_and_in_pages() -> None:
    chronicle = Chronicle()
    chronicle.add([event(n, verdict="refused" if n % 2 else "accepted", rule=f"r{n % 3}") for n in range(10)])
    page, total = chronicle.verdicts(lambda each: each.verdict == "refused", 1, 2)
    assert ([each.event_id for each in page], total) == ([5, 3], 5)
    assert (chronicle.refusals(), chronicle.rules()) == (5, ["r0", "r1", "r2"])


def test_too_many_events_push_the_oldest_out_of_every_list() -> None:
    chronicle = Chronicle(most_events=100)
    for number in range(101):
        chronicle.add([event(number, verdict="refused")])
    assert (len(chronicle), chronicle.forgotten) == (75, 26)
    page, total = chronicle.verdicts(lambda each: True, 0, 200)
    assert (total, page[-1].event_id, chronicle.refusals()) == (75, 26, 75)
    assert chronicle.find(100, 25) is None
    assert chronicle.find(100, 26) is not None


def test_the_history_of_a_partition_tells_the_cause_of_each_change() -> None:
    chronicle = Chronicle()
    chronicle.add(
        [
            event(1, "fenced", broker=2, broker_epoch=5),
            event(2, "isr", cause=1, topic="orders", partition=0, isr_before=(1, 2), isr=(1,)),
            event(3, "isr", topic="other", partition=0, isr=(1,)),
        ]
    )
    ((change, causes),) = chronicle.partition_history("orders", 0)
    assert change.isr == (1,)
    assert [step.event.kind for step in causes] == ["fenced"]


def test_a_kind_of_a_newer_version_is_told_as_it_is() -> None:
    assert (
        told(event(1, "teleported", broker=2, detail="to the moon"))["text"]
        == "teleported broker 2: to the moon"
    )

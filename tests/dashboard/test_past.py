"""The cluster as it was, from events alone."""

from __future__ import annotations

from typing import Any

from epoka.dashboard import past
from epoka.dashboard.chronicle import Chronicle
from epoka.model.ledger import LedgerEvent


def event(time_ms: int, kind: str, **about: Any) -> LedgerEvent:
    return LedgerEvent(kind=kind, time_ms=time_ms, node=100, event_id=time_ms, **about)


def change(time_ms: int, kind: str, isr: tuple[int, ...], before: tuple[int, ...] = (), **about: Any) -> Any:
    return event(
        time_ms, kind, **{"topic": "t", "partition": 0, "leader": 1, **about}, isr=isr, isr_before=before
    )


STORY = [
    event(1, "active", given="", detail="first"),
    event(10, "registered", broker=1, broker_epoch=5, given="one"),
    event(12, "unfenced", broker=1, broker_epoch=5),
    event(11, "registered", broker=2, broker_epoch=6, given="two"),
    event(13, "unfenced", broker=2, broker_epoch=6),
    change(20, "leader", (1, 2)),
    event(30, "verdict", verdict="refused", rule="heartbeat.session", broker=2),
    event(31, "fenced", broker=2, broker_epoch=6, detail="silent"),
    change(32, "isr", (1,), (1, 2)),
    event(40, "fault", given="pause", broker=1, detail="paused broker 1"),
    event(45, "fault", given="kill", broker=100, detail="killed the controller"),
    event(50, "registered", broker=2, broker_epoch=9, given="three"),
    event(60, "topic-deleted", topic="t"),
]


def told() -> Chronicle:
    chronicle = Chronicle()
    chronicle.add(STORY)
    return chronicle


def states(at_ms: int) -> dict[int, tuple[str, int]]:
    found = past.moment(told(), at_ms)["brokers"]
    return {row["id"]: (row["state"], row["generation"]) for row in found}


def test_brokers_are_what_they_were() -> None:
    assert states(9) == {}
    assert states(11) == {1: ("fenced", 5), 2: ("fenced", 6)}
    assert states(20) == {1: ("active", 5), 2: ("active", 6)}
    assert states(31) == {1: ("active", 5), 2: ("fenced", 6)}
    assert states(50) == {1: ("paused", 5), 2: ("fenced", 9)}


def test_partitions_are_what_they_were_and_are_gone_once_deleted() -> None:
    def rows(at_ms: int, only: str = "all") -> list[tuple[Any, Any]]:
        found = past.partitions(told(), at_ms, "", only, 0, 50)
        return [(row["isr"], row["out"]) for row in found["rows"]]

    assert rows(19) == []
    assert rows(20) == [((1, 2), ())]
    assert rows(20, "out-of-sync") == []
    assert rows(40, "out-of-sync") == [((1,), (2,))]
    assert rows(60) == []


def test_a_reassignment_leaves_nobody_out() -> None:
    chronicle = Chronicle()
    chronicle.add(
        [
            change(1, "leader", (1, 2)),
            change(2, "reassignment", (1, 2), (1, 2)),
            change(3, "isr", (1, 2, 3), (1, 2)),
            change(4, "isr", (1, 3), (1, 2, 3), detail="the reassignment is complete"),
        ]
    )
    (row,) = past.partitions(chronicle, 9, "", "all", 0, 50)["rows"]
    assert (row["isr"], row["out"]) == ((1, 3), ())


def test_the_moment_says_who_was_the_controller_what_was_done_and_where_to_step() -> None:
    at = past.moment(told(), 42)
    assert (at["controller"]["node"], at["controller"]["down"]) == (100, False)
    assert [fault["verb"] for fault in at["faults"]] == ["pause"]
    assert (at["before_ms"], at["after_ms"], at["first_ms"]) == (40, 45, 1)
    assert at["counts"] == {"partitions": 1, "out_of_sync": 1, "offline": 0, "refusals": 1}
    assert past.moment(told(), 46)["controller"]["down"]


def test_a_broker_that_no_controller_fences_is_active_and_stays_so_when_its_beginning_is_forgotten() -> None:
    chronicle = Chronicle(most_events=100)
    chronicle.add(
        [
            event(10, "registered", broker=1, broker_epoch=103),
            event(11, "unfenced-by-controller", broker=1, broker_epoch=103),
        ]
    )
    assert [row["state"] for row in past.moment(chronicle, 20)["brokers"]] == ["active"]
    chronicle.add([event(100 + number, "verdict", verdict="accepted", rule="r") for number in range(200)])
    assert chronicle.forgotten >= 2
    assert [row["state"] for row in past.moment(chronicle, 290)["brokers"]] == ["active"]


def test_what_was_forgotten_leaves_its_last_word() -> None:
    chronicle = Chronicle(most_events=100)
    chronicle.add(STORY[:9])
    chronicle.add([event(100 + number, "verdict", verdict="accepted", rule="r") for number in range(200)])
    assert chronicle.forgotten >= 9
    at = past.moment(chronicle, 290)
    assert {row["id"]: row["state"] for row in at["brokers"]} == {1: "active", 2: "fenced"}
    (row,) = past.partitions(chronicle, 290, "", "all", 0, 50)["rows"]
    assert row["isr"] == (1,)
    assert chronicle.last_standing()[2].kind == "fenced"

"""The time line, from events as nodes and fault verbs write them."""

from __future__ import annotations

from typing import Any

import pytest

from epoka.dashboard.lives import MOST_LIVES, Lane, TimeLine, time_line
from epoka.model.ledger import LedgerEvent

CONTROLLER = 100


class Told:
    """Writes events down as time goes by, ten milliseconds each."""

    def __init__(self) -> None:
        self.events: list[LedgerEvent] = []

    def __call__(self, kind: str, *, node: int = CONTROLLER, **about: Any) -> None:
        number = len(self.events) + 1
        self.events.append(LedgerEvent(kind=kind, time_ms=number * 10, node=node, event_id=number, **about))

    def fault(self, verb: str, broker: int, detail: str = "", **about: Any) -> None:
        self("fault", node=-1, given=verb, broker=broker, detail=detail, **about)

    def born(self, broker: int, epoch: int, detail: str = "a new broker") -> None:
        self("registered", broker=broker, broker_epoch=epoch, given=f"incarnation-{epoch}", detail=detail)
        self("unfenced", broker=broker, broker_epoch=epoch)

    @property
    def line(self) -> TimeLine:
        return time_line(self.events)

    def lane(self, broker: int) -> Lane:
        return self.line.lanes[broker]


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_life_begins_fenced_and_goes_on(told: Told) -> None:
    told.born(2, 5)
    (life,) = told.lane(2).lives
    assert (life.generation, life.incarnation, life.from_ms, life.to_ms, life.ended) == (
        5,
        "incarnation-5",
        10,
        None,
        "",
    )
    assert [(span.kind, span.from_ms, span.to_ms) for span in life.spans] == [
        ("fenced", 10, 20),
        ("active", 20, None),
    ]


def test_a_controlled_shutdown_is_a_clean_end(told: Told) -> None:
    told.born(2, 5)
    told("stopping", broker=2, broker_epoch=5)
    told("fenced", broker=2, broker_epoch=5, detail="controlled shutdown granted")
    told("ended", node=2, broker=2, broker_epoch=5, detail="the controller granted the shutdown")
    told.born(2, 9, "after a clean end of generation 5")
    old, new = told.lane(2).lives
    assert (old.ended, old.to_ms, new.ended) == ("clean", 50, "")
    assert [span.kind for span in old.spans] == ["fenced", "active", "stopping", "fenced"]


def test_a_kill_that_the_controller_noticed_is_an_unclean_end(told: Told) -> None:
    told.born(2, 5)
    told.fault("kill", 2, "killed broker 2")
    told("fenced", broker=2, broker_epoch=5)
    told.born(2, 9, "after an unclean end of generation 5")
    old, _ = told.lane(2).lives
    assert (old.ended, old.to_ms, old.because) == ("unclean", 30, "killed broker 2")


def test_back_before_anybody_noticed_is_a_fast_bounce(told: Told) -> None:
    told.born(2, 5)
    told.fault("kill", 2, "killed broker 2 for a fast bounce")
    told.born(2, 9, "after an unclean end of generation 5")
    assert told.lane(2).lives[0].ended == "fast bounce"


def test_a_fast_bounce_is_seen_without_anybody_telling_of_the_kill(told: Told) -> None:
    told.born(2, 5)
    told.born(2, 9, "after an unclean end of generation 5")
    old, new = told.lane(2).lives
    assert (old.ended, old.to_ms) == ("fast bounce", new.from_ms)


@pytest.mark.parametrize("how", ["bounce", "verb"])
def test_a_broker_that_lost_its_disk_was_wiped(told: Told, how: str) -> None:
    told.born(2, 5)
    told.fault("kill", 2, "killed broker 2 for a wiped bounce" if how == "bounce" else "killed broker 2")
    told("fenced", broker=2, broker_epoch=5)
    if how == "verb":
        told.fault("wipe", 2, "emptied the disk of broker 2")
    told.born(2, 9, "after an unclean end of generation 5")
    told.born(2, 12, "after an unclean end of generation 9")
    assert [life.ended for life in told.lane(2).lives] == ["wiped", "fast bounce", ""]


def test_silence_alone_ends_no_life(told: Told) -> None:
    told.born(2, 5)
    told("fenced", broker=2, broker_epoch=5)
    told("unfenced", broker=2, broker_epoch=5)
    (life,) = told.lane(2).lives
    assert life.ended == ""
    assert [span.kind for span in life.spans] == ["fenced", "active", "fenced", "active"]


def test_a_ledger_may_begin_in_the_middle_of_a_life(told: Told) -> None:
    told("fenced", broker=2, broker_epoch=5)
    (life,) = told.lane(2).lives
    assert (life.generation, life.incarnation) == (5, "")


def test_a_pause_lasts_until_it_is_undone_and_an_isolation_until_all_are_healed(told: Told) -> None:
    told.fault("pause", 1, "paused broker 1")
    told.fault("isolate", 2, "cut broker 2 off")
    told.fault("resume", 1, verdict="undone")
    told.fault("kill", 3, "killed broker 3")
    open_, closed = told.line.faults[1].to_ms, told.line.faults[0].to_ms
    assert (open_, closed) == (None, 30)
    told.fault("heal", -1, verdict="undone")
    assert [(each.verb, each.from_ms, each.to_ms) for each in told.line.faults] == [
        ("pause", 10, 30),
        ("isolate", 20, 50),
        ("kill", 40, 40),
    ]


def test_a_broker_that_was_cut_off_twice_is_healed_of_both(told: Told) -> None:
    told.fault("isolate", 2, "cut broker 2 off from 100")
    told.fault("isolate", 2, "cut broker 2 off from 1, 3")
    told.fault("heal", -1, verdict="undone")
    assert [(each.from_ms, each.to_ms) for each in told.line.faults] == [(10, 30), (20, 30)]


def test_every_controller_that_became_active_is_a_reign(told: Told) -> None:
    told("active", node=100)
    told("active", node=101)
    assert [(each.node, each.number, each.from_ms, each.to_ms) for each in told.line.reigns] == [
        (100, 1, 10, 20),
        (101, 2, 20, None),
    ]


def test_very_many_lives_are_counted_and_the_last_ones_told(told: Told) -> None:
    for epoch in range(MOST_LIVES + 7):
        told.born(2, epoch)
    lane = told.lane(2)
    assert (len(lane.lives), lane.before, lane.lives[-1].generation) == (MOST_LIVES, 7, MOST_LIVES + 6)


def test_a_kind_that_nobody_knows_does_no_harm(told: Told) -> None:
    told("teleported", broker=2, broker_epoch=5)
    told.born(2, 9)
    assert told.lane(2).lives[-1].generation == 9


def test_a_life_that_broker_and_controller_both_tell_of_is_one(told: Told) -> None:
    told("registered", node=2, broker=2, broker_epoch=24)
    told.born(2, 24)
    (life,) = told.lane(2).lives
    assert (life.from_ms, life.incarnation, life.ended) == (10, "incarnation-24", "")


def test_a_life_that_no_controller_fences_is_active_from_when_it_heard_so(told: Told) -> None:
    # Below level heartbeats, as the nodes write it: no controller says `unfenced`.
    told("registered", node=2, broker=2, broker_epoch=103)
    told("registered", broker=2, broker_epoch=103)
    told("unfenced-by-controller", node=2, broker=2, broker_epoch=103)
    (life,) = told.lane(2).lives
    assert [(span.kind, span.from_ms) for span in life.spans] == [("fenced", 10), ("active", 30)]


def test_what_a_broker_heard_late_does_not_unfence_it(told: Told) -> None:
    told.born(2, 5)
    told("fenced", broker=2, broker_epoch=5)
    told("unfenced-by-controller", node=2, broker=2, broker_epoch=5)
    (life,) = told.lane(2).lives
    assert [span.kind for span in life.spans] == ["fenced", "active", "fenced"]


def test_a_session_that_ended_before_the_broker_was_back_makes_the_end_unclean(told: Told) -> None:
    told.born(2, 24)
    told.fault("kill", 2, "killed broker 2 for a fast bounce")
    told("unregistered", broker=2, broker_epoch=24, detail="its session ended")
    told.born(2, 34)
    assert [life.ended for life in told.lane(2).lives] == ["unclean", ""]


def test_a_life_that_was_fenced_for_a_while_and_killed_later_is_judged_by_what_was_seen_then(
    told: Told,
) -> None:
    told.born(2, 24)
    told("fenced", broker=2, broker_epoch=24)
    told("unfenced", broker=2, broker_epoch=24)
    told.fault("kill", 2, "killed broker 2")
    told.born(2, 34)
    assert told.lane(2).lives[0].ended == "fast bounce"


def test_a_reign_has_the_epoch_that_its_controller_tells(told: Told) -> None:
    told("active", node=100, given="7")
    told("active", node=101, given="9")
    assert [(each.node, each.number) for each in told.line.reigns] == [(100, 7), (101, 9)]

"""What the overview says of a cluster, and in which tone."""

from __future__ import annotations

from typing import Any

from epoka.cluster.status import BrokerStatus, ClusterStatus
from epoka.dashboard.health import broker_row, broker_state, health
from epoka.model.ledger import LedgerEvent

GOOD = BrokerStatus(1, generation=4, fenced=False, stopping=False)


def status(*brokers: BrokerStatus, **about: Any) -> ClusterStatus:
    known: dict[str, Any] = {"under_replicated": 0, "offline": 0, "healthy": False} | about
    return ClusterStatus(
        cluster_id="c",
        mode="log",
        level="heartbeats",
        controller=100,
        brokers=brokers,
        topics=1,
        partitions=1,
        **known,
    )


def test_all_is_well() -> None:
    found = health(status(GOOD, healthy=True), "", {}, {})
    assert (found.tone, found.reasons) == ("good", ())


def test_a_fenced_broker_is_told_with_the_rule_that_fenced_it() -> None:
    fenced = BrokerStatus(2, generation=7, fenced=True, stopping=False)
    because = LedgerEvent(
        kind="fenced", broker=2, broker_epoch=7, rule="heartbeat.session", detail="not heard of"
    )
    found = health(status(GOOD, fenced), "", {2: because}, {})
    assert found.tone == "uneasy"
    assert found.reasons == ("broker 2 is fenced: not heard of [heartbeat.session]",)


def test_partitions_without_a_leader_come_first_and_are_grave() -> None:
    fenced = BrokerStatus(2, generation=7, fenced=True, stopping=False)
    found = health(status(GOOD, fenced, offline=1, under_replicated=2), "", {}, {})
    assert found.tone == "bad"
    assert found.reasons == (
        "1 partition without a leader",
        "broker 2 is fenced",
        "2 partitions with replicas out of sync",
    )


def test_what_was_last_known_is_kept_when_the_controller_does_not_answer() -> None:
    found = health(status(GOOD, under_replicated=1), "it took too long", {}, {})
    assert (found.tone, found.headline) == ("bad", "The controller does not answer")
    assert found.reasons == ("it took too long", "1 partition with replicas out of sync")


def test_before_anybody_answered_nothing_is_claimed() -> None:
    found = health(None, "cannot be reached", {}, {})
    assert (found.tone, found.headline, found.reasons) == ("bad", "Nothing known yet", ("cannot be reached",))


def test_the_word_for_a_broker() -> None:
    def word(ended: str = "", **about: Any) -> str:
        known: dict[str, Any] = {"generation": 3, "fenced": False, "stopping": False} | about
        return broker_state(BrokerStatus(1, **known), {1: ended} if ended else {})

    assert word() == "active"
    assert word(fenced=True) == "fenced"
    assert word(stopping=True) == "stopping"
    assert word(generation=None) == "unregistered"
    assert word(node="paused") == "paused"
    assert word(node="stopped") == word(node="failed") == "down"
    # Whoever runs no node reads off the ledger that a life is over; whoever does knows better.
    assert word("unclean", fenced=True) == "down"
    assert word("unclean", node="running") == "active"


def test_a_death_that_nobody_noticed_yet_is_told() -> None:
    row = broker_row(
        BrokerStatus(2, generation=7, fenced=False, stopping=False, node="stopped"), {}, {2: "unclean"}
    )
    assert row["because"] == "broker 2 is down after an unclean end, and the controller has not noticed yet"

"""The chain of causes, from events as nodes write them."""

from __future__ import annotations

from typing import Any

import pytest

from epoka.ledger.why import Answer, History
from epoka.model.ledger import LedgerEvent

CONTROLLER = 100


class Told:
    """Writes events down as time goes by."""

    def __init__(self) -> None:
        self.events: list[LedgerEvent] = []

    def __call__(self, kind: str, *, node: int = CONTROLLER, **about: Any) -> LedgerEvent:
        number = len(self.events) + 1
        event = LedgerEvent(kind=kind, time_ms=number * 10, node=node, event_id=number, **about)
        self.events.append(event)
        return event

    def fault(self, verb: str, broker: int, detail: str, **about: Any) -> LedgerEvent:
        return self("fault", node=-1, given=verb, broker=broker, detail=detail, **about)

    def born(self, broker: int, epoch: int) -> None:
        self("registered", broker=broker, broker_epoch=epoch)
        self("unfenced", broker=broker, broker_epoch=epoch)

    def fence(self, broker: int, epoch: int) -> LedgerEvent:
        verdict = self("verdict", rule="heartbeat.session", verdict="refused", broker=broker)
        return self("fenced", broker=broker, broker_epoch=epoch, cause=verdict.event_id)

    def partition(self, kind: str, leader: int, isr: tuple[int, ...], **about: Any) -> LedgerEvent:
        return self(kind, topic="orders", partition=3, leader=leader, isr=isr, **about)

    @property
    def history(self) -> History:
        return History(self.events)


@pytest.fixture
def told() -> Told:
    return Told()


def kinds(answer: Answer) -> list[tuple[int, str]]:
    return [(step.depth, step.event.kind) for step in answer.steps]


def test_a_fenced_broker_leads_back_to_whoever_killed_it(told: Told) -> None:
    told.born(2, 5)
    told.fault("kill", 2, "killed broker 2")
    told.fence(2, 5)
    answer = told.history.why_broker(2)
    assert answer.state == "broker 2 (generation 5) is fenced: it leads nothing and is in no ISR"
    assert kinds(answer) == [(0, "fenced"), (1, "verdict"), (2, "fault")]
    assert answer.steps[-1].text == "somebody killed broker 2"


def test_a_fault_that_is_over_is_no_cause(told: Told) -> None:
    told.born(2, 5)
    told.fault("isolate", 2, "cut broker 2 off")
    told.fault("heal", -1, "ended every isolation", verdict="undone")
    told.fence(2, 5)
    assert kinds(told.history.why_broker(2)) == [(0, "fenced"), (1, "verdict")]


@pytest.mark.parametrize(
    ("verbs", "cause"),
    [
        ((("isolate", 2), ("pause", 2), ("resume", 2)), "isolate"),
        ((("isolate", 2), ("kill", 2), ("start", 2)), "isolate"),
        ((("pause", 2), ("isolate", 3), ("heal", -1)), "pause"),
        ((("pause", 2), ("isolate", 2), ("heal", -1), ("resume", 2)), None),
        ((("pause", 2), ("kill", 2), ("start", 2)), None),
    ],
)
def test_a_verb_ends_its_own_fault_and_no_other(
    told: Told, verbs: tuple[tuple[str, int], ...], cause: str | None
) -> None:
    for life in (5, 9):
        # With the second life nothing is left to look at but what lasts.
        told.born(2, life)
        if life == 5:
            for verb, broker in verbs:
                over = verb in ("resume", "start", "heal")
                told.fault(verb, broker, f"did {verb}", verdict="undone" if over else "")
        told.fence(2, life)
        answer = told.history.why_broker(2)
        assert [step.event.given for step in answer.steps][2:] == ([cause] if cause else [])


def test_an_isolation_outlives_a_life(told: Told) -> None:
    told.fault("isolate", 2, "cut broker 2 off from 1")
    told.born(2, 5)
    told.fence(2, 5)
    assert kinds(told.history.why_broker(2))[-1] == (2, "fault")


def test_a_fault_of_another_broker_is_no_cause(told: Told) -> None:
    told.born(2, 5)
    told.fault("kill", 3, "killed broker 3")
    told.fence(2, 5)
    assert kinds(told.history.why_broker(2)) == [(0, "fenced"), (1, "verdict")]


def test_a_paused_controller_explains_a_broker_s_own_fence(told: Told) -> None:
    told.born(2, 5)
    told.fault("isolate", 2, "cut broker 2 off from 100")
    told("verdict", node=2, rule="heartbeat.contact", verdict="refused")
    told("self-fenced", node=2, broker=2, broker_epoch=5)
    assert kinds(told.history.why_broker(2))[:3] == [(0, "self-fenced"), (1, "verdict"), (2, "fault")]


def test_a_bounce_shows_every_life_and_how_the_last_began(told: Told) -> None:
    told.born(2, 5)
    told("ended", node=2, broker=2, broker_epoch=5)
    told.born(2, 9)
    told.fault("kill", 2, "killed broker 2 for a fast bounce")
    told.born(2, 12)
    answer = told.history.why_broker(2)
    assert answer.state.endswith("is active; its lives were generations 5, 9 and 12")
    assert kinds(answer) == [(0, "unfenced"), (1, "registered"), (2, "fault")]


def test_a_session_that_ended_leads_back_to_whoever_ended_it(told: Told) -> None:
    told.born(2, 5)
    told.fault("kill", 2, "killed broker 2 for a fast bounce")
    told("unregistered", broker=2, broker_epoch=5)
    told("registered", node=2, broker=2, broker_epoch=9)
    told.born(2, 9)
    answer = told.history.why_broker(2)
    assert answer.state.endswith("its lives were generations 5 and 9")
    assert [kind for _, kind in kinds(answer)][-2:] == ["unregistered", "fault"]


def test_a_clean_end_leads_back_to_the_shutdown(told: Told) -> None:
    told.born(2, 5)
    told.fault("stop", 2, "stopped broker 2 in order")
    told("stopping", broker=2, broker_epoch=5)
    told("ended", node=2, broker=2, broker_epoch=5)
    told.born(2, 9)
    assert kinds(told.history.why_broker(2)) == [
        (0, "unfenced"),
        (1, "registered"),
        (2, "ended"),
        (3, "stopping"),
        (4, "fault"),
    ]


def test_a_refusal_names_the_life_that_replaced_it(told: Told) -> None:
    told.born(2, 5)
    told.born(2, 9)
    told("verdict", rule="heartbeat.generation", verdict="refused", broker=2, given="5", expected="9")
    refusal = [
        step for step in told.history.why_broker(2).steps if step.event.kind in ("verdict", "registered")
    ]
    assert [(step.depth, step.event.broker_epoch) for step in refusal] == [(1, 9), (0, -1), (1, 9)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("isr.partition-epoch", "5"),
        ("isr.leader-epoch", "5"),
        ("isr.leader", "5"),
        ("isr.ahead", "<= 5"),
        ("fetch.leader-epoch", "5"),
        ("control.controller", ">= 5"),
        ("registration.incarnation", "5ce8a7b0-57d2-41f5-bd35-5fd53c5a6d05"),
    ],
)
def test_a_number_that_is_no_generation_names_no_life(told: Told, rule: str, expected: str) -> None:
    told.born(7, 5)
    told.born(2, 9)
    refused = told("verdict", rule=rule, verdict="refused", broker=2, given="4", expected=expected)
    assert told.history.causes(refused) == []


def test_an_election_names_the_broker_that_was_fenced(told: Told) -> None:
    told.born(1, 1)
    told.partition("leader", 1, (1, 2))
    told.fault("kill", 1, "killed broker 1")
    fenced = told.fence(1, 1)
    told.partition("leader", 2, (2,), isr_before=(1, 2), leader_epoch=1, cause=fenced.event_id)
    answer = told.history.why_partition("orders", 3)
    assert answer.state == "orders-3 is led by broker 2, in sync are broker 2"
    assert kinds(answer) == [(0, "leader"), (1, "fenced"), (2, "verdict"), (3, "fault")]


def test_a_shrink_leads_back_to_the_leader_s_reason(told: Told) -> None:
    told.partition("leader", 1, (1, 2, 3), leader_epoch=4)
    told.fault("isolate", 3, "cut broker 3 off from 1, 2")
    told.partition(
        "isr-proposed", 1, (1, 2), node=1, leader_epoch=4, isr_before=(1, 2, 3), detail="broker 3 lags"
    )
    told.partition("isr", 1, (1, 2), leader_epoch=4, isr_before=(1, 2, 3), detail="proposed by leader 1")
    answer = told.history.why_partition("orders", 3)
    assert kinds(answer) == [(0, "isr"), (1, "isr-proposed"), (2, "fault"), (0, "leader")]


def test_another_leadership_s_proposal_is_no_reason(told: Told) -> None:
    told.partition("isr-proposed", 2, (1, 2), node=2, leader_epoch=3, isr_before=(1, 2, 3))
    told.partition("isr", 1, (1, 2), leader_epoch=4, isr_before=(1, 2, 3))
    assert kinds(told.history.why_partition("orders", 3)) == [(0, "isr")]


def test_a_partition_of_a_deleted_topic_is_not_led(told: Told) -> None:
    told.partition("leader", 1, (1, 2))
    told("topic-deleted", topic="orders")
    answer = told.history.why_partition("orders", 3)
    assert answer.state == "orders-3 is not there any more"
    assert kinds(answer) == [(0, "topic-deleted")]
    told.partition("leader", 2, (2, 1))
    assert told.history.why_partition("orders", 3).state.startswith("orders-3 is led by broker 2")


def test_produce_names_only_partitions_that_refuse(told: Told) -> None:
    told.partition("leader", 1, (1,))
    told("leader", topic="orders", partition=1, leader=1, isr=(1, 2))
    told("leader", topic="orders", partition=2, leader=-1, isr=(3,))
    told("leader", topic="gone", partition=0, leader=-1)
    told("topic-deleted", topic="gone")
    told("leader", topic="other", partition=0, leader=-1)
    answers = told.history.why_produce(lambda topic: 2, "orders")
    assert [answer.subject for answer in answers] == ["orders-2", "orders-3"]
    assert "LEADER_NOT_AVAILABLE" in answers[0].state
    assert "has broker 1 in sync and needs 2" in answers[1].state
    assert [answer.subject for answer in told.history.why_produce(lambda topic: 1)] == ["orders-2", "other-0"]


def test_a_broker_that_no_controller_fences_is_active_when_it_has_heard_so(told: Told) -> None:
    # Below level heartbeats, as the nodes write it: no controller says `unfenced`.
    told("registered", node=2, broker=2, broker_epoch=103)
    told("registered", broker=2, broker_epoch=103)
    assert "not yet unfenced" in told.history.why_broker(2).state
    told("unfenced-by-controller", node=2, broker=2, broker_epoch=103)
    answer = told.history.why_broker(2)
    assert answer.state == "broker 2 (generation 103) is active"
    assert kinds(answer)[:2] == [(0, "unfenced-by-controller"), (1, "registered")]
    told("registered", broker=2, broker_epoch=108)
    assert "(generation 108) is registered and not yet unfenced" in told.history.why_broker(2).state


def test_what_the_ledger_does_not_know_is_said(told: Told) -> None:
    assert told.history.why_broker(7).state == "the ledger knows nothing of broker 7"
    assert told.history.why_partition("orders", 0).state == "the ledger knows nothing of orders-0"


def test_an_event_that_was_written_twice_counts_once(told: Told) -> None:
    told.born(2, 5)
    assert len(History([*told.events, *told.events]).events) == 2


def test_events_that_come_late_take_their_place(told: Told) -> None:
    told.born(2, 5)
    killed = told.fault("kill", 2, "killed broker 2")
    told.fence(2, 5)
    grown = History(told.events[:1])
    assert grown.why_broker(2).state.endswith("is registered and not yet unfenced")
    grown.add(each for each in told.events if each is not killed)
    # Nodes write at their own pace, and who looks twice finds some of it twice.
    grown.add([killed, told.events[0]])
    assert grown.events == told.history.events
    assert grown.why_broker(2) == told.history.why_broker(2)


def test_causes_in_a_circle_come_to_an_end(told: Told) -> None:
    told("fenced", broker=1, broker_epoch=1, cause=2)
    told("fenced", broker=1, broker_epoch=1, cause=1)
    assert kinds(told.history.why_broker(1)) == [(0, "fenced"), (1, "fenced")]

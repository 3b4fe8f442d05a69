"""Ledger events in plain sentences."""

import pytest

from epoka.ledger.telling import line, sentence
from epoka.model.ledger import LedgerEvent


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            LedgerEvent(
                kind="registered", broker=2, broker_epoch=57, rule="registry.bounce", detail="after 12"
            ),
            "broker 2 registered as generation 57: after 12 [registry.bounce]",
        ),
        (
            LedgerEvent(
                kind="leader",
                topic="t",
                partition=0,
                leader=3,
                leader_epoch_before=1,
                leader_epoch=2,
                isr_before=(2, 3),
                isr=(3,),
                rule="leader.eligible",
            ),
            "t-0 is led by 3, leader epoch 1 -> 2, ISR [2, 3] -> [3] [leader.eligible]",
        ),
        (
            LedgerEvent(
                kind="leader",
                topic="t",
                partition=0,
                leader=-1,
                leader_epoch_before=1,
                leader_epoch=2,
                isr=(3,),
            ),
            "t-0 has no leader, leader epoch 1 -> 2, ISR [3]",
        ),
        (
            LedgerEvent(
                kind="verdict",
                rule="isr.generation",
                verdict="refused",
                error="INELIGIBLE_REPLICA",
                broker=1,
                topic="t",
                partition=0,
                given="broker 2 epoch 5",
                expected="epoch 9",
                detail="another life",
            ),
            "isr.generation refused broker 1 t-0 with INELIGIBLE_REPLICA: "
            "given broker 2 epoch 5, expected epoch 9 (another life)",
        ),
        (
            LedgerEvent(kind="from-the-future", broker=4, detail="who knows"),
            "from-the-future broker 4: who knows",
        ),
    ],
)
def test_events_are_told(event, expected):
    assert sentence(event) == expected


def test_a_line_has_the_time_and_the_writer():
    event = LedgerEvent(kind="active", node=100, time_ms=1_500)
    assert line(event) == "1970-01-01T00:00:01.500+00:00  node 100  the controller is active"
    assert line(event, since_ms=1_000) == "  +0.500 s  node 100  the controller is active"


@pytest.mark.parametrize("time_ms", [999_999_999_999_999_999, -(10**18)])
def test_a_time_that_no_calendar_has_is_told_as_it_is(time_ms):
    assert line(LedgerEvent(kind="active", node=1, time_ms=time_ms)).startswith(f"{time_ms} ms  node 1 ")

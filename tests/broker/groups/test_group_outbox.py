from __future__ import annotations

import pytest

from epoka.broker.groups.effects import Answer
from epoka.broker.groups.outbox import Outbox
from epoka.model.errors import InvariantBroken


def test_a_request_is_answered_once() -> None:
    outbox = Outbox()
    outbox.open(1)
    outbox.answer(1, "yes")
    assert outbox.drain() == [Answer(1, "yes")]
    with pytest.raises(InvariantBroken, match="answered twice"):
        outbox.answer(1, "no")


def test_a_request_is_handed_in_once() -> None:
    outbox = Outbox()
    outbox.open(1)
    with pytest.raises(InvariantBroken, match="handed in twice"):
        outbox.open(1)


def test_a_client_that_has_gone_is_not_answered() -> None:
    outbox = Outbox()
    outbox.open(1)
    outbox.disconnected([1])
    outbox.answer(1, "yes")
    assert outbox.drain() == []
    assert not outbox.waiting

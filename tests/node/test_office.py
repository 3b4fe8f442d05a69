"""A node that may be the controller: what it does in office, without it, and when it loses it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from epoka.controller.config import ControllerConfig
from epoka.controller.core import ControllerCore
from epoka.controller.metadata_log import MetadataLogFailed
from epoka.model.events import Exit, Hangup, Peer, RegistryChanged, RegistryEntry, Request, Respond, Stop
from epoka.wire.messages.fetch_metadata import FetchMetadataRequest
from tests.broker.zk_world import SharedLog
from tests.zookeeper_missing import MISSING

if MISSING is not None:
    pytest.skip(MISSING, allow_module_level=True)

from epoka.coordination.zookeeper.election import Mandate
from epoka.node.office import Elected, ForMandate, Office, Over

FIRST, SECOND = Mandate(1, 1, 10), Mandate(2, 2, 11)
LOOK = FetchMetadataRequest(broker_id=-1, max_bytes=1000)
WAIT = FetchMetadataRequest(broker_id=-1, from_offset=1, max_bytes=1000, max_wait_ms=1000)


class Node:
    def __init__(self) -> None:
        self.state = SharedLog()
        self.entered: list[Mandate] = []
        self.left: list[Mandate] = []
        self.office = Office(100, self._core, entered=self.entered.append, left=self.left.append)
        self.office.start(0)

    def _core(self, mandate: Mandate) -> ControllerCore:
        return ControllerCore(
            100, "c", self.state, ControllerConfig(), new_id=uuid.uuid4, controller_epoch=mandate.epoch
        )

    def ask(self, message: Any = LOOK, token: int = 7) -> list[Any]:
        return self.office.handle(Request(token, 0, message, Peer(control=True)), 1)


def of(kind: type, effects: list[Any]) -> list[Any]:
    return [each for each in effects if isinstance(each, kind)]


def test_without_office_everybody_is_hung_up_on() -> None:
    node = Node()
    (effect,) = node.ask()
    assert isinstance(effect, Hangup) and "stands by" in effect.reason
    assert node.office.deadline is None


def test_in_office_it_is_the_controller() -> None:
    node = Node()
    node.office.handle(Elected(FIRST), 0)
    assert node.entered == [FIRST]
    assert of(Respond, node.ask())


def test_only_events_of_its_own_mandate_count() -> None:
    node = Node()
    node.office.handle(Elected(SECOND), 0)
    picture = RegistryChanged((RegistryEntry(1, 5, 5),), 5)
    node.office.handle(ForMandate(FIRST, picture), 1)
    assert node.office.image.broker(1) is None
    node.office.handle(ForMandate(SECOND, picture), 1)
    assert node.office.image.broker(1) is not None


def test_a_mandate_that_is_over_ends_the_core_and_not_the_node() -> None:
    node = Node()
    node.office.handle(Elected(FIRST), 0)
    assert not node.ask(WAIT, token=9)
    effects = node.office.handle(Over(FIRST, "its session has ended"), 2)
    assert [each.token for each in of(Hangup, effects)] == [9]
    assert not of(Exit, effects)
    assert node.left == [FIRST]
    assert of(Hangup, node.ask())
    assert not node.office.handle(Over(FIRST, "again"), 3)
    node.office.handle(Elected(SECOND), 4)
    assert of(Respond, node.ask())


def test_a_state_that_cannot_be_read_ends_the_mandate() -> None:
    node = Node()

    def fail() -> Any:
        raise MetadataLogFailed("/brokers/topics/t: a stranger wrote it")

    node.state.load = fail  # type: ignore[method-assign]
    assert not of(Exit, node.office.handle(Elected(FIRST), 0))
    assert (node.entered, node.left) == ([], [FIRST])


def test_a_stop_is_a_clean_end_in_office_and_out_of_it() -> None:
    for elected in (False, True):
        node = Node()
        if elected:
            node.office.handle(Elected(FIRST), 0)
        assert node.office.handle(Stop(), 1) == [Exit(clean=True, reason="stopped")]
        assert node.left == []

"""Cores of one process that talk without sockets."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from epoka.model.events import CONTROLLER, Disconnected, Effect, Event, Hangup, Reply, Respond, Send
from epoka.node.runtime import Runtime
from epoka.node.switchboard import Switchboard
from epoka.wire.messages.fetch import FetchRequest, ReplicaState
from epoka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

Kit = SimpleNamespace
Lines = Callable[[], list[str]]


class Pair:
    """A broker (node 1) and a controller (node 2) on one switchboard."""

    def __init__(self, kit: Kit, board: Switchboard) -> None:
        self.kit = kit
        self.board = board
        self.broker, self.controller = kit.FakeCore(), kit.FakeCore()
        self.here: Runtime = kit.new_runtime(self.broker, node_id=1, carrier=board)
        self.there: Runtime = kit.new_runtime(self.controller, node_id=2, carrier=board)
        board.join(1, self.here)
        board.join(CONTROLLER, self.there)

    def send(
        self, token: int, message: Any, version: int = 0, timeout_ms: int = 10_000, to: int = CONTROLLER
    ) -> None:
        self.here.handle(self.kit.Nudge([Send(to, token, message, version, timeout_ms)]))

    async def replies(self, *expected: Event) -> None:
        await self.kit.eventually(lambda: len(self.broker.events) >= len(expected))
        assert self.broker.events == list(expected)


async def test_a_request_and_its_answer_cross_the_switchboard(kit: Kit) -> None:
    pair = Pair(kit, Switchboard())
    pair.send(4, HeartbeatRequest("g", 9, "m"))
    await pair.replies(Reply(4, HeartbeatResponse(error_code=9)))
    (request,) = pair.controller.requests
    assert request.peer.control and request.peer.client_id == "node-1"
    assert not pair.board.calls


async def test_nothing_crosses_within_the_call_that_sends_it(kit: Kit) -> None:
    pair = Pair(kit, Switchboard())
    pair.send(4, HeartbeatRequest())
    assert pair.controller.events == []
    await pair.replies(Reply(4, HeartbeatResponse()))


async def test_requests_keep_their_order(kit: Kit) -> None:
    pair = Pair(kit, Switchboard())
    for token in range(20):
        pair.send(token, HeartbeatRequest("g", token, "m"))
    await pair.replies(*(Reply(token, HeartbeatResponse(error_code=token)) for token in range(20)))


async def test_what_a_version_cannot_say_does_not_arrive(kit: Kit) -> None:
    pair = Pair(kit, Switchboard())
    pair.controller.react = pair.controller.answer_later
    message = FetchRequest(replica_state=ReplicaState(1, 55))
    pair.send(1, message, version=15)
    pair.send(2, FetchRequest(replica_id=1), version=12)
    await kit.eventually(lambda: len(pair.controller.requests) == 2)
    newer, older = (request.message for request in pair.controller.requests)
    assert (newer.replica_state.replica_epoch, older.replica_state.replica_epoch) == (55, -1)
    assert newer is not message


async def test_a_request_that_is_not_answered_in_time_gets_none_and_the_late_answer_is_dropped(
    kit: Kit,
) -> None:
    pair = Pair(kit, Switchboard())
    pair.controller.react = pair.controller.answer_later
    pair.send(1, HeartbeatRequest(), timeout_ms=10)
    await pair.replies(Reply(1, None))
    (request,) = pair.controller.requests
    pair.there.handle(kit.Nudge([Respond(request.token, HeartbeatResponse())]))
    pair.controller.react = pair.controller.answer_at_once
    pair.send(2, HeartbeatRequest())
    await pair.replies(Reply(1, None), Reply(2, HeartbeatResponse()))


async def test_a_node_that_leaves_is_heard_of_on_both_sides(kit: Kit) -> None:
    pair = Pair(kit, Switchboard())
    pair.controller.react = pair.controller.answer_later
    pair.send(1, HeartbeatRequest())
    await kit.eventually(lambda: pair.controller.requests)
    number = pair.controller.requests[0].peer.connection
    pair.board.leave(pair.there)
    await pair.replies(Reply(1, None))
    pair.send(2, HeartbeatRequest())
    await pair.replies(Reply(1, None), Reply(2, None))
    pair.board.join(CONTROLLER, pair.there)
    pair.send(3, HeartbeatRequest())
    await kit.eventually(lambda: len(pair.controller.requests) == 2)
    assert pair.controller.requests[1].peer.connection != number
    pair.board.leave(pair.here)
    assert Disconnected(pair.controller.requests[1].peer.connection) in pair.controller.events
    assert pair.there.waiting == 0


async def test_a_core_that_hangs_up_answers_none(kit: Kit) -> None:
    pair = Pair(kit, Switchboard())

    def react(event: Any, now: int) -> list[Effect]:
        return [Hangup(event.token, "no")]

    pair.controller.react = react
    pair.send(1, HeartbeatRequest())
    await pair.replies(Reply(1, None))


async def test_an_answer_that_cannot_be_written_is_none_and_the_core_that_gave_it_goes_on(
    kit: Kit, lines: Lines
) -> None:
    pair = Pair(kit, Switchboard())
    pair.send(1, HeartbeatRequest("g", 2**20, "m"))
    await pair.replies(Reply(1, None))
    assert lines() == ["a defect in an answer: Heartbeat version 0 cannot be written"]
    assert (pair.there.ending, pair.board.calls) == (None, {})
    pair.send(2, HeartbeatRequest())
    await pair.replies(Reply(1, None), Reply(2, HeartbeatResponse()))


async def test_an_api_that_the_other_does_not_serve_answers_none(kit: Kit, lines: Lines) -> None:
    pair = Pair(kit, Switchboard())
    pair.there.served = {12: (1, 4)}
    pair.send(1, HeartbeatRequest(), version=0)
    await pair.replies(Reply(1, None))
    assert lines() == ["HeartbeatRequest of version 0 is not served by node 2"]


async def test_a_node_that_nobody_knows_answers_none(kit: Kit) -> None:
    pair = Pair(kit, Switchboard())
    pair.send(1, HeartbeatRequest(), to=44)
    await pair.replies(Reply(1, None))


async def test_what_is_not_in_this_process_goes_over_the_links(kit: Kit) -> None:
    pair = Pair(kit, Switchboard())
    away: list[Send] = []
    pair.board.connect(pair.here, away.append)
    pair.send(1, HeartbeatRequest(), to=44)
    assert [send.to for send in away] == [44]


@pytest.mark.parametrize("to", [CONTROLLER, 44])
async def test_a_gate_can_hold_a_request_and_let_it_through_later(kit: Kit, to: int) -> None:
    held: list[Callable[[], None]] = []
    pair = Pair(kit, Switchboard(lambda sender, receiver, message, go: held.append(go)))
    away: list[Send] = []
    pair.board.connect(pair.here, away.append)
    pair.send(1, HeartbeatRequest("g", 3, "m"), to=to)
    (go,) = held
    assert not away and not pair.controller.events
    pair.board.gate = lambda sender, receiver, message, go: go()
    go()
    if to == CONTROLLER:
        await pair.replies(Reply(1, HeartbeatResponse(error_code=3)))
    else:
        assert [send.token for send in away] == [1]


@pytest.mark.parametrize("to", [CONTROLLER, 44])
async def test_a_request_that_a_gate_drops_gets_none_and_cannot_pass_afterwards(kit: Kit, to: int) -> None:
    held: list[Callable[[], None]] = []
    pair = Pair(kit, Switchboard(lambda sender, receiver, message, go: held.append(go)))
    away: list[Send] = []
    pair.board.connect(pair.here, away.append)
    pair.send(1, HeartbeatRequest(), to=to, timeout_ms=5)
    await pair.replies(Reply(1, None))
    held[0]()
    assert not away
    pair.board.gate = lambda sender, receiver, message, go: go()
    pair.send(2, HeartbeatRequest("g", 2, "m"))
    await pair.replies(Reply(1, None), Reply(2, HeartbeatResponse(error_code=2)))
    assert len(pair.controller.requests) == 1


async def test_a_gate_sees_answers_with_sender_and_receiver(kit: Kit) -> None:
    seen: list[tuple[int, int, str]] = []

    def gate(sender: int, receiver: int, message: Any, go: Callable[[], None]) -> None:
        seen.append((sender, receiver, type(message).__name__))
        go()

    pair = Pair(kit, Switchboard(gate))
    pair.send(1, HeartbeatRequest())
    await pair.replies(Reply(1, HeartbeatResponse()))
    assert seen == [(1, 2, "HeartbeatRequest"), (2, 1, "HeartbeatResponse")]

"""Driving a core: order of effects, wake-ups, and what happens when it breaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from epoka.model.errors import InvariantBroken
from epoka.model.events import (
    Effect,
    Event,
    Exit,
    Hangup,
    Peer,
    Reply,
    Report,
    Request,
    Respond,
    Send,
    Stop,
    Wake,
)
from epoka.model.ledger import LedgerEvent
from epoka.node.runtime import EXIT_BUG, Clock, Ending, Runtime
from epoka.wire.messages.heartbeat import HeartbeatRequest

Kit = SimpleNamespace
Lines = Callable[[], list[str]]


class Recorder:
    """Stands where sockets, ledger and askers would, and writes down what reaches it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def send(self, runtime: Runtime, send: Send) -> None:
        self.seen.append(send)

    def report(self, event: LedgerEvent) -> None:
        self.seen.append(event)

    def end(self, ending: Ending) -> None:
        self.seen.append(ending)

    def answer(self, message: Any) -> None:
        self.seen.append(("answer", message))

    def hang_up(self, reason: str) -> None:
        self.seen.append(("hang up", reason))


class HandClock(Clock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 1_000

    def now(self) -> int:
        return self.time


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def drive(kit: Kit, core: Any, recorder: Recorder, **changes: Any) -> Runtime:
    runtime: Runtime = kit.new_runtime(
        core, carrier=recorder, report=recorder.report, on_end=recorder.end, **changes
    )
    return runtime


async def test_effects_take_place_in_their_order(kit: Kit, recorder: Recorder) -> None:
    core = kit.FakeCore()
    runtime = drive(kit, core, recorder)
    core.react = core.answer_later
    first = runtime.ask(recorder, 0, HeartbeatRequest(), Peer())
    second = runtime.ask(recorder, 0, HeartbeatRequest(), Peer())
    event, send = LedgerEvent("fenced"), Send(2, 5, HeartbeatRequest(), 0, 100)
    effects = [Respond(second, "b"), Report(event), send, Hangup(first, "go"), Exit(True, "done")]
    runtime.handle(kit.Nudge(effects))
    assert recorder.seen == [
        ("answer", "b"),
        event,
        send,
        ("hang up", "go"),
        Ending(code=0, clean=True, reason="done"),
    ]


async def test_an_event_that_comes_up_while_the_core_works_waits_for_its_turn(
    kit: Kit, recorder: Recorder
) -> None:
    core = kit.FakeCore()
    runtime = drive(kit, core, recorder)
    inside = []

    class Echo(Recorder):
        def send(self, runtime: Runtime, send: Send) -> None:
            runtime.handle(Reply(send.token, None))
            inside.append(len(core.events))

    runtime._carrier = Echo()
    core.react = lambda event, now: (
        [Send(1, token, HeartbeatRequest(), 0, 1) for token in (1, 2)] if isinstance(event, Stop) else []
    )
    runtime.handle(Stop())
    assert inside == [1, 1]
    assert core.events == [Stop(), Reply(1, None), Reply(2, None)]


async def test_a_core_begins_before_anything_else(kit: Kit, recorder: Recorder) -> None:
    core = kit.FakeCore()
    core.first = [Send(-1, 1, HeartbeatRequest(), 0, 100)]
    drive(kit, core, recorder).start()
    assert recorder.seen == core.first


async def test_the_core_is_woken_at_its_deadline_and_not_before(kit: Kit, recorder: Recorder) -> None:
    core = kit.FakeCore()
    woken = []

    def react(event: Event, now: int) -> list[Effect]:
        if isinstance(event, Wake):
            woken.append(now - core.deadline)
            core.deadline = None if len(woken) == 3 else now + 5
        return []

    core.react = react
    clock = Clock()
    runtime = drive(kit, core, recorder, clock=clock)
    core.deadline = clock.now() + 5
    runtime.start()
    await kit.eventually(lambda: len(woken) == 3)
    assert all(late >= 0 for late in woken)


async def test_a_deadline_that_moves_nearer_is_kept(kit: Kit, recorder: Recorder) -> None:
    core = kit.FakeCore()

    def react(event: Event, now: int) -> list[Effect]:
        core.deadline = now + 1 if isinstance(event, Stop) else None
        return []

    core.react = react
    clock = Clock()
    runtime = drive(kit, core, recorder, clock=clock)
    core.deadline = clock.now() + 3_600_000
    runtime.start()
    runtime.handle(Stop())
    await kit.eventually(lambda: Wake() in core.events)


async def test_an_alarm_for_a_deadline_that_moved_on_wakes_nobody(kit: Kit, recorder: Recorder) -> None:
    core, clock = kit.FakeCore(), HandClock()
    runtime = drive(kit, core, recorder, clock=clock)
    core.deadline = 1_001
    runtime.start()
    core.deadline = 1_050
    await kit.eventually(lambda: runtime._alarm_at == 1_050)
    assert core.events == []
    clock.time = 1_050
    core.react = lambda event, now: setattr(core, "deadline", None) or []
    await kit.eventually(lambda: core.events == [Wake()])


@pytest.mark.parametrize("error", [ValueError("odd"), InvariantBroken("two leaders", "epoch 3", "epoch 3")])
async def test_a_core_that_breaks_ends_the_node_with_its_story(
    kit: Kit, recorder: Recorder, lines: Lines, error: Exception
) -> None:
    core = kit.FakeCore()
    runtime = drive(kit, core, recorder)
    core.react = core.answer_later
    runtime.ask(recorder, 0, HeartbeatRequest(), Peer())

    def react(event: Event, now: int) -> list[Effect]:
        raise error

    core.react = react
    runtime.handle(Reply(9, HeartbeatRequest()))
    (ending,) = recorder.seen
    assert ending.code == EXIT_BUG == 70 and not ending.clean
    (line,) = lines()
    assert str(error) in line
    assert "Request HeartbeatRequest 1" in line and "Reply HeartbeatRequest 9" in line


async def test_a_node_that_has_ended_takes_nothing_more(kit: Kit, recorder: Recorder) -> None:
    core = kit.FakeCore()
    runtime = drive(kit, core, recorder)
    runtime.handle(kit.Nudge([Exit(False, "refused"), Exit(True, "again")]))
    assert recorder.seen == [Ending(code=1, clean=False, reason="refused")]
    runtime.handle(Stop())
    runtime.ask(recorder, 0, HeartbeatRequest(), Peer())
    assert core.events == []


async def test_a_core_that_asks_for_no_known_effect_is_a_defect(
    kit: Kit, recorder: Recorder, lines: Lines
) -> None:
    core = kit.FakeCore()
    runtime = drive(kit, core, recorder)
    runtime.handle(kit.Nudge(["dance"]))
    assert recorder.seen[0].code == EXIT_BUG
    assert "'dance'" in lines()[0]


async def test_a_core_that_breaks_while_it_starts_ends_the_node(
    kit: Kit, recorder: Recorder, lines: Lines
) -> None:
    class Broken(kit.FakeCore):  # type: ignore[misc, name-defined]
        def start(self, now: int) -> list[Effect]:
            raise ValueError("no")

    drive(kit, Broken(), recorder).start()
    assert recorder.seen[0].code == EXIT_BUG
    assert len(lines()) == 1


async def test_a_request_that_is_answered_twice_is_answered_once(kit: Kit, recorder: Recorder) -> None:
    core = kit.FakeCore()
    core.react = lambda event, now: (
        [Respond(event.token, "a"), Respond(event.token, "b")] if isinstance(event, Request) else []
    )
    runtime = drive(kit, core, recorder)
    runtime.ask(recorder, 0, HeartbeatRequest(), Peer())
    assert recorder.seen == [("answer", "a")]


def test_the_clock_neither_jumps_nor_runs_backwards_when_the_wall_clock_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    before = clock.now()
    assert abs(before - time.time_ns() // 1_000_000) < 5_000
    for step_ns in (-3_600 * 10**9, 3_600 * 10**9):
        with monkeypatch.context() as patch:
            patch.setattr(time, "time_ns", lambda step_ns=step_ns: time.monotonic_ns() + step_ns)
            assert 0 <= clock.now() - before < 60_000


async def test_closing_a_runtime_stops_its_alarm(kit: Kit, recorder: Recorder) -> None:
    core, clock = kit.FakeCore(), HandClock()
    runtime = drive(kit, core, recorder, clock=clock)
    core.deadline = 1_001
    runtime.start()
    runtime.close()
    clock.time = 2_000
    rang = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, rang.set_result, None)
    await rang
    assert core.events == []

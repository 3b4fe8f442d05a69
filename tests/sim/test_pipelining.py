"""Clients that send one request behind the other: what their connections do, and what their producers do."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from epoka.broker.api import produce
from epoka.broker.replica import Replica
from epoka.broker.waiting import Written
from epoka.model.events import Disconnected, Request
from epoka.sim import World, client
from epoka.sim.checkers import Checkers
from epoka.sim.history import History
from epoka.sim.oracle import Oracle
from epoka.sim.steps import Step
from epoka.sim.workload import IDEMPOTENT, Workload
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.produce import ProduceRequest
from epoka.wire.records import decode_batch, read_header

LANE = 7


@pytest.fixture
def world() -> World:
    world = World()
    client.create_topic(world, "t", (1, 2, 3), min_insync_replicas="2")
    return world


class Seen:
    """What a broker is handed of one kind of request, and of ends of connections."""

    def __init__(self, world: World) -> None:
        self.events: list[Any] = []
        deliver = world.deliver

        def noted(process: Any, event: Any) -> None:
            if isinstance(event, Disconnected) or type(getattr(event, "message", None)) is ProduceRequest:
                self.events.append(event)
            deliver(process, event)

        world.deliver = noted  # type: ignore[method-assign]

    @property
    def values(self) -> list[bytes]:
        return [value_of(each.message) for each in self.events if isinstance(each, Request)]


def value_of(message: ProduceRequest) -> bytes:
    batches = message.topic_data[0].partition_data[0].records
    assert batches is not None
    (record,) = decode_batch(batches, 0, read_header(batches))
    return bytes(record.value or b"")


def ask(world: World, value: bytes) -> None:
    request = client.produce_request("t", 0, client.batch([value]), 1, 500)
    world.ask(1, request, client.PRODUCE_VERSION, lane=LANE, timeout_ms=600)


def test_of_a_broken_connection_arrives_a_beginning_and_then_its_end() -> None:
    lengths: Counter[int] = Counter()
    sent = [b"%d" % number for number in range(5)]
    for seed in range(40):
        world = World(seed)
        client.create_topic(world, "t", (1, 2, 3), min_insync_replicas="2")
        # Met, so that there is another end to be told.
        ask(world, b"first")
        world.run(50)
        seen = Seen(world)
        world.network.late_share = 0.7
        world.network.delay = lambda sender, receiver, message: 10
        for value in sent:
            ask(world, value)
        (connection,) = (each for each in world.client.outgoing.values() if each.key[1] == LANE)
        world.network.break_up(connection)
        world.run(100)
        arrived = seen.values
        assert arrived == sent[: len(arrived)]
        assert isinstance(seen.events[-1], Disconnected)
        lengths[len(arrived)] += 1
    assert len(lengths) > 3, lengths


def test_no_connection_takes_the_place_of_one_whose_end_is_not_known_yet(world: World) -> None:
    seen = Seen(world)
    world.network.late_share = 0.0
    world.network.reset_chance = 1.0
    ask(world, b"lost")
    world.network.reset_chance = 0.0
    ask(world, b"behind it")
    world.run(50)
    assert seen.values == []
    ask(world, b"on the next")
    world.run(50)
    assert seen.values == [b"on the next"]


def test_what_a_silent_machine_did_not_take_is_not_passed_over(world: World) -> None:
    seen = Seen(world)
    world.crash(1, silent=True)
    ask(world, b"lost")
    world.run(20)
    world.start_broker(1)
    ask(world, b"behind it")
    world.run(50)
    assert seen.values == []


def producing(world: World, in_flight: int) -> Workload:
    load = Workload(world, Checkers(world, Oracle()), History(), Random(0), in_flight)
    load.adopt_topic("t")
    return load


@pytest.mark.parametrize("in_flight", [1, 5])
def test_so_many_batches_are_on_their_way_and_no_more(world: World, in_flight: int) -> None:
    load, seen = producing(world, in_flight), Seen(world)
    hold = world.hold("ProduceResponse", sender=1)
    for _ in range(8):
        load.do(Step(0, "produce", ms=IDEMPOTENT))
    world.run(200)
    values = [b"v%d" % number for number in range(1, 9)]
    assert seen.values == values[:in_flight]
    hold.release()
    world.run(500)
    assert load.idle() is None
    assert client.read(world, 1, "t") == values


def test_what_is_behind_a_refused_batch_is_sent_again_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, attempts = produce._append, 0

    def refuse_the_first(core: Any, replica: Replica, *about: Any) -> Written:
        nonlocal attempts
        attempts += replica.topic == "t"
        if attempts == 1:
            return Written(replica.topic, replica.index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return append(core, replica, *about)

    load, seen = producing(world, 5), Seen(world)
    monkeypatch.setattr(produce, "_append", refuse_the_first)
    for _ in range(3):
        load.do(Step(0, "produce", ms=IDEMPOTENT))
    world.run(500)
    assert seen.values == [b"v1", b"v2", b"v3"] * 2
    assert load.idle() is None
    assert client.read(world, 1, "t") == [b"v1", b"v2", b"v3"]

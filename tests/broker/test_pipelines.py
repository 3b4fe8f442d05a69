"""Batches that are on their way together: what is behind a refused one is refused, too (KAFKA-15591)."""

from __future__ import annotations

from typing import Any

import pytest

from epoka.broker.pipelines import MOST, Pipelines
from epoka.log.producers import follows
from epoka.model.events import CONTROLLER, Disconnected
from epoka.wire.error_codes import ErrorCode
from epoka.wire.records import read_header
from tests.broker.client import create_topic, read, write
from tests.broker.world import World, batch

ONE_CONNECTION = 77
OF_ONE_PRODUCER = {"producer_id": 5, "producer_epoch": 0}


@pytest.fixture
def world() -> World:
    world = World(3)
    create_topic(world, "t", assignment=(1, 2, 3), min_insync_replicas="2")
    return world


def send(world: World, value: bytes, sequence: int, broker: int = 1, **about: Any) -> ErrorCode:
    about = {"connection": ONE_CONNECTION, **OF_ONE_PRODUCER, **about}
    return ErrorCode.of(write(world, broker, "t", value, base_sequence=sequence, **about).error_code)


def without_leadership(world: World) -> None:
    """Broker 2 is not the leader; when 1 is gone, it is."""
    assert send(world, b"a", 0, broker=2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.crash(1)
    world.run_until(lambda: world.broker(2).replicas.by_name["t", 0].leadership is not None)


class TestALeader:
    def test_that_began_to_lead_between_two_batches_takes_neither_before_the_first(self, world: World):
        without_leadership(world)
        assert send(world, b"b", 1, broker=2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert send(world, b"a", 0, broker=2) == ErrorCode.NONE
        assert send(world, b"b", 1, broker=2) == ErrorCode.NONE
        assert read(world, 2, "t") == [b"a", b"b"]

    def test_that_knows_the_producer_calls_what_is_behind_not_out_of_order(self, world: World):
        assert send(world, b"a", 0) == ErrorCode.NONE
        assert send(world, b"b", 1, broker=2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        world.crash(1)
        world.run_until(lambda: world.broker(2).replicas.by_name["t", 0].leadership is not None)
        assert send(world, b"c", 2, broker=2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert send(world, b"b", 1, broker=2) == ErrorCode.NONE
        assert send(world, b"c", 2, broker=2) == ErrorCode.NONE
        assert read(world, 2, "t") == [b"a", b"b", b"c"]

    def test_with_too_few_in_sync_refuses_what_is_behind_when_there_are_enough(self, world: World):
        for other in (2, 3):
            world.crash(other)
        leadership = world.broker(1).replicas.by_name["t", 0].leadership
        assert leadership is not None
        world.run_until(lambda: leadership.isr == (1,))
        assert send(world, b"a", 0) == ErrorCode.NOT_ENOUGH_REPLICAS
        world.start_broker(2)
        world.run_until(lambda: 2 in leadership.isr)
        assert send(world, b"b", 1) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert [send(world, b"a", 0), send(world, b"b", 1)] == [ErrorCode.NONE] * 2

    def test_that_was_out_of_touch_refuses_what_is_behind_when_it_serves_again(self, world: World):
        create_topic(world, "alone", assignment=(1,))
        leader = world.broker(1)
        world.isolate(1, CONTROLLER)
        world.run_until(lambda: not leader.lifecycle.serving())
        about = {"connection": ONE_CONNECTION, **OF_ONE_PRODUCER}
        first = write(world, 1, "alone", b"a", base_sequence=0, **about)
        assert first.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        world.heal()
        world.run_until(
            lambda: leader.lifecycle.serving() and leader.replicas.by_name["alone", 0].leadership is not None
        )
        second = write(world, 1, "alone", b"b", base_sequence=1, **about)
        assert second.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert read(world, 1, "alone") == []
        third = write(world, 1, "alone", b"a", base_sequence=0, **about)
        assert third.error_code == ErrorCode.NONE

    def test_of_a_topic_that_it_did_not_know_refuses_what_is_behind(self, world: World):
        about = {"connection": ONE_CONNECTION, **OF_ONE_PRODUCER}
        first = write(world, 1, "new", b"a", base_sequence=0, **about)
        assert first.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        create_topic(world, "new", assignment=(1, 2, 3))
        second = write(world, 1, "new", b"b", base_sequence=1, **about)
        assert second.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestNothingIsHeldUp:
    @pytest.mark.parametrize(
        "other",
        [{"connection": 78}, {"producer_id": 6}, {"producer_epoch": 1}],
        ids=["another connection", "another producer", "the next epoch"],
    )
    def test_of(self, world: World, other: dict[str, int]):
        without_leadership(world)
        assert send(world, b"b", 1, broker=2, **other) == ErrorCode.NONE

    def test_when_the_refused_batch_came_on_another_connection(self, world: World):
        without_leadership(world)
        assert send(world, b"a", 0, broker=2, connection=78) == ErrorCode.NONE
        assert send(world, b"b", 1, broker=2) == ErrorCode.NONE

    def test_for_longer_than_batches_can_be_on_their_way(self, world: World):
        """The first one was taken by another leader, and this one's log has lost it."""
        without_leadership(world)
        for _ in range(4):
            assert send(world, b"b", 1, broker=2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert send(world, b"b", 1, broker=2) == ErrorCode.NONE

    def test_of_a_producer_without_sequences(self, world: World):
        plain = {"producer_id": -1, "producer_epoch": -1}
        assert send(world, b"a", -1, broker=2, **plain) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        without_leadership(world)
        assert send(world, b"b", -1, broker=2, **plain) == ErrorCode.NONE

    def test_behind_a_batch_that_is_refused_for_good(self, world: World):
        assert send(world, b"x" * 2_000_000, 0) == ErrorCode.MESSAGE_TOO_LARGE
        assert send(world, b"b", 1) == ErrorCode.NONE


class TestWhatIsRemembered:
    def test_is_the_earliest(self):
        pipelines = Pipelines()
        for sequence in (4, 8, 2, 6):
            header = memoryview(batch(b"x", base_sequence=sequence, **OF_ONE_PRODUCER))
            pipelines.refused(1, ("t", 0), header, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert pipelines._refused[1]["t", 0].sequence == 2

    def test_ends_with_the_connection(self, world: World):
        without_leadership(world)
        world.broker(2).handle(Disconnected(ONE_CONNECTION), world.now)
        assert world.broker(2).pipelines._refused == {}

    def test_is_bounded(self):
        pipelines = Pipelines()
        one = memoryview(batch(b"x", base_sequence=0, **OF_ONE_PRODUCER))
        for index in range(MOST + 10):
            pipelines.refused(1, ("t", index), one, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert len(pipelines._refused[1]) == MOST
        assert ("t", 9) not in pipelines._refused[1] and ("t", 10) in pipelines._refused[1]

    @pytest.mark.parametrize("batches", [None, b"", b"\0" * 61, b"\0" * 16 + b"\2" + b"\xff" * 60])
    def test_is_nothing_that_cannot_be_read(self, batches: bytes | None):
        pipelines = Pipelines()
        given = None if batches is None else memoryview(batches)
        pipelines.refused(1, ("t", 0), given, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert pipelines._refused == {}


def test_behind_the_last_sequence_comes_zero():
    last = (1 << 31) - 1
    assert follows(0, last) and follows(5, last - 2) and follows(8, 7)
    assert not follows(last, 0) and not follows(7, 7) and not follows(6, 7)
    pipelines = Pipelines()
    first, second = (
        batch(b"x", base_sequence=sequence, producer_id=5, producer_epoch=0) for sequence in (last, 0)
    )
    pipelines.refused(1, ("t", 0), memoryview(first), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert pipelines._refused[1]["t", 0].is_before(read_header(second))

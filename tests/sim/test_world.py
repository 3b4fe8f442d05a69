"""The world itself: time, links, lives and disks do what scripts rely on."""

from __future__ import annotations

import pytest

from epoka.sim import CONTROLLER, LOSE, WIPE, StoodStill, World, client
from epoka.wire.error_codes import ErrorCode


@pytest.fixture
def world() -> World:
    world = World()
    client.create_topic(world, "t", (1, 2, 3), min_insync_replicas="2")
    return world


def test_a_world_takes_and_returns_records(world: World) -> None:
    assert client.write(world, 1, "t", b"one") == ErrorCode.NONE
    assert client.write(world, 1, "t", b"two") == ErrorCode.NONE
    assert client.read(world, 1, "t") == [b"one", b"two"]
    assert world.broken == []


def test_two_worlds_of_one_seed_have_one_trace() -> None:
    traces = set()
    for _ in range(2):
        world = World(seed=3)
        client.create_topic(world, "t", (1, 2, 3))
        client.write(world, 1, "t", b"one")
        world.bounce(2, LOSE)
        world.run(2_000)
        traces.add(world.trace_hash())
    assert len(traces) == 1


def test_a_fast_bounce_gives_a_new_generation_and_a_new_leader(world: World) -> None:
    before = world.generation(1)
    world.bounce(1)
    world.run_until(lambda: world.generation(1) > before and world.partition("t").leader != 1)
    world.run_until(lambda: sorted(world.partition("t").isr) == [1, 2, 3])


def test_a_wiped_disk_is_filled_again_from_the_leader(world: World) -> None:
    client.write(world, 1, "t", b"one")
    world.crash(3, WIPE)
    world.run_until(lambda: 3 not in world.partition("t").isr)
    world.restart(3)
    world.run_until(lambda: 3 in world.partition("t").isr)
    assert client.log_of(world, 3, "t") == [b"one"]


def test_an_unflushed_tail_is_lost_with_the_power_and_a_flushed_one_is_not(world: World) -> None:
    client.write(world, 1, "t", b"one")
    world.run(20)
    world.flush(3)
    client.write(world, 1, "t", b"two")
    world.isolate(3)
    world.bounce(3, LOSE)
    assert client.log_of(world, 3, "t") == [b"one"]


def test_a_paused_broker_answers_late_but_in_order(world: World) -> None:
    world.pause(1)
    answers = [client.producing(world, 1, "t", value) for value in (b"one", b"two")]
    world.run(200)
    assert not any(answer.done for answer in answers)
    world.resume(1)
    world.run_until(lambda: all(answer.done for answer in answers))
    assert client.read(world, 1, "t") == [b"one", b"two"]


def test_an_isolated_leader_loses_its_place(world: World) -> None:
    world.isolate(1)
    world.run_until(lambda: world.partition("t").leader not in (1, -1))
    leader = world.partition("t").leader
    world.run_until(lambda: world.leads(leader, "t"))
    assert client.write(world, leader, "t", b"one") == ErrorCode.NONE
    world.heal()
    world.run_until(lambda: 1 in world.partition("t").isr)


def test_what_is_held_reaches_the_next_life_of_its_receiver(world: World) -> None:
    hold = world.hold("AlterPartitionRequest", to=CONTROLLER, most=1)
    world.cut(1, 3)
    client.producing(world, 1, "t", b"one")
    world.run_until(lambda: bool(hold.messages))
    world.crash(CONTROLLER)
    world.restart(CONTROLLER)
    hold.release()
    world.run_until(lambda: world.partition("t").isr == (1, 2))


def test_a_proposal_that_is_slow_is_not_given_up_with_a_heartbeat_behind_it() -> None:
    world = World(mode="zookeeper")
    client.create_topic(world, "t", (1, 2, 3))
    world.run_until(lambda: world.leads(1, "t"))
    proposals = world.hold("AlterPartitionRequest", to=CONTROLLER)
    world.cut(1, 3)
    client.producing(world, 1, "t", b"one")
    world.run_until(lambda: bool(proposals.messages))
    leader = world.broker(1)
    for _ in range(5):
        heard_ms = leader.lifecycle.last_contact_ms
        world.run(leader.config.heartbeat_interval_ms + 10)
        assert leader.lifecycle.last_contact_ms > heard_ms
    assert len(proposals.messages) == 1
    proposals.release()
    world.run_until(lambda: world.partition("t").isr == (1, 2))


def test_the_controller_comes_back_with_everything_it_had_decided(world: World) -> None:
    before = world.partition("t")
    world.bounce(CONTROLLER, LOSE)
    world.run_until(world.all_active)
    assert world.partition("t") == before


def test_a_condition_that_does_not_come_true_is_told(world: World) -> None:
    with pytest.raises(StoodStill):
        world.run_until(lambda: False, 500)


def test_clocks_drift_and_brokers_still_live(world: World) -> None:
    world.machines[1].clock.drift(1_050, world.now)
    world.machines[2].clock.drift(950, world.now)
    world.machines[3].clock.jump(60_000, world.now)
    world.run(3_000)
    assert client.write(world, 1, "t", b"one") == ErrorCode.NONE
    assert world.broken == []


def test_a_rule_can_be_switched_off_by_name_and_no_other_name() -> None:
    assert "isr.generation" in World(without=["isr.generation"]).rules.off
    with pytest.raises(ValueError, match="no fencing rule"):
        World(without=["isr.nonsense"])

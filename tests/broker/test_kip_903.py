"""KIP-903: the six steps by which a replaced disk gets into an ISR, with the rule and without it.

1. B catches up to A, so A asks the controller to add B to the ISR; the request is delayed.
2. B has a hard failure.
3. The controller fences B.
4. B comes back with an empty disk.
5. The controller sees its registration first.
6. The delayed request arrives.
"""

import pytest

from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from tests.broker.client import create_topic, read, write
from tests.broker.world import World

A, B = 1, 2


def refusals(world: World) -> list[LedgerEvent]:
    return [event for event in world.ledger if event.rule == "isr.generation" and event.verdict == "refused"]


def five_steps(level: FeatureLevel) -> World:
    world = World(2, level=level)
    create_topic(world, "orders", assignment=(A, B), replication_factor=2)
    # B leaves the ISR, and A writes what B must not lose later.
    world.isolate(A, B)
    assert write(world, A, "orders", b"precious").error_code == ErrorCode.NONE
    assert world.partition("orders").isr == (A,)
    world.hold("AlterPartitionRequest", sender=A)
    world.heal()
    world.run_until(lambda: bool(world.held))
    world.crash(B, wipe=True)
    world.run_until(lambda: world.controller.image.broker(B).fenced)
    # The new life must not fetch before the old request is in, or it would catch up honestly.
    world.isolate(A, B)
    generation = world.controller.image.broker(B).epoch
    world.start_broker(B)
    world.run_until(lambda: world.controller.image.broker(B).epoch > generation)
    world.run_until(lambda: not world.controller.image.broker(B).fenced)
    return world


def test_the_delayed_request_is_refused_and_the_record_stays():
    world = five_steps(FeatureLevel.FETCH_EPOCHS)
    world.release()
    world.run_until(lambda: bool(refusals(world)))
    (refused,) = refusals(world)
    assert refused.error == ErrorCode.INELIGIBLE_REPLICA.name
    assert refused.given and refused.expected
    assert world.partition("orders").isr == (A,)
    world.heal()
    world.run_until(lambda: sorted(world.partition("orders").isr) == [A, B])
    world.crash(A)
    world.run_until(lambda: world.partition("orders").leader == B)
    world.run_until(lambda: world.broker(B).replicas.by_name["orders", 0].leadership is not None)
    assert read(world, B, "orders") == [b"precious"]


def test_one_level_below_the_same_steps_lose_it():
    world = five_steps(FeatureLevel.ELIGIBLE_ISR)
    world.release()
    world.run_until(lambda: sorted(world.partition("orders").isr) == [A, B])
    world.crash(A)
    world.run_until(lambda: world.partition("orders").leader == B)
    world.run_until(lambda: world.broker(B).replicas.by_name["orders", 0].leadership is not None)
    assert read(world, B, "orders") == []


@pytest.mark.parametrize("level", [FeatureLevel.ELIGIBLE_ISR, FeatureLevel.FETCH_EPOCHS])
def test_without_the_race_b_comes_back_at_either_level(level):
    world = World(2, level=level)
    create_topic(world, "orders", assignment=(A, B))
    write(world, A, "orders", b"precious")
    world.crash(B, wipe=True)
    world.run_until(lambda: world.partition("orders").isr == (A,))
    world.start_broker(B)
    world.run_until(lambda: sorted(world.partition("orders").isr) == [A, B])
    assert world.broker(B).replicas.by_name["orders", 0].log.end_offset == 1

"""Crashes, lost sessions, fast bounces, cut links and new controllers, in any order, on every level."""

import random

import pytest

from epoka.model.events import CONTROLLER
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from tests.broker.client import create_topic, producing
from tests.broker.zk_client import leads, read
from tests.broker.zk_world import ZkWorld
from tests.controller.office import check_invariants

BROKERS = (1, 2, 3)


class History:
    def __init__(self, level: FeatureLevel, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = ZkWorld(level=level)
        create_topic(self.world, "orders", assignment=BROKERS, min_insync_replicas="2")
        self.waiting: list[tuple[bytes, list]] = []
        self.number = 0
        self.sees_bounces = level >= FeatureLevel.GENERATIONS
        """Below that a life that begins too soon is never initialised: that is what the level lacks."""
        self.write()
        self.world.run(1_000)

    def step(self) -> None:
        world, chance = self.world, self.random
        acts = [self.write] * 6 + [self.bounce, self.unseen_bounce, self.expire, self.cut, world.heal]
        if chance.random() < 0.3:
            acts.append(self.replace_controller)
        chance.choice(acts)()
        world.run(chance.choice((1, 5, 50, 500, 1_500)))
        if world.level >= FeatureLevel.ELIGIBLE_ISR:
            check_invariants(world.controller.image)

    def write(self) -> None:
        leader = next((each for each in BROKERS if leads(self.world, each, "orders")), None)
        if leader is not None:
            self.number += 1
            value = str(self.number).encode()
            self.waiting.append((value, producing(self.world, leader, "orders", value)))

    def bounce(self) -> None:
        broker = self.random.choice(BROKERS)
        self.world.crash(broker)
        self.world.run(self.random.choice((0, 700)) if self.sees_bounces else 700)
        self.world.start_broker(broker)

    def unseen_bounce(self) -> None:
        if not self.sees_bounces:
            return
        self.world.tell = False
        self.bounce()
        self.world.run(3)
        self.world.tell = True
        self.world.tell_registry()

    def expire(self) -> None:
        broker = self.random.choice(BROKERS)
        if self.sees_bounces and broker in self.world.registry:
            self.world.expire(broker)

    def cut(self) -> None:
        one, other = self.random.sample((CONTROLLER, *BROKERS), 2)
        self.world.isolate(one, other)

    def replace_controller(self) -> None:
        self.world.crash(CONTROLLER)
        self.world.start_controller()

    def end(self) -> None:
        world = self.world
        world.heal()
        # Longer than any request that was cut off is waited for.
        world.run(15_000)
        world.run_until(self.settled, ms=120_000)
        leader = world.partition("orders").leader
        records = read(world, leader, "orders")
        acknowledged = [
            value
            for value, answers in self.waiting
            if answers and answers[0].responses[0].partition_responses[0].error_code == ErrorCode.NONE
        ]
        assert acknowledged, "nothing was written at all"
        assert set(acknowledged) <= set(records)

    def settled(self) -> bool:
        """Everybody serves, is in sync, and has the same log."""
        world = self.world
        replicas = [world.broker(each).replicas.by_name.get(("orders", 0)) for each in BROKERS]
        return (
            sorted(world.partition("orders").isr) == [1, 2, 3]
            and all(world.broker(each).lifecycle.serving() for each in BROKERS)
            and len({None if each is None else each.log.end_offset for each in replicas}) == 1
            and leads(world, world.partition("orders").leader, "orders")
        )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", list(FeatureLevel), ids=str)
def test_no_acknowledged_record_is_lost(level, seed):
    history = History(level, seed)
    for _ in range(30):
        history.step()
    history.end()

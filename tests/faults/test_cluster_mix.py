"""Any fault after any other, on clusters in one process: what the rounds of kills do not reach.

A wiped disk, a broker cut off from others but not from the controller, a controller that is stopped or dead,
two and three brokers killed at once. One disk at a time is lost, and only when all replicas are in sync.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from epoka.cluster.cluster import Cluster
from tests.faults.load import QUICK, Load, create_topic, settled
from tests.faults.test_cluster_restarts import check_isrs
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster-faults")

TOPIC = "load"
PARTITIONS = 6


class Faults:
    """What can happen to a cluster under load; every method returns when it is over."""

    def __init__(self, cluster: Cluster, load: Load, chance: random.Random) -> None:
        self.cluster = cluster
        self.load = load
        self.chance = chance

    @property
    def all(self) -> list[Callable[[int], None]]:
        return [
            self.kill,
            self.kill_and_start_at_once,
            self.kill_another_as_well,
            self.kill_all,
            self.stop_in_order,
            self.lose_the_disk,
            self.pause,
            self.pause_for_a_moment,
            self.cut_off_from_the_controller,
            self.cut_off_from_the_brokers,
            self.cut_off_from_one,
            self.kill_the_controller,
            self.pause_the_controller,
        ]

    def kill(self, broker_id: int) -> None:
        self.cluster.kill(broker_id)
        self.load.reaches_every_partition()
        self.cluster.start(broker_id)

    def kill_and_start_at_once(self, broker_id: int) -> None:
        self.cluster.bounce(broker_id, how="fast")

    def kill_another_as_well(self, broker_id: int) -> None:
        other = self._other(broker_id)
        self.cluster.kill(broker_id)
        self.cluster.kill(other)
        self.cluster.start(broker_id)
        self.cluster.start(other)

    def kill_all(self, broker_id: int) -> None:
        for each in self.cluster.broker_ids:
            self.cluster.kill(each)
        for each in self.cluster.broker_ids:
            self.cluster.start(each)

    def stop_in_order(self, broker_id: int) -> None:
        self.cluster.bounce(broker_id, how="clean")

    def lose_the_disk(self, broker_id: int) -> None:
        settled(self.cluster, TOPIC, PARTITIONS)
        self.cluster.bounce(broker_id, how="wiped")
        settled(self.cluster, TOPIC, PARTITIONS)

    def pause(self, broker_id: int) -> None:
        self.cluster.pause(broker_id)
        self._wait_fenced(broker_id)
        self.load.reaches_every_partition()
        self.cluster.resume(broker_id)

    def pause_for_a_moment(self, broker_id: int) -> None:
        self.cluster.pause(broker_id)
        self.load.acknowledges(1)
        self.cluster.resume(broker_id)

    def cut_off_from_the_controller(self, broker_id: int) -> None:
        self.cluster.isolate(broker_id, from_="controller")
        self._wait_fenced(broker_id)
        self.load.reaches_every_partition()
        self.cluster.heal()

    def cut_off_from_the_brokers(self, broker_id: int) -> None:
        self.cluster.isolate(broker_id, from_="brokers")

        def alone() -> bool:
            states = self.cluster.image().partitions_of(TOPIC)
            return all(state.leader == broker_id or broker_id not in state.isr for _, state in states)

        wait_until(alone, "nobody to count on it")
        self.cluster.heal()

    def cut_off_from_one(self, broker_id: int) -> None:
        self.cluster.isolate(broker_id, from_=self._other(broker_id))
        self.load.acknowledges(300)
        self.cluster.heal()

    def kill_the_controller(self, broker_id: int) -> None:
        controller = self.cluster.controller_id
        self.cluster.kill(controller)
        self.load.acknowledges(50)
        self.cluster.start(controller)

    def pause_the_controller(self, broker_id: int) -> None:
        controller = self.cluster.controller_id
        self.cluster.pause(controller)
        self.load.acknowledges(50)
        self.cluster.resume(controller)

    def _other(self, broker_id: int) -> int:
        return self.chance.choice([each for each in self.cluster.broker_ids if each != broker_id])

    def _wait_fenced(self, broker_id: int) -> None:
        def fenced() -> bool:
            known = self.cluster.image().broker(broker_id)
            return known is None or known.fenced

        wait_until(fenced, f"{broker_id} to be fenced or gone")


@pytest.mark.parametrize("seed", range(2))
def test_nothing_acknowledged_is_lost_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    config = {**QUICK, "log.segment.bytes": 60_000}
    with Cluster(brokers=3, config=config) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS)
        with Load(cluster, TOPIC, PARTITIONS) as load:
            faults = Faults(cluster, load, chance)
            happen = faults.all
            chance.shuffle(happen)
            for fault in happen:
                fault(chance.choice(cluster.broker_ids))
                load.reaches_every_partition(30)
                cluster.check()
                check_isrs(cluster)
        load.check()

"""What log mode lives through, in zookeeper mode: with a controller and a node of the ensemble killed in the
middle. Real processes, a real ensemble of three, two controllers of which one stands by.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from epoka.cluster.cluster import Cluster
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from tests.faults.load import QUICK, Load, create_topic, settled
from tests.faults.test_cluster_mix import PARTITIONS, TOPIC, Faults
from tests.faults.test_cluster_restarts import (
    assert_unmoved,
    check_isrs,
    events,
    has_fenced_itself,
    leaders,
    now_ms,
    refusal,
)
from tests.waiting import wait_until
from tests.zookeeper_missing import MISSING

pytestmark = [
    pytest.mark.xdist_group("zk-faults"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(MISSING is not None, reason=MISSING or ""),
]

CONFIG = {**QUICK, "zookeeper.session.timeout.ms": 2000, "log.segment.bytes": 60_000}


@contextmanager
def loaded_cluster(level: FeatureLevel | None = None) -> Iterator[tuple[Cluster, Load]]:
    """Three brokers, two controllers, an ensemble of three, and a writer; at the end nothing is missing."""
    label = None if level is None else level.label
    with Cluster(
        brokers=3, mode="zookeeper", level=label, controllers=2, zookeepers=3, config=CONFIG
    ) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS)
        with Load(cluster, TOPIC, PARTITIONS) as load:
            yield cluster, load
            load.reaches_every_partition(50)
        settled(cluster, TOPIC, PARTITIONS)
        if cluster.image().level >= FeatureLevel.ELIGIBLE_ISR:
            check_isrs(cluster)
        load.check()


class ZkFaults(Faults):
    @property
    def all(self) -> list[Callable[[int], None]]:
        return [*super().all, self.kill_a_keeper, self.kill_a_keeper_and_the_controller]

    def kill_a_keeper(self, broker_id: int) -> None:
        keeper = self.chance.choice(self.cluster.zookeeper.nodes)
        self.cluster.zookeeper.kill(keeper)
        self.load.acknowledges(50)
        self.cluster.zookeeper.restart(keeper)

    def kill_a_keeper_and_the_controller(self, broker_id: int) -> None:
        keeper = self.chance.choice(self.cluster.zookeeper.nodes)
        self.cluster.zookeeper.kill(keeper)
        self.kill_the_controller(broker_id)
        self.cluster.zookeeper.restart(keeper)


@pytest.mark.parametrize("seed", range(2))
def test_nothing_acknowledged_is_lost_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    with loaded_cluster() as (cluster, load):
        faults = ZkFaults(cluster, load, chance)
        happen = faults.all
        chance.shuffle(happen)
        for fault in happen:
            fault(chance.choice(cluster.broker_ids))
            load.reaches_every_partition(30)
            cluster.check()
            check_isrs(cluster)


def test_a_rolling_restart_of_everything_costs_no_write() -> None:
    with loaded_cluster() as (cluster, load):
        for keeper in cluster.zookeeper.nodes:
            cluster.zookeeper.restart(keeper)
            load.reaches_every_partition(10)
        for controller in cluster.controller_ids:
            cluster.stop(controller)
            cluster.start(controller)
            load.reaches_every_partition(10)
        for broker_id in cluster.broker_ids:
            old, new = cluster.bounce(broker_id, how="clean")
            assert new > old
            load.reaches_every_partition(20)
            settled(cluster, TOPIC, PARTITIONS)
            check_isrs(cluster)
        ends = {each.node: each.detail for each in events(cluster, "ended")}
        assert ends == dict.fromkeys(cluster.broker_ids, "the controller granted the shutdown")


def test_the_standby_takes_over_and_the_deposed_controller_changes_nothing() -> None:
    with loaded_cluster() as (cluster, load):
        cluster.image()
        first = cluster.controller_id
        cluster.pause(first)
        wait_until(lambda: cluster.image() is not None and cluster.controller_id != first, "a takeover")
        cluster.bounce(3, how="fast")
        load.reaches_every_partition(10)
        settled(cluster, TOPIC, PARTITIONS)
        now, begun_ms = leaders(cluster), now_ms()
        cluster.resume(first)
        # It finds its session over, stands by, and has said nothing that anybody acts upon.
        wait_until(lambda: "stands by" in log_of(cluster, first), "the deposed controller to stand by")
        load.reaches_every_partition(10)
        assert_unmoved(cluster, now, begun_ms)
        assert cluster.controller_id != first


def test_a_broker_cut_off_from_the_controller_fences_itself_and_comes_back() -> None:
    with loaded_cluster() as (cluster, load):
        generation = cluster.generation(2)
        begun_ms = now_ms()
        cluster.isolate(2, from_="controller")
        wait_until(lambda: cluster.image().brokers[2].fenced, "the controller to fence it")
        wait_until(lambda: has_fenced_itself(cluster, 2, begun_ms), "it to fence itself")
        assert refusal(cluster, 2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        load.reaches_every_partition(20)
        check_isrs(cluster)
        cluster.kill(cluster.controller_id)
        load.reaches_every_partition(10)
        cluster.heal()
        wait_until(lambda: cluster.image().brokers[2].active, "it to be let in again")
        settled(cluster, TOPIC, PARTITIONS)
        assert cluster.generation(2) == generation


def test_a_silent_ensemble_stops_writes_until_it_answers_again() -> None:
    with loaded_cluster() as (cluster, load):
        before, begun_ms = leaders(cluster), now_ms()
        for keeper in cluster.zookeeper.nodes:
            cluster.zookeeper.pause(keeper)
        # The controller cannot know whether it still is one, so it tells nobody that they are active.
        for broker_id in cluster.broker_ids:
            wait_until(
                lambda broker_id=broker_id: has_fenced_itself(cluster, broker_id, begun_ms),  # type: ignore[misc]
                f"broker {broker_id} to fence itself",
            )
        assert refusal(cluster, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for keeper in cluster.zookeeper.nodes:
            cluster.zookeeper.resume(keeper)
        load.reaches_every_partition(10)
        assert leaders(cluster).keys() == before.keys()


def log_of(cluster: Cluster, node_id: int) -> str:
    return cluster.layout.place(node_id).log_path.read_text()

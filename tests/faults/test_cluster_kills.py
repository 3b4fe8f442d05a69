"""Fifty rounds of kill -9 or SIGSTOP of a random broker while a client writes: nothing acknowledged is lost.

Real processes, an idempotent producer with acks=all, three replicas of which two must be in sync. Every
acknowledged record is read back once, at its offset, in the order of sending.
"""

from __future__ import annotations

import random

import pytest

from epoka.cluster.cluster import Cluster
from tests.faults.load import QUICK, Load, create_topic
from tests.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("cluster-faults"), pytest.mark.timeout(300)]

PARTITIONS = 6
ROUNDS = 10
PER_ROUND = 200


def wait_fenced(cluster: Cluster, broker_id: int) -> None:
    wait_until(lambda: cluster.image().brokers[broker_id].fenced, f"broker {broker_id} to be fenced")


def wait_active(cluster: Cluster, broker_id: int) -> None:
    wait_until(lambda: cluster.image().brokers[broker_id].active, f"broker {broker_id} to be active")


@pytest.mark.parametrize("seed", range(5))
def test_every_acknowledged_record_outlives_kills_and_pauses(seed: int) -> None:
    chance = random.Random(seed)
    with Cluster(brokers=3, processes=True, config=QUICK) as cluster:
        topic = create_topic(cluster, "load", PARTITIONS)
        with Load(cluster, topic, PARTITIONS) as load:
            for _ in range(ROUNDS):
                broker_id = chance.choice(cluster.broker_ids)
                how = chance.choice(["kill", "fast", "pause", "short pause"])
                if how == "kill":
                    cluster.kill(broker_id)
                    load.reaches_every_partition()
                    cluster.start(broker_id)
                elif how == "fast":
                    # Back before anybody has noticed.
                    cluster.bounce(broker_id, how="fast")
                elif how == "pause":
                    cluster.pause(broker_id)
                    wait_fenced(cluster, broker_id)
                    load.reaches_every_partition()
                    cluster.resume(broker_id)
                    wait_active(cluster, broker_id)
                else:
                    # Shorter than a session, as long as it takes the others to write on.
                    cluster.pause(broker_id)
                    load.acknowledges(1)
                    cluster.resume(broker_id)
                load.reaches_every_partition(PER_ROUND // PARTITIONS)
                cluster.check()
        load.check()

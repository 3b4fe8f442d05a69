"""KIP-343 with real processes and a real ZooKeeper: a broker that reaches ZooKeeper but not the controller,
and a second broker under an id that is in use. At the level below, what the document says goes wrong.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from epoka.cluster.cluster import Cluster
from epoka.coordination.zookeeper.registry import Registry
from epoka.coordination.zookeeper.server import ZooKeeperServer
from epoka.coordination.zookeeper.session import Session
from epoka.model.ledger import LedgerEvent
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from tests.faults.load import Load, create_assigned_topic, create_topic, read_everything, settled
from tests.faults.zk_story import (
    MARKS,
    TOPIC,
    a_cluster,
    ask,
    events,
    forced_write,
    leads,
    partition,
    told_by,
    try_to_write,
    wait_event,
    wait_gone,
    wait_isr,
    wait_leader,
    write,
    write_for_a_while,
)
from tests.waiting import wait_until

pytestmark = MARKS

SAFE = pytest.mark.parametrize("level", ["heartbeats", "fetch-epochs"])
PARTITIONS = 3


def registered(cluster: Cluster) -> dict[int, int]:
    """The generations in ZooKeeper's own registry."""
    with Session(cluster.layout.zookeeper) as session:
        return {each.id: each.generation for each in Registry(session).snapshot().brokers.values()}


def cut_off(cluster: Cluster) -> LedgerEvent:
    """When the isolation began. A busy machine may have fenced the broker before, for a moment."""
    return wait_event(cluster, kind="fault", given="isolate")


def address(cluster: Cluster, broker_id: int) -> str:
    return cluster.layout.place(broker_id).client_address


def values(cluster: Cluster) -> list[str]:
    return [value for _, _, value in read_everything(cluster, TOPIC, 1)]


@SAFE
def test_a_partitioned_broker_is_fenced_and_clients_go_on_without_it(
    keeper: ZooKeeperServer, level: str
) -> None:
    with a_cluster(keeper, level) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS)
        before = registered(cluster)
        with Load(cluster, TOPIC, PARTITIONS) as load:
            settled(cluster, TOPIC, PARTITIONS)
            cluster.isolate(1, from_="controller")
            fenced = wait_event(cluster, since=cut_off(cluster), kind="fenced", broker=1)
            # The controller declares it inactive before it fences itself, so nobody is ever without a leader.
            itself = wait_event(cluster, since=cut_off(cluster), kind="self-fenced", broker=1)
            assert fenced.time_ms < itself.time_ms
            changes = events(cluster, node=cluster.controller_id, topic=TOPIC, time_ms=fenced.time_ms)
            left = {event.partition for event in changes if 1 in event.isr_before and 1 not in event.isr}
            assert left == set(range(PARTITIONS))
            states = [state for _, state in cluster.image().partitions_of(TOPIC)]
            assert all(state.leader in (2, 3) for state in states)
            if level == "fetch-epochs":
                # Below `eligible-isr` a leader may take a fenced follower back, which is KIP-841's story.
                assert all(1 not in state.isr for state in states)
            load.reaches_every_partition(20)
            assert forced_write(cluster, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert registered(cluster) == before
            cluster.heal()
            wait_event(cluster, since=itself, kind="self-unfenced", broker=1)
            settled(cluster, TOPIC, PARTITIONS)
            load.reaches_every_partition(20)
        assert cluster.generation(1) == before[1]
        load.check()


# "When a node is partitioned from the controller, yet remains part of the cluster, it receives no metadata
# updates. [...] persistent under-replicated partitions, [...] With this stale metadata, clients are not
# guaranteed to make progress."


def a_follower_returns_while_the_leader_hears_nothing(cluster: Cluster) -> None:
    """Broker 3 is away for a while; neither its going nor its coming reaches broker 1, which is cut off."""
    create_assigned_topic(cluster, TOPIC, [[1, 2, 3]])
    write(cluster, "a")
    cluster.isolate(1, from_="controller")
    cluster.kill(3)
    wait_gone(cluster, 3)
    cluster.start(3)
    write(cluster, "b")


def the_other_follower_dies(cluster: Cluster) -> None:
    cluster.kill(2)
    wait_gone(cluster, 2)
    wait_until(lambda: told_of(cluster, 3) <= {1, 3}, "broker 3 to know of the death")


def told_of(cluster: Cluster, broker_id: int) -> set[int]:
    """The brokers that clients of one broker hear of."""
    told = told_by(cluster, broker_id)
    return set() if told is None else {each.node_id for each in told.brokers}


@SAFE
def test_clients_make_progress_when_the_leader_hears_nothing(keeper: ZooKeeperServer, level: str) -> None:
    with a_cluster(keeper, level, min_insync_replicas=1) as cluster:
        a_follower_returns_while_the_leader_hears_nothing(cluster)
        wait_isr(cluster, 2, 3)
        the_other_follower_dies(cluster)
        write(cluster, "c")
        assert partition(cluster).leader == 3
        wait_event(cluster, since=cut_off(cluster), kind="self-fenced", broker=1)
        assert told_of(cluster, 1) == set()


def test_below_heartbeats_a_leader_that_hears_nothing_can_neither_go_on_nor_be_replaced(
    keeper: ZooKeeperServer,
) -> None:
    with a_cluster(keeper, "generations", min_insync_replicas=1) as cluster:
        a_follower_returns_while_the_leader_hears_nothing(cluster)
        # It has everything, but the leader never heard that it was away and does not ask for it.
        assert write_for_a_while(cluster, lambda: set(partition(cluster).isr) == {1, 2})
        the_other_follower_dies(cluster)
        (error,) = try_to_write(cluster.bootstrap, "c", within_ms=5000)
        assert error is not None
        assert leads(cluster, 1) and partition(cluster).leader == 1
        # It wants the dead one out of its ISR, and may not: the controller has changed that node since.
        assert events(cluster, kind="isr-proposed", node=1, topic=TOPIC)
        assert told_of(cluster, 1) == {1, 2, 3}


# "[...] this can result in divergent behavior where the node believes it has partitions that it no longer has
# [...] and in the worst cases, even data loss."


def the_leadership_moves_while_the_leader_hears_nothing(cluster: Cluster) -> None:
    """Broker 1 leads in the place of 2, is cut off, and the operator gives 2 its leadership back."""
    create_assigned_topic(cluster, TOPIC, [[2, 1, 3]])
    cluster.kill(2)
    wait_leader(cluster, 1)
    cluster.start(2)
    wait_isr(cluster, 1, 2, 3)
    write(cluster, "a")
    cluster.isolate(1, from_="controller")
    of_topic = ElectLeadersTopicPartitions(topic=TOPIC, partitions=(0,))
    ask(cluster, 3, ElectLeadersRequest(topic_partitions=(of_topic,)), version=2)
    wait_leader(cluster, 2)
    wait_until(lambda: leads(cluster, 2), "broker 2 to know that it leads")


@SAFE
def test_what_is_acknowledged_while_a_former_leader_hears_nothing_is_kept(
    keeper: ZooKeeperServer, level: str
) -> None:
    with a_cluster(keeper, level) as cluster:
        the_leadership_moves_while_the_leader_hears_nothing(cluster)
        wait_event(cluster, since=cut_off(cluster), kind="self-fenced", broker=1)
        (error,) = try_to_write(address(cluster, 1), "for nobody", acks=1, within_ms=2000)
        assert error is not None
        assert try_to_write(cluster.bootstrap, "b", acks=1) == [None]
        cluster.heal()
        wait_isr(cluster, 1, 2, 3)
        assert values(cluster) == ["a", "b"]


def test_below_heartbeats_a_former_leader_goes_on_and_loses_what_it_acknowledges(
    keeper: ZooKeeperServer,
) -> None:
    with a_cluster(keeper, "generations") as cluster:
        the_leadership_moves_while_the_leader_hears_nothing(cluster)
        assert leads(cluster, 1) and leads(cluster, 2)
        # Clients that can also reach the others may find out; one that asks nobody else loses its record.
        assert forced_write(cluster, 1) == ErrorCode.NONE
        assert try_to_write(address(cluster, 2), "b", acks=1) == [None]
        cluster.heal()
        wait_until(lambda: not leads(cluster, 1), "broker 1 to hear that it leads no more")
        # Broker 1 never left the ISR; what it has in common with its leader is known when it has fetched.
        wait_until(lambda: len(values(cluster)) == 2, "both records to be committed")
        assert values(cluster) == ["a", "b"]


# "If multiple brokers are accidentally configured with the same ID, major problems can result."


@pytest.mark.parametrize("level", ["legacy", "fetch-epochs"])
def test_a_second_broker_under_an_id_in_use_does_not_start_and_says_who_has_it(
    keeper: ZooKeeperServer, level: str, tmp_path: Path
) -> None:
    with a_cluster(keeper, level, brokers=1, min_insync_replicas=1) as cluster:
        create_assigned_topic(cluster, TOPIC, [[1]])
        before = cluster.generation(1)
        lines = cluster.layout.place(1).properties_path.read_text().splitlines()
        own = ("log.dirs=", "listeners=")
        lines = [line for line in lines if not line.startswith(own)]
        lines += [f"log.dirs={tmp_path / 'data'}", "listeners=PLAINTEXT://127.0.0.1:0,CONTROL://127.0.0.1:0"]
        (tmp_path / "second.properties").write_text("\n".join(lines))
        second = subprocess.run(
            [sys.executable, "-m", "epoka.node.process", "--config", str(tmp_path / "second.properties")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode == 1, second.stdout
        last = second.stdout.splitlines()[-1]
        assert "broker id 1 is in use by a live session" in last and address(cluster, 1) in last
        assert cluster.generation(1) == before
        write(cluster, "a")

"""The UpdateMetadata cache KIP with real processes and a real ZooKeeper: its five messages, and one body for
every broker.

1. Broker 1 registers.
2. The controller reads the registry.
3. Broker 1 has restarted and registers again.
4. ZooKeeper tells it its new generation.
5. What the controller made of message 2 arrives.
"""

from __future__ import annotations

import pytest

from epoka.cluster.cluster import Cluster, HeldMessages
from epoka.coordination.zookeeper.server import ZooKeeperServer
from epoka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.faults.fake_broker import FakeBroker
from tests.faults.load import create_assigned_topic
from tests.faults.zk_story import (
    MARKS,
    TOPIC,
    a_cluster,
    ask,
    told_by,
    wait_event,
    wait_gone,
    wait_registered,
)
from tests.waiting import wait_until

pytestmark = MARKS

SHARED = pytest.mark.parametrize("level", ["shared-updates", "fetch-epochs"])


def five_messages(cluster: Cluster) -> tuple[HeldMessages, int, int]:
    """Returns what is still held, the generation of the life that message 5 was made for, and of the next.

    Message 5 tells of a topic that exists no more when it arrives.
    """
    old = cluster.generation(1)
    held = cluster.hold("UpdateMetadata", to=1)
    create_assigned_topic(cluster, TOPIC, [[2, 3]])
    held.wait()
    cluster.kill(1)
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name=TOPIC),), timeout_ms=10_000)
    ask(cluster, 2, request, version=6)
    wait_until(lambda: cluster.image().topic(TOPIC) is None, "the topic to be deleted")
    # At `legacy` the controller could miss the restart otherwise, which is another story.
    wait_gone(cluster, 1)
    cluster.begin(1)
    new = wait_registered(cluster, 1, newer_than=old)
    # The controller knows the new life, too: what it has for that one waits behind message 5.
    held.wait(2)
    held.let_go()
    return held, old, new


def topics_told_by(cluster: Cluster, broker_id: int) -> set[str | None] | None:
    told = told_by(cluster, broker_id)
    return None if told is None or not told.brokers else {topic.name for topic in told.topics}


@SHARED
def test_a_request_made_before_the_second_registration_is_refused(
    keeper: ZooKeeperServer, level: str
) -> None:
    with a_cluster(keeper, level) as cluster:
        greatest = max(cluster.generation(each) for each in cluster.broker_ids)
        held, old, new = five_messages(cluster)
        refused = wait_event(cluster, node=1, rule="control.max-generation", verdict="refused")
        # The body is every broker's: it carries the greatest generation of message 2 and not broker 1's own.
        assert old <= greatest < new
        assert (refused.given, refused.expected) == (str(greatest), f">= {new}")
        assert not topics_told_by(cluster, 1)
        held.release()
        wait_until(lambda: topics_told_by(cluster, 1) == set(), "broker 1 to serve, without the topic")


def test_with_a_generation_for_each_broker_it_is_refused_as_well(keeper: ZooKeeperServer) -> None:
    with a_cluster(keeper, "heartbeats") as cluster:
        held, old, new = five_messages(cluster)
        refused = wait_event(cluster, node=1, rule="control.generation", verdict="refused")
        assert (refused.given, refused.expected) == (str(old), f">= {new}")
        held.release()
        wait_until(lambda: topics_told_by(cluster, 1) == set(), "broker 1 to serve, without the topic")


def test_without_any_generation_the_new_life_believes_what_was_meant_for_the_old_one(
    keeper: ZooKeeperServer,
) -> None:
    with a_cluster(keeper, "legacy") as cluster:
        five_messages(cluster)
        wait_until(
            lambda: topics_told_by(cluster, 1) == {TOPIC},
            "clients of broker 1 to hear of a topic that is no more",
        )
        assert topics_told_by(cluster, 2) == set()


def bodies_of_one_change(keeper: ZooKeeperServer, level: str) -> list[bytes]:
    """What two brokers get when a topic is created, as it was on the wire."""
    with a_cluster(keeper, level, brokers=1) as cluster:
        connect = cluster.layout.zookeeper
        with FakeBroker(connect, 8) as one, FakeBroker(connect, 9) as other:
            wait_until(lambda: one.bodies and other.bodies, "both to be told of the cluster")
            wait_until(lambda: len(cluster.image().brokers) == 3, "the controller to know all three")
            create_assigned_topic(cluster, TOPIC, [[1]])
            found = [
                wait_until(lambda: broker.about(TOPIC), "the change to arrive")  # noqa: B023
                for broker in (one, other)
            ]
        assert one.generation < other.generation
        return found


@SHARED
def test_every_broker_gets_the_same_bytes(keeper: ZooKeeperServer, level: str) -> None:
    one, other = bodies_of_one_change(keeper, level)
    assert one == other


def test_below_shared_updates_every_broker_gets_a_body_of_its_own(keeper: ZooKeeperServer) -> None:
    """What 200 bodies of hundreds of thousands of partitions took 30 GB for: eight bytes are different."""
    one, other = bodies_of_one_change(keeper, "heartbeats")
    assert len(one) == len(other)
    assert one != other
    assert one[:8] == other[:8] and one[16:] == other[16:]

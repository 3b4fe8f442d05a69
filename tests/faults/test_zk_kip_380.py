"""The four examples of KIP-380's motivation, with real processes and a real ZooKeeper: from level
`generations` on they end safely, and below it with the damage that the document describes.
"""

from __future__ import annotations

import os
import signal

import pytest

from epoka.cluster.cluster import Cluster, HeldMessages
from epoka.coordination.zookeeper.server import ZooKeeperServer
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.controlled_shutdown import ControlledShutdownRequest
from tests.faults.load import create_assigned_topic, read_everything
from tests.faults.zk_story import (
    MARKS,
    TOPIC,
    a_cluster,
    ask,
    events,
    leads,
    partition,
    told_by,
    try_to_write,
    wait_event,
    wait_gone,
    wait_isr,
    wait_leader,
    wait_registered,
    write,
    write_for_a_while,
)
from tests.waiting import wait_until

pytestmark = MARKS

SAFE = pytest.mark.parametrize("level", ["generations", "fetch-epochs"])


def ask_to_stop(cluster: Cluster, broker_id: int) -> None:
    """Without waiting until it has."""
    pid = cluster.pid(broker_id)
    assert pid is not None
    os.kill(pid, signal.SIGTERM)


# "If a broker bounces during controlled shutdown, the bounced broker may accidentally process its earlier
# generation's StopReplicaRequest [...], leaving the replica offline while its remaining replicas may stay
# online."


def a_stop_replica_arrives_after_the_bounce(cluster: Cluster) -> int:
    """Returns the generation that the request was made for."""
    create_assigned_topic(cluster, TOPIC, [[1, 2, 3]])
    write(cluster, "a")
    old = cluster.generation(3)
    held = cluster.hold("StopReplica", to=3)
    with cluster.hold("ControlledShutdownResponse", to=3):
        ask_to_stop(cluster, 3)
        held.wait()
        cluster.kill(3)
    wait_gone(cluster, 3)
    cluster.start(3)
    wait_isr(cluster, 1, 2, 3)
    held.release()
    return old


def test_a_stale_stop_replica_leaves_the_replica_online(keeper: ZooKeeperServer) -> None:
    with a_cluster(keeper, "generations") as cluster:
        old = a_stop_replica_arrives_after_the_bounce(cluster)
        refused = wait_event(cluster, node=3, rule="control.generation", verdict="refused")
        assert (refused.error, refused.given) == ("STALE_BROKER_EPOCH", str(old))
        assert write_for_a_while(cluster, lambda: set(partition(cluster).isr) == {1, 2, 3})


def test_below_generations_a_stale_stop_replica_takes_a_replica_of_a_living_broker_offline(
    keeper: ZooKeeperServer,
) -> None:
    with a_cluster(keeper, "legacy") as cluster:
        a_stop_replica_arrives_after_the_bounce(cluster)
        write(cluster, "b")
        wait_isr(cluster, 1, 2)
        assert write_for_a_while(cluster, lambda: set(partition(cluster).isr) == {1, 2})
        known = cluster.image().broker(3)
        assert known is not None and known.active
        assert told_by(cluster, 3) is not None


# "If controller receives old ControlledShutdownRequest (due to retries) after the broker has been bounced,
# controller will proactively send out control requests to the broker, which may leave the broker in a bad
# state."


def an_old_shutdown_arrives_after_the_bounce(cluster: Cluster, version: int) -> ErrorCode:
    """Returns what the controller answers. The broker that asked is dead by then, so what it had sent comes
    from here."""
    create_assigned_topic(cluster, TOPIC, [[1, 2, 3]])
    write(cluster, "a")
    old = cluster.generation(3)
    with cluster.hold("ControlledShutdown", to="controller") as held:
        ask_to_stop(cluster, 3)
        held.wait()
        cluster.kill(3)
    wait_gone(cluster, 3)
    cluster.start(3)
    wait_isr(cluster, 1, 2, 3)
    late = ControlledShutdownRequest(broker_id=3, broker_epoch=old if version >= 2 else -1)
    answer = ask(cluster, cluster.controller_id, late, control=True, version=version)
    return ErrorCode.of(answer.error_code)


def test_a_shutdown_that_an_earlier_life_asked_for_is_refused(keeper: ZooKeeperServer) -> None:
    with a_cluster(keeper, "generations") as cluster:
        error = an_old_shutdown_arrives_after_the_bounce(cluster, version=2)
        assert error is ErrorCode.STALE_BROKER_EPOCH
        assert events(cluster, rule="shutdown.generation", verdict="refused", broker=3)
        assert write_for_a_while(cluster, lambda: set(partition(cluster).isr) == {1, 2, 3})
        assert not events(cluster, kind="stopping", broker=3, broker_epoch=cluster.generation(3))


def test_below_generations_an_old_shutdown_leaves_a_living_broker_in_a_bad_state(
    keeper: ZooKeeperServer,
) -> None:
    with a_cluster(keeper, "legacy") as cluster:
        error = an_old_shutdown_arrives_after_the_bounce(cluster, version=1)
        assert error is ErrorCode.NONE
        write(cluster, "b")
        wait_isr(cluster, 1, 2)
        assert write_for_a_while(cluster, lambda: set(partition(cluster).isr) == {1, 2})
        assert events(cluster, kind="stopping", broker=3, broker_epoch=cluster.generation(3))
        assert cluster.state(3) == "running"
        assert told_by(cluster, 3) is not None


# "If the first LeaderAndIsrRequest that a broker processes is sent by the active controller before its
# startup, the broker will overwrite the high watermark checkpoint file and may cause incorrect truncation."


def the_first_leader_and_isr_is_an_old_one(cluster: Cluster) -> HeldMessages:
    """Broker 1 was to lead, died before it heard of it, and hears of it in its next life; by then broker 2
    leads. What is meant for that life is still held."""
    old = cluster.generation(1)
    held = cluster.hold("LeaderAndIsr", to=1)
    create_assigned_topic(cluster, TOPIC, [[1, 2, 3]])
    held.wait()
    cluster.kill(1)
    wait_leader(cluster, 2)
    wait_until(lambda: leads(cluster, 2), "broker 2 to know that it leads")
    write(cluster, "a")
    cluster.begin(1)
    wait_registered(cluster, 1, newer_than=old)
    held.wait(2)
    held.let_go()
    return held


def test_a_leader_and_isr_from_before_the_start_gives_no_roles(keeper: ZooKeeperServer) -> None:
    with a_cluster(keeper, "generations") as cluster:
        held = the_first_leader_and_isr_is_an_old_one(cluster)
        wait_event(cluster, node=1, rule="control.generation", verdict="refused")
        assert not leads(cluster, 1)
        held.release()
        wait_isr(cluster, 1, 2, 3)
        assert [value for _, _, value in read_everything(cluster, TOPIC, 1)] == ["a"]


def test_below_generations_the_new_life_takes_a_leadership_that_has_moved_on(
    keeper: ZooKeeperServer,
) -> None:
    with a_cluster(keeper, "legacy") as cluster:
        the_first_leader_and_isr_is_an_old_one(cluster)
        wait_until(lambda: leads(cluster, 1), "broker 1 to take a leadership that it lost in its last life")
        assert leads(cluster, 2)
        assert partition(cluster).leader == 2


# "If a broker bounces very quickly, the controller may start processing the BrokerChangeEvent after the
# broker already re-registers itself in zk. In this case, controller will miss the broker restart and will not
# send any requests to the broker for initialization. The broker will not be able to accept traffics."


def a_broker_bounces_faster_than_the_controller_looks(cluster: Cluster) -> int:
    """Returns the generation of its new life."""
    create_assigned_topic(cluster, TOPIC, [[1, 2, 3]])
    write(cluster, "a")
    old = cluster.generation(1)
    cluster.pause(cluster.controller_id)
    cluster.kill(1)
    cluster.begin(1)
    new = wait_registered(cluster, 1, newer_than=old)
    cluster.resume(cluster.controller_id)
    return new


@SAFE
def test_a_fast_bounce_is_failure_then_start_up(keeper: ZooKeeperServer, level: str) -> None:
    with a_cluster(keeper, level, zookeeper_session_timeout_ms=20_000) as cluster:
        new = a_broker_bounces_faster_than_the_controller_looks(cluster)
        wait_until(lambda: cluster.generation(1) == new, "the controller to know the new life")
        wait_isr(cluster, 1, 2, 3)
        assert partition(cluster).leader_epoch > 0
        write(cluster, "b")
        assert [value for _, _, value in read_everything(cluster, TOPIC, 1)] == ["a", "b"]
        told = [event.kind for event in events(cluster, broker=1, rule="registry.bounce")]
        assert told == ["registered", "unregistered", "registered"]


def test_below_generations_a_fast_bounce_is_missed_and_the_broker_leads_in_name_only(
    keeper: ZooKeeperServer,
) -> None:
    with a_cluster(keeper, "legacy", zookeeper_session_timeout_ms=20_000) as cluster:
        new = a_broker_bounces_faster_than_the_controller_looks(cluster)
        (error,) = try_to_write(cluster.bootstrap, "b", within_ms=4000)
        assert error is not None
        known = partition(cluster)
        assert (known.leader, known.leader_epoch) == (1, 0)
        assert not leads(cluster, 1)
        assert cluster.generation(1) < new

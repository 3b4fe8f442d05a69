"""Restarts, a dead controller, a broker that is cut off: all under load, with real processes.

What is done on purpose, or to the controller alone, must not cost a producer anything but time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from epoka.client.connection import Connection
from epoka.cluster.cluster import Cluster
from epoka.cluster.ports import HOST
from epoka.model.ledger import LedgerEvent
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from epoka.wire.records import Record, encode_batch
from tests.faults.load import PATIENT, QUICK, Load, create_topic, settled
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster-faults")

TOPIC = "load"
PARTITIONS = 6


@contextmanager
def loaded_cluster(config: dict[str, int] = QUICK) -> Iterator[tuple[Cluster, Load]]:
    """Three brokers as processes, a writer at work; at the end everything acknowledged must be there."""
    with Cluster(brokers=3, processes=True, config=config) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS)
        with Load(cluster, TOPIC, PARTITIONS) as load:
            yield cluster, load
            load.reaches_every_partition(50)
        check_isrs(cluster)
        load.check()


def check_isrs(cluster: Cluster) -> None:
    """What KIP-841 promises of every state that the controller has written down."""
    image = cluster.image()
    for ref in image.all_partitions():
        state = image.state(ref)
        members = [image.broker(member) for member in state.isr]
        if state.leader >= 0:
            assert state.leader in state.isr
            assert all(member is not None and member.active for member in members), (ref, state)
        else:
            # The last one stays in the ISR, whatever became of it.
            assert len(members) == 1, (ref, state)


def leaders(cluster: Cluster) -> dict[int, tuple[int, int]]:
    """Leader and leader epoch by partition."""
    return {
        index: (state.leader, state.leader_epoch) for index, state in cluster.image().partitions_of(TOPIC)
    }


def assert_unmoved(cluster: Cluster, before: dict[int, tuple[int, int]], begun_ms: int) -> None:
    """Leaders are who they were, except where the controller has fenced one for its silence since then.

    On a busy machine a broker may find the controller later than the short session of these tests allows.
    """
    silent = {each.broker for each in events(cluster, "fenced") if each.time_ms >= begun_ms}
    now = leaders(cluster)
    kept = {index for index, (leader, _) in before.items() if leader not in silent}
    assert {index: now[index] for index in kept} == {index: before[index] for index in kept}


def events(cluster: Cluster, kind: str, node: int | None = None) -> list[LedgerEvent]:
    return [each for each in cluster.ledger() if each.kind == kind and node in (None, each.node)]


def now_ms() -> int:
    """The time as the ledger has it."""
    return int(time.time() * 1000)


def has_fenced_itself(cluster: Cluster, broker_id: int, begun_ms: int) -> bool:
    """A busy machine may have made it fence itself for a moment before the story began."""
    return has_since(begun_ms, cluster, "self-fenced", broker_id)


def has_since(begun_ms: int, cluster: Cluster, kind: str, broker_id: int) -> bool:
    return any(each.time_ms >= begun_ms for each in events(cluster, kind, broker_id))


def test_a_rolling_restart_costs_no_write() -> None:
    with loaded_cluster(PATIENT) as (cluster, load):
        for broker_id in cluster.broker_ids:
            old, new = cluster.bounce(broker_id, how="clean")
            assert new > old
            load.reaches_every_partition(20)
            settled(cluster, TOPIC, PARTITIONS)
            check_isrs(cluster)
        assert [each for each in events(cluster, "fenced") if each.rule == "heartbeat.session"] == []
        ends = {each.node: each.detail for each in events(cluster, "ended")}
        assert ends == dict.fromkeys(cluster.broker_ids, "the controller granted the shutdown")


def test_brokers_go_on_without_the_controller_and_nothing_changes_when_it_is_back() -> None:
    with loaded_cluster(PATIENT) as (cluster, load):
        before = leaders(cluster)
        generations = {each: cluster.generation(each) for each in cluster.broker_ids}
        for _ in range(3):
            cluster.kill(cluster.controller_id)
            load.reaches_every_partition(10)
            cluster.start(cluster.controller_id)
            load.reaches_every_partition(10)
        assert {each: cluster.generation(each) for each in cluster.broker_ids} == generations
        assert leaders(cluster) == before


def test_a_long_absence_of_the_controller_stops_writes_until_it_is_back() -> None:
    with loaded_cluster() as (cluster, load):
        before, begun_ms = leaders(cluster), now_ms()
        cluster.kill(cluster.controller_id)
        for broker_id in cluster.broker_ids:
            wait_until(
                lambda broker_id=broker_id: has_fenced_itself(cluster, broker_id, begun_ms),  # type: ignore[misc]
                f"broker {broker_id} to fence itself",
            )
        assert refusal(cluster, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.start(cluster.controller_id)
        load.reaches_every_partition(10)
        for broker_id in cluster.broker_ids:
            # The others serve every partition without one that the controller hears late.
            wait_until(
                lambda broker_id=broker_id: has_since(begun_ms, cluster, "self-unfenced", broker_id),  # type: ignore[misc]
                f"broker {broker_id} to serve again",
            )
        assert_unmoved(cluster, before, begun_ms)


def refusal(cluster: Cluster, broker_id: int) -> ErrorCode:
    """What a broker says to one who writes to it by force."""
    batch = bytes(encode_batch([Record(offset=0, timestamp=1, key=None, value=b"by force")]))
    data = TopicProduceData(
        name=TOPIC,
        partition_data=tuple(PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)),
    )
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=(data,))
    with Connection((HOST, cluster.layout.place(broker_id).client_port)) as connection:
        answer = connection.ask(request, version=9)
    (code,) = {part.error_code for topic in answer.responses for part in topic.partition_responses}
    return ErrorCode.of(code)


def test_a_broker_cut_off_from_the_controller_fences_itself_and_comes_back() -> None:
    with loaded_cluster() as (cluster, load):
        generation = cluster.generation(2)
        begun_ms = now_ms()
        cluster.isolate(2, from_="controller")
        wait_until(lambda: cluster.image().brokers[2].fenced, "the controller to fence it")
        wait_until(lambda: has_fenced_itself(cluster, 2, begun_ms), "it to fence itself")
        verdicts = [each for each in cluster.ledger() if each.rule == "heartbeat.contact"]
        assert (verdicts[-1].node, verdicts[-1].verdict) == (2, "refused")
        assert refusal(cluster, 2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        load.reaches_every_partition(20)
        check_isrs(cluster)
        assert 2 not in {leader for leader, _ in leaders(cluster).values()}
        cluster.heal()
        wait_until(lambda: cluster.image().brokers[2].active, "it to be let in again")
        settled(cluster, TOPIC, PARTITIONS)
        assert events(cluster, "self-unfenced", 2)
        assert cluster.generation(2) == generation


def test_a_controller_that_dies_in_the_middle_of_a_controlled_shutdown_remembers_it() -> None:
    with loaded_cluster() as (cluster, load):
        settled(cluster, TOPIC, PARTITIONS)
        # One active broker does not hear that leaders have moved, so the leave to go is not given yet.
        with cluster.hold("FetchMetadataResponse", to=1):
            pid = cluster.pid(3)
            assert pid is not None
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: cluster.image().brokers[3].in_controlled_shutdown, "broker 3 to be stopping")
            cluster.kill(cluster.controller_id)
            cluster.start(cluster.controller_id)
            known = cluster.image().brokers[3]
            assert known.in_controlled_shutdown and not known.fenced
            check_isrs(cluster)
            assert cluster.state(3) == "running"
        wait_until(lambda: cluster.state(3) != "running", "broker 3 to go")
        (ended,) = events(cluster, "ended", 3)
        assert ended.detail == "the controller granted the shutdown"
        assert cluster.image().brokers[3].fenced
        load.reaches_every_partition(10)
        old = cluster.generation(3)
        cluster.start(3)
        assert cluster.generation(3) > old
        assert not cluster.image().brokers[3].in_controlled_shutdown
        settled(cluster, TOPIC, PARTITIONS)

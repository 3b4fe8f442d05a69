"""KIP-903 on whole clusters, in one process and with real ones: the six steps with the rule and without it.

1. Broker 2 catches up to leader 1, which asks the controller to take it into the ISR; the request is held.
2. Broker 2 is killed and its disk is lost.
3. The controller fences it.
4. It comes back with an empty disk.
5. Its registration reaches the controller first.
6. The held request arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from epoka.cluster.cluster import Cluster, HeldMessages
from epoka.model.ledger import LedgerEvent
from tests.faults.load import CLIENT, QUICK, create_assigned_topic, read_everything
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster-faults")

TOPIC = "orders"
WAYS = pytest.mark.parametrize("processes", [False, True], ids=["one process", "processes"])


def isr(cluster: Cluster) -> tuple[int, ...]:
    state = cluster.image().partition(TOPIC, 0)
    assert state is not None
    return tuple(sorted(state.isr))


def wait_isr(cluster: Cluster, *wanted: int) -> None:
    wait_until(lambda: isr(cluster) == wanted, lambda: f"ISR {wanted}; it is {isr(cluster)}")


def write(cluster: Cluster, value: str) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **CLIENT})
    producer.produce(TOPIC, value, on_delivery=lambda error, _: failures.append(error))
    wait_until(lambda: producer.flush(0.05) == 0, "the record to be acknowledged")
    assert failures == [None]


def refusals(cluster: Cluster) -> list[LedgerEvent]:
    return [
        event
        for event in cluster.ledger()
        if event.rule == "isr.generation" and event.verdict == "refused" and event.topic == TOPIC
    ]


def first_generation(cluster: Cluster) -> int:
    return next(e.broker_epoch for e in cluster.ledger() if e.kind == "registered" and e.broker == 2)


@contextmanager
def five_steps(level: str, processes: bool) -> Iterator[tuple[Cluster, HeldMessages]]:
    """A cluster right before the held request arrives; 1 alone has the record."""
    config = {**QUICK, "min.insync.replicas": 1, "replica.lag.time.max.ms": 500}
    with Cluster(brokers=2, level=level, processes=processes, config=config) as cluster:
        create_assigned_topic(cluster, TOPIC, [[1, 2]])
        cluster.isolate(1, from_=2)
        write(cluster, "precious")
        wait_isr(cluster, 1)
        held = cluster.hold("AlterPartition", to="controller")
        cluster.heal()
        held.wait()
        old = cluster.generation(2)
        cluster.kill(2)
        cluster.wipe(2)
        wait_until(lambda: cluster.image().brokers[2].fenced, "broker 2 to be fenced")
        # The new life must not fetch before the held request is in, or it would catch up honestly.
        cluster.isolate(1, from_=2)
        cluster.start(2)
        assert cluster.generation(2) > old
        assert isr(cluster) == (1,)
        yield cluster, held


def lose_the_leader(cluster: Cluster) -> None:
    cluster.kill(1)

    def moved() -> bool:
        state = cluster.image().partition(TOPIC, 0)
        return state is not None and state.leader == 2

    wait_until(moved, "broker 2 to lead")


@WAYS
def test_the_held_request_is_refused_and_the_record_stays(processes: bool) -> None:
    with five_steps("fetch-epochs", processes) as (cluster, held):
        (registered,) = (event for event in cluster.ledger() if event.rule == "registry.bounce")
        held.release()
        refused = wait_until(lambda: refusals(cluster), "the request to be refused")[0]
        assert refused.error == "INELIGIBLE_REPLICA"
        assert refused.given == f"broker 2 epoch {first_generation(cluster)}"
        assert refused.expected == f"epoch {registered.broker_epoch}" == f"epoch {cluster.generation(2)}"
        assert isr(cluster) == (1,)
        cluster.heal()
        wait_isr(cluster, 1, 2)
        lose_the_leader(cluster)
        assert [value for _, _, value in read_everything(cluster, TOPIC, 1)] == ["precious"]


@WAYS
def test_one_level_below_the_same_steps_lose_the_record(processes: bool) -> None:
    with five_steps("eligible-isr", processes) as (cluster, held):
        held.release()
        wait_isr(cluster, 1, 2)
        assert refusals(cluster) == []
        lose_the_leader(cluster)
        assert read_everything(cluster, TOPIC, 1) == []

"""What the stories of zookeeper mode are told with: clusters of real processes that share one ZooKeeper, and
ways to look at single brokers, because the point of a story is often that two of them disagree.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from epoka.client.connection import Connection
from epoka.client.errors import ClientError
from epoka.cluster.cluster import Cluster
from epoka.cluster.ports import HOST
from epoka.coordination.zookeeper.server import ZooKeeperServer
from epoka.model.ledger import LedgerEvent
from epoka.model.partitions import PartitionState
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import list_offsets, metadata, produce
from epoka.wire.records import Record, encode_batch
from tests.faults.load import CLIENT, QUICK
from tests.waiting import wait_until
from tests.zookeeper_missing import MISSING

MARKS = [
    pytest.mark.xdist_group("cluster-faults"),
    pytest.mark.skipif(MISSING is not None, reason=MISSING or ""),
]

TOPIC = "orders"

STORY = {
    **QUICK,
    "zookeeper.session.timeout.ms": 2000,
    "replica.lag.time.max.ms": 1000,
    # Nothing but the story's own topics, so that a request that is held is the story's.
    "epoka.ledger.replication.factor": 0,
    # What is held must not be given up while a broker starts on a busy machine.
    "controller.socket.timeout.ms": 100_000,
}

_numbers = itertools.count(1)


@contextmanager
def a_cluster(keeper: ZooKeeperServer, level: str, brokers: int = 3, **config: object) -> Iterator[Cluster]:
    """A cluster at a level, with a place of its own in the ensemble. What is left of it in the end is killed:
    some of these stories do not end well. Settings are written as replica_lag_time_max_ms."""
    settings = STORY | {key.replace("_", "."): value for key, value in config.items()}
    settings["zookeeper.connect"] = f"{keeper.connect}/story-{next(_numbers)}"
    cluster = Cluster(brokers=brokers, mode="zookeeper", level=level, config=settings)
    try:
        yield cluster.open()
    finally:
        cluster.abandon()


# What the controller knows.


def partition(cluster: Cluster, topic: str = TOPIC) -> PartitionState:
    state = cluster.image().partition(topic, 0)
    assert state is not None
    return state


def wait_isr(cluster: Cluster, *wanted: int, topic: str = TOPIC) -> None:
    wait_until(
        lambda: tuple(sorted(partition(cluster, topic).isr)) == wanted,
        lambda: f"ISR {wanted}; it is {partition(cluster, topic)}",
    )


def wait_leader(cluster: Cluster, wanted: int, topic: str = TOPIC) -> None:
    wait_until(lambda: partition(cluster, topic).leader == wanted, f"broker {wanted} to lead {topic}")


def wait_gone(cluster: Cluster, broker_id: int) -> None:
    """Until the controller has seen the end of a broker's session."""
    wait_until(lambda: cluster.image().broker(broker_id) is None, f"broker {broker_id} to be gone")


def events(cluster: Cluster, **wanted: object) -> list[LedgerEvent]:
    """What the ledgers of all nodes have with these values."""
    return [
        event
        for event in cluster.ledger()
        if all(getattr(event, name) == value for name, value in wanted.items())
    ]


def wait_event(cluster: Cluster, *, since: LedgerEvent | None = None, **wanted: object) -> LedgerEvent:
    """The first event with these values, or the first that is not older than another."""
    oldest = since.time_ms if since is not None else 0
    return wait_until(
        lambda: [event for event in events(cluster, **wanted) if event.time_ms >= oldest],
        f"{wanted} in the ledger",
    )[0]


def wait_registered(cluster: Cluster, broker_id: int, newer_than: int) -> int:
    """Until a broker itself knows of a generation above the given one; returns it."""

    def known() -> int:
        noted = events(cluster, kind="registered", node=broker_id, broker=broker_id)
        return max((event.broker_epoch for event in noted if event.broker_epoch > newer_than), default=0)

    return wait_until(known, f"broker {broker_id} to have a generation above {newer_than}")


# What single brokers say.


def ask(cluster: Cluster, broker_id: int, message: Any, *, control: bool = False, version: int = -1) -> Any:
    place = cluster.layout.place(broker_id)
    with Connection((HOST, place.control_port if control else place.client_port)) as connection:
        return connection.ask(message, version=None if version < 0 else version)


def told_by(cluster: Cluster, broker_id: int) -> metadata.MetadataResponse | None:
    """What a broker tells a client of the cluster; None when it tells nothing."""
    try:
        return ask(cluster, broker_id, metadata.MetadataRequest(topics=None), version=12)
    except ClientError:
        return None


def leads(cluster: Cluster, broker_id: int, topic: str = TOPIC) -> bool:
    """Whether a broker takes itself for the leader. Asked as nodes ask each other: it may not serve yet."""
    request = list_offsets.ListOffsetsRequest(
        replica_id=-1,
        topics=(
            list_offsets.ListOffsetsTopic(
                name=topic,
                partitions=(list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1),),
            ),
        ),
    )
    answer = ask(cluster, broker_id, request, control=True, version=5)
    return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)


# Writing.


def forced_write(cluster: Cluster, broker_id: int, topic: str = TOPIC) -> ErrorCode:
    """What a broker answers somebody who writes to it whatever anybody says of who leads."""
    batch = bytes(encode_batch([Record(offset=0, timestamp=1, key=None, value=b"by force")]))
    part = produce.PartitionProduceData(index=0, records=batch)
    data = produce.TopicProduceData(name=topic, partition_data=(part,))
    answer = ask(
        cluster, broker_id, produce.ProduceRequest(acks=1, timeout_ms=1000, topic_data=(data,)), version=9
    )
    return ErrorCode.of(answer.responses[0].partition_responses[0].error_code)


def try_to_write(
    bootstrap: str, *values: str, topic: str = TOPIC, within_ms: int = 30_000, **settings: object
) -> list[KafkaError | None]:
    """What became of each value; None for one that was acknowledged, acks=all unless told otherwise."""
    outcomes: list[KafkaError | None] = []
    client = CLIENT | {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": within_ms, **client})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: outcomes.append(error))
    wait_until(lambda: producer.flush(0.05) == 0, "every value to be decided")
    return outcomes


def write(cluster: Cluster, *values: str, topic: str = TOPIC) -> None:
    assert try_to_write(cluster.bootstrap, *values, topic=topic) == [None] * len(values)


def write_for_a_while(cluster: Cluster, seen: Callable[[], bool]) -> bool:
    """Whether what is seen stays true over thirty writes that are acknowledged one after the other."""
    for number in range(30):
        write(cluster, f"later {number}")
        if not seen():
            return False
    return True

"""Load on a cluster while it suffers: a writer of numbered values in the background, and readers.

The writer is librdkafka's idempotent producer with acks=all, which has to hide every fault that leaves enough
replicas: whatever it reports as failed is a finding. Everything is noted in a `History`.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka import Message as Arrived
from confluent_kafka.admin import AdminClient, NewTopic

from epoka.cluster.cluster import Cluster
from tests.faults.history import NO_OFFSET, History, anomalies, summary
from tests.waiting import wait_until

QUICK = {
    "controller.heartbeat.timeout.ms": 1000,
    "broker.heartbeat.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 200,
    "replica.lag.time.max.ms": 2000,
    "offsets.topic.num.partitions": 3,
    "min.insync.replicas": 2,
}
"""Settings with which a cluster notices within a second or two what takes ten by default."""

PATIENT = {**QUICK, "controller.heartbeat.timeout.ms": 30_000, "broker.heartbeat.timeout.ms": 60_000}
"""The same for stories without a silent broker: a machine that stands still for a second is no silence."""

CLIENT = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "socket.timeout.ms": 3000,
    "topic.metadata.refresh.interval.ms": 1000,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "log_level": 0,
}
"""Clients that look around quickly."""

BURST = 6
BURST_EVERY_S = 0.01
"""Some hundred values a second: always some on their way, and processor time left for the cluster."""
WINDOW = 2000
"""How many values may be unacknowledged at a time."""

NEVER_WRITTEN = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError._PURGE_QUEUE})


def create_topic(cluster: Cluster, topic: str, partitions: int, replicas: int = 3, **configs: str) -> str:
    """A new topic with keys written as segment_bytes for segment.bytes; returns its name."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    _create(cluster, NewTopic(topic, partitions, replicas, config=settings))
    return topic


def create_assigned_topic(cluster: Cluster, topic: str, assignment: list[list[int]], **configs: str) -> str:
    """A new topic on the brokers that are given for each partition."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    _create(cluster, NewTopic(topic, len(assignment), replica_assignment=assignment, config=settings))
    return topic


def _create(cluster: Cluster, topic: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **CLIENT})
    for created in admin.create_topics([topic], operation_timeout=30).values():
        created.result(30)


class Load:
    """A writer in the background; leaves the `with` when everything it sent has been decided."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, **settings: object) -> None:
        self.cluster = cluster
        self.topic = topic
        self.partitions = partitions
        self.history = History()
        self.acknowledged_at: list[float] = []
        """When each acknowledgement came, in monotonic seconds."""
        self.by_partition = [0] * partitions
        self._decided = 0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "delivery.timeout.ms": 120_000,
                **CLIENT,
                **settings,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="load", daemon=True)
        self._crash: BaseException | None = None

    def __enter__(self) -> Load:
        self._thread.start()
        self.acknowledges(self.partitions)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(150)
        if kind is None:
            assert not self._thread.is_alive(), "the writer does not come to its end"
            if self._crash is not None:
                raise self._crash

    def acknowledges(self, more: int) -> None:
        """Wait for this many more acknowledgements."""
        wanted = len(self.history.acknowledged) + more
        wait_until(
            lambda: len(self.history.acknowledged) >= wanted or self._broken(),
            lambda: f"{wanted} acknowledged; there are {len(self.history.acknowledged)}",
        )

    def reaches_every_partition(self, more: int = 1) -> None:
        """Wait until values that were sent after now are acknowledged in every partition."""
        sent = [len(self.history.sent[number]) for number in range(self.partitions)]
        decided = len(self.history.uncertain) + len(self.history.refused)
        wait_until(
            lambda: (
                self._broken()
                or all(done >= before + more for done, before in zip(self.by_partition, sent, strict=True))
            ),
            lambda: (
                f"{more} more in every partition: sent {sent}, acknowledged {self.by_partition}, "
                f"failed {decided}; the cluster: {_describe(self.cluster, self.topic)}"
            ),
        )

    def _broken(self) -> bool:
        if self._crash is not None:
            raise self._crash
        assert not self.history.refused, f"refused: {self.history.refused[:3]}"
        assert not self.history.uncertain, f"given up: {self.history.uncertain[:3]}"
        return False

    def _write(self) -> None:
        try:
            self._write_until_told()
            wait_until(self._all_decided, "everything that was sent to be decided", within_s=140)
        except BaseException as error:
            self._crash = error

    def _write_until_told(self) -> None:
        number = 0
        while not self._stop.wait(BURST_EVERY_S):
            for _ in range(BURST):
                if number - self._decided < WINDOW:
                    partition = number % self.partitions
                    value = f"{partition}:{number}"
                    self.history.sent[partition].append(value)
                    self._producer.produce(
                        self.topic, value, partition=partition, on_delivery=self._delivered
                    )
                    number += 1
            self._producer.poll(0)

    def _all_decided(self) -> bool:
        return self._producer.flush(0.1) == 0

    def _delivered(self, error: KafkaError | None, arrived: Arrived) -> None:
        self._decided += 1
        value = arrived.value().decode()
        if error is None:
            self.acknowledged_at.append(time.monotonic())
            offset = arrived.offset()
            known = offset if offset is not None and offset >= 0 else NO_OFFSET
            self.history.acknowledged.append((arrived.partition(), known, value))
            self.by_partition[arrived.partition()] += 1
        elif error.code() in NEVER_WRITTEN:
            self.history.refused.append(value)
        else:
            self.history.uncertain.append(f"{value} ({error.name()})")

    def check(self) -> None:
        """Read everything back; AssertionError names what is wrong."""
        self.history.reads.append(read_everything(self.cluster, self.topic, self.partitions))
        found = anomalies(self.history)
        assert not found, summary(found)
        assert not self.history.uncertain, f"given up: {self.history.uncertain[:3]}"
        assert not self.history.refused, f"refused: {self.history.refused[:3]}"


def read_everything(cluster: Cluster, topic: str, partitions: int) -> list[tuple[int, int, str]]:
    """Every committed record, as one consumer sees it from the first to the last."""
    reader = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            **CLIENT,
        }
    )
    found: list[tuple[int, int, str]] = []
    try:
        # A new leader knows the whole of what is committed only when its followers have spoken.
        settled(cluster, topic, partitions)
        places = [TopicPartition(topic, number) for number in range(partitions)]
        ends = {place.partition: reader.get_watermark_offsets(place, timeout=30) for place in places}
        missing = {number: high for number, (low, high) in ends.items() if high > low}
        reader.assign([TopicPartition(topic, number, ends[number][0]) for number in range(partitions)])

        def everything() -> bool:
            for arrived in reader.consume(5000, timeout=0.1):
                assert arrived.error() is None, arrived.error()
                partition, offset = arrived.partition(), arrived.offset()
                found.append((partition, offset, arrived.value().decode()))
                if offset + 1 >= missing.get(partition, offset + 2):
                    del missing[partition]
            return not missing

        wait_until(everything, lambda: f"the ends {missing}; {len(found)} were read")
        return found
    finally:
        reader.close()


def settled(cluster: Cluster, topic: str, partitions: int) -> None:
    """Wait until every live replica is in every ISR of a topic."""
    alive = {each for each in cluster.broker_ids if cluster.state(each) == "running"}

    def whole() -> bool:
        image = cluster.image()
        states = [image.partition(topic, number) for number in range(partitions)]
        return all(
            state is not None and state.leader >= 0 and set(state.isr) >= alive & set(state.replicas)
            for state in states
        )

    wait_until(whole, lambda: f"whole ISRs of {topic}: {_describe(cluster, topic)}")


def _describe(cluster: Cluster, topic: str) -> str:
    image = cluster.image()
    brokers = ", ".join(
        f"{each.id} {'fenced' if each.fenced else 'active'}" for each in image.brokers.values()
    )
    partitions = ", ".join(
        f"{index}: leader {state.leader} ISR {tuple(state.isr)}"
        for index, state in image.partitions_of(topic)
    )
    return f"brokers {brokers}; partitions {partitions}"

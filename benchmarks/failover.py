"""How long producers wait when a leader goes: killed with -9 under load, and shut down in order.

One record a partition every few milliseconds from librdkafka, idempotent, acks=all, three replicas, two in
sync. The gap of a kill is the time until a record that was sent after it is acknowledged in every partition
that the dead broker led. It is told in session timeouts: earlier than that nobody can know that the broker is
dead. A client that asks for leaders without pause tells what the cluster takes; librdkafka asks every half
second when a broker is down, and that is told beside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from statistics import median
from types import TracebackType

import msgspec
from confluent_kafka import KafkaError, Producer

from benchmarks.figures import Figure, beside
from epoka.client.connection import Connection
from epoka.cluster.cluster import Cluster
from epoka.cluster.ports import HOST
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from epoka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from epoka.wire.records import Record, encode_batch
from tests.faults.load import CLIENT, QUICK, create_assigned_topic, settled
from tests.waiting import wait_until

TOPIC = "failover"
ASSIGNMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
EVERY_S = 0.005
LOOK_AGAIN_S = 0.002
KILLS = 50
STOPS = 6
SESSION_S = QUICK["controller.heartbeat.timeout.ms"] / 1000
METADATA_REFRESH_S = 0.1
"""librdkafka's default for a leader it has lost: topic.metadata.refresh.fast.interval.ms."""


class Beat:
    """Writes to every partition in turn and notes when each record was sent and acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self.acknowledged: list[list[tuple[float, float]]] = [[] for _ in ASSIGNMENT]
        self.failures: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                **CLIENT,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Beat:
        self._thread.start()
        self.waits_for(0.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(60)

    def waits_for(self, moment: float) -> list[float]:
        """When the first record that was sent after `moment` was acknowledged, by partition."""

        def first(partition: int) -> float | None:
            for sent, done in reversed(self.acknowledged[partition]):
                if sent <= moment:
                    break
                found[partition] = done
            return found.get(partition)

        found: dict[int, float] = {}
        partitions = range(len(ASSIGNMENT))
        wait_until(
            lambda: all(first(each) is not None for each in partitions),
            lambda: f"every partition to be acknowledged again; failures: {self.failures[:3]}",
        )
        return [found[each] for each in partitions]

    def longest_wait(self, since: float) -> float:
        """The longest time that any record sent since then has waited."""
        return max(done - sent for each in self.acknowledged for sent, done in each if sent >= since)

    def _write(self) -> None:
        while not self._stop.wait(EVERY_S):
            for partition in range(len(ASSIGNMENT)):
                self._producer.produce(
                    TOPIC, b"x" * 100, partition=partition, on_delivery=self._delivered(time.monotonic())
                )
            self._producer.poll(0)

    def _delivered(self, sent: float) -> Callable[..., None]:
        def note(error: KafkaError | None, message: object) -> None:
            if error is not None:
                self.failures.append(error)
            else:
                self.acknowledged[message.partition()].append((sent, time.monotonic()))  # type: ignore[attr-defined]

        return note


def led_by(cluster: Cluster, broker_id: int) -> list[int]:
    return [index for index, state in cluster.image().partitions_of(TOPIC) if state.leader == broker_id]


def victims(cluster: Cluster, count: int) -> list[int]:
    ids = cluster.broker_ids
    return [ids[number % len(ids)] for number in range(count)]


class Impatient:
    """A client that asks who leads, and writes to whoever does, until it is acknowledged."""

    def __init__(self, cluster: Cluster, without: int) -> None:
        self._connections = {
            each: Connection((HOST, cluster.layout.place(each).client_port))
            for each in cluster.broker_ids
            if each != without
        }
        batch = bytes(encode_batch([Record(offset=0, timestamp=1, key=None, value=b"impatient")]))
        self._partition = PartitionProduceData(records=batch)

    def acknowledged_at(self, partition: int) -> float:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for broker_id in self._connections:
                leader = self._leader(broker_id, partition)
                if leader in self._connections and self._write(leader, partition):
                    return time.monotonic()
            time.sleep(LOOK_AGAIN_S)
        raise RuntimeError(f"nobody acknowledges partition {partition}")

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _leader(self, broker_id: int, partition: int) -> int:
        question = MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),))
        (topic,) = self._connections[broker_id].ask(question, version=9).topics
        return next(each.leader_id for each in topic.partitions if each.partition_index == partition)

    def _write(self, leader: int, partition: int) -> bool:
        data = msgspec.structs.replace(self._partition, index=partition)
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(TopicProduceData(TOPIC, (data,)),))
        (topic,) = self._connections[leader].ask(request, version=9).responses
        return bool(topic.partition_responses[0].error_code == ErrorCode.NONE)


def kill_gap(cluster: Cluster, beat: Beat, broker_id: int) -> tuple[float, float]:
    """Seconds without acknowledgements after a kill: of the cluster, and as librdkafka has it."""

    def leads() -> list[int]:
        return led_by(cluster, broker_id)

    settled(cluster, TOPIC, len(ASSIGNMENT))
    led = wait_until(leads, f"broker {broker_id} to lead again")
    impatient = Impatient(cluster, without=broker_id)
    killed = time.monotonic()
    cluster.kill(broker_id)
    gap = max(impatient.acknowledged_at(each) for each in led) - killed
    impatient.close()
    acknowledged = beat.waits_for(killed)
    cluster.start(broker_id)
    return gap, max(acknowledged[each] - killed for each in led)


def stop_gap(cluster: Cluster, beat: Beat, broker_id: int) -> float:
    """The longest wait of any record while a broker shuts down in order."""
    settled(cluster, TOPIC, len(ASSIGNMENT))
    began = time.monotonic()
    cluster.stop(broker_id)
    beat.waits_for(time.monotonic())
    longest = beat.longest_wait(began)
    cluster.start(broker_id)
    return longest


def gaps(kills: int = KILLS, stops: int = STOPS) -> tuple[list[tuple[float, float]], list[float]]:
    """The gaps of kills, of the cluster and of librdkafka, and of controlled shutdowns, in seconds."""
    config = {**QUICK, "auto.leader.rebalance.enable": "true", "leader.imbalance.check.interval.seconds": 1}
    with Cluster(brokers=3, processes=True, config=config) as cluster:
        create_assigned_topic(cluster, TOPIC, ASSIGNMENT)
        with Beat(cluster) as beat:
            after_stops = [stop_gap(cluster, beat, each) for each in victims(cluster, stops)]
            after_kills = [kill_gap(cluster, beat, each) for each in victims(cluster, kills)]
            if beat.failures:
                raise RuntimeError(f"records failed for good: {beat.failures[:3]}")
    return after_kills, after_stops


def run(kills: int = KILLS, stops: int = STOPS) -> list[Figure]:
    after_kills, after_stops = gaps(kills, stops)
    cluster, librdkafka = zip(*after_kills)
    killed = f"leader killed, until acknowledged again, %s of {kills}"

    def in_timeouts(name: str, seconds: float, at_most: float | None) -> Figure:
        return beside(name, "s", seconds, f"session timeout {SESSION_S:g} s:", SESSION_S, at_most=at_most)

    return [
        in_timeouts(killed % "median", median(cluster), 1.1),
        in_timeouts(killed % "worst", max(cluster), 1.1),
        in_timeouts("the same with librdkafka, median", median(librdkafka), None),
        in_timeouts("the same with librdkafka, worst", max(librdkafka), None),
        beside(
            f"controlled shutdown, longest wait of a record, worst of {stops}",
            "s",
            max(after_stops),
            "metadata refresh",
            METADATA_REFRESH_S,
            at_most=1,
        ),
    ]

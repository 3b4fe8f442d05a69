"""A live cluster bounced ten times under load: streams, batches, ledgers and clients tell one story."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from epoka.cluster.cluster import Cluster
from epoka.spark.audit import ledger, tables
from epoka.spark.audit.run import add_events, finish, follow_topic, has_event, silver, step
from epoka.spark.storage import read_arrow
from epoka.spark.topics import reached
from tests.client.topics import Topics
from tests.spark.test_audit_runs import rows
from tests.waiting import wait_until

SETTINGS = {
    "controller.heartbeat.timeout.ms": "1500",
    "broker.heartbeat.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "min.insync.replicas": "2",
}
BOUNCES = [
    (1, "fast"),
    (2, "clean"),
    (3, "unclean"),
    (1, "clean"),
    (2, "fast"),
    (2, "fast"),
    (3, "wiped"),
    (1, "unclean"),
    (3, "clean"),
    (2, "fast"),
]
ENDS = {
    "clean": {"clean"},
    "unclean": {"fenced"},
    "wiped": {"fenced"},
    # Nobody may have noticed before it was back.
    "fast": {"bounced", "fenced"},
}
PARTITIONS = 3


class Load(threading.Thread):
    """A client that writes numbered records until it is told to end, and knows what was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._ended = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        self.acknowledged: list[tuple[str, str, int, int]] = []
        self.refused: list[str] = []
        self.left = -1

    def run(self) -> None:
        number = 0
        while not self._ended.is_set():
            for _ in range(8):
                name = b"%d" % number
                self._producer.produce(
                    self._topic, name, name, partition=number % PARTITIONS, on_delivery=self._told
                )
                number += 1
            self._producer.poll(0.02)
        self.left = self._producer.flush(60)

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.refused.append(str(error))
        else:
            told = (message.topic(), message.key().decode(), message.partition(), message.offset())
            self.acknowledged.append(told)

    def end(self) -> None:
        self._ended.set()
        self.join()


@contextmanager
def load(cluster: Cluster, topic: str) -> Iterator[Load]:
    client = Load(cluster, topic)
    client.start()
    try:
        yield client
    finally:
        client.end()


def in_sync(cluster: Cluster, topic: str) -> bool:
    image = cluster.image()
    states = [image.partition(topic, each) for each in range(PARTITIONS)]
    return all(state is not None and len(state.isr) == 3 for state in states)


@pytest.mark.timeout(600)
def test_ten_bounces_under_load_are_told_alike_by_streams_batches_ledgers_and_clients(
    spark: Any, tmp_path: Path
) -> None:
    streamed, batch = tmp_path / "streamed", tmp_path / "batch"
    with Cluster(brokers=3, config=SETTINGS) as cluster:
        options = {"kafka.bootstrap.servers": cluster.bootstrap}
        topic = Topics(cluster).create(PARTITIONS, replicas=3)
        wait_until(lambda: cluster.image().topic(ledger.TOPIC) is not None, "the ledger's topic")
        # Whatever the machine has time for, the stream is cut into several batches.
        query = follow_topic(spark, {**options, "maxOffsetsPerTrigger": "150"}, streamed, trigger="4 seconds")
        with load(cluster, topic) as client:
            lives = []
            for broker, how in BOUNCES:
                lives.append((broker, how, *cluster.bounce(broker, how)))
                wait_until(lambda: in_sync(cluster, topic), "every replica in sync", within_s=90)
        assert (client.left, client.refused) == (0, [])

        # The stream reaches the end of the story and stops.
        events = cluster.ledger()
        controller = cluster.controller_id
        last = next(each for each in reversed(events) if each.node == controller)
        wait_until(
            lambda: query.exception() or has_event(spark, streamed, last.node, last.event_id),
            "the end of the ledger",
            within_s=240,
        )
        query.stop()
        assert query.exception() is None
        end = reached(query.lastProgress)[ledger.TOPIC]
        told = (
            spark.read.format("epoka")
            .options(**options, subscribe=ledger.TOPIC, endingOffsets=json.dumps({ledger.TOPIC: end}))
            .load()
        )
        step(ledger.bronze_from_topic(told, "live"), batch, 0)
        present = spark.read.format("epoka").options(**options, subscribe=topic).load()
        present.write.parquet(str(tmp_path / "present"))

    faults = [event for event in events if event.kind == "fault"]
    for target in (streamed, batch):
        add_events(spark, faults, target, "live")
        found = finish(spark, target)
        assert found.sound, found.violations

    # Streaming and batch.
    assert len([*(streamed / "silver").glob("batch_id=*")]) > 1
    assert rows(streamed) == rows(batch)

    # The ledger: every bounce is there, with how it ended, and every decision that nodes wrote down.
    gold = {name: read_arrow(batch / "gold" / name).to_pylist() for name in ("generations", "decisions")}
    ended = {(row["broker"], row["generation"]): row["ended"] for row in gold["generations"]}
    known = {broker: sorted(each for b, each in ended if b == broker) for broker in (1, 2, 3)}
    for broker, how, old, new in lives:
        assert ended[broker, old] in ENDS[how], (broker, how)
        assert known[broker][known[broker].index(old) + 1] == new
    assert len(ended) == 3 + len(BOUNCES)
    in_files = {(each.node, each.event_id): each for each in events if each.event_id >= 0}
    in_tables = {(row.node, row.event_id) for row in silver(spark, batch).where("event_id >= 0").collect()}
    assert in_tables <= in_files.keys()
    of_controller = {key for key in in_files if key[0] == controller and key[1] <= last.event_id}
    assert of_controller <= in_tables
    counted = Counter(
        (each.rule, each.kind, each.verdict, each.error)
        for key, each in in_files.items()
        if each.rule and key in in_tables
    )
    assert counted == {
        (row["rule"], row["kind"], row["verdict"], row["error"]): row["times"] for row in gold["decisions"]
    }
    assert len(read_arrow(batch / "gold" / "faults")) == len(faults) >= len(BOUNCES)

    # The clients.
    acknowledged = spark.createDataFrame(
        client.acknowledged, "topic string, id string, partition int, offset bigint"
    )
    there = spark.read.parquet(str(tmp_path / "present")).selectExpr(
        "topic",
        "partition",
        "offset",
        "cast(key as string) id",
        "1 producer",
        "cast(cast(key as string) as bigint) sequence",
    )
    (account,) = tables.acknowledged(acknowledged, there).collect()
    assert account.acknowledged == len(client.acknowledged) == account.present
    assert (account.lost, account.duplicated, account.reordered, account.unacknowledged) == (0, 0, 0, 0)
    same_place = acknowledged.join(there, ["topic", "partition", "offset", "id"]).count()
    assert same_place == len(client.acknowledged), "records are where the client was told they are"

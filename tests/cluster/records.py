"""Writes to a cluster and reads everything back, with a real client."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.waiting import wait_until

QUIET = {"log_level": 0}


def create_topic(bootstrap: str, topic: str, *, replication_factor: int) -> None:
    """A topic with one partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(topic, 1, replication_factor)])[topic].result(60)


def write(bootstrap: str, topic: str, values: Sequence[bytes], **settings: object) -> None:
    """Write the values to partition 0 with acks=all; every one must be acknowledged."""
    refused: list[str] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, **QUIET, **settings}
    )
    for value in values:
        producer.produce(
            topic,
            value,
            partition=0,
            on_delivery=lambda error, _: refused.append(str(error)) if error is not None else None,
        )
    assert producer.flush(60) == 0
    assert not refused


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The first `count` values of partition 0."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, **QUIET}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[bytes] = []

    def enough() -> bool:
        for message in consumer.consume(count - len(values), timeout=0.5):
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
        return len(values) >= count

    try:
        wait_until(enough, lambda: f"{count} records; {len(values)} have come")
    finally:
        consumer.close()
    return values

"""Topics for tests against a running broker."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess


def create_topic(broker: BrokerProcess, topic: str, partitions: int, **configs: str) -> str:
    """A new topic with keys written as segment_bytes for segment.bytes; returns its name."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    for created in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        created.result(30)
    return topic

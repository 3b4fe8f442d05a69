"""Topics for tests, made and filled through an outside client."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from epoka.client.cluster import ClusterClient
from epoka.cluster.cluster import Cluster

_numbers = itertools.count()


class Topics:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def create(self, partitions: int = 1, *, name: str = "", replicas: int = -1, **configs: str) -> str:
        """A new topic, whose records stay however old; segment.bytes is written segment_bytes."""
        name = name or f"topic-{next(_numbers)}"
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
        wanted = NewTopic(name, partitions, replicas, config=settings)
        for created in self.admin.create_topics([wanted]).values():
            created.result(30)
        return name

    def delete(self, name: str) -> None:
        for deleted in self.admin.delete_topics([name]).values():
            deleted.result(30)

    def grow(self, name: str, partitions: int) -> None:
        for grown in self.admin.create_partitions([NewPartitions(name, partitions)]).values():
            grown.result(30)

    def delete_before(self, name: str, partition: int, offset: int) -> None:
        from confluent_kafka import TopicPartition

        for deleted in self.admin.delete_records([TopicPartition(name, partition, offset)]).values():
            deleted.result(30)

    def fill(
        self,
        name: str,
        values: Iterable[bytes | str | None],
        *,
        partition: int = 0,
        keys: Sequence[bytes | None] = (),
        timestamps: Sequence[int] = (),
        headers: Sequence[tuple[str, bytes | None]] = (),
        **settings: str | int,
    ) -> int:
        """Write values to one partition and wait until all are acknowledged; how many there were."""
        failures: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failures.append(error)

        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "linger.ms": 5}
            | {key.replace("_", "."): value for key, value in settings.items()}
        )
        count = 0
        for index, value in enumerate(values):
            producer.produce(
                name,
                value,
                keys[index] if keys else None,
                partition=partition,
                timestamp=timestamps[index] if timestamps else 0,
                headers=list(headers) or None,
                on_delivery=delivered,
            )
            producer.poll(0)
            count += 1
        assert producer.flush(60) == 0, "not everything was acknowledged"
        assert not failures, failures[0]
        return count


def two_of_one_leader(client: ClusterClient, name: str) -> tuple[int, int]:
    """Two partitions of a topic that has more of them than there are brokers."""
    led: dict[int, int] = {}
    for partition, view in client.topic(name).partitions.items():
        if view.leader in led:
            return led[view.leader], partition
        led[view.leader] = partition
    raise AssertionError(f"every partition of {name} has a leader of its own")

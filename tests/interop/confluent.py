"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Arrived

from tests.interop.clients import Client, Member, Message, Place, PollingMember, Record

QUICK = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 50,
}


class Confluent(Client):
    name = "confluent-kafka"

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = None,
    ) -> list[Place]:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "linger.ms": 5,
                **QUICK,
            }
        )
        places: dict[int, Place] = {}
        failures: list[KafkaError] = []

        def sent(number: int) -> Any:
            def note(error: KafkaError | None, arrived: Arrived) -> None:
                if error is not None:
                    failures.append(error)
                else:
                    places[number] = Place(arrived.partition(), arrived.offset())

            return note

        where = {} if partition is None else {"partition": partition}
        for number, message in enumerate(messages):
            producer.produce(
                topic,
                message.value,
                message.key,
                headers=list(message.headers),
                on_delivery=sent(number),
                **where,
            )
        left = producer.flush(30)
        assert not failures and not left, f"{left} messages not sent, failures: {failures[:3]}"
        return [places[number] for number in range(len(messages))]

    def join(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        *,
        instance: str | None = None,
        strategy: str = "range",
    ) -> Member:
        member = ConfluentMember(bootstrap, topic, group, instance, strategy)
        member.start()
        return member


class ConfluentMember(PollingMember):
    def __init__(self, bootstrap: str, topic: str, group: str, instance: str | None, strategy: str) -> None:
        super().__init__()
        self._topic = topic
        self._incremental = strategy.startswith("cooperative")
        self.revocations: list[frozenset[int]] = []
        """What was taken from it, one entry a time."""
        self._config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 100,
            "partition.assignment.strategy": strategy,
            "check.crcs": True,
            **QUICK,
        }
        if instance is not None:
            self._config["group.instance.id"] = instance

    def _open(self) -> None:
        self._consumer = Consumer(self._config)
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gained = frozenset(each.partition for each in partitions)
        if self._incremental:
            consumer.incremental_assign(partitions)
            self._now_owns(self._partitions | gained)
        else:
            consumer.assign(partitions)
            self._now_owns(gained)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        lost = frozenset(each.partition for each in partitions)
        self.revocations.append(lost)
        if self._incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        self._now_owns(self._partitions - lost)

    def _poll(self) -> None:
        for arrived in self._consumer.consume(500, timeout=0.05):
            error = arrived.error()
            if error is not None:
                if error.retriable() or error.code() in _PASSING:
                    continue
                raise KafkaException(error)
            self._records.append(
                Record(
                    Place(arrived.partition(), arrived.offset()),
                    Message(arrived.value(), arrived.key(), tuple(arrived.headers() or ())),
                )
            )

    def _commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def _close(self) -> None:
        self._consumer.close()


_PASSING = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.UNKNOWN_TOPIC_OR_PART)
"""What a consumer says on its way and gets over by itself."""

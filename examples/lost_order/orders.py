"""A shop that writes its orders to a topic."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message


class Shop:
    def __init__(self, producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self.taken: list[str] = []
        """Orders that the broker has acknowledged: the customers have been told so."""

    def order(self, what: str) -> None:
        self._producer.produce(self._topic, what.encode(), on_delivery=self._acknowledged)

    def close_up(self, timeout_s: float = 60) -> None:
        """Wait until every order is either taken or given up."""
        self._producer.flush(timeout_s)

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.taken.append(message.value().decode())


def delivered(consumer, orders: int, timeout_s: float = 60) -> list[str]:
    """What arrives at the warehouse: the first `orders`, or fewer when no more come."""
    found = []
    while len(found) < orders:
        message = consumer.poll(timeout_s if not found else 5)
        if message is None:
            break
        if message.error() is None:
            found.append(message.value().decode())
    return found

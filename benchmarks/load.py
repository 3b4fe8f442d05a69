"""The client side of a measurement, in a process of its own: writes or reads one topic with librdkafka.

`python -m benchmarks.load produce|consume BOOTSTRAP TOPIC RECORDS`; prints the wall seconds it took.
"""

from __future__ import annotations

import os
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

RECORD_BYTES = 1024
LOT = 1000


def produce(bootstrap: str, topic: str, records: int) -> float:
    """Write records of 1 KiB with acks=1 until all are acknowledged."""
    failures: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": 1,
            "linger.ms": 50,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 256 * 1024,
            "error_cb": failures.append,
        }
    )
    producer.list_topics(topic, timeout=10)
    lot = [{"value": os.urandom(RECORD_BYTES)} for _ in range(LOT)]
    started = time.perf_counter()
    for _ in range(records // LOT):
        while len(producer) > 100_000:
            producer.poll(0.01)
        if producer.produce_batch(topic, lot, partition=0) != LOT:
            raise RuntimeError(f"not all records were taken: {failures}")
    while producer.flush(60):
        pass
    took = time.perf_counter() - started
    if failures:
        raise KafkaException(failures[0])
    return took


def consume(bootstrap: str, topic: str, records: int) -> float:
    """Read this many records from the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            # Without it the client rests for a second whenever it has read ahead far enough.
            "fetch.queue.backoff.ms": 5,
        }
    )
    started = time.perf_counter()
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = 0
    while read < records:
        arrived = consumer.consume(min(10_000, records - read), timeout=10)
        if not arrived:
            raise RuntimeError(f"nothing more came after {read} records")
        for message in arrived:
            if message.error() is not None:
                raise KafkaException(message.error())
        read += len(arrived)
    took = time.perf_counter() - started
    consumer.close()
    return took


if __name__ == "__main__":
    verb, where, name, count = sys.argv[1:]
    print({"produce": produce, "consume": consume}[verb](where, name, int(count)))

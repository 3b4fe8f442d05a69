"""A broker that is killed while clients write, and what is there when it comes back.

A killed process loses nothing that it had handed to the system, so every acknowledged record must be there;
and what it was in the middle of writing must not be seen.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka import Message as Arrived

from tests.broker_process import BrokerProcess, running_broker
from tests.topics import create_topic
from tests.waiting import wait_until

ROUNDS = 4
PARTITIONS = 3
PER_ROUND = 3000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path) as started:
        yield started


class Writer:
    """Writes numbered values to every partition in turn until told to stop; notes what is acknowledged."""

    def __init__(self, bootstrap: str, topic: str, **settings: object) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": 1,
                "linger.ms": 2,
                "batch.size": 65_536,
                "queue.buffering.max.messages": 1000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                **settings,
            }
        )
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failed: list[KafkaError] = []
        self.repeated: list[tuple[int, int]] = []
        """Places that were acknowledged for two values."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more is written; whatever is on its way is waited for."""
        self._stop.set()
        self._thread.join(60)
        assert self._producer.flush(60) == 0

    def acknowledges(self, more: int) -> None:
        """Wait for this many more acknowledgements."""
        wanted = len(self.acknowledged) + more
        wait_until(
            lambda: len(self.acknowledged) >= wanted,
            lambda: f"{wanted} acknowledged; there are {len(self.acknowledged)}",
        )

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            value = f"value {number} {'x' * (number % 700)}".encode()
            try:
                self._producer.produce(
                    self._topic, value, partition=number % PARTITIONS, on_delivery=self._delivered
                )
                number += 1
                self._producer.poll(0)
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, arrived: Arrived) -> None:
        if error is not None:
            self.failed.append(error)
            return
        place = (arrived.partition(), arrived.offset())
        if place in self.acknowledged:
            self.repeated.append(place)
        self.acknowledged[place] = arrived.value()


def read_everything(broker: BrokerProcess, topic: str) -> dict[tuple[int, int], bytes]:
    """Every record from the first to the last, with its checksum verified by the client."""
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
        }
    )
    found: dict[tuple[int, int], bytes] = {}
    try:
        ends = {
            number: reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
            for number in range(PARTITIONS)
        }
        assert all(low == 0 for low, _ in ends.values())
        reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        reached = dict.fromkeys(range(PARTITIONS), 0)

        def everything() -> bool:
            for arrived in reader.consume(2000, timeout=0.1):
                assert arrived.error() is None, arrived.error()
                place = (arrived.partition(), arrived.offset())
                assert place not in found, f"{place} was served twice"
                found[place] = arrived.value()
                reached[arrived.partition()] = arrived.offset() + 1
            return all(reached[number] >= high for number, (_, high) in ends.items())

        wait_until(everything, lambda: f"{ends} to be reached, not {reached}")
        return found
    finally:
        reader.close()


def without_gaps(found: dict[tuple[int, int], bytes]) -> bool:
    for partition in range(PARTITIONS):
        offsets = sorted(offset for number, offset in found if number == partition)
        if offsets != list(range(len(offsets))):
            return False
    return True


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_every_acknowledged_record_outlives_a_kill(broker: BrokerProcess, codec: str) -> None:
    topic = create_topic(broker, "killed", PARTITIONS, segment_bytes="262144", index_interval_bytes="1024")
    writer = Writer(broker.bootstrap, topic, **{"compression.type": codec})
    writer.start()

    for _ in range(ROUNDS):
        writer.acknowledges(PER_ROUND)
        broker.kill()
        promised = dict(writer.acknowledged)
        broker.start()
        found = read_everything(broker, topic)
        assert {place: found.get(place) for place in promised} == promised
        assert without_gaps(found)
    writer.stop()

    found = read_everything(broker, topic)
    assert writer.failed == [] and writer.repeated == []
    assert {place: found.get(place) for place in writer.acknowledged} == writer.acknowledged
    assert without_gaps(found)


def test_an_idempotent_writer_loses_and_repeats_nothing_over_kills(broker: BrokerProcess) -> None:
    topic = create_topic(broker, "idempotent", PARTITIONS, segment_bytes="262144")
    writer = Writer(broker.bootstrap, topic, acks="all", **{"enable.idempotence": True})
    writer.start()

    for _ in range(ROUNDS):
        writer.acknowledges(PER_ROUND)
        broker.kill()
        broker.start()
    writer.stop()

    assert writer.failed == [] and writer.repeated == []
    assert read_everything(broker, topic) == writer.acknowledged


@pytest.mark.parametrize("damage", ["torn", "garbage"])
def test_a_damaged_tail_is_cut_and_never_served(broker: BrokerProcess, damage: str) -> None:
    topic = create_topic(broker, "damaged", PARTITIONS)
    writer = Writer(broker.bootstrap, topic)
    writer.start()
    writer.acknowledges(PER_ROUND)
    writer.stop()
    before = read_everything(broker, topic)
    broker.kill()
    segment = max((broker.log_dir / f"{topic}-0").glob("*.log"))
    with segment.open("r+b") as file:
        if damage == "torn":
            file.truncate(segment.stat().st_size - 7)
        else:
            file.seek(0, 2)
            file.write(bytes(range(256)) * 3)

    broker.start()

    after = read_everything(broker, topic)
    kept = max(offset for partition, offset in after if partition == 0) + 1
    if damage == "torn":
        assert 0 < kept < max(offset for partition, offset in before if partition == 0) + 1
        expected = {place: value for place, value in before.items() if place[0] != 0 or place[1] < kept}
    else:
        expected = before
    assert after == expected
    assert without_gaps(after)
    told = [line for line in broker.log.splitlines() if f"{topic}-0" in line and "cut" in line]
    assert len(told) == 1, broker.log
    next_writer = Writer(broker.bootstrap, topic)
    next_writer.start()
    next_writer.acknowledges(PARTITIONS * 10)
    next_writer.stop()
    assert min(offset for partition, offset in next_writer.acknowledged if partition == 0) == kept
    assert without_gaps(read_everything(broker, topic))

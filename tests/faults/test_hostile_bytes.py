"""Strangers knock at a broker that serves a real client: they are sent away, the client notices nothing."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest
from confluent_kafka import KafkaError, Producer

from epoka.wire import frame
from epoka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from epoka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from epoka.wire.records import encode_batch
from tests.broker_process import BrokerProcess, running_broker
from tests.topics import create_topic
from tests.waiting import wait_until

TOPIC = "wanted"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("broker")) as started:
        create_topic(started, TOPIC, 1)
        yield started


class Customer:
    """A client that keeps writing and counts its acknowledgements."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 1, "message.timeout.ms": 20_000}
        )
        self.served = 0
        self.failures: list[KafkaError] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def is_still_served(self) -> None:
        """Wait until more has been acknowledged than was when this was asked."""
        before = self.served
        wait_until(lambda: self.served > before + 20, lambda: f"service; {self.served} records so far")

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def _write(self) -> None:
        while not self._stop.is_set():
            self._producer.produce(TOPIC, b"x" * 100, on_delivery=self._delivered)
            self._producer.poll(0.001)
        self._producer.flush(30)

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is None:
            self.served += 1
        else:
            self.failures.append(error)


@pytest.fixture
def customer(broker: BrokerProcess) -> Iterator[Customer]:
    served = Customer(broker.bootstrap)
    served.is_still_served()
    yield served
    served.is_still_served()
    served.leave()
    assert served.failures == []
    assert broker.is_running()


def sent_away(connection: socket.socket) -> bool:
    """True when the broker closes the connection; whatever it says before is thrown away."""
    connection.settimeout(15)
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def tell(connection: socket.socket, data: bytes) -> None:
    """Send what the broker will take; it may already have hung up."""
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(data)


def new_lines(broker: BrokerProcess, before: str) -> list[str]:
    return broker.log[len(before) :].splitlines()


TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", "HTTP"),
        (b"POST /topics HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "HTTP"),
        (TLS_HELLO, "TLS"),
        (struct.pack(">i", -1), "-1"),
        (struct.pack(">i", -(2**31)), str(-(2**31))),
        (struct.pack(">i", 2**31 - 1), str(2**31 - 1)),
        (struct.pack(">i", 101 * 1024 * 1024) + b"x" * 1000, str(101 * 1024 * 1024)),
        (struct.pack(">i", 0), "0 bytes"),
        (struct.pack(">ihhih", 10, 999, 0, 1, -1), "999"),
        (struct.pack(">ihhih", 10, 3, 99, 1, -1), "99"),
        (struct.pack(">ihhihi", 14, 3, 4, 1, -1, 2**31 - 1), ""),
    ],
    ids=[
        "http get",
        "http post",
        "tls hello",
        "negative size",
        "most negative size",
        "huge size",
        "a little too large",
        "empty frame",
        "unknown api",
        "unknown version",
        "huge array",
    ],
)
def test_a_stranger_is_sent_away_with_one_line(
    broker: BrokerProcess, customer: Customer, data: bytes, word: str
) -> None:
    before = broker.log
    with broker.connect() as stranger:
        mine = f"{stranger.getsockname()[0]}:{stranger.getsockname()[1]}"
        tell(stranger, data)
        assert sent_away(stranger)

    wait_until(lambda: any(mine in line for line in new_lines(broker, before)), "a line about it")
    (line,) = (line for line in new_lines(broker, before) if mine in line)
    assert "WARNING" in line and word in line
    assert not any("Traceback" in line for line in new_lines(broker, before))


def valid_frames() -> list[bytes]:
    """Good requests to spoil."""
    batch = bytes(encode_batch([(b"key", b"value " * 20)] * 5))
    produce = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=(TopicProduceData(name="unwanted", partition_data=(PartitionProduceData(0, batch),)),),
    )
    metadata = MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),))
    return [
        b"".join(frame.encode_request(0, 9, 1, "stranger", produce)),
        b"".join(frame.encode_request(0, 7, 1, "stranger", produce)),
        b"".join(frame.encode_request(3, 12, 1, "stranger", metadata)),
        b"".join(frame.encode_request(3, 5, 1, "stranger", metadata)),
    ]


def test_spoilt_requests_harm_nobody(broker: BrokerProcess, customer: Customer) -> None:
    choice = random.Random(20260131)
    good = valid_frames()
    for _ in range(400):
        spoilt = bytearray(choice.choice(good))
        for _ in range(choice.randint(1, 8)):
            # The size stays, or most strangers would only be waited for.
            spoilt[choice.randrange(4, len(spoilt))] = choice.randrange(256)
        with broker.connect() as stranger:
            tell(stranger, bytes(spoilt))
            stranger.shutdown(socket.SHUT_WR)
            assert sent_away(stranger)
    assert "Traceback" not in broker.log


def test_noise_harms_nobody(broker: BrokerProcess, customer: Customer) -> None:
    choice = random.Random(20260201)
    for _ in range(300):
        with broker.connect() as stranger:
            tell(stranger, choice.randbytes(choice.randint(1, 3000)))
            stranger.shutdown(socket.SHUT_WR)
            assert sent_away(stranger)
    assert "Traceback" not in broker.log


def test_half_frames_are_forgotten(broker: BrokerProcess, customer: Customer) -> None:
    for good in valid_frames():
        for length in range(1, len(good), 7):
            with broker.connect() as stranger:
                tell(stranger, good[:length])
    wait_until(
        lambda: len(psutil.Process(broker.pid).net_connections("tcp")) < 20, "the broker to let go of them"
    )


def test_a_size_alone_costs_no_memory(broker: BrokerProcess, customer: Customer) -> None:
    process = psutil.Process(broker.pid)
    before = process.memory_info().rss
    with ExitStack() as open_connections:
        for _ in range(50):
            stranger = open_connections.enter_context(broker.connect())
            tell(stranger, struct.pack(">i", 100 * 1024 * 1024) + b"x" * 4096)
        customer.is_still_served()
        assert process.memory_info().rss - before < 150 * 1024 * 1024


def test_idle_connections_are_no_burden(broker: BrokerProcess, customer: Customer) -> None:
    with ExitStack() as open_connections:
        for _ in range(200):
            open_connections.enter_context(broker.connect())
        customer.is_still_served()

"""Real clients over TLS, with certificates of their own, to brokers that speak TLS among themselves."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import HOST, BrokerProcess, free_port, running_broker
from tests.certificates import Authority
from tests.interop import kcat
from tests.waiting import wait_until

SENT = [f"{number} {'x' * 2000}".encode() for number in range(200)]


class Secured(NamedTuple):
    """Two brokers that let nobody in without a certificate, and the files of a client that has one."""

    brokers: tuple[BrokerProcess, BrokerProcess]
    clients: Authority
    alice: Path

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.brokers)

    @property
    def librdkafka(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.clients.truststore),
            "ssl.certificate.location": str(self.alice),
            "ssl.key.location": str(self.alice),
        }

    @property
    def context(self) -> ssl.SSLContext:
        return self.clients.client(self.alice)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    clients, nodes = Authority(folder / "clients", "clients"), Authority(folder / "nodes", "nodes")
    ports = [free_port() for _ in range(4)]

    def settings(node: int) -> dict[str, str]:
        client, control = ports[2 * node - 2 : 2 * node]
        return {
            "node.id": str(node),
            "cluster.id": "secured",
            "process.roles": "broker,controller" if node == 1 else "broker",
            "listeners": f"SSL://{HOST}:{client},CONTROL://{HOST}:{control}",
            "listener.security.protocol.map": "CONTROL:SSL",
            "ssl.keystore.location": str(clients.keystore(f"broker-{node}")),
            "ssl.truststore.location": str(clients.truststore),
            "ssl.client.auth": "required",
            "listener.name.control.ssl.keystore.location": str(nodes.keystore(f"node-{node}")),
            "listener.name.control.ssl.truststore.location": str(nodes.truststore),
        } | ({} if node == 1 else {"controller.connect": f"{HOST}:{ports[1]}"})

    alice = clients.keystore("alice")
    tls = clients.client(alice)
    with (
        running_broker(folder / "1", settings(1), port=ports[0], tls=tls) as first,
        running_broker(folder / "2", settings(2), port=ports[2], tls=tls) as second,
    ):
        both = Secured((first, second), clients, alice)
        wait_until(
            lambda: all(len(each.metadata().brokers) == 2 for each in both.brokers),
            lambda: f"both brokers to know of each other; their logs:\n{first.log}\n{second.log}",
        )
        yield both


def replicated(secured: Secured, name: str) -> str:
    """A new topic on both brokers that takes a record only when both have it."""
    admin = AdminClient(secured.librdkafka)
    new = NewTopic(name, 1, 2, config={"min.insync.replicas": "2"})
    admin.create_topics([new])[name].result(30)
    return name


def by_confluent(secured: Secured, topic: str) -> list[bytes]:
    failures: list[object] = []
    producer = confluent_kafka.Producer(secured.librdkafka | {"acks": "all"})
    for value in SENT:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0 and not failures
    consumer = confluent_kafka.Consumer(
        secured.librdkafka | {"group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    got: list[bytes] = []
    try:
        while len(got) < len(SENT):
            message = consumer.poll(30)
            assert message is not None and message.error() is None, message and message.error()
            got.append(message.value())
    finally:
        consumer.close()
    return got


def by_kafka_python(secured: Secured, topic: str) -> list[bytes]:
    speak = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SSL",
        "ssl_context": secured.context,
    }
    producer = kafka.KafkaProducer(**speak, acks="all")
    for future in [producer.send(topic, value) for value in SENT]:
        future.get(60)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic, **speak, auto_offset_reset="earliest", consumer_timeout_ms=30_000, group_id=None
    )
    got = [record.value for record, _ in zip(consumer, SENT, strict=False)]
    consumer.close()
    return got


def by_aiokafka(secured: Secured, topic: str) -> list[bytes]:
    async def both_ways() -> list[bytes]:
        speak = {
            "bootstrap_servers": secured.bootstrap,
            "security_protocol": "SSL",
            "ssl_context": secured.context,
        }
        async with asyncio.timeout(60), aiokafka.AIOKafkaProducer(**speak, acks="all") as producer:
            for value in SENT:
                await producer.send_and_wait(topic, value)
        consumer = aiokafka.AIOKafkaConsumer(topic, **speak, auto_offset_reset="earliest")
        async with asyncio.timeout(60), consumer:
            return [(await consumer.getone()).value for _ in SENT]

    return asyncio.run(both_ways())


def by_kcat(secured: Secured, topic: str) -> list[bytes]:
    options = [word for name, value in secured.librdkafka.items() for word in ("-X", f"{name}={value}")]
    lines = b"\n".join(SENT)
    subprocess.run(
        ["kcat", "-P", "-t", topic, "-X", "acks=all", *options], input=lines, check=True, timeout=60
    )
    read = subprocess.run(
        ["kcat", "-C", "-t", topic, "-e", "-q", *options], capture_output=True, check=True, timeout=60
    )
    return read.stdout.splitlines()


def by_epoka(secured: Secured, topic: str) -> list[bytes]:
    properties = secured.alice.with_name("client.properties")
    properties.write_text(
        "security.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={secured.clients.truststore}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={secured.alice}\n"
    )
    common = ["--bootstrap-server", secured.bootstrap, "--command-config", str(properties)]

    def epoka(*words: str, given: bytes | None = None) -> bytes:
        done = subprocess.run(
            [sys.executable, "-m", "epoka.cli.main", *words, *common],
            input=given,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    epoka("produce", topic, given=b"\n".join(SENT))
    told = json.loads(epoka("topic", "describe", topic, "--json"))
    assert topic in json.dumps(told)
    return epoka("consume", topic, "-e").splitlines()


CLIENTS = {
    "confluent": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
    "kcat": by_kcat,
    "epoka": by_epoka,
}


@pytest.mark.parametrize(
    "both_ways",
    [
        pytest.param(
            each,
            id=name,
            marks=pytest.mark.skipif(
                name == "kcat" and not kcat.is_installed(), reason="kcat is not installed"
            ),
        )
        for name, each in CLIENTS.items()
    ],
)
def test_what_was_sent_over_tls_to_both_replicas_is_read_back(
    secured: Secured, name: str, both_ways: Callable[[Secured, str], list[bytes]]
) -> None:
    topic = replicated(secured, name)
    assert both_ways(secured, topic) == SENT


def test_a_client_without_a_certificate_reads_and_writes_nothing(secured: Secured) -> None:
    unknown = {name: value for name, value in secured.librdkafka.items() if "location" not in name}
    admin = AdminClient(unknown | {"ssl.ca.location": str(secured.clients.truststore)})
    with pytest.raises(confluent_kafka.KafkaException):
        admin.list_topics(timeout=3)
    assert any("TLS: peer did not return a certificate" in each.log for each in secured.brokers)

"""What a client sends is what it reads: keys, headers, every codec, with and without idempotence."""

from __future__ import annotations

import pytest

from tests.broker_process import BrokerProcess
from tests.interop.clients import Client, Message, Record
from tests.topics import create_topic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def messages(count: int) -> list[Message]:
    headers = (("trace", b"abc-123"), ("kind", b"test"))
    return [
        Message(f"value {number} {'x' * (number % 300)}".encode(), f"key {number % 7}".encode(), headers)
        for number in range(count)
    ]


def read_all(client: Client, broker: BrokerProcess, topic: str, count: int) -> list[Record]:
    member = client.join(broker.bootstrap, topic, topic)
    try:
        return member.read(count)
    finally:
        member.leave()


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_what_was_sent_is_read_back(
    client: Client, broker: BrokerProcess, name: str, codec: str, idempotent: bool
) -> None:
    if codec not in client.codecs:
        pytest.skip(f"{client.name} cannot write {codec} here")
    topic = create_topic(broker, name, partitions=1)
    sent = messages(500)

    places = client.produce(broker.bootstrap, topic, sent, codec=codec, idempotent=idempotent)
    records = read_all(client, broker, topic, len(sent))

    assert [record.message for record in records] == sent
    assert [record.place for record in records] == places
    assert [place.offset for place in places] == list(range(len(sent)))


def test_a_key_keeps_its_partition(client: Client, broker: BrokerProcess, name: str) -> None:
    topic = create_topic(broker, name, partitions=3)
    sent = messages(200)

    places = client.produce(broker.bootstrap, topic, sent)

    homes: dict[bytes | None, set[int]] = {}
    for message, place in zip(sent, places, strict=True):
        homes.setdefault(message.key, set()).add(place.partition)
    assert all(len(partitions) == 1 for partitions in homes.values())
    assert len(set.union(*homes.values())) > 1
    records = read_all(client, broker, topic, len(sent))
    assert {record.place: record.message for record in records} == dict(zip(places, sent, strict=True))


def test_a_topic_is_created_by_writing_to_it(client: Client, broker: BrokerProcess, name: str) -> None:
    sent = [Message(b"first"), Message(b"second")]

    if client.name == "kcat":
        pytest.skip("the adapter looks for the topic before kcat writes")
    places = client.produce(broker.bootstrap, name, sent)

    assert [place.offset for place in places] == [0, 1]
    assert [record.message for record in read_all(client, broker, name, 2)] == sent

"""What an administrator does with topics, configurations, offsets and groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.broker_process import BrokerProcess
from tests.interop.admin import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Admin,
    ConfluentAdmin,
    Described,
    KafkaPythonAdmin,
    Refused,
)
from tests.interop.clients import Message
from tests.interop.confluent import Confluent
from tests.waiting import wait_until


@pytest.fixture(params=[ConfluentAdmin, KafkaPythonAdmin], ids=lambda kind: kind.name)
def admin(request: pytest.FixtureRequest, broker: BrokerProcess) -> Iterator[Admin]:
    opened = request.param(broker.bootstrap)
    yield opened
    opened.close()


def messages(count: int) -> list[Message]:
    return [Message(f"value {number}".encode()) for number in range(count)]


def test_a_topic_is_created_described_and_deleted(admin: Admin, name: str) -> None:
    admin.create_topic(name, 3, {"retention.ms": "3600000"})

    assert admin.partitions(name) == {0: 1, 1: 1, 2: 1}
    assert name in admin.topics()
    assert admin.configs(name)["retention.ms"] == "3600000"

    admin.delete_topic(name)
    assert name not in admin.topics()


def test_a_topic_can_be_created_again_and_is_empty(admin: Admin, broker: BrokerProcess, name: str) -> None:
    admin.create_topic(name, 1, {})
    Confluent().produce(broker.bootstrap, name, messages(5))
    admin.delete_topic(name)

    admin.create_topic(name, 1, {})

    assert admin.offset(name, 0, LATEST) == 0


def test_what_cannot_be_is_refused_by_name(admin: Admin, name: str) -> None:
    admin.create_topic(name, 1, {})

    with pytest.raises(Refused, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topic(name, 1, {})
    with pytest.raises(Refused, match="INVALID_CONFIG"):
        admin.create_topic(f"{name}.other", 1, {"retention.ms": "soon"})
    with pytest.raises(Refused, match="UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topic(f"{name}.other")
    with pytest.raises(Refused, match="INVALID_PARTITIONS"):
        admin.add_partitions(name, 1)
    with pytest.raises(Refused, match="INVALID_CONFIG"):
        admin.set_config(name, "retention.ms", "soon")
    assert f"{name}.other" not in admin.topics()


def test_partitions_are_added_and_can_be_written(admin: Admin, broker: BrokerProcess, name: str) -> None:
    admin.create_topic(name, 1, {})

    admin.add_partitions(name, 3)

    assert set(admin.partitions(name)) == {0, 1, 2}
    (place,) = Confluent().produce(broker.bootstrap, name, messages(1), partition=2)
    assert place == (2, 0)


def test_a_topic_key_is_set_and_reset(admin: Admin, name: str) -> None:
    admin.create_topic(name, 1, {})
    default = admin.configs(name)["max.message.bytes"]

    admin.set_config(name, "max.message.bytes", "2000")
    assert admin.configs(name)["max.message.bytes"] == "2000"

    admin.reset_config(name, "max.message.bytes")
    assert admin.configs(name)["max.message.bytes"] == default


def test_the_broker_tells_its_configuration_and_the_cluster_its_nodes(admin: Admin) -> None:
    assert admin.broker_configs(1)["group.initial.rebalance.delay.ms"] == "0"
    assert admin.nodes() == {1}


def test_offsets_are_found_by_time(admin: Admin, broker: BrokerProcess, name: str) -> None:
    admin.create_topic(name, 1, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce(name, f"{number}", timestamp=1_700_000_000_000 + number * 1000)
        producer.flush(30)

    assert admin.offset(name, 0, EARLIEST) == 0
    assert admin.offset(name, 0, LATEST) == 10
    assert admin.offset(name, 0, MAX_TIMESTAMP) == 9
    assert admin.offset(name, 0, 1_700_000_004_000) == 4
    assert admin.offset(name, 0, 1_700_000_004_001) == 5
    assert admin.offset(name, 0, 1_800_000_000_000) == -1


def test_deleted_records_are_gone(admin: Admin, broker: BrokerProcess, name: str) -> None:
    admin.create_topic(name, 1, {})
    client = Confluent()
    client.produce(broker.bootstrap, name, messages(10))

    assert admin.delete_records(name, 0, 4) == 4

    assert admin.offset(name, 0, EARLIEST) == 4
    reader = client.join(broker.bootstrap, name, name)
    assert [record.place.offset for record in reader.read(6)] == [4, 5, 6, 7, 8, 9]
    reader.leave()


def test_a_group_is_listed_described_and_deleted(admin: Admin, broker: BrokerProcess, name: str) -> None:
    admin.create_topic(name, 2, {})
    member = Confluent().join(broker.bootstrap, name, name)
    member.owns([0, 1])

    assert name in admin.groups()
    assert admin.describe_group(name) == Described("stable", 1)
    with pytest.raises(Refused, match="NON_EMPTY_GROUP"):
        admin.delete_group(name)

    member.leave()
    assert admin.describe_group(name) == Described("empty", 0)
    admin.delete_group(name)
    assert name not in admin.groups()


def test_committed_offsets_are_read_and_set(admin: Admin, broker: BrokerProcess, name: str) -> None:
    admin.create_topic(name, 1, {})
    client = Confluent()
    client.produce(broker.bootstrap, name, messages(10))
    member = client.join(broker.bootstrap, name, name)
    member.read(10)
    member.commit()
    member.leave()
    assert admin.committed(name) == {0: 10}

    admin.commit(name, name, {0: 7})

    assert admin.committed(name) == {0: 7}
    again = client.join(broker.bootstrap, name, name)
    assert [record.place.offset for record in again.read(3)] == [7, 8, 9]
    again.leave()


def test_a_key_that_was_set_is_obeyed_at_once(admin: Admin, broker: BrokerProcess, name: str) -> None:
    admin.create_topic(name, 1, {})
    admin.set_config(name, "max.message.bytes", "500")
    refused: list[str] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})

    producer.produce(name, b"x" * 5000, on_delivery=lambda error, _: refused.append(error and error.name()))
    producer.flush(30)

    wait_until(lambda: refused, "an answer")
    assert refused == ["MSG_SIZE_TOO_LARGE"]
    assert admin.offset(name, 0, LATEST) == 0

"""Kafka's JSON, read and written; anything else is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoka.coordination.zookeeper import znodes
from epoka.coordination.zookeeper.znodes import Assignment, BadZnode, BrokerZnode, StateZnode, TopicZnode
from epoka.model.registrations import Endpoint, Feature

PATH = "/some/node"

hosts = st.sampled_from(["localhost", "10.0.0.1", "::1", "fe80::1%eth0", "kafka-1.example.org"])
endpoint_lists = st.lists(
    st.builds(
        Endpoint,
        st.sampled_from(["PLAINTEXT", "CONTROL", "TLS"]),
        hosts,
        st.integers(1, 65535),
        st.integers(0, 3),
    ),
    max_size=3,
    unique_by=lambda endpoint: endpoint.name,
).map(tuple)
ids = st.integers(0, 2**31 - 1)
id_tuples = st.lists(ids, max_size=4, unique=True).map(tuple)


@given(
    st.builds(
        BrokerZnode,
        st.sampled_from([4, 5]),
        endpoint_lists,
        st.none() | st.text(max_size=5),
        st.sampled_from([(), (Feature("epoka.level", 0, 5),)]),
    )
)
def test_a_registration_survives_its_node(broker: BrokerZnode) -> None:
    assert znodes.decode_broker(PATH, znodes.encode_broker(broker, 17)) == broker


@given(
    st.uuids(),
    st.dictionaries(
        st.integers(0, 1000),
        st.builds(Assignment, id_tuples.filter(bool), id_tuples, id_tuples),
        max_size=5,
    ),
)
def test_an_assignment_survives_its_node(topic_id: UUID, partitions: dict[int, Assignment]) -> None:
    topic = TopicZnode(topic_id, partitions)
    assert znodes.decode_topic(PATH, znodes.encode_topic(topic)) == topic


@given(st.builds(StateZnode, st.integers(-1, 99), ids, id_tuples, ids, st.integers(0, 1)))
def test_a_partition_survives_its_node(state: StateZnode) -> None:
    assert znodes.decode_state(PATH, znodes.encode_state(state)) == state


def test_a_registration_is_written_as_kafka_writes_it() -> None:
    broker = BrokerZnode(
        5,
        (Endpoint("INTERNAL", "h", 9093, 3), Endpoint("PLAINTEXT", "h", 9092)),
        "r",
        (Feature("f", 1, 3),),
    )
    assert json.loads(znodes.encode_broker(broker, 1_700_000_000_000)) == {
        "version": 5,
        "host": "h",
        "port": 9092,
        "jmx_port": -1,
        "timestamp": "1700000000000",
        "endpoints": ["INTERNAL://h:9093", "PLAINTEXT://h:9092"],
        "listener_security_protocol_map": {"INTERNAL": "SASL_SSL", "PLAINTEXT": "PLAINTEXT"},
        "rack": "r",
        "features": {"f": {"min_version": 1, "max_version": 3}},
    }


def test_what_kafka_wrote_is_read() -> None:
    broker = znodes.decode_broker(
        PATH,
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":'
        b'["PLAINTEXT://0a1b:9092"],"jmx_port":-1,"port":9092,"host":"0a1b","version":5,'
        b'"timestamp":"1652885342145"}',
    )
    assert broker == BrokerZnode(5, (Endpoint("PLAINTEXT", "0a1b", 9092),))
    assert broker.heartbeats
    topic = znodes.decode_topic(
        PATH,
        b'{"removing_replicas":{},"partitions":{"1":[1,2],"0":[0,1]},"topic_id":"8sCf4ZRqQLmjOMmhbp4n3w",'
        b'"adding_replicas":{"1":[2]},"version":3}',
    )
    assert topic.partitions == {0: Assignment((0, 1)), 1: Assignment((1, 2), (2,))}
    assert topic.id is not None and znodes.encode_uuid(topic.id) == "8sCf4ZRqQLmjOMmhbp4n3w"
    state = znodes.decode_state(
        PATH, b'{"controller_epoch":3,"leader":2,"version":1,"leader_epoch":9,"isr":[2,1]}'
    )
    assert state == StateZnode(2, 9, (2, 1), 3)


def test_registrations_of_old_versions_are_read_and_are_always_active() -> None:
    first = znodes.decode_broker(PATH, b'{"version":1,"host":"old","port":9092,"jmx_port":1}')
    assert (first.address, first.heartbeats) == ("old:9092", False)
    second = znodes.decode_broker(PATH, b'{"version":2,"host":"h","port":1,"endpoints":["SSL://h:9093"]}')
    assert second.endpoints == (Endpoint("SSL", "h", 9093, 1),)


DECODERS: dict[str, Callable[[str, bytes], Any]] = {
    name: getattr(znodes, name)
    for name in dir(znodes)
    if name.startswith("decode_") and name != "decode_uuid"
}

shapes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NAMES = [
    "version",
    "partitions",
    "topic_id",
    "isr",
    "leader",
    "leader_epoch",
    "endpoints",
    "config",
    "features",
    "host",
    "port",
    "brokerid",
    "block_end",
    "broker_epoch",
    "id",
    "0",
    "adding_replicas",
]
fields = st.dictionaries(st.sampled_from(NAMES), shapes)
contents = st.binary(max_size=40) | (shapes | fields).map(json.dumps).map(str.encode)


@pytest.mark.parametrize("name", sorted(DECODERS))
@settings(max_examples=25)
@given(contents)
def test_whatever_a_stranger_writes_is_named_or_read(name: str, data: bytes) -> None:
    try:
        DECODERS[name](PATH, data)
    except BadZnode as bad:
        assert str(bad).startswith(f"{PATH}: ")


@pytest.mark.parametrize(
    ("decode", "content", "reason"),
    [
        (znodes.decode_topic, b"", "it is empty"),
        (znodes.decode_topic, b'{"version":9,"partitions":{}}', "its version is 9, known are 1 to 3"),
        (znodes.decode_topic, b'{"version":3,"partitions":{"2000000":[1]}}', "'2000000' is not the number"),
        (
            znodes.decode_topic,
            b'{"version":3,"partitions":{"0":[1,1]}}',
            "partition 0 has the replicas [1, 1]",
        ),
        (znodes.decode_topic, b'{"version":3,"partitions":{"0":[99999999999]}}', "it cannot be read"),
        (znodes.decode_topic, b'{"version":3,"topic_id":"x","partitions":{}}', "'x' is not a topic id"),
        (znodes.decode_state, b'{"version":1,"leader":-7,"leader_epoch":0,"isr":[]}', "it cannot be read"),
        (znodes.decode_broker, b'{"version":5,"endpoints":["nonsense"]}', "'nonsense' is not an endpoint"),
        (znodes.decode_broker, b'{"version":5,"endpoints":["X://h:1"]}', "'X' is not a security protocol"),
        (znodes.decode_broker, b'{"version":1}', "it names no address"),
        (
            znodes.decode_broker,
            b'{"version":5,"endpoints":["SSL://h:1"],"rack":"' + b"r" * 33_000 + b'"}',
            "it cannot be read",
        ),
        (
            znodes.decode_broker,
            b'{"version":5,"endpoints":[],"features":{"x":{"min_version":0,"max_version":40000}}}',
            "it cannot be read",
        ),
        (znodes.decode_cluster_id, b'{"version":"x","id":""}', "its version is x, known are 1 to 1"),
        (znodes.decode_epoch, b"-1", "b'-1' is not an epoch"),
        (znodes.decode_producer_ids, b'{"version":1,"block_end":"many"}', "'many' is not a producer id"),
    ],
)
def test_what_is_wrong_is_said(decode: Callable[[str, bytes], Any], content: bytes, reason: str) -> None:
    with pytest.raises(BadZnode) as raised:
        decode(PATH, content)
    assert reason in str(raised.value)


def test_nonsense_may_be_as_deep_as_a_node_is_large() -> None:
    with pytest.raises(BadZnode, match="it cannot be read"):
        znodes.decode_generation(PATH, b'{"version":1,"x":' + b"[" * 900_000)


def test_a_value_that_its_key_does_not_allow_is_named_and_passed_over() -> None:
    """Cores take settings for checked, and end when they are not."""
    written = {
        "retention.ms": "two weeks",
        "min.insync.replicas": "0",
        "log.retention.ms": "-5",
        "cleanup.policy": "compact",
        "remote.storage.enable": "true",
    }
    complaints: list[str] = []
    assert znodes.allowed(PATH, written, complaints.append) == {
        "cleanup.policy": "compact",
        "remote.storage.enable": "true",
    }
    assert [each.split(" ")[:2] for each in complaints] == [
        [f"{PATH}:", "retention.ms"],
        [f"{PATH}:", "min.insync.replicas"],
        [f"{PATH}:", "log.retention.ms"],
    ]

"""Brokers that are not ours: librdkafka's mock cluster, which is old in some ways and odd in others.

It answers ApiVersions 3 in version 0, and leaves a byte behind its metadata.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from epoka.client.cluster import EARLIEST, LATEST, ClusterClient
from epoka.client.fetching import Range, RangeReader
from epoka.client.producing import BatchWriter, Outgoing
from epoka.client.settings import settings_from
from epoka.wire.records import Record, encode_batch


@pytest.fixture(scope="module")
def mock() -> Iterator[Producer]:
    yield Producer({"bootstrap.servers": "nowhere", "test.mock.num.brokers": 2, "log_level": 0})


@pytest.fixture
def client(mock: Producer) -> Iterator[ClusterClient]:
    brokers = mock.list_topics(timeout=60).brokers.values()
    bootstrap = ",".join(f"{each.host}:{each.port}" for each in brokers)
    with ClusterClient(settings_from({"bootstrap.servers": bootstrap})) as opened:
        yield opened


def test_what_both_clients_write_is_read_in_its_order(mock: Producer, client: ClusterClient) -> None:
    mock.produce("shared", b"theirs", partition=0)
    assert mock.flush(60) == 0
    writer = BatchWriter(client)
    writer.add(Outgoing("shared", 0, encode_batch([Record(0, 1, b"k", b"ours")]), 1))
    writer.flush()
    at = ("shared", 0)
    first, end = (client.offsets({at: when})[at].offset for when in (EARLIEST, LATEST))
    read = [
        each.value
        for chunk in RangeReader(client, Range(*at, first, end)).columns()
        for each in chunk.records()
    ]
    assert read == [b"theirs", b"ours"]

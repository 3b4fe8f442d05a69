"""One cluster of three brokers for the tests of this room, and topics in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from epoka.cluster.cluster import Cluster
from tests.client.topics import Topics


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture
def topics(cluster: Cluster) -> Topics:
    return Topics(cluster)

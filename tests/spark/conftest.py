"""One Spark session and one cluster for a whole worker: starting either costs more than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from epoka.cluster.cluster import Cluster
from tests.client.topics import Topics


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from epoka.spark.session import build_session

    session = build_session("test")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture
def topics(spark_cluster: Cluster) -> Topics:
    return Topics(spark_cluster)

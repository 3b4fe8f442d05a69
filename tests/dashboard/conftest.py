"""Without the extras only what needs no server is tested, and pytest says what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

SERVED = ("test_dashboard.py", "test_gate.py", "test_questions.py", "test_zookeeper.py")
MISSING = [name for name in ("starlette", "uvicorn", "httpx") if find_spec(name) is None]
collect_ignore = list(SERVED) if MISSING else []

QUICK = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}


def pytest_report_header(config: pytest.Config) -> list[str]:
    return (
        [f"dashboard: {', '.join(SERVED)} left out, not installed: {', '.join(MISSING)}"] if MISSING else []
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three brokers and a topic."""
    from epoka.cluster.admin import AdminDoor
    from epoka.cluster.cluster import Cluster
    from tests.cluster.records import create_topic

    with Cluster(brokers=3, config=QUICK) as cluster:
        create_topic(cluster.bootstrap, "orders", replication_factor=3)
        door = AdminDoor(cluster)
        yield cluster
        door.close()


@pytest.fixture(scope="module")
def client(cluster: Any) -> Iterator[Any]:
    from tests.dashboard.looking import looking

    with looking(cluster) as client:
        yield client

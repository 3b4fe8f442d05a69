"""One real ZooKeeper for all of these tests, and an ensemble of three for those that kill nodes.

Without kazoo, PySpark or Java they are skipped, and the reason says what is missing. Under xdist they stay
together in one worker, so that there is one server and not one a worker.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epoka.coordination.zookeeper.server import ZooKeeperServer
from tests.zookeeper_missing import MISSING

HERE = Path(__file__).parent


class SkippedModule(pytest.Module):
    """A module that cannot even be imported without what is missing."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        pytest.skip(MISSING or "", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return SkippedModule.from_parent(parent, path=module_path) if MISSING else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("zookeeper"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """Three nodes. A test that kills one starts it again."""
    with ZooKeeperServer(tmp_path_factory.mktemp("ensemble"), 3) as running:
        yield running


_numbers = itertools.count(1)


@pytest.fixture
def connect(server: ZooKeeperServer) -> str:
    """A place of its own for each test."""
    return f"{server.connect}/test-{next(_numbers)}"


@pytest.fixture
def open_session(connect: str) -> Iterator[Callable[..., object]]:
    """Opens sessions that are closed when the test ends."""
    from tests.coordination.zookeeper.people import Sessions

    with Sessions(connect) as sessions:
        yield sessions.open

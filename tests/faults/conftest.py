"""One real ZooKeeper for the tests of a file; each cluster has a place of its own in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from epoka.coordination.zookeeper.server import ZooKeeperServer


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running

"""The pytest plugin: fixture `epoka_cluster`, marker `epoka`, and what a failed test says of its cluster.

pytest imports this in every run of its environment, so the cluster is imported when the first test wants one.
Every process has clusters of its own, on ports of its own: pytest-xdist needs nothing more.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from epoka.testing.pool import Pool, Wish
    from epoka.testing.tested_cluster import TestedCluster

TOLD_EVENTS = 30
"""How many of the last events a failed test shows; the trace has them all."""
NAME_BYTES = 150
"""How much of a test's name the name of its trace has; that of a file has at most 255 bytes."""

MARKER = "epoka(brokers=3, mode='log', level=None, config={}, processes=None): the cluster that a test wants"

_tested = pytest.StashKey["TestedCluster"]()
_traces = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture(scope="session")
def epoka_clusters(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Pool]:
    """Every cluster of this session; tests take `epoka_cluster`.

    What nodes log stays in their own files: a report has the ledger, and tests have their own lines to show.
    """
    from epoka.testing.pool import Pool

    request.config.stash[_traces] = tmp_path_factory.getbasetemp() / "epoka"
    logger, pool = logging.getLogger("epoka"), Pool()
    told, logger.propagate = logger.propagate, False
    yield pool
    pool.close()
    logger.propagate = told


@pytest.fixture
def epoka_cluster(request: pytest.FixtureRequest, epoka_clusters: Pool) -> Iterator[TestedCluster]:
    """A running cluster, shared with other tests; topics, groups and clients made through it are not."""
    from epoka.cluster.errors import BadCluster
    from epoka.testing.tested_cluster import TestedCluster

    wish = _wish(request)
    try:
        cluster = epoka_clusters.cluster(wish)
    except BadCluster as error:
        raise pytest.UsageError(f"no such cluster: {error}") from error
    tested = TestedCluster(cluster, epoka_clusters.connections(cluster))
    request.node.stash[_tested] = tested
    yield tested
    tested.end_clients()
    if tested.harmed:
        epoka_clusters.mend(cluster)
    if cluster.is_open:
        tested.forget_topics()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """A failed test tells what its cluster decided meanwhile, and where all of it is."""
    outcome = yield
    report = outcome.get_result()
    tested = item.stash.get(_tested, None)
    if tested is None or not report.failed or call.when == "teardown":
        return
    try:
        text = _story(tested, item)
    except Exception as error:
        text = f"the ledger cannot be read: {error}"
    report.sections.append(("epoka ledger", text))


def _wish(request: pytest.FixtureRequest) -> Wish:
    from epoka.testing.pool import Wish

    marker = request.node.get_closest_marker("epoka")
    if marker is None:
        return Wish.of()
    try:
        return Wish.of(*marker.args, **marker.kwargs)
    except TypeError as error:
        raise pytest.UsageError(f"{MARKER}; {error}") from error


def _story(tested: TestedCluster, item: pytest.Item) -> str:
    from epoka.ledger.telling import line

    events = tested.ledger()
    told = [line(event, since_ms=tested.began_ms) for event in events[-TOLD_EVENTS:]]
    left = len(events) - len(told)
    if left:
        told.insert(0, f"... {left} events before")
    trace = _write_trace(tested, item)
    told += ["", f"the whole trace: {trace}", f"read it with: epoka ledger --file {trace}"]
    return "\n".join(told)


def _write_trace(tested: TestedCluster, item: pytest.Item) -> Path:
    """Everything that the cluster has written down, in a file that outlives it."""
    import msgspec

    folder = item.config.stash[_traces]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _trace_name(item.nodeid)
    path.write_bytes(msgspec.json.Encoder().encode_lines(tested.cluster.ledger()))
    return path


def _trace_name(nodeid: str) -> str:
    """A name for the file of one test: the end of the test's name, and what tells it from similar ones."""
    import hashlib

    digest = hashlib.sha256(nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    name = re.sub(r"[^\w.-]+", "_", nodeid).encode()[-NAME_BYTES:].decode(errors="ignore")
    return f"{name}-{digest}.jsonl"

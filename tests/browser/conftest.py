"""A real browser, Debian's chromium, in front of a live cluster; what it saw is kept under build/browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epoka.cluster.admin import AdminDoor
from epoka.cluster.cluster import Cluster
from tests.cluster.records import create_topic

FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PICTURES = Path(__file__).parents[2] / "build" / "browser"
QUICK = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("starlette", reason="the extra `dashboard` is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed; `make test` installs it when it may")
    # Chromium refuses its sandbox to root.
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else list(FLAGS)
    PICTURES.mkdir(parents=True, exist_ok=True)
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def cluster(browser: Any) -> Iterator[Cluster]:
    with Cluster(brokers=3, config=QUICK) as cluster:
        create_topic(cluster.bootstrap, "orders", replication_factor=3)
        door = AdminDoor(cluster)
        yield cluster
        door.close()


@pytest.fixture(scope="module")
def dashboard(cluster: Cluster) -> Iterator[Any]:
    from epoka.dashboard.serving import Dashboard

    def states() -> dict[int, str]:
        return {each: cluster.state(each) for each in cluster.broker_ids}

    with Dashboard(cluster.data, allow_faults=True, nodes=states) as dashboard:
        yield dashboard


@pytest.fixture
def page(browser: Any, dashboard: Any, cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page with a session of its own; an error in its scripts fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, **getattr(request, "param", {}))
    page = context.new_page()
    page.set_default_timeout(30_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    foreign: list[str] = []
    page.on(
        "request",
        lambda sent: None if sent.url.startswith(dashboard.address) else foreign.append(sent.url),
    )
    page.goto(dashboard.url)
    page.wait_for_selector(".hero")
    yield page
    page.screenshot(path=str(PICTURES / f"{request.node.name.replace('/', '-')}.png"))
    context.close()
    # A test that failed half way must not fail those behind it.
    cluster.heal()
    assert not problems
    assert not [url for url in foreign if not url.startswith(("data:", "blob:"))]

"""Asking a dashboard what a page would ask it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from epoka.cluster.cluster import Cluster
from epoka.dashboard.gate import TOKEN_HEADER
from epoka.dashboard.serving import Dashboard
from tests.waiting import wait_until


@contextmanager
def looking(cluster: Cluster) -> Iterator[httpx.Client]:
    def states() -> dict[int, str]:
        return {each: cluster.state(each) for each in cluster.broker_ids}

    with (
        Dashboard(cluster.data, allow_faults=True, nodes=states) as dashboard,
        httpx.Client(base_url=dashboard.address, timeout=60) as client,
    ):
        enter(client, dashboard)
        yield client


def enter(client: httpx.Client, dashboard: Dashboard) -> None:
    """As a browser does: the session is a cookie, and the key to changes comes in the fragment."""
    location = client.get(dashboard.url).headers["location"]
    client.headers[TOKEN_HEADER] = location.removeprefix("/#key=")


def ask(client: httpx.Client, path: str, **query: Any) -> Any:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: httpx.Client, path: str, **query: Any) -> tuple[int, str]:
    """The status and the text of an answer that says no."""
    answer = client.get(path, params=query)
    return answer.status_code, answer.json()["error"]


def act(client: httpx.Client, verb: str, node: int | None = None, **about: Any) -> httpx.Response:
    headers = {"origin": str(client.base_url).rstrip("/")}
    return client.post("/api/faults", json={"verb": verb, "node": node, **about}, headers=headers)


def healthy(client: httpx.Client) -> None:
    wait_until(
        lambda: ask(client, "/api/state")["health"]["tone"] == "good",
        lambda: f"the cluster to be healthy: {ask(client, '/api/state')['health']}",
    )

"""The dashboard of zookeeper mode: a controller dies, the next one is followed, and both have their epoch."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from epoka.cluster.cluster import Cluster
from epoka.dashboard.serving import Dashboard
from tests.waiting import wait_until
from tests.zookeeper_missing import MISSING

pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")


def test_a_takeover_is_followed_and_drawn() -> None:
    quick = {"zookeeper.session.timeout.ms": "2000"}
    with (
        Cluster(brokers=1, mode="zookeeper", controllers=2, config=quick) as cluster,
        Dashboard(cluster.data) as dashboard,
        httpx.Client(base_url=dashboard.address) as client,
    ):
        client.get(dashboard.url)

        def state() -> Any:
            return client.get("/api/state").json()

        before = state()
        assert (before["cluster"]["mode"], before["health"]["tone"]) == ("zookeeper", "good")
        assert before["brokers"]["1"]["generation"] == cluster.generation(1)
        first = before["cluster"]["controller"]
        (second,) = {*cluster.controller_ids} - {first}
        cluster.kill(first)
        wait_until(
            lambda: state()["cluster"]["controller"] == second and state()["seen"]["reachable"],
            "the next controller to be followed",
        )
        reigns = wait_until(
            lambda: len(found := client.get("/api/timeline").json()["reigns"]) == 2 and found, "two reigns"
        )
        assert [reign["node"] for reign in reigns] == [first, second]
        assert reigns[0]["number"] < reigns[1]["number"]
        assert reigns[0]["to_ms"] == reigns[1]["from_ms"]
        (life,) = client.get("/api/timeline").json()["lanes"]["1"]["lives"]
        assert (life["generation"], life["ended"]) == (cluster.generation(1), "")

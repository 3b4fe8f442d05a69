"""The dashboard of a real cluster: what it says, what it pushes, and what it does when nobody answers."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx
import pytest

from epoka.cluster.cluster import Cluster
from tests.dashboard.looking import act, ask, healthy
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("dashboard")

PAGES = ("overview", "brokers", "generations", "decisions", "past", "topics", "groups")


class Heard:
    """What a page that stays open is told."""

    def __init__(self, client: httpx.Client) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self._client = httpx.Client(base_url=client.base_url, cookies=client.cookies, timeout=None)
        self._response = self._client.send(self._client.build_request("GET", "/api/feed"), stream=True)
        assert self._response.headers["content-type"].startswith("text/event-stream")
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        kind = ""
        try:
            for line in self._response.iter_lines():
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    self.messages.append((kind, json.loads(line.removeprefix("data: "))))
        except httpx.HTTPError:
            return

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [content for each, content in list(self.messages) if each == kind]


def test_the_overview_of_a_healthy_cluster(cluster: Cluster, client: httpx.Client) -> None:
    healthy(client)
    state = ask(client, "/api/state")
    assert state["health"] == {"tone": "good", "headline": "Healthy", "reasons": []}
    assert state["cluster"] == {
        "id": cluster.layout.cluster_id,
        "mode": "log",
        "level": "fetch-epochs",
        "controller": 100,
    }
    assert {each: row["state"] for each, row in state["brokers"].items()} == dict.fromkeys("123", "active")
    broker = state["brokers"]["2"]
    assert broker["generation"] == cluster.generation(2)
    assert len(broker["incarnation"]) == 36


def test_the_overview_is_small_and_quick(client: httpx.Client) -> None:
    began = time.perf_counter()
    page = client.get("/")
    files = ["/static/style.css", "/static/icon.svg", "/api/session", "/api/state"]
    files += [f"/static/{name}.js" for name in ("main", "dom", "store", "panel", "pager", *PAGES)]
    size = len(page.content) + sum(len(client.get(path).content) for path in files)
    assert size < 150_000
    assert time.perf_counter() - began < 3  # 15 requests, one after the other, on a busy machine


def test_an_unclean_bounce_is_seen_as_it_happens_and_explained_afterwards(
    cluster: Cluster, client: httpx.Client
) -> None:
    healthy(client)
    heard = Heard(client)
    wait_until(lambda: heard.of("state"), "the whole state once")
    wait_until(lambda: "2" in ask(client, "/api/timeline")["lanes"], "the ledger to be read")
    timeline = ask(client, "/api/timeline")
    old, new = cluster.bounce(2, "unclean")

    # What is pushed is what has changed: the brokers that have, and nobody else.
    def pushed(state: str) -> bool:
        return any(state == delta.get("brokers", {}).get("2", {}).get("state") for delta in heard.of("delta"))

    wait_until(lambda: pushed("down") and pushed("active"), lambda: f"both states: {heard.messages}")
    assert len(heard.of("state")) == 1
    rows = dict(heard.of("state")[0]["brokers"])
    for position, delta in enumerate(heard.of("delta")):
        for broker_id, row in delta.get("brokers", {}).items():
            # The first one may have been on its way when the whole state was told.
            assert position == 0 or rows[broker_id] != row
            rows[broker_id] = row

    # The time line: one life more, its end, and what somebody did.
    def lives() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ask(client, "/api/timeline")["lanes"]["2"]["lives"]
        return found

    wait_until(lambda: lives()[-1]["generation"] == new, "the new life on the time line")
    assert [(life["generation"], life["ended"]) for life in lives()[-2:]] == [(old, "unclean"), (new, "")]
    assert len(lives()) == len(timeline["lanes"]["2"]["lives"]) + 1
    assert ask(client, "/api/timeline")["faults"][-1]["text"] == "killed broker 2 for an unclean bounce"
    wait_until(
        lambda: any("2" in delta.get("lanes", {}) for delta in heard.of("timeline")), "the lane to be pushed"
    )

    # The decision, found by rule, broker and text, with its causes down to what somebody did.
    found = ask(client, "/api/decisions", rule="heartbeat.session", broker=2, q="silence")
    refused = found["rows"][0]
    assert refused["verdict"] == "refused"
    assert (refused["given"].endswith("ms of silence"), refused["expected"]) == (True, "<= 1500 ms")
    why = ask(client, "/api/why/event", node=refused["node"], id=refused["event_id"])
    assert why["steps"][0]["event_id"] == refused["event_id"]
    assert why["steps"][-1]["text"] == "somebody killed broker 2 for an unclean bounce"
    assert any(
        row["event_id"] == refused["event_id"] for news in heard.of("ledger") for row in news["refusals"]
    )

    # The partition: broker 2 left the ISR and came back, each with its cause.
    def changes() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ask(client, "/api/partitions/orders/0")["history"]
        return found

    wait_until(lambda: 2 in changes()[0]["isr"] and len(changes()) >= 3, "broker 2 to be in sync again")
    back, left = changes()[0], next(each for each in changes() if 2 not in each["isr"])
    assert back["causes"][0]["kind"] == "isr-proposed"
    # Fenced or, as a leader, replaced: either way it ends with the kill.
    assert left["causes"][-1]["text"] == "somebody killed broker 2 for an unclean bounce"


def test_topics_and_partitions(client: httpx.Client) -> None:
    rows = ask(client, "/api/topics", q="ord")["rows"]
    assert [row["name"] for row in rows] == ["orders"]
    (partition,) = ask(client, "/api/partitions", topic="orders")["rows"]
    assert (sorted(partition["replicas"]), partition["partition"]) == ([1, 2, 3], 0)
    assert client.get("/api/partitions", params={"topic": "none"}).status_code == 404
    assert client.get("/api/partitions/none/0").status_code == 404
    assert client.get("/api/topics", params={"only": "some"}).status_code == 400


def test_fault_verbs_reach_the_cluster_and_their_failures_come_back(
    cluster: Cluster, client: httpx.Client
) -> None:
    healthy(client)
    assert act(client, "kill", 3).json()["state"] == "stopped"
    told = "broker 3 is down after an unclean end"
    wait_until(lambda: ask(client, "/api/state")["brokers"]["3"]["because"].startswith(told), "it to be down")
    refused = act(client, "start", 9)
    assert (refused.status_code, "there is no node 9" in refused.json()["error"]) == (400, True)
    assert act(client, "start", 3).json()["state"] == "running"
    healthy(client)


def test_a_controller_that_is_gone_leaves_the_last_known_state_and_its_age(
    cluster: Cluster, client: httpx.Client
) -> None:
    healthy(client)
    heard = Heard(client)
    before = ask(client, "/api/state")
    cluster.kill(cluster.controller_id)
    try:
        state = wait_until(
            lambda: not (found := ask(client, "/api/state"))["seen"]["reachable"] and found, "it to be missed"
        )
        assert state["health"]["headline"] == "The controller does not answer"
        assert before["now_ms"] - 5000 <= state["seen"]["answered_ms"] <= state["now_ms"]
        assert state["counts"]["topics"] >= before["counts"]["topics"] > 0
        assert ask(client, "/api/topics", q="orders")["total"] == 1
        wait_until(
            lambda: any(delta.get("seen", {}).get("reachable") is False for delta in heard.of("delta")),
            "the page to be told",
        )
    finally:
        cluster.start(cluster.controller_id)
    healthy(client)
    wait_until(
        lambda: any(delta.get("seen", {}).get("reachable") is True for delta in heard.of("delta")),
        "the page to be told that all is well again",
    )
    reigns = ask(client, "/api/timeline")["reigns"]
    assert [reign["number"] for reign in reigns] == [1, 2]

"""What the dashboard asks the brokers: groups, messages, offsets of replicas, rates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from epoka.cluster.cluster import Cluster
from tests.cluster.records import QUIET, write
from tests.dashboard.looking import ask, healthy, refused
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("dashboard")

MESSAGES = 30
BEGAN_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def parcels(cluster: Cluster, client: httpx.Client) -> Iterator[str]:
    """Two partitions, thirty records a second apart, by turns; the odd ones are no text."""
    healthy(client)
    bootstrap = cluster.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic("parcels", 2, 3, config={"retention.ms": "-1"})])["parcels"].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for number in range(MESSAGES):
        producer.produce(
            "parcels",
            json.dumps({"number": number}) if number % 2 == 0 else bytes(range(16)),
            key=f"key {number}",
            partition=number % 2,
            timestamp=BEGAN_MS + 1000 * number,
            headers=[("kind", b"parcel"), ("raw", b"\xff\x00")],
        )
    assert producer.flush(60) == 0
    wait_until(lambda: ask(client, "/api/topics", q="parcels")["total"] == 1, "the topic to be seen")
    yield "parcels"


def numbers(page: dict[str, Any]) -> list[int]:
    return [(row["time_ms"] - BEGAN_MS) // 1000 for row in page["rows"]]


def test_the_newest_messages_and_the_pages_before_them(client: httpx.Client, parcels: str) -> None:
    seen: list[int] = []
    cursor = ""
    while True:
        page = ask(client, "/api/messages", topic=parcels, size=7, cursor=cursor)
        seen += numbers(page)
        cursor = page["cursor"]
        if not cursor:
            break
    assert seen == list(range(MESSAGES))[::-1]


def test_messages_from_the_oldest_an_offset_and_a_time(client: httpx.Client, parcels: str) -> None:
    oldest = ask(client, "/api/messages", topic=parcels, start="oldest", size=20)
    assert numbers(oldest) == list(range(20))
    rest = ask(client, "/api/messages", topic=parcels, start="oldest", size=20, cursor=oldest["cursor"])
    assert (numbers(rest), rest["cursor"]) == (list(range(20, MESSAGES)), "")
    at = ask(client, "/api/messages", topic=parcels, partition=1, start="offset", at=13)
    assert [row["offset"] for row in at["rows"]] == [13, 14]
    late = ask(client, "/api/messages", topic=parcels, start="time", at=BEGAN_MS + 27_500)
    assert numbers(late) == [28, 29]


def test_text_is_shown_as_text_and_bytes_as_bytes(client: httpx.Client, parcels: str) -> None:
    bytes_, text = ask(client, "/api/messages", topic=parcels, size=2)["rows"]
    assert text["key"] == {"as": "text", "text": "key 28", "size": 6, "cut": False}
    assert json.loads(text["value"]["text"]) == {"number": 28}
    assert bytes_["value"] == {"as": "hex", "text": bytes(range(16)).hex(" "), "size": 16, "cut": False}
    assert [header["name"] for header in text["headers"]] == ["kind", "raw"]
    assert text["headers"][1]["value"]["text"] == "ff 00"
    about = {"topic": parcels, "partition": 1, "offset": 14, "as": "base64"}
    assert ask(client, "/api/message", **about)["value"]["text"] == "AAECAwQFBgcICQoLDA0ODw=="


@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        ({"topic": "none"}, 404, "there is no topic none"),
        ({}, 400, "topic is missing"),
        ({"topic": "parcels", "size": 201}, 400, "size goes from 1 to 200"),
        ({"topic": "parcels", "partition": 2}, 400, "parcels has no partition 2; it has 2"),
        ({"topic": "parcels", "start": "offset"}, 400, "from which offset?"),
        ({"topic": "parcels", "cursor": "0:x"}, 400, "this is no place to go on from"),
        (
            {"topic": "parcels", "partition": 0, "start": "offset", "at": 99},
            400,
            "parcels-0 holds offsets 0 to 15, not 99",
        ),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_in_words(
    client: httpx.Client, parcels: str, query: dict[str, Any], status: int, told: str
) -> None:
    assert refused(client, "/api/messages", **query) == (status, told)


def test_a_group_with_its_member_and_its_lag(cluster: Cluster, client: httpx.Client, parcels: str) -> None:
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "postmen",
        "client.id": "postman",
        **QUIET,
    }
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    try:
        consumer.subscribe([parcels])
        delivered: list[Any] = []

        def all_have_come() -> bool:
            delivered.extend(each for each in consumer.consume(MESSAGES, timeout=0.2) if not each.error())
            return len(delivered) == MESSAGES

        wait_until(all_have_come, "every parcel")
        for partition, offset in ((0, 9), (1, 4)):
            message = next(
                each for each in delivered if each.partition() == partition and each.offset() == offset
            )
            consumer.commit(message=message, asynchronous=False)
        found = ask(client, "/api/groups", q="POST")
        assert found["total"] == 1
        row = found["rows"][0]
        assert (row["group"], row["state"], row["members"], row["lag"]) == ("postmen", "Stable", 1, 15)
        group = ask(client, "/api/group", name="postmen")
        (member,) = group["members"]
        assert (member["client_id"], member["partitions"]) == ("postman", 2)
        assert [
            (each["partition"], each["committed"], each["end"], each["lag"], each["client"])
            for each in group["rows"]
        ] == [(0, 10, 15, 5, "postman"), (1, 5, 15, 10, "postman")]
    finally:
        consumer.close()
    assert refused(client, "/api/group", name="nobody") == (404, "there is no group nobody")
    # Without its member the group stays, and so does its lag.
    wait_until(lambda: ask(client, "/api/group", name="postmen")["state"] == "Empty", "the group to be empty")
    assert ask(client, "/api/group", name="postmen")["lag"] == 15


def test_replicas_tell_how_far_they_have_come(cluster: Cluster, client: httpx.Client) -> None:
    healthy(client)
    write(cluster.bootstrap, "orders", [b"a", b"b"])

    def replicas() -> dict[int, dict[str, Any]]:
        return {row["broker"]: row for row in ask(client, "/api/partitions/orders/0/replicas")}

    (leader,) = [each for each, row in replicas().items() if row["leads"]]
    end = replicas()[leader]["end_offset"]
    wait_until(lambda: {row["high_watermark"] for row in replicas().values()} == {end}, "everybody to know")
    assert {(row["end_offset"], row["behind"], row["in_sync"]) for row in replicas().values()} == {
        (end, 0, True)
    }
    follower = next(each for each in replicas() if each != leader)
    cluster.isolate(follower, from_="brokers")
    try:
        # A replica may be behind for a while before it counts as out of sync, and both are told.
        write(cluster.bootstrap, "orders", [b"c"] * 3, acks="1", **{"enable.idempotence": False})
        behind = wait_until(
            lambda: (row := replicas()[follower])["behind"] == 3 and row,
            lambda: f"the replica to be behind: {replicas()}",
        )
        assert (behind["end_offset"], behind["problem"]) == (end, "")
    finally:
        cluster.heal()
    cluster.kill(follower)
    try:
        wait_until(lambda: replicas()[follower]["problem"] == "it is down", lambda: f"{replicas()}")
        assert replicas()[follower]["end_offset"] is None
        wait_until(lambda: not replicas()[follower]["in_sync"], lambda: f"{replicas()}")
    finally:
        cluster.start(follower)
    assert client.get("/api/partitions/none/0/replicas").status_code == 404
    healthy(client)


def test_rates_follow_what_is_written(cluster: Cluster, client: httpx.Client, parcels: str) -> None:
    healthy(client)

    def points() -> list[dict[str, float]]:
        found: list[dict[str, float]] = ask(client, "/api/state")["rates"]
        return found

    since = wait_until(lambda: points() and points()[-1]["at_ms"], "a first look")

    def written() -> bool:
        write(cluster.bootstrap, "orders", [b"r"] * 20)
        return any(each["produced"] > 0 for each in points() if each["at_ms"] > since)

    wait_until(written, "a rate above zero")
    assert len(points()) <= 150


def test_the_past_is_told_as_it_was(cluster: Cluster, client: httpx.Client) -> None:
    healthy(client)
    before_ms = ask(client, "/api/state")["now_ms"]
    old, new = cluster.bounce(3, "unclean")
    healthy(client)
    wait_until(
        lambda: any(each["generation"] == new for each in ask(client, "/api/past")["brokers"]),
        "the ledger to tell of the new life",
    )

    def broker(at_ms: int | None = None) -> dict[str, Any]:
        found = ask(client, "/api/past", **({} if at_ms is None else {"at_ms": at_ms}))
        (row,) = [each for each in found["brokers"] if each["id"] == 3]
        return dict(row)

    assert (broker(before_ms)["generation"], broker(before_ms)["state"]) == (old, "active")
    wait_until(lambda: broker()["state"] == "active", "the present")
    killed = next(
        each["time_ms"]
        for each in ask(client, "/api/events", q="killed broker 3 for an unclean bounce")["rows"]
        if each["time_ms"] >= before_ms
    )
    assert (broker(killed)["generation"], broker(killed)["state"]) == (old, "down")
    # Between the kill and the next life broker 3 was out of the ISR, and is not now.
    fenced = next(
        each["time_ms"]
        for each in ask(client, "/api/events", q="broker 3 (generation", size=200)["rows"]
        if each["kind"] == "fenced" and each["time_ms"] >= killed
    )
    then = ask(client, "/api/past/partitions", at_ms=fenced, q="orders", only="out-of-sync")
    assert [(row["topic"], row["out"]) for row in then["rows"]] == [("orders", [3])]
    assert ask(client, "/api/past", at_ms=fenced)["counts"]["out_of_sync"] >= 1
    decided = ask(client, "/api/decisions", until_ms=fenced, broker=3, rule="heartbeat.session")["rows"]
    assert killed <= decided[0]["time_ms"] <= fenced
    earlier = ask(client, "/api/decisions", until_ms=before_ms, broker=3)["rows"]
    assert all(row["time_ms"] <= before_ms for row in earlier)
    # Step by step.
    moment = ask(client, "/api/past", at_ms=killed)
    assert moment["before_ms"] < killed < moment["after_ms"]


def test_events_of_a_newer_version_are_shown(cluster: Cluster, client: httpx.Client) -> None:
    event = {"kind": "teleported", "time_ms": 5, "node": 1, "event_id": 3, "broker": 2, "unheard": [1]}
    with (cluster.data / "faults.jsonl").open("a") as ledger:
        ledger.write(json.dumps(event) + "\n")
    found = wait_until(
        lambda: ask(client, "/api/events", q="teleported")["rows"], "the event that nobody knows"
    )
    assert found[0]["text"] == "teleported broker 2"


def test_brokers_that_are_all_gone_cost_their_question_and_no_page(
    cluster: Cluster, client: httpx.Client, parcels: str
) -> None:
    healthy(client)
    for broker in cluster.broker_ids:
        cluster.kill(broker)
    try:
        status, told = refused(client, "/api/groups")
        assert (status, "cannot be reached" in told) == (503, True)
        assert refused(client, "/api/messages", topic=parcels)[0] == 503
        wait_until(
            lambda: (
                {row["problem"] for row in ask(client, "/api/partitions/orders/0/replicas")} == {"it is down"}
            ),
            "everybody to be down",
        )
        assert ask(client, "/api/topics", q="parcels")["total"] == 1
    finally:
        for broker in cluster.broker_ids:
            cluster.begin(broker)
    healthy(client)

"""What a node can be measured by: the text, the figures, the door, and the dashboard that shows them."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from epoka import Cluster
from epoka.cluster.layout import METRICS
from epoka.model.partitions import PartitionState
from epoka.node import metrics_door
from epoka.node.exposition import LINES_AT_A_TIME, Family, several, written, written_in_slices
from epoka.node.metrics import PARTITIONS_AT_A_TIME, Figures
from epoka.node.metrics_door import MAX_LINE_BYTES, MOST_CONNECTIONS, MetricsDoor
from tests.cluster.records import create_topic, write
from tests.waiting import wait_until

DASHBOARD = Path(__file__).parent.parent.parent / "docs" / "grafana-dashboard.json"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@given(
    st.dictionaries(
        st.text(max_size=8), st.integers(-(2**40), 2**40) | st.floats(allow_nan=False), max_size=4
    )
)
def test_any_label_and_any_number_are_read_back(samples: dict[str, float]) -> None:
    family = several(
        "epoka_x", "gauge", 'a "quoted"\nabout\\', (({"l": key}, value) for key, value in samples.items())
    )
    assert parsed(written([family]).decode()) == {
        ("epoka_x", (("l", key),)): float(value) for key, value in samples.items()
    }


def test_slices_say_the_same_as_the_whole_and_leave_room_for_others() -> None:
    turns = 0

    def families() -> list[Family]:
        return [several("epoka_x", "gauge", "x", (({"l": number}, number) for number in range(5000)))]

    async def both() -> bytes:
        nonlocal turns

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        text = await written_in_slices(families())
        task.cancel()
        return text

    assert asyncio.run(both()) == written(families())
    assert turns >= 5000 // LINES_AT_A_TIME


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {
        METRICS: "127.0.0.1:0",
        "controller.heartbeat.timeout.ms": 2000,
        "broker.heartbeat.interval.ms": 200,
        "min.insync.replicas": 2,
    }
    with Cluster(brokers=2, config=settings) as cluster:
        yield cluster


def page(cluster: Cluster, node_id: int) -> str:
    node = cluster._nodes._lives[node_id].node  # type: ignore[attr-defined]
    host, port = node.metrics_address
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


class TestFigures:
    def test_records_leaders_and_requests(self, cluster: Cluster) -> None:
        create_topic(cluster.bootstrap, "orders", replication_factor=2)
        write(cluster.bootstrap, "orders", [b"a", b"b", b"c"])
        leader = cluster.image().partition("orders", 0).leader  # type: ignore[union-attr]
        figures = parsed(page(cluster, leader))
        prefix = "kafka_server_brokertopicmetrics"
        assert figures[f"{prefix}_messagesin_total", (("topic", "orders"),)] == 3
        assert figures[f"{prefix}_bytesin_total", ()] > 0
        assert figures["kafka_network_requestmetrics_requests_total", (("request", "Produce"),)] >= 1
        assert figures["kafka_log_log_size", (("topic", "orders"),)] > 0
        assert figures["kafka_server_replicamanager_leadercount", ()] >= 1
        assert figures["kafka_server_replicamanager_atminisrpartitioncount", ()] >= 1
        assert figures["epoka_broker_generation", ()] == cluster.generation(leader)
        assert figures["epoka_broker_state", (("state", "running"),)] == 1

    def test_a_death_is_seen_by_the_controller_and_by_the_other(self, cluster: Cluster) -> None:
        prefix = "kafka_controller_kafkacontroller"
        create_topic(cluster.bootstrap, "deaths", replication_factor=2)

        def state() -> PartitionState:
            return cluster.image().partition("deaths", 0)  # type: ignore[return-value]

        # On a busy machine a broker may be fenced for a moment before this begins.
        wait_until(lambda: len(state().isr) == 2, "both to be in sync")
        healthy = parsed(page(cluster, 100))
        assert healthy[f"{prefix}_activecontrollercount", ()] == 1
        assert healthy["epoka_registered_fenced", (("broker", "2"),)] == 0
        cluster.kill(2)
        try:
            wait_until(
                lambda: parsed(page(cluster, 100))[f"{prefix}_fencedbrokercount", ()] == 1, "the fencing"
            )
            seen = parsed(page(cluster, 100))
            assert seen["epoka_registered_fenced", (("broker", "2"),)] == 1
            refused = (("rule", "heartbeat.session"), ("verdict", "refused"))
            assert seen["epoka_verdicts_total", refused] >= 1
            for name in ("underreplicatedpartitions", "underminisrpartitioncount"):
                figure = (f"kafka_server_replicamanager_{name}", ())
                wait_until(
                    lambda figure=figure: parsed(page(cluster, 1))[figure] >= 1,  # type: ignore[misc]
                    lambda name=name: f"{name}: {state()}, {cluster.image().brokers}",  # type: ignore[misc]
                )
        finally:
            cluster.start(2)

    def test_every_figure_of_the_dashboard_is_there(self, cluster: Cluster) -> None:
        told = {name for node_id in (1, 100) for name, _ in parsed(page(cluster, node_id))}
        told |= {match for node in (1, 100) for match in re.findall(r"# TYPE (\w+)", page(cluster, node))}
        shown = set()
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            for target in panel["targets"]:
                shown |= set(re.findall(r"\b((?:kafka|epoka|process)_\w+)\{", target["expr"]))
        assert len(shown) > 15
        assert shown <= told


def test_two_scrapes_at_once_count_every_record_once() -> None:
    led = SimpleNamespace(start_offset=0, isr=(1,), replicas=(1,))
    replicas = {
        number: SimpleNamespace(
            topic="t",
            index=number,
            min_isr=1,
            log=SimpleNamespace(size_bytes=1, end_offset=10),
            leadership=led,
        )
        for number in range(2 * PARTITIONS_AT_A_TIME)
    }
    core: Any = SimpleNamespace(replicas=SimpleNamespace(by_key=replicas))

    async def scrape_twice() -> int:
        figures = Figures(1)
        await asyncio.gather(figures._of_replicas(core), figures._of_replicas(core))
        return figures._messages_in["t"]

    assert asyncio.run(scrape_twice()) == 10 * len(replicas)


def test_a_partition_that_is_led_since_a_scrape_began_is_not_counted_twice() -> None:
    def replica(number: int, led: bool) -> SimpleNamespace:
        leadership = SimpleNamespace(start_offset=0, isr=(1,), replicas=(1,)) if led else None
        log = SimpleNamespace(size_bytes=1, end_offset=10)
        return SimpleNamespace(topic="t", index=number, min_isr=1, log=log, leadership=leadership)

    replicas = {number: replica(number, number > 0) for number in range(2 * PARTITIONS_AT_A_TIME)}
    core: Any = SimpleNamespace(replicas=SimpleNamespace(by_key=replicas))

    async def scrape() -> int:
        figures = Figures(1)
        first = asyncio.create_task(figures._of_replicas(core))
        await asyncio.sleep(0)
        # The first scrape has passed it by; another one sees that it is led.
        replicas[0].leadership = replicas[1].leadership
        await asyncio.gather(first, figures._of_replicas(core))
        await figures._of_replicas(core)
        return figures._messages_in["t"]

    assert asyncio.run(scrape()) == 10 * len(replicas)


class TestDoor:
    """The door alone, with nonsense behind and before it."""

    @staticmethod
    def ask(*requests: bytes) -> list[bytes]:
        async def collect() -> list[Family]:
            return [several("epoka_x", "gauge", "x", [({}, 1)])]

        async def talk() -> list[bytes]:
            door = MetricsDoor(collect)
            host, port = await door.open("127.0.0.1", 0)
            answers = []
            for request in requests:
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(request)
                writer.write_eof()
                answers.append(await asyncio.wait_for(reader.read(), 30))
                writer.close()
            door.close()
            return answers

        return asyncio.run(talk())

    def test_good_questions(self) -> None:
        got, head = self.ask(
            b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        assert got.startswith(b"HTTP/1.1 200 OK") and got.endswith(b"epoka_x 1\n")
        assert head.startswith(b"HTTP/1.1 200 OK") and head.endswith(b"\r\n\r\n")

    def test_a_scraper_that_does_not_read_is_sent_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(metrics_door, "PATIENCE_S", 1)
        large = "x" * 30_000_000

        async def collect() -> list[Family]:
            return [several("epoka_x", "gauge", large, [({}, 1)])]

        async def talk() -> None:
            door = MetricsDoor(collect)
            host, port = await door.open("127.0.0.1", 0)
            mine = asyncio.current_task()
            _, writer = await asyncio.open_connection(host, port, limit=1)
            writer.transport.pause_reading()
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            await asyncio.sleep(0)
            async with asyncio.timeout(30):
                while others := asyncio.all_tasks() - {mine}:
                    await asyncio.wait(others)
            writer.close()
            door.close()

        asyncio.run(talk())

    def test_a_scraper_that_leaves_the_last_bytes_is_sent_away_too(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """What is left fits the transport's buffer, so that nobody waits for it any more."""
        monkeypatch.setattr(metrics_door, "PATIENCE_S", 0.5)

        begun = asyncio.Event()

        async def collect() -> list[Family]:
            begun.set()
            return [several("epoka_x", "gauge", "x" * 40_000, [({}, 1)])]

        async def talk() -> None:
            door = MetricsDoor(collect)
            host, port = await door.open("127.0.0.1", 0)
            assert door._server is not None
            door._server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            mine = asyncio.current_task()
            with socket.socket() as scraper:
                scraper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                scraper.connect((host, port))
                scraper.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                async with asyncio.timeout(5):
                    await begun.wait()
                    while others := asyncio.all_tasks() - {mine}:
                        await asyncio.wait(others)
            door.close()

        asyncio.run(talk())
        assert not [each for each in caplog.records if each.levelname == "ERROR"]

    def test_a_crowd_that_says_nothing_takes_few_connections(self) -> None:
        """Every connection is an open file, of which the logs of the same process need some, too."""

        async def collect() -> list[Family]:
            return []

        async def talk() -> None:
            door = MetricsDoor(collect)
            host, port = await door.open("127.0.0.1", 0)
            crowd = [await asyncio.open_connection(host, port) for _ in range(MOST_CONNECTIONS + 10)]
            late = (reader.read() for reader, _ in crowd[MOST_CONNECTIONS:])
            await asyncio.wait_for(asyncio.gather(*late, return_exceptions=True), 2)
            assert door._inside == MOST_CONNECTIONS
            for _, writer in crowd:
                writer.close()
            door.close()

        asyncio.run(talk())

    def test_bad_questions(self) -> None:
        other, post, short, endless, silent = self.ask(
            b"GET / HTTP/1.1\r\n\r\n",
            b"POST /metrics HTTP/1.1\r\n\r\n",
            b"\n\n",
            b"GET /" + b"x" * 2 * MAX_LINE_BYTES,
            b"",
        )
        assert other.startswith(b"HTTP/1.1 404")
        assert post.startswith(b"HTTP/1.1 405")
        assert short.startswith(b"HTTP/1.1 405")
        assert (endless, silent) == (b"", b"")


def test_a_port_that_is_taken_is_named() -> None:
    from epoka.cluster.errors import ClusterError

    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"cannot serve metrics on {address}"):
            Cluster(brokers=1, config={METRICS: address}).open()


def test_a_host_that_cannot_be_one_is_named() -> None:
    from epoka.cluster.errors import ClusterError

    with pytest.raises(ClusterError, match=r"cannot serve metrics on a\.\.b:0"):
        Cluster(brokers=1, config={METRICS: "a..b:0"}).open()


def test_an_address_that_is_none_is_refused() -> None:
    from epoka.cluster.errors import BadCluster

    with pytest.raises(BadCluster, match=r"epoka.metrics.listener.*host:port"):
        Cluster(brokers=1, config={METRICS: "nowhere"}).open()

"""What a node can be measured by, read off its cores when somebody asks.

Names are Kafka's own where Kafka has the figure, as its usual exporter writes them; the others begin with
`epoka_`. Nothing is counted while records flow, except requests and their bytes at the doors: the rest is
looked up, some partitions at a time, so that a scrape of a large broker holds its loop up for milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from epoka.broker.core import BrokerCore
from epoka.controller.core import ControllerCore
from epoka.model.image import ClusterImage
from epoka.model.ledger import LedgerEvent
from epoka.node.exposition import Family, counter, gauge, several
from epoka.node.server import Listener
from epoka.wire.apis import APIS

PARTITIONS_AT_A_TIME = 200
PRODUCE, FETCH = 0, 1
LED = {
    "leadercount": "Partitions that this broker leads.",
    "underreplicatedpartitions": "Led here, with a replica that is not in sync.",
    "underminisrpartitioncount": "Led here, with fewer in sync than min.insync.replicas.",
    "atminisrpartitioncount": "Led here, with just min.insync.replicas in sync.",
}


class Figures:
    """The figures of one node, over all its scrapes."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._started_s = time.time()
        self._events: Counter[tuple[str, str, str]] = Counter()
        self._seen: dict[tuple[str, int], int] = {}
        """Where each led partition ended at the last scrape."""
        self._messages_in: Counter[str] = Counter()

    def count(self, event: LedgerEvent) -> None:
        """The ledger was told something."""
        self._events[event.kind, event.rule, event.verdict] += 1
        if event.kind == "isr-proposed":
            shrinks = len(event.isr) < len(event.isr_before)
            self._events["isr-shrink" if shrinks else "isr-expand", "", ""] += 1

    async def collect(self, cores: Sequence[Any], listeners: Iterable[Listener]) -> list[Family]:
        """Every family, now."""
        families = [*self._of_process(), *_of_doors(list(listeners)), *self._of_ledger()]
        for core in cores:
            # In zookeeper mode a controller is an office in which there is a core, or not.
            acting = getattr(core, "acting", core)
            if isinstance(acting, BrokerCore):
                families += [*_of_broker(acting), *await self._of_replicas(acting)]
            else:
                families += _of_controller(acting if isinstance(acting, ControllerCore) else None)
        return families

    def _of_process(self) -> Iterator[Family]:
        times = os.times()
        about = "Processor time that the process has used."
        yield counter("process_cpu_seconds_total", about, times.user + times.system)
        yield gauge("process_start_time_seconds", "When the node began.", self._started_s)
        resident = _resident_bytes()
        if resident is not None:
            yield gauge("process_resident_memory_bytes", "Memory that the process holds.", resident)

    def _of_ledger(self) -> Iterator[Family]:
        verdicts = [(key, count) for key, count in sorted(self._events.items()) if key[0] == "verdict"]
        yield several(
            "epoka_verdicts_total",
            "counter",
            "Verdicts of fencing rules that went to the ledger.",
            (({"rule": rule, "verdict": verdict}, count) for (_, rule, verdict), count in verdicts),
        )
        kinds: Counter[str] = Counter()
        for (kind, _, _), count in self._events.items():
            kinds[kind] += count
        yield several(
            "epoka_ledger_events_total",
            "counter",
            "Events that this node has written down.",
            (({"kind": kind}, count) for kind, count in sorted(kinds.items()) if kind not in _DERIVED),
        )
        shrinks, expands = kinds["isr-shrink"], kinds["isr-expand"]
        about = "ISR {} that this broker has asked for as a leader."
        yield counter("kafka_server_replicamanager_isrshrinks_total", about.format("shrinks"), shrinks)
        yield counter("kafka_server_replicamanager_isrexpands_total", about.format("expansions"), expands)

    async def _of_replicas(self, core: BrokerCore) -> list[Family]:
        sizes: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for position, replica in enumerate(list(core.replicas.by_key.values()), 1):
            if position % PARTITIONS_AT_A_TIME == 0:
                await asyncio.sleep(0)
            sizes[replica.topic] += replica.log.size_bytes
            leadership = replica.leadership
            if leadership is None:
                continue
            key, end = (replica.topic, replica.index), replica.log.end_offset
            self._messages_in[replica.topic] += max(0, end - self._seen.get(key, leadership.start_offset))
            # In the same step: another scrape may come in between, and must not count it again.
            self._seen[key] = end
            in_sync = len(leadership.isr)
            counts["leadercount"] += 1
            counts["underreplicatedpartitions"] += in_sync < len(leadership.replicas)
            counts["underminisrpartitioncount"] += in_sync < replica.min_isr
            counts["atminisrpartitioncount"] += in_sync == replica.min_isr
        # As it is now: another scrape may have seen what came after this one had passed.
        present = list(core.replicas.by_key.values())
        led = {(each.topic, each.index) for each in present if each.leadership is not None}
        for key in [each for each in self._seen if each not in led]:
            del self._seen[key]
        topics = {each.topic for each in present}
        for topic in [each for each in self._messages_in if each not in topics]:
            del self._messages_in[topic]
        prefix = "kafka_server_replicamanager"
        return [
            *(gauge(f"{prefix}_{name}", about, counts[name]) for name, about in LED.items()),
            gauge(f"{prefix}_partitioncount", "Replicas on this broker.", len(core.replicas.by_key)),
            several(
                "kafka_server_brokertopicmetrics_messagesin_total",
                "counter",
                "Records that partitions led here have taken.",
                (({"topic": topic}, count) for topic, count in list(self._messages_in.items())),
            ),
            several(
                "kafka_log_log_size",
                "gauge",
                "Bytes that the replicas of a topic have on this broker's disk.",
                (({"topic": topic}, size) for topic, size in sizes.items()),
            ),
        ]


_DERIVED = ("isr-shrink", "isr-expand")


def _of_doors(listeners: list[Listener]) -> Iterator[Family]:
    asked: Counter[str] = Counter()
    for listener in listeners:
        for key, traffic in listener.traffic.items():
            asked[APIS[key].name] += traffic.requests
    yield several(
        "kafka_network_requestmetrics_requests_total",
        "counter",
        "Requests that were read.",
        (({"request": name}, count) for name, count in sorted(asked.items())),
    )
    yield several(
        "kafka_server_socketservermetrics_connection_count",
        "gauge",
        "Connections that are open.",
        (({"listener": each.name}, len(each.connections)) for each in listeners),
    )
    clients = [each for each in listeners if not each.control]
    nodes = [each for each in listeners if each.control]
    for name, about, doors, key, out in (
        ("bytesin", "Bytes of produce requests of clients.", clients, PRODUCE, False),
        ("bytesout", "Bytes of answers to fetches of clients.", clients, FETCH, True),
        ("replicationbytesout", "Bytes of answers to fetches of followers.", nodes, FETCH, True),
    ):
        found = [each.traffic[key] for each in doors if key in each.traffic]
        total = sum(each.bytes_out if out else each.bytes_in for each in found)
        yield counter(f"kafka_server_brokertopicmetrics_{name}_total", about, total)
    yield gauge(
        "epoka_queued_request_bytes",
        "Bytes of requests that wait for their answers.",
        sum(each.queued_bytes for each in listeners),
    )
    yield gauge(
        "epoka_unread_response_bytes",
        "Bytes of answers that are held for peers that have not read them.",
        sum(each.unread_bytes for each in listeners),
    )


def _of_broker(core: BrokerCore) -> Iterator[Family]:
    life = core.lifecycle
    yield gauge(
        "epoka_broker_generation", "The generation of this life, -1 before it has one.", life.broker_epoch
    )
    yield several(
        "epoka_broker_state",
        "gauge",
        "1 for the state that the broker is in.",
        (({"state": each.name.lower()}, float(each is life.state)) for each in type(life.state)),
    )
    yield gauge("epoka_broker_fenced", "1 while the controller has the broker fenced.", life.fenced)
    yield gauge("epoka_broker_self_fenced", "1 while the broker has fenced itself.", life.self_fenced)
    failed = core.replicas.offline_reason is not None
    yield gauge("kafka_log_logmanager_offlinelogdirectorycount", "Disks that have failed.", failed)


def _of_controller(core: ControllerCore | None) -> Iterator[Family]:
    prefix = "kafka_controller_kafkacontroller"
    yield gauge(f"{prefix}_activecontrollercount", "1 where the controller is.", core is not None)
    if core is None:
        return
    image: ClusterImage = core.image
    brokers = [image.brokers[each] for each in sorted(image.brokers)]
    table = image.partitions
    preferred = _away_from_preferred(image)
    for name, about, count in (
        ("activebrokercount", "Brokers that may lead.", sum(each.active for each in brokers)),
        (
            "fencedbrokercount",
            "Brokers that are registered and fenced.",
            sum(each.fenced for each in brokers),
        ),
        ("globaltopiccount", "Topics.", image.topic_count),
        ("globalpartitioncount", "Partitions.", image.partition_count),
        ("offlinepartitionscount", "Partitions without a leader.", len(table.rows_led_by(-1))),
        ("preferredreplicaimbalancecount", "Partitions not led by their first replica.", preferred),
    ):
        yield gauge(f"{prefix}_{name}", about, count)
    yield several(
        "epoka_registered_generation",
        "gauge",
        "The generation of every registered broker.",
        (({"broker": each.id}, each.epoch) for each in brokers),
    )
    yield several(
        "epoka_registered_fenced",
        "gauge",
        "1 for a registered broker that is fenced.",
        (({"broker": each.id}, each.fenced) for each in brokers),
    )
    yield gauge("epoka_level", "The feature level of the cluster.", int(image.level))
    yield gauge("epoka_metadata_offset", "The last offset of the metadata.", image.offset)


def _away_from_preferred(image: ClusterImage) -> int:
    table = image.partitions
    rows = table.rows()
    return int(np.count_nonzero(table.leader[rows] != table.preferred_leaders(rows)))


def _resident_bytes() -> int | None:
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None

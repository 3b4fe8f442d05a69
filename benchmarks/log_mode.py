"""The figures of log mode: whole clusters in one process and many, failover, replication, many partitions."""

from __future__ import annotations

import subprocess
import sys
from statistics import median

import msgspec

from benchmarks import failover, many_partitions, replication
from benchmarks.figures import Figure, beside

ROUNDS = 5
READY_AIM_S = 0.5
STOP_AIM_S = 0.2

_IN_PROCESS = """
import json, time
from confluent_kafka import Producer
import epoka

def once():
    started = time.perf_counter()
    cluster = epoka.Cluster(brokers=3, config={"min.insync.replicas": 2}).open()
    outcomes = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
    )
    producer.produce("first", b"record", on_delivery=lambda error, _: outcomes.append(error))
    while not outcomes:
        producer.poll(0.1)
    assert outcomes == [None], outcomes
    ready = time.perf_counter()
    cluster.close()
    return {"ready_s": ready - started, "stop_s": time.perf_counter() - ready}

epoka.Cluster
print(json.dumps([once() for _ in range(3)]))
"""
"""Three clusters, one after the other, in a fresh interpreter."""


class Life(msgspec.Struct, frozen=True):
    """One cluster in one process."""

    ready_s: float
    """From nothing to the first record that all replicas have acknowledged."""
    stop_s: float


def lives() -> list[Life]:
    done = subprocess.run(
        [sys.executable, "-c", _IN_PROCESS], check=True, stdout=subprocess.PIPE, text=True, timeout=120
    )
    return msgspec.json.decode(done.stdout, type=list[Life])


def in_process(rounds: int = ROUNDS) -> list[Figure]:
    """Start and stop, for the first cluster of a process, which compiles the codecs, and for later ones."""
    measured = [lives() for _ in range(rounds)]
    first = median(each[0].ready_s for each in measured)
    later = median(life.ready_s for each in measured for life in each[1:])
    stop = median(life.stop_s for each in measured for life in each)
    name = "3 brokers in one process, ready and first acks=all record"
    return [
        beside(f"{name}, first of its process", "s", first, "aim", READY_AIM_S, at_most=1),
        beside(f"{name}, later ones", "s", later, "aim", READY_AIM_S, at_most=1),
        beside("3 brokers in one process, stop", "s", stop, "aim", STOP_AIM_S, at_most=1),
    ]


def run() -> list[Figure]:
    return [*in_process(), *replication.run(), *failover.run(), *many_partitions.run()]

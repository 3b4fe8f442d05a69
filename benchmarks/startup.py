"""From nothing to the first acknowledged record, and what an idle broker keeps in memory.

The peer is librdkafka's mock cluster, which lives in the client's process, is written in C and keeps nothing:
the least that anybody starts today to test a Kafka application. Every start happens in a fresh interpreter;
the time runs from the moment when the client library is loaded, which both need, to the acknowledgement.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import psutil

from benchmarks.figures import Figure, beside
from tests.broker_process import running_broker

ROUNDS = 5
MB = 1e6

_COMMON = """
import sys, time, logging
from confluent_kafka import Producer

def first_record(**settings):
    failures = []
    producer = Producer({"log_level": 0, "linger.ms": 0, **settings})
    producer.produce("first", b"record", on_delivery=lambda error, _: failures.append(error))
    while not failures:
        producer.poll(0.1)
    assert failures == [None], failures
    return producer

started = time.perf_counter()
"""

_OURS = (
    _COMMON
    + """
import epoka
with epoka.Cluster(brokers=1) as cluster:
    kept = first_record(**{"bootstrap.servers": cluster.bootstrap})
    print(time.perf_counter() - started)
"""
)

_MOCK = (
    _COMMON
    + """
kept = first_record(**{"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
print(time.perf_counter() - started, flush=True)
sys.stdin.read()
"""
)


def seconds(script: str) -> float:
    """What a fresh interpreter measured."""
    done = subprocess.run(
        [sys.executable, "-c", script], input="", capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout)


def idle_memory(pid: int) -> float:
    """Memory that nobody shares with the process, in MB."""
    return float(psutil.Process(pid).memory_full_info().uss / MB)


def memory_of_broker() -> float:
    with (
        tempfile.TemporaryDirectory(prefix="epoka-benchmark-") as folder,
        running_broker(Path(folder)) as broker,
    ):
        return idle_memory(broker.pid)


def memory_of_mock() -> float:
    process = subprocess.Popen(
        [sys.executable, "-c", _MOCK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        return idle_memory(process.pid)
    finally:
        process.kill()
        process.wait()


def run(rounds: int = ROUNDS) -> list[Figure]:
    starts = [(seconds(_OURS), seconds(_MOCK)) for _ in range(rounds)]
    memory = [(memory_of_broker(), memory_of_mock()) for _ in range(3)]
    peer = "librdkafka mock"
    return [
        beside(
            "in-process start to first record",
            "s",
            median(ours for ours, _ in starts),
            peer,
            median(mock for _, mock in starts),
        ),
        beside(
            "idle memory of a broker process (USS)",
            "MB",
            median(ours for ours, _ in memory),
            peer,
            median(mock for _, mock in memory),
        ),
    ]

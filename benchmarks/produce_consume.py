"""CPU seconds of the broker process for a GB of 1 KiB records, written and read by librdkafka with acks=1.

Beside it a probe that does nothing but frame, CRC32C and writev. Rounds of both are interleaved; the client
is a process of its own, so only the server's time is counted. Medians of the rounds.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil
from tests.broker_process import HOST, free_port, running_broker
from tests.topics import create_topic
from tests.waiting import wait_until

from benchmarks.figures import Figure, beside
from benchmarks.load import RECORD_BYTES

ROUNDS = 5
RECORDS = 400_000
TOPIC = "benchmark"
GB = 1e9

PRODUCE_AIM = 1.5
CONSUME_AIM = 0.5


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has taken."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def per_gb(pid: int, work: Callable[[], None]) -> float:
    """CPU seconds a GB that a server takes while a client does its work."""
    before = cpu_seconds(pid)
    work()
    return (cpu_seconds(pid) - before) / (RECORDS * RECORD_BYTES / GB)


def client(verb: str, bootstrap: str, topic: str) -> Callable[[], None]:
    """Run the client side to its end."""

    def work() -> None:
        subprocess.run(
            [sys.executable, "-m", "benchmarks.load", verb, bootstrap, topic, str(RECORDS)],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    return work


@contextmanager
def running_probe(folder: Path) -> Iterator[tuple[int, str]]:
    """The process id and the address of a probe."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.probe", str(port), str(folder / "probe.log")]
    )

    def listens() -> bool:
        assert process.poll() is None, "the probe has ended"
        with socket.socket() as attempt:
            return attempt.connect_ex((HOST, port)) == 0

    try:
        wait_until(listens, "the probe to listen")
        yield process.pid, f"{HOST}:{port}"
    finally:
        process.kill()
        process.wait()


def one_round(folder: Path) -> tuple[float, float, float]:
    """What the broker took to write, the probe to write, the broker to read."""
    with running_broker(folder / "broker") as broker:
        create_topic(broker, TOPIC, 1)
        ours = per_gb(broker.pid, client("produce", broker.bootstrap, TOPIC))
        with running_probe(folder) as (pid, address):
            probe = per_gb(pid, client("produce", address, TOPIC))
        read = per_gb(broker.pid, client("consume", broker.bootstrap, TOPIC))
    return ours, probe, read


def run(rounds: int = ROUNDS) -> list[Figure]:
    measured = []
    for _ in range(rounds):
        folder = Path(tempfile.mkdtemp(prefix="epoka-benchmark-"))
        try:
            measured.append(one_round(folder))
        finally:
            shutil.rmtree(folder)
    ours, probe, read = (median(column) for column in zip(*measured))
    unit = "CPU s/GB"
    return [
        beside("broker, produce acks=1", unit, ours, "bare probe", probe, at_most=PRODUCE_AIM),
        beside("broker, consume", unit, read, "produce", ours, at_most=CONSUME_AIM),
    ]

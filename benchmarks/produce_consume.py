"""CPU seconds of the broker process for a GB of 1 KiB records, written and read by librdkafka with acks=1.

Beside it a probe that does nothing but frame, CRC32C and writev. Rounds of both are interleaved; the client
is a process of its own, so only the server's time is counted. Ratios are medians of the
rounds' own ratios.
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
from typing import TypeVar

import psutil

from benchmarks.figures import Figure, paired
from benchmarks.load import RECORD_BYTES
from tests.broker_process import HOST, free_port, running_broker
from tests.topics import create_topic
from tests.waiting import wait_until

T = TypeVar("T")

ROUNDS = 5
RECORDS = 500_000
FIRST_RECORDS = 5_000
"""Written and read before anything is measured: codecs are compiled when they are first used."""
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


def client(verb: str, bootstrap: str, records: int = RECORDS) -> Callable[[], None]:
    """Run the client side to its end."""

    def work() -> None:
        subprocess.run(
            [sys.executable, "-m", "benchmarks.load", verb, bootstrap, TOPIC, str(records)],
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


def warm_up(folder: Path) -> None:
    """Touch as much page cache as a measurement takes, and give it back.

    A virtual machine pays for memory that it has never used before; whoever wrote second would pay for both.
    """
    path = folder / "warm"
    lump = bytes(1 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(RECORDS * RECORD_BYTES * 3 // 2 // len(lump)):
            file.write(lump)
    path.unlink()


def measure_broker(folder: Path) -> tuple[float, float]:
    """What the broker takes to write and to read."""
    with running_broker(folder) as broker:
        create_topic(broker, TOPIC, 1)
        client("produce", broker.bootstrap, FIRST_RECORDS)()
        client("consume", broker.bootstrap, FIRST_RECORDS)()
        warm_up(folder)
        written = per_gb(broker.pid, client("produce", broker.bootstrap))
        return written, per_gb(broker.pid, client("consume", broker.bootstrap))


def measure_probe(folder: Path) -> float:
    """What the probe takes to write."""
    with running_probe(folder) as (pid, address):
        client("produce", address, FIRST_RECORDS)()
        warm_up(folder)
        return per_gb(pid, client("produce", address))


def in_own_folder(measure: Callable[[Path], T]) -> T:
    folder = Path(tempfile.mkdtemp(prefix="epoka-benchmark-"))
    try:
        return measure(folder)
    finally:
        shutil.rmtree(folder)


def run(rounds: int = ROUNDS) -> list[Figure]:
    measured = []
    for _ in range(rounds):
        probe = in_own_folder(measure_probe)
        written, read = in_own_folder(measure_broker)
        measured.append((written, probe, read))
    ours, probe, reads = zip(*measured)
    unit = "CPU s/GB"
    return [
        paired("broker, produce acks=1", unit, ours, "bare probe", probe, at_most=PRODUCE_AIM),
        paired("broker, consume", unit, reads, "produce", ours, at_most=CONSUME_AIM),
    ]

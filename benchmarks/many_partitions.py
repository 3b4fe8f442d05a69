"""A controller with 100,000 partitions: its memory, its restart, the fencing of a broker that has a third.

The core and its stored log are the real ones; only the network is left out. Every step happens in a process
of its own, so that memory is counted from nothing and a restart is one.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil

from benchmarks.figures import Figure, beside
from epoka.coordination.metadata_log import StoredMetadataLog
from epoka.log.store import FileStore
from epoka.model.events import Effect
from epoka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.controller.office import TIMEOUT_MS, Office

TOPICS = 100
PARTITIONS = 1_000
BROKERS = 9
REPLICAS = 3
"""With three replicas on nine brokers every broker hosts a third of all partitions."""
HEARTBEAT_INTERVAL_S = 2.0
"""Longer than this, and brokers wait for their heartbeats to be heard."""


class Restarted(msgspec.Struct, frozen=True):
    """What a controller that starts on a log of this size takes."""

    restart_s: float
    read_s: float
    """Of these, until the files were read and checked."""
    bytes_per_partition: float
    bytes_on_disk: int
    fence_s: float
    fenced_partitions: int


class QuietOffice(Office):
    """An office that does not keep what it reports."""

    def keep(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        return effects


def found(path: Path) -> None:
    """Nine brokers, and topics with 100,000 partitions between them."""
    office = QuietOffice(log=StoredMetadataLog(FileStore(path)))
    for broker_id in range(1, BROKERS + 1):
        office.register(broker_id)
        office.heartbeat(broker_id)
    for number in range(TOPICS):
        topic = CreatableTopic(f"topic-{number}", num_partitions=PARTITIONS, replication_factor=REPLICAS)
        answer = office.ask(CreateTopicsRequest(topics=(topic,)), 7)
        assert answer.topics[0].error_code == 0, answer.topics[0]
        for broker_id in range(1, BROKERS + 1):
            office.heartbeat(broker_id)


def restart(path: Path) -> Restarted:
    """Begin anew on what is there, then lose a broker."""
    process = psutil.Process()
    on_disk = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    # Codecs are compiled when they are first used; a small cluster does that.
    QuietOffice().register(1)
    gc.collect()
    before = process.memory_full_info().uss
    started = time.perf_counter()
    log = StoredMetadataLog(FileStore(path))
    read = time.perf_counter()
    office = QuietOffice(log=log)
    restarted = time.perf_counter()
    gc.collect()
    memory = process.memory_full_info().uss - before
    assert office.image.partition_count == TOPICS * PARTITIONS
    silent = BROKERS
    hosted = len(office.image.hosted_by(silent))
    office.now += TIMEOUT_MS
    for broker_id in range(1, BROKERS):
        office.heartbeat(broker_id)
    office.now += 1
    fencing = time.perf_counter()
    office.wake()
    fenced = time.perf_counter()
    known = office.image.broker(silent)
    assert known is not None and known.fenced
    assert not office.image.with_isr_member(silent)
    return Restarted(
        restart_s=restarted - started,
        read_s=read - started,
        bytes_per_partition=memory / (TOPICS * PARTITIONS),
        bytes_on_disk=on_disk,
        fence_s=fenced - fencing,
        fenced_partitions=hosted,
    )


def in_own_process(step: str, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.many_partitions", step, str(path)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    return done.stdout


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="epoka-benchmark-") as folder:
        path = Path(folder)
        in_own_process("found", path)
        measured = msgspec.json.decode(in_own_process("restart", path), type=Restarted)
        per_record = measured.bytes_on_disk / (TOPICS * PARTITIONS)
    hosted = f"fencing a broker with {measured.fenced_partitions:,} of them"
    return [
        beside(
            "controller, memory a partition of 100,000",
            "bytes",
            measured.bytes_per_partition,
            "bytes on disk",
            per_record,
        ),
        beside(
            "controller, restart with 100,000 partitions",
            "s",
            measured.restart_s,
            "reading the files",
            measured.read_s,
        ),
        beside(
            f"controller, {hosted}",
            "s",
            measured.fence_s,
            "heartbeat interval",
            HEARTBEAT_INTERVAL_S,
            at_most=1,
        ),
    ]


def main(arguments: Sequence[str]) -> Any:
    step, path = arguments
    if step == "found":
        return found(Path(path))
    return sys.stdout.write(msgspec.json.encode(restart(Path(path))).decode())


if __name__ == "__main__":
    main(sys.argv[1:])

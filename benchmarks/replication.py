"""Three brokers as processes: their start, their memory, and what replication costs.

1 KiB records from librdkafka to three replicas with acks=all; beside it the same records to one replica with
acks=1, on the same brokers in the same run. Latency is measured at a steady pace, far below what the brokers
can take: at full speed it would only tell how long the queues are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

import msgspec
import psutil
from confluent_kafka import KafkaError, Message, Producer

from benchmarks.figures import Figure, beside
from epoka.cluster.cluster import Cluster
from tests.faults.load import create_topic, settled

RECORD_BYTES = 1024
PARTITIONS = 6
RECORDS = 150_000
FIRST_RECORDS = 10_000
"""Written before anything is measured: codecs are compiled when they are first used."""
PACED = 3_000
PACE_S = 0.002
LOT = 500
MB, GB = 1e6, 1e9


class Written(msgspec.Struct, frozen=True):
    """What one client measured."""

    seconds: float
    p50_ms: float
    p99_ms: float


def produce(bootstrap: str, topic: str, acks: str, records: int, pace_s: float) -> Written:
    """Write records until all are acknowledged, as fast as they go or one every `pace_s`."""
    failures: list[KafkaError] = []
    latencies: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "linger.ms": 0 if pace_s else 20,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 256 * 1024,
            # At full speed a call a record would measure the client.
            "delivery.report.only.error": not pace_s,
        }
    )
    producer.list_topics(topic, timeout=10)
    values = [os.urandom(RECORD_BYTES) for _ in range(LOT)]

    def note(sent: float) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)
            latencies.append(time.perf_counter() - sent)

        return delivered

    started = time.perf_counter()
    if pace_s:
        for number in range(records):
            due = started + number * pace_s
            while (left := due - time.perf_counter()) > 0:
                producer.poll(left)
            sent = note(time.perf_counter())
            producer.produce(topic, values[number % LOT], partition=number % PARTITIONS, on_delivery=sent)
    else:
        failed = note(started)
        lot = [{"value": value, "callback": failed} for value in values]
        for number in range(records // LOT):
            while len(producer) > 50_000:
                producer.poll(0.01)
            if producer.produce_batch(topic, lot, partition=number % PARTITIONS) != LOT:
                raise RuntimeError("not all records were taken")
    while producer.flush(60):
        pass
    seconds = time.perf_counter() - started
    if failures:
        raise RuntimeError(f"{len(failures)} records failed, the first with {failures[0]}")
    latencies.sort()
    p50, p99 = (latencies[len(latencies) * n // 100] if latencies else 0.0 for n in (50, 99))
    return Written(seconds, p50 * 1e3, p99 * 1e3)


def client(cluster: Cluster, topic: str, acks: str, records: int, pace_s: float = 0.0) -> Written:
    """The same in a process of its own, so that it does not share a lock with anything here."""
    command = [sys.executable, "-m", "benchmarks.replication", cluster.bootstrap, topic, acks]
    done = subprocess.run(
        [*command, str(records), str(pace_s)], check=True, stdout=subprocess.PIPE, text=True, timeout=300
    )
    return msgspec.json.decode(done.stdout, type=Written)


def pids(cluster: Cluster) -> list[int]:
    found = [cluster.pid(each) for each in (cluster.controller_id, *cluster.broker_ids)]
    return [pid for pid in found if pid is not None]


def cpu_seconds(cluster: Cluster) -> float:
    """User and system time that all nodes have taken."""
    times = [psutil.Process(pid).cpu_times() for pid in pids(cluster)]
    return float(sum(each.user + each.system for each in times))


class Cost(msgspec.Struct, frozen=True):
    mb_per_s: float
    cpu_s_per_gb: float
    p50_ms: float
    p99_ms: float


def warm_up(cluster: Cluster) -> None:
    """Touch as much page cache as the measurements take, and give it back.

    A virtual machine pays for memory that it has never used before; whoever wrote first would pay for all.
    """
    path = cluster.data / "warm"
    lump = bytes(1 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(RECORDS * RECORD_BYTES * 4 // len(lump)):
            file.write(lump)
    path.unlink()


def measure(cluster: Cluster, replicas: int, acks: str) -> Cost:
    topic = create_topic(cluster, f"replicas-{replicas}", PARTITIONS, replicas=replicas)
    settled(cluster, topic, PARTITIONS)
    client(cluster, topic, acks, FIRST_RECORDS)
    size = RECORDS * RECORD_BYTES
    before = cpu_seconds(cluster)
    written = client(cluster, topic, acks, RECORDS)
    cpu = cpu_seconds(cluster) - before
    paced = client(cluster, topic, acks, PACED, PACE_S)
    return Cost(size / MB / written.seconds, cpu / (size / GB), paced.p50_ms, paced.p99_ms)


def start_seconds(rounds: int) -> float:
    """From nothing until every broker serves."""

    def once() -> float:
        cluster = Cluster(brokers=3, processes=True)
        started = time.perf_counter()
        cluster.open()
        took = time.perf_counter() - started
        cluster.close()
        return took

    return median(once() for _ in range(rounds))


def bare_start_seconds(rounds: int) -> float:
    """Four interpreters at once that do nothing but load the same modules: less is not to be had."""

    def once() -> float:
        started = time.perf_counter()
        command = [sys.executable, "-c", "import epoka.cluster.member"]
        for process in [subprocess.Popen(command) for _ in range(4)]:
            process.wait()
        return time.perf_counter() - started

    return median(once() for _ in range(rounds))


def bare_memory() -> float:
    """The memory of an interpreter that does nothing, with the modules of a node."""
    script = "import epoka.cluster.member, psutil; print(psutil.Process().memory_full_info().uss)"
    done = subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout) / MB


def idle_memory(cluster: Cluster) -> tuple[float, float]:
    """Memory of a broker that nobody shares with it, and what the system counts for it, in MB."""
    nodes = [psutil.Process(cluster.pid(each)) for each in cluster.broker_ids]
    return (
        median(each.memory_full_info().uss for each in nodes) / MB,
        median(each.memory_info().rss for each in nodes) / MB,
    )


def run(rounds: int = 3) -> list[Figure]:
    start, bare = start_seconds(rounds), bare_start_seconds(rounds)
    with Cluster(brokers=3, processes=True, config={"min.insync.replicas": 2}) as cluster:
        uss, rss = idle_memory(cluster)
        warm_up(cluster)
        one = measure(cluster, 1, "1")
        three = measure(cluster, 3, "all")
    name = "three replicas, acks=all, 1 KiB"
    peer = "one replica, acks=1:"
    return [
        beside("3 brokers and controller as processes, start to ready", "s", start, "imports alone", bare),
        beside("idle broker process (USS)", "MB", uss, "imports alone", bare_memory()),
        beside("idle broker process (RSS)", "MB", rss, "USS", uss),
        beside(name, "MB/s", three.mb_per_s, peer, one.mb_per_s),
        beside(f"{name}, all nodes", "CPU s/GB", three.cpu_s_per_gb, peer, one.cpu_s_per_gb),
        beside(f"{name}, median at {1 / PACE_S:g}/s", "ms", three.p50_ms, peer, one.p50_ms),
        beside(f"{name}, p99 at {1 / PACE_S:g}/s", "ms", three.p99_ms, peer, one.p99_ms),
    ]


def main(arguments: Sequence[str]) -> None:
    bootstrap, topic, acks, records, pace_s = arguments
    print(msgspec.json.encode(produce(bootstrap, topic, acks, int(records), float(pace_s))).decode())


if __name__ == "__main__":
    main(sys.argv[1:])

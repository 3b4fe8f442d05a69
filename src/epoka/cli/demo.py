"""`epoka demo`: a cluster, real clients, a broker that dies in the middle, and every record accounted for.

Records are written with acks=all and read back from the beginning. Half-way through, the leader of the first
partition is killed and comes back as a new generation, and writing goes on until it is back. What must be
true afterwards: every partition holds its records once, in the order in which they were sent, bit for bit.
Then the ledger tells what the cluster did about it.

Where PySpark and a Java are, Spark watches (`demo_spark`): it streams the records and the ledger while all of
this happens, holds what was acknowledged against what is there, checks every invariant and writes the report.
Anything lost, doubled, out of order or violated ends with exit code 1.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from epoka.cli.output import EXIT_FAILED, EXIT_GOOD, Failed, complain, say, say_json
from epoka.cluster.cluster import Cluster
from epoka.cluster.errors import ClusterError
from epoka.ledger.telling import line, sentence
from epoka.model.ledger import LedgerEvent

if TYPE_CHECKING:
    from confluent_kafka import Message

    from epoka.cli.demo_spark import Watch, Watched

BROKERS = 3
PARTITIONS = 4
TOPIC = "demo"
RECORD_BYTES = 256
PLAIN_STEPS = 4
PATIENCE_S = 60.0
SETTINGS = {
    "controller.heartbeat.timeout.ms": "2000",
    "broker.heartbeat.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "400",
    "min.insync.replicas": "2",
}
"""A dead broker is noticed after two seconds, so that nobody has to wait for the end of the story."""
QUIET = {"log_level": 0}
"""The client need not tell that a broker is away: that is the point of the demo."""
KEPT_BACK = 10
"""Of so many records one is written when the broker is back: there is load before, during and after."""
TOLD = frozenset({"registered", "fenced", "unfenced", "leader", "isr"})

Step = Callable[[int], None]
"""Told how many records are done."""


class Bounce(threading.Thread):
    """Kills the leader of the first partition and brings it back, while somebody writes."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(name="bounce", daemon=True)
        self.cluster = cluster
        self.broker = -1
        self.began_ms = 0
        self.generations = (-1, -1)
        self.took_s = 0.0
        self.failure: ClusterError | None = None

    def run(self) -> None:
        began = time.monotonic()
        try:
            state = self.cluster.image().partition(TOPIC, 0)
            assert state is not None
            self.broker = state.leader
            self.began_ms = int(time.time() * 1000)
            self.generations = self.cluster.bounce(self.broker, how="unclean")
        except ClusterError as error:
            self.failure = error
        self.took_s = time.monotonic() - began

    def story(self) -> list[LedgerEvent]:
        """What the ledger says of the bounce and of the first partition since it began."""
        return [
            event
            for event in self.cluster.ledger()
            if event.time_ms >= self.began_ms
            and event.kind in TOLD
            and (event.broker == self.broker or (event.topic, event.partition) == (TOPIC, 0))
        ]


class Acknowledgement(msgspec.Struct, frozen=True):
    """One record that the cluster has said it keeps."""

    partition: int
    offset: int
    key: bytes
    time_ms: int


class Tally:
    """What one side has seen: per partition a count and a checksum over everything in its order."""

    def __init__(self) -> None:
        self.counts = [0] * PARTITIONS
        self._sums = [hashlib.blake2b(digest_size=16) for _ in range(PARTITIONS)]

    def add(self, partition: int, key: bytes, value: bytes) -> None:
        self.counts[partition] += 1
        self._sums[partition].update(len(key).to_bytes(4) + key + len(value).to_bytes(4) + value)

    @property
    def checksums(self) -> list[str]:
        return [each.hexdigest() for each in self._sums]


def run_demo(records: int, with_spark: bool, target: str, json: bool) -> int:
    """Run it; the outcome is printed and is the exit code."""
    try:
        from confluent_kafka import KafkaException
    except ImportError:
        raise Failed("the demo needs a Kafka client: pip install confluent-kafka") from None
    tell = (lambda text: None) if json else say
    watched: Watched | None = None
    try:
        with _spark(with_spark, Path(target), tell) as watch:
            began = time.monotonic()
            with Cluster(brokers=BROKERS, processes=True, config=SETTINGS) as cluster:
                started_s = time.monotonic() - began
                tell(f"{BROKERS} brokers and a controller, each a process, ready in {started_s:.2f} s")
                tell(f"bootstrap {cluster.bootstrap}")
                _create_topic(cluster.bootstrap)
                if watch is not None:
                    watch.begin(cluster)
                    tell("Spark follows the topic and the ledger")
                bounce = Bounce(cluster)
                sent, told, write_s = _write(cluster.bootstrap, records, json, bounce)
                if bounce.failure is not None:
                    raise bounce.failure
                read, read_s, problems = _read(cluster.bootstrap, records, json)
                problems += _compare(sent, read)
                _wait_in_sync(cluster)
                story = bounce.story()
                if watch is not None:
                    with _progress("Spark streaming", records, json) as step:
                        watch.catch_up(records, cluster, step)
                began = time.monotonic()
            stopped_s = time.monotonic() - began
            if watch is not None:
                with _progress("Spark making tables", 100, json) as step:
                    watched = watch.finish(told, bounce.broker, bounce.generations[0], step)
                problems += watched.problems
    except (ClusterError, KafkaException) as error:
        raise Failed(f"the demo failed: {error}") from error
    outage_ms = _longest_wait_ms(told)
    if json:
        say_json(
            {
                "records": records,
                "record_bytes": RECORD_BYTES,
                "brokers": BROKERS,
                "started_s": round(started_s, 3),
                "write_s": round(write_s, 3),
                "read_s": round(read_s, 3),
                "stopped_s": round(stopped_s, 3),
                "bounced": {
                    "broker": bounce.broker,
                    "generations": bounce.generations,
                    "took_s": round(bounce.took_s, 3),
                    "longest_wait_ms": outage_ms,
                },
                "ledger": [sentence(event) for event in story],
                "spark": watched,
                "problems": problems,
            }
        )
    else:
        say(f"wrote {_size(records)} in {write_s:.2f} s, through the bounce")
        say(_told_read(sum(read.counts), read_s))
        old, new = bounce.generations
        say(
            f"meanwhile broker {bounce.broker} was killed as generation {old} and came back as {new}, "
            f"{bounce.took_s:.2f} s in all; the ledger says of it and of {TOPIC}-0:"
        )
        for event in story:
            say(f"  {line(event, since_ms=bounce.began_ms)}")
        say(f"stopped in order in {stopped_s:.2f} s; no process is left behind")
        if not problems:
            say("every record came back once, in order, bit for bit")
        if watched is not None:
            say()
            for text in watched.lines(outage_ms):
                say(text)
    for problem in problems:
        complain(problem)
    return EXIT_FAILED if problems else EXIT_GOOD


@contextmanager
def _spark(wanted: bool, target: Path, tell: Callable[[str], None]) -> Iterator[Watch | None]:
    """Spark, ready to watch; None, and a sentence that says why, where it is not wanted or cannot run."""
    without = "the demo goes on without Spark and writes no report"
    if not wanted:
        yield None
        return
    try:
        from epoka.cli.demo_spark import NoSpark, watching
    except ImportError as error:
        tell(f"{error.name} is not installed, so {without}; `pip install 'epoka[spark]'` brings it")
        yield None
        return
    tell("starting Spark")
    try:
        with watching(target, tell) as watch:
            yield watch
    except NoSpark as error:
        tell(f"{str(error).rstrip('.')}; {without}")
        yield None


def _wait_in_sync(cluster: Cluster) -> None:
    """Until every replica of the topic is back in sync: the end of the story."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        image = cluster.image()
        states = [image.partition(TOPIC, each) for each in range(PARTITIONS)]
        if all(state is not None and len(state.isr) == BROKERS for state in states):
            return
        if time.monotonic() > deadline:
            raise Failed(f"the demo failed: not every replica of {TOPIC} was in sync after {PATIENCE_S:g} s")
        time.sleep(0.05)


def _size(records: int) -> str:
    return f"{records:,} records of {RECORD_BYTES} bytes"


def _told_read(records: int, seconds: float) -> str:
    """What came back, and how fast; no time has passed when nothing came."""
    return f"read  {_size(records)} in {seconds:.2f} s" + (f": {records / seconds:,.0f}/s" if seconds else "")


def _longest_wait_ms(told: list[Acknowledgement]) -> int:
    """The longest time that a partition took nothing, as its client saw it."""
    last: dict[int, int] = {}
    longest = 0
    for each in told:
        longest = max(longest, each.time_ms - last.get(each.partition, each.time_ms))
        last[each.partition] = each.time_ms
    return longest


def record(number: int) -> tuple[int, bytes, bytes]:
    """Partition, key and value of a record."""
    key = b"%010d" % number
    filling = b"abcdefghijklmnop"[number % 16 :][:1]
    return number % PARTITIONS, key, key.ljust(RECORD_BYTES, filling)


def _create_topic(bootstrap: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, BROKERS)])[TOPIC].result(PATIENCE_S)


def _write(
    bootstrap: str, records: int, quiet: bool, bounce: Bounce
) -> tuple[Tally, list[Acknowledgement], float]:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 5, **QUIET}
    )
    tally = Tally()
    told: list[Acknowledgement] = []
    refused: list[str] = []

    def acknowledged(error: Any, message: Message) -> None:
        if error is not None:
            refused.append(str(error))
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        key = message.key()
        assert isinstance(key, bytes)
        told.append(Acknowledgement(partition, offset, key, int(time.time() * 1000)))

    began = time.monotonic()
    with _progress("writing", records, quiet) as step:
        for number in range(records):
            if number == records // 2:
                bounce.start()
            while number >= records - records // KEPT_BACK and bounce.is_alive():
                producer.poll(0.05)
                step(len(told))
            partition, key, value = record(number)
            while True:
                try:
                    producer.produce(TOPIC, value, key, partition, on_delivery=acknowledged)
                    break
                except BufferError:
                    producer.poll(0.1)
            tally.add(partition, key, value)
            if number % 1000 == 0:
                producer.poll(0)
                step(len(told))
        bounce.join()
        left = producer.flush(PATIENCE_S)
        step(len(told))
    took_s = time.monotonic() - began
    if left or refused:
        reason = refused[0] if refused else f"no answer in {PATIENCE_S:g} s"
        raise Failed(f"the demo failed: {left + len(refused):,} records were not acknowledged: {reason}")
    return tally, told, took_s


def _read(bootstrap: str, records: int, quiet: bool) -> tuple[Tally, float, list[str]]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "demo", "enable.auto.commit": False, **QUIET}
    )
    consumer.assign([TopicPartition(TOPIC, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    tally = Tally()
    problems: list[str] = []
    done = 0
    began = last = time.monotonic()
    try:
        with _progress("reading", records, quiet) as step:
            while done < records and time.monotonic() - last < PATIENCE_S:
                for message in consumer.consume(5000, timeout=1.0):
                    if message.error() is not None:
                        problems.append(f"the consumer met an error: {message.error()}")
                        return tally, time.monotonic() - began, problems
                    partition = message.partition()
                    assert partition is not None
                    if message.offset() != tally.counts[partition]:
                        problems.append(
                            f"{TOPIC}-{partition}: offset {message.offset()} came where "
                            f"{tally.counts[partition]} was due"
                        )
                        return tally, time.monotonic() - began, problems
                    tally.add(partition, message.key() or b"", message.value() or b"")
                    done += 1
                    last = time.monotonic()
                step(done)
    finally:
        consumer.close()
    return tally, last - began, problems


def _compare(sent: Tally, read: Tally) -> list[str]:
    problems = []
    for partition, (was_sent, was_read) in enumerate(zip(sent.counts, read.counts)):
        if was_sent != was_read:
            problems.append(f"{TOPIC}-{partition}: {was_sent:,} records were sent, {was_read:,} came back")
        elif sent.checksums[partition] != read.checksums[partition]:
            problems.append(f"{TOPIC}-{partition}: the records that came back are not those that were sent")
    return problems


@contextmanager
def _progress(what: str, total: int, quiet: bool) -> Iterator[Step]:
    """A bar for people, a few lines for files, nothing for programs."""
    if quiet:
        yield lambda done: None
    elif sys.stdout.isatty():
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)
    else:
        said = 0

        def step(done: int) -> None:
            nonlocal said
            reached = done * PLAIN_STEPS // total
            if reached > said:
                said = reached
                say(f"{what}: {done:,} of {total:,}")

        yield step

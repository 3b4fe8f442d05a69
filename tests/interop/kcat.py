"""kcat, a command line on a librdkafka that is some years older than confluent-kafka's."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition

from tests.interop.clients import Client, Member, Message, Place, Record
from tests.waiting import wait_until

SEPARATOR = "\x01"
END = "\x02"


def is_installed() -> bool:
    return shutil.which("kcat") is not None


class Kcat(Client):
    name = "kcat"
    outlives_its_broker = False
    knows_static_members = False

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = None,
    ) -> list[Place]:
        """kcat does not say where a message went, so that is looked up afterwards by what was sent."""
        before = _ends(bootstrap, topic)
        options = ["-X", f"compression.type={codec}", "-X", f"enable.idempotence={str(idempotent).lower()}"]
        if partition is not None:
            options += ["-p", str(partition)]
        for headers in dict.fromkeys(message.headers for message in messages):
            # Headers are given once for a whole run of kcat.
            lot = [message for message in messages if message.headers == headers]
            named = [part for name, value in headers for part in ("-H", f"{name}={value.decode()}")]
            text = "".join(f"{(m.key or b'').decode()}{SEPARATOR}{m.value.decode()}{END}" for m in lot)
            done = subprocess.run(
                [
                    "kcat",
                    "-b",
                    bootstrap,
                    "-P",
                    "-t",
                    topic,
                    "-K",
                    SEPARATOR,
                    "-D",
                    END,
                    "-Z",
                    *options,
                    *named,
                ],
                input=text.encode(),
                capture_output=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0 and b"ERROR" not in done.stderr, done.stderr.decode()
        found = _read_from(bootstrap, topic, before, len(messages))
        return [found[message.value] for message in messages]

    def join(self, bootstrap: str, topic: str, group: str, *, instance: str | None = None) -> Member:
        return KcatMember(bootstrap, topic, group)


class KcatMember(Member):
    """A running `kcat -G`. It cannot be told to commit: it does so by itself, and the test waits for that."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__()
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = group
        settings = {
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": "50",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "200",
            "fetch.wait.max.ms": "100",
        }
        options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
        self._process = subprocess.Popen(
            ["kcat", "-b", bootstrap, "-J", "-u", *options, "-G", group, topic],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said: list[str] = []
        self._listeners = [
            threading.Thread(target=self._hear_records, daemon=True),
            threading.Thread(target=self._hear_remarks, daemon=True),
        ]
        for listener in self._listeners:
            listener.start()

    def check(self) -> None:
        code = self._process.poll()
        assert code is None, f"kcat ended with {code}: {self._said}"

    def commit(self) -> None:
        """Wait until the group's offsets are behind everything that this member has read."""
        wanted: dict[int, int] = {}
        for record in self.records:
            wanted[record.place.partition] = record.place.offset + 1
        reader = Consumer({"bootstrap.servers": self._bootstrap, "group.id": self._group})
        try:
            asked = [TopicPartition(self._topic, partition) for partition in wanted]
            wait_until(
                lambda: (
                    {each.partition: each.offset for each in reader.committed(asked, timeout=10)} == wanted
                ),
                f"{wanted} committed",
            )
        finally:
            reader.close()

    def leave(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        for listener in self._listeners:
            listener.join(10)

    def _hear_records(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            entry = json.loads(line)
            headers = entry.get("headers") or []
            self._records.append(
                Record(
                    Place(entry["partition"], entry["offset"]),
                    Message(
                        entry["payload"].encode(),
                        None if entry["key"] is None else entry["key"].encode(),
                        tuple((name, value.encode()) for name, value in zip(headers[::2], headers[1::2])),
                    ),
                )
            )

    def _hear_remarks(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if "assigned:" in line:
                self._now_owns(frozenset(int(number) for number in re.findall(r"\[(\d+)\]", line)))
            elif "revoked:" in line:
                self._now_owns(frozenset())


def _ends(bootstrap: str, topic: str) -> dict[int, int]:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        partitions = reader.list_topics(topic, timeout=10).topics[topic].partitions
        return {
            number: reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
            for number in partitions
        }
    finally:
        reader.close()


def _read_from(bootstrap: str, topic: str, starts: dict[int, int], count: int) -> dict[bytes, Place]:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        reader.assign([TopicPartition(topic, number, offset) for number, offset in starts.items()])
        found: dict[bytes, Place] = {}

        def all_found() -> bool:
            for arrived in reader.consume(500, timeout=0.1):
                if arrived.error() is None:
                    found[arrived.value()] = Place(arrived.partition(), arrived.offset())
            return len(found) >= count

        wait_until(all_found, lambda: f"{count} messages of kcat; there are {len(found)}")
        return found
    finally:
        reader.close()

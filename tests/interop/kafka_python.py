"""kafka-python, all Python."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kafka import KafkaConsumer, KafkaProducer
from kafka import codec as codecs
from kafka.errors import KafkaError

from tests.interop.clients import Client, Member, Message, Place, PollingMember, Record

QUICK = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200, "retry_backoff_ms": 20}

POLL_MS = 1000
FORGOTTEN_S = 10.0
"""kafka-python 3.0.12 forgets its assignment and its heartbeats when a poll times out in the moment between
the answer to SyncGroup and what follows from it. Long polls make that rare; a member without a partition for
this long is opened anew, as an application would have to do it."""


class KafkaPython(Client):
    name = "kafka-python"
    codecs = (
        "none",
        "gzip",
        *(("snappy",) if codecs.has_snappy() else ()),
        *(("lz4",) if codecs.has_lz4() else ()),
        *(("zstd",) if codecs.has_zstd() else ()),
    )

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
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all" if idempotent else 1,
            linger_ms=5,
            **QUICK,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=partition,
                )
                for message in messages
            ]
            producer.flush(30)
            return [Place(sent.partition, sent.offset) for sent in (future.get(30) for future in futures)]
        finally:
            producer.close(timeout=10)

    def join(self, bootstrap: str, topic: str, group: str, *, instance: str | None = None) -> Member:
        member = KafkaPythonMember(bootstrap, topic, group, instance)
        member.start()
        return member


class KafkaPythonMember(PollingMember):
    def __init__(self, bootstrap: str, topic: str, group: str, instance: str | None) -> None:
        super().__init__()
        self._topic = topic
        self._config = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "group_instance_id": instance,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 200,
            "fetch_max_wait_ms": 100,
            **QUICK,
        }

    def _open(self) -> None:
        self._consumer = KafkaConsumer(self._topic, **self._config)
        self._assigned_at = time.monotonic()

    def _poll(self) -> None:
        try:
            arrived = self._consumer.poll(timeout_ms=POLL_MS)
        except KafkaError as error:
            if not error.retriable:
                raise
            return
        assigned = frozenset(each.partition for each in self._consumer.assignment())
        self._now_owns(assigned)
        if assigned:
            self._assigned_at = time.monotonic()
        elif time.monotonic() - self._assigned_at > FORGOTTEN_S:
            self._close()
            self._open()
        for records in arrived.values():
            self._records += (
                Record(
                    Place(each.partition, each.offset),
                    Message(each.value, each.key, tuple((name, value) for name, value in each.headers)),
                )
                for each in records
            )

    def _commit(self) -> None:
        self._consumer.commit()

    def _close(self) -> None:
        self._consumer.close(autocommit=False)

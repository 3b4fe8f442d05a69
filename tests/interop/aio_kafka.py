"""aiokafka, asyncio on the oldest versions that any of the four clients asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.interop.clients import Client, Member, Message, Place, PollingMember, Record


class AioKafka(Client):
    name = "aiokafka"

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
        async def send_all() -> list[Place]:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                acks="all" if idempotent else 1,
                linger_ms=5,
                retry_backoff_ms=20,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic,
                        value=message.value,
                        key=message.key,
                        headers=list(message.headers),
                        partition=partition,
                    )
                    for message in messages
                ]
                return [Place(sent.partition, sent.offset) for sent in await asyncio.gather(*futures)]
            finally:
                await producer.stop()

        return asyncio.run(asyncio.wait_for(send_all(), 60))

    def join(self, bootstrap: str, topic: str, group: str, *, instance: str | None = None) -> Member:
        member = AioKafkaMember(bootstrap, topic, group, instance)
        member.start()
        return member


class AioKafkaMember(PollingMember):
    """Its event loop runs only while the member polls; aiokafka heartbeats in tasks of the same loop."""

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
            "retry_backoff_ms": 20,
        }

    def _open(self) -> None:
        self._runner = asyncio.Runner()
        self._runner.run(self._start())

    async def _start(self) -> None:
        self._consumer = AIOKafkaConsumer(self._topic, **self._config)
        await self._consumer.start()

    def _poll(self) -> None:
        arrived = self._runner.run(self._consumer.getmany(timeout_ms=50))
        self._now_owns(frozenset(each.partition for each in self._consumer.assignment()))
        for records in arrived.values():
            self._records += (
                Record(
                    Place(each.partition, each.offset),
                    Message(each.value, each.key, tuple(each.headers)),
                )
                for each in records
            )

    def _commit(self) -> None:
        self._runner.run(self._consumer.commit())

    def _close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()

"""Ledgers for tests: a sound history of a few partitions, made by hand or at random, and harm done to it."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec

from epoka.model.ledger import LedgerEvent


class History:
    """Writes events as a controller would, with times and ids that count up."""

    def __init__(self, start_ms: int = 1000) -> None:
        self.events: list[LedgerEvent] = []
        self.now = start_ms
        self.standing: dict[int, str] = {}
        self.generation: dict[int, int] = {}
        self.partitions: dict[tuple[str, int], LedgerEvent] = {}

    def add(self, kind: str, *, after_ms: int = 10, **about: object) -> LedgerEvent:
        self.now += after_ms
        number = len(self.events) + 1
        event = LedgerEvent(kind=kind, time_ms=self.now, node=100, event_id=number, **about)  # type: ignore[arg-type]
        self.events.append(event)
        return event

    def register(self, broker: int) -> None:
        self.generation[broker] = len(self.events) + 1
        self._stand("registered", broker)
        self._stand("unfenced", broker)

    def _stand(self, kind: str, broker: int, **about: object) -> LedgerEvent:
        self.standing[broker] = kind
        return self.add(kind, broker=broker, broker_epoch=self.generation[broker], **about)

    def create(self, topic: str, partition: int, isr: tuple[int, ...]) -> None:
        self.partitions[topic, partition] = self.add(
            "leader",
            topic=topic,
            partition=partition,
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
            isr=isr,
        )

    def change(
        self,
        topic: str,
        partition: int,
        isr: tuple[int, ...],
        leader: int,
        *,
        after_ms: int = 10,
        **about: object,
    ) -> None:
        old = self.partitions[topic, partition]
        elects = leader != old.leader
        self.partitions[topic, partition] = self.add(
            "leader" if elects else "isr",
            after_ms=after_ms,
            topic=topic,
            partition=partition,
            leader=leader,
            leader_epoch_before=old.leader_epoch,
            leader_epoch=old.leader_epoch + elects,
            partition_epoch_before=old.partition_epoch,
            partition_epoch=old.partition_epoch + 1,
            isr_before=old.isr,
            isr=isr,
            **about,
        )

    def fence(self, broker: int) -> None:
        fenced = self._stand("fenced", broker, rule="heartbeat.session")
        for (topic, partition), old in list(self.partitions.items()):
            if broker not in old.isr:
                continue
            isr = tuple(each for each in old.isr if each != broker) or old.isr
            leader = old.leader
            if leader == broker:
                leader = isr[0] if len(old.isr) > 1 else -1
            self.change(
                topic, partition, isr, leader, after_ms=0, cause=fenced.event_id, rule="heartbeat.session"
            )

    def join(self, broker: int) -> None:
        for (topic, partition), old in list(self.partitions.items()):
            if broker not in old.isr and old.leader >= 0:
                self.change(topic, partition, (*old.isr, broker), old.leader)


def sound(seed: int, steps: int = 30, brokers: int = 4, partitions: int = 5) -> History:
    """A random history in which nothing is wrong."""
    chance = random.Random(seed)
    history = History()
    ids = list(range(1, brokers + 1))
    for broker in ids:
        history.register(broker)
    for partition in range(partitions):
        history.create("t", partition, tuple(chance.sample(ids, 3)))
    for _ in range(steps):
        broker = chance.choice(ids)
        if history.standing[broker] == "unfenced":
            if sum(each == "unfenced" for each in history.standing.values()) > 2:
                history.fence(broker)
        else:
            history.register(broker)
            history.join(broker)
    return history


def write(path: Path, events: list[LedgerEvent]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.Encoder().encode_lines(events))
    return path


def replaced(events: list[LedgerEvent], at: int, **changes: object) -> list[LedgerEvent]:
    return [*events[:at], msgspec.structs.replace(events[at], **changes), *events[at + 1 :]]

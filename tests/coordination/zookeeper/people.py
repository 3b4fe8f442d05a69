"""Brokers, controllers and outsiders of these tests, and the ways in which they lose their sessions."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from epoka.coordination.zookeeper import paths
from epoka.coordination.zookeeper.election import Election, Mandate
from epoka.coordination.zookeeper.registry import RegisteredBroker, Registry
from epoka.coordination.zookeeper.session import Session, SessionEvent, end_session
from epoka.coordination.zookeeper.state import ZooKeeperState
from epoka.coordination.zookeeper.znodes import ControllerZnode
from epoka.model.image import ClusterImage
from epoka.model.levels import FEATURE_NAME, HIGHEST, FeatureLevel
from epoka.model.records import MetadataRecord, decode_record, encode_record
from epoka.model.registrations import WITH_HEARTBEATS, WITHOUT_HEARTBEATS, Endpoint, Feature
from epoka.wire.messages import metadata_records as m
from tests.waiting import wait_until

NOW_MS = 1_700_000_000_000
FEATURES = (Feature(FEATURE_NAME, FeatureLevel.LEGACY, HIGHEST),)
Open = Callable[..., Session]


class Sessions(contextlib.ExitStack):
    """Sessions with one place, all closed in the end."""

    def __init__(self, connect: str) -> None:
        super().__init__()
        self.connect = connect

    def open(self, connect: str | None = None, **options: Any) -> Session:
        options.setdefault("session_timeout_ms", 8_000)
        session = Session(connect or self.connect, **options)
        self.callback(session.close)
        return session.open()


def endpoints(broker_id: int) -> tuple[Endpoint, ...]:
    return (
        Endpoint("PLAINTEXT", f"host-{broker_id}", 9092, 0),
        Endpoint("CONTROL", f"host-{broker_id}", 9093, 0),
    )


def register(
    session: Session, broker_id: int, level: FeatureLevel = HIGHEST, **options: Any
) -> RegisteredBroker:
    """Register a broker that nobody keeps from it."""
    registered = Registry(session).register(
        broker_id,
        endpoints=endpoints(broker_id),
        version=WITH_HEARTBEATS if level >= FeatureLevel.HEARTBEATS else WITHOUT_HEARTBEATS,
        now_ms=NOW_MS,
        features=FEATURES,
        **options,
    )
    assert isinstance(registered, RegisteredBroker), registered
    return registered


def expire(session: Session) -> None:
    """End the session behind its owner's back, and wait until the owner has the next one."""
    before = session.id
    end_session(session.connect, session.key)
    wait_until(lambda: session.id != before and session.connected, "a new session")


def cut(session: Session) -> None:
    """Break the connection; the session lives on."""
    again: list[SessionEvent] = []
    session.listen(again.append)
    session._client._connection._socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: SessionEvent.SUSPENDED in again, "the connection to break")
    wait_until(lambda: again[-1] is SessionEvent.CONNECTED, "the next connection")


def elect(session: Session, controller_id: int = 100) -> Mandate:
    mandate = Election(session, ControllerZnode(controller_id)).stand(NOW_MS)
    assert isinstance(mandate, Mandate), mandate
    return mandate


def take_office(session: Session, controller_id: int = 100) -> ZooKeeperState:
    """A controller that has just been elected and has not loaded anything."""
    session.ensure(paths.PERSISTENT)
    return ZooKeeperState(session, elect(session, controller_id))


class Controller:
    """A state, and the image that its records lead to."""

    def __init__(self, session: Session, controller_id: int = 100) -> None:
        self.session = session
        self.state = take_office(session, controller_id)
        self.loaded = self.state.load()
        self.image = ClusterImage()
        self.image.load(map(decode_record, self.loaded.snapshot), self.loaded.snapshot_offset)

    def append(self, *records: MetadataRecord) -> int:
        offset = self.state.append([encode_record(record) for record in records])
        self.image.apply_batch(records, offset)
        return offset

    def resign(self) -> None:
        Election(self.session, ControllerZnode(100)).resign(self.state.mandate)


def topic(
    name: str, number: int, partitions: int = 1, replicas: Sequence[int] = (1, 2, 3)
) -> list[MetadataRecord]:
    """The records that create a topic."""
    topic_id = UUID(int=number)
    return [
        m.TopicRecord(name=name, topic_id=topic_id),
        *(
            m.PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=tuple(replicas),
                isr=tuple(replicas),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
            )
            for index in range(partitions)
        ),
    ]


def shrink(number: int, index: int = 0, isr: Sequence[int] = (1,)) -> m.PartitionChangeRecord:
    return m.PartitionChangeRecord(partition_id=index, topic_id=UUID(int=number), isr=tuple(isr))


def tree(session: Session, path: str = "/") -> dict[str, bytes]:
    """Everything below a path that is not ZooKeeper's own, with its content."""
    found: dict[str, bytes] = {}
    waiting = [path]
    while waiting:
        below = []
        for each, names in zip(waiting, session.children_of_many(waiting)):
            below += [f"{each.rstrip('/')}/{name}" for name in names or []]
        for each, node in zip(below, session.get_many(below)):
            assert node is not None
            found[each] = node.data
        waiting = below
    return dict(sorted(found.items()))

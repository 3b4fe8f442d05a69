"""Brokers and their generations: each broker's ephemeral node under `/brokers/ids`.

A generation is the transaction that created the node (its czxid), and it comes back with the very request
that creates it: a broker never reads what another one may have written in between. A new session is a new
registration and a new generation.

`snapshot` is one state of the registry, never a mixture of two (facts about the maximum generation rest on
this). Nodes that no broker wrote are named and left alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from epoka.coordination.zookeeper import paths
from epoka.coordination.zookeeper.operations import NO_NODE, NODE_EXISTS, Delete, Node, Refused, SetData
from epoka.coordination.zookeeper.session import Interrupted, Session, Watch, ZooKeeperError
from epoka.coordination.zookeeper.znodes import (
    BadZnode,
    BrokerZnode,
    decode_broker,
    encode_broker,
)
from epoka.model.events import RegistryChanged, RegistryEntry
from epoka.model.ids import BrokerEpoch, BrokerId
from epoka.model.registrations import BrokerRegistration, Endpoint, Feature

_MOST_SWEEPS: Final = 100
_MOST_ATTEMPTS: Final = 100


class RegisteredBroker(msgspec.Struct, frozen=True):
    """One life of one broker, as the registry has it."""

    id: int
    generation: int
    session: int
    broker: BrokerZnode

    def registration(self, *, stopping: bool = False) -> BrokerRegistration:
        """As the image has it. Without heartbeats a broker is always active; with them it begins fenced."""
        return BrokerRegistration(
            BrokerId(self.id),
            BrokerEpoch(self.generation),
            # In this mode the generation is what tells one life from another (KIP-343's incarnation id).
            UUID(int=self.generation),
            self.broker.endpoints,
            self.broker.features,
            self.broker.rack,
            fenced=self.broker.heartbeats,
            in_controlled_shutdown=stopping,
        )

    def entry(self) -> RegistryEntry:
        """As the controller core is told of it."""
        broker = self.broker
        return RegistryEntry(
            self.id, self.generation, broker.version, broker.endpoints, broker.rack, broker.features
        )


class IdInUse(msgspec.Struct, frozen=True):
    """A live session holds the id: the refusal of a registration."""

    id: int
    session: int
    holder: str
    """Where the holder says it is, or what is wrong with what it says."""

    @property
    def reason(self) -> str:
        return f"broker id {self.id} is in use by a live session (0x{self.session:x}): {self.holder}"


class RegistrySnapshot(msgspec.Struct, frozen=True):
    """All registrations at one moment."""

    brokers: Mapping[int, RegisteredBroker]
    """By broker id in ascending order."""
    position: int
    """The transaction of the last change: no generation in here is above it, every later one is."""
    notes: tuple[str, ...] = ()
    """Nodes that are not registrations, and why."""

    @property
    def max_generation(self) -> int:
        """What control requests carry from level `shared-updates` on; -1 when nobody is registered."""
        return max((each.generation for each in self.brokers.values()), default=-1)

    def changed(self) -> RegistryChanged:
        """The event with which the controller core learns of it."""
        return RegistryChanged(tuple(each.entry() for each in self.brokers.values()), self.position)


class Registry:
    def __init__(self, session: Session) -> None:
        self._session = session

    def register(
        self,
        broker_id: int,
        *,
        endpoints: Sequence[Endpoint],
        version: int,
        now_ms: int,
        rack: str | None = None,
        features: Sequence[Feature] = (),
        wait_ms: int = 0,
    ) -> RegisteredBroker | IdInUse:
        """Create the broker's node and learn its generation in one step.

        A node that an ended session of ours left behind is replaced; one of our living session is ours, with
        its generation. One of anybody else's living session is waited for up to `wait_ms`: a broker that was
        killed and is started again finds its own last session, which ZooKeeper has yet to give up.
        """
        broker = BrokerZnode(version, tuple(endpoints), rack, tuple(features))
        path, data = paths.broker(broker_id), encode_broker(broker, now_ms)
        deadline = time.monotonic() + wait_ms / 1000
        for _ in range(_MOST_ATTEMPTS):
            try:
                stat = self._session.create(path, data, ephemeral=True)
                return RegisteredBroker(broker_id, stat.created_zxid, stat.owner, broker)
            except Refused as refused:
                if refused.reason == NO_NODE:
                    self._session.ensure([paths.BROKER_IDS])
                    continue
                if refused.reason != NODE_EXISTS:
                    raise ZooKeeperError(str(refused)) from refused
            except Interrupted:
                # If it was carried out after all, the next attempt finds a node of our own session.
                if not self._session.connected:
                    self._session.sync(paths.BROKER_IDS)
                continue
            held = self._held(broker_id, path, data, broker)
            if isinstance(held, RegisteredBroker):
                return held
            if held is not None and not self._await_vacancy(path, deadline):
                return held
        raise ZooKeeperError(f"{path}: the registration did not succeed in {_MOST_ATTEMPTS} attempts")

    def deregister(self, broker_id: int) -> bool:
        """Take back our own registration; False if there is none of the present session."""
        path = paths.broker(broker_id)
        node = self._session.get(path)
        if node is None or node.stat.owner != self._session.id:
            return False
        try:
            self._session.multi([Delete(path)])
        except Refused:
            return False
        return True

    def snapshot(self) -> RegistrySnapshot:
        """All registrations as they were at one moment, not before this call.

        The list of children is read before and after the nodes. Nothing was created or deleted in between
        if both have the same last change; otherwise all is read again. Only reads of one session never go
        back in time, so the session must be the same throughout, too.
        """
        self._session.sync(paths.BROKER_IDS)
        for _ in range(_MOST_SWEEPS):
            session_id = self._session.id
            before = self._session.children(paths.BROKER_IDS)
            if before is None:
                return RegistrySnapshot({}, 0)
            names, stat = before
            nodes = self._session.get_many([f"{paths.BROKER_IDS}/{name}" for name in names])
            after = self._session.children(paths.BROKER_IDS)
            if (
                after is not None
                and after[1].children_zxid == stat.children_zxid
                and all(nodes)
                and self._session.id == session_id
            ):
                return _picture(names, [node for node in nodes if node], stat.children_zxid)
        raise ZooKeeperError(f"{paths.BROKER_IDS} changes faster than it can be read")

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Be told that brokers may have come, gone or bounced: take a snapshot. Runs on kazoo's thread."""
        return self._session.watch_children(paths.BROKER_IDS, callback)

    # Inside.

    def _held(
        self, broker_id: int, path: str, data: bytes, broker: BrokerZnode
    ) -> RegisteredBroker | IdInUse | None:
        """What the node that is in our way means; None when it is gone or was an ended session's of ours."""
        self._session.sync(path)
        node = self._session.get(path)
        if node is None:
            return None
        owner = node.stat.owner
        try:
            if owner == self._session.id:
                if node.data != data:
                    self._session.multi([SetData(path, data, node.stat.version)])
                return RegisteredBroker(broker_id, node.stat.created_zxid, owner, broker)
            if self._session.was_ours(owner):
                self._session.multi([Delete(path, node.stat.version)])
                return None
        except Refused:
            return None
        return IdInUse(broker_id, owner, _holder(path, node))

    def _await_vacancy(self, path: str, deadline: float) -> bool:
        """Whether the node went away, or may have, before the deadline."""
        if time.monotonic() >= deadline:
            return False
        # The watch calls on kazoo's thread, which must not read; it only wakes this one.
        changed = threading.Event()
        watch = self._session.watch_node(path, changed.set)
        try:
            while changed.wait(max(0.0, deadline - time.monotonic())):
                changed.clear()
                if self._session.get(path) is None:
                    return True
        finally:
            watch.stop()
        return False


def _holder(path: str, node: Node) -> str:
    try:
        return decode_broker(path, node.data).address
    except BadZnode as bad:
        return bad.reason


def _picture(names: Sequence[str], nodes: Sequence[Node], position: int) -> RegistrySnapshot:
    brokers: dict[int, RegisteredBroker] = {}
    notes = []
    for name, node in zip(names, nodes):
        path = f"{paths.BROKER_IDS}/{name}"
        try:
            if not paths.is_broker_id(name):
                raise BadZnode(path, "its name is not a broker id")
            if not node.stat.owner:
                raise BadZnode(path, "no session holds it, so it is no broker's")
            broker = decode_broker(path, node.data)
        except BadZnode as bad:
            notes.append(f"{bad}; it is left alone")
            continue
        brokers[int(name)] = RegisteredBroker(int(name), node.stat.created_zxid, node.stat.owner, broker)
    return RegistrySnapshot(dict(sorted(brokers.items())), position, tuple(notes))

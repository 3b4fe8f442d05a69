"""A whole cluster of cores on a virtual clock: one controller, some brokers, memory for disks, no sockets.

Messages go through the codec and take one millisecond. A test may cut links, hold messages, crash a broker
and bring it back with or without its disk; then it runs the world until something is true.
"""

from __future__ import annotations

import heapq
import itertools
import uuid
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from epoka.broker.config import BrokerConfig, Listener
from epoka.broker.core import BrokerCore
from epoka.broker.groups import GroupConfig
from epoka.controller.config import ControllerConfig
from epoka.controller.core import ControllerCore
from epoka.controller.metadata_log import MemoryMetadataLog
from epoka.log.directory import LogDirectory
from epoka.log.store import MemoryStore
from epoka.model.events import (
    CONTROLLER,
    Effect,
    Exit,
    Hangup,
    Peer,
    Reply,
    Report,
    Request,
    Respond,
    Send,
    Stop,
    Wake,
)
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import HIGHEST, FeatureLevel
from epoka.wire import codec, records
from epoka.wire.encoded import Encoded

CLUSTER = "test-cluster"
HUNG_UP = "hung up"


class Node:
    """A core that is alive: its number, and what it still waits for."""

    def __init__(self, node_id: int, core: Any) -> None:
        self.node_id = node_id
        self.core = core
        self.alive = True
        self.exit: Exit | None = None
        self.askers: dict[int, Callable[[Any], None]] = {}


class World:
    def __init__(
        self,
        brokers: int = 3,
        level: FeatureLevel = HIGHEST,
        controller: ControllerConfig | None = None,
        **settings: Any,
    ) -> None:
        self.now = 1_000_000
        self.level = level
        self.controller_config = controller or ControllerConfig(
            initial_level=level,
            session_timeout_ms=1_000,
            auto_leader_rebalance=False,
            ledger_replication_factor=3 if settings.get("ledger_topic") else 0,
        )
        self.settings = {
            "heartbeat_interval_ms": 200,
            "heartbeat_timeout_ms": 1_500,
            "offsets_topic_partitions": 3,
            "offsets_topic_replication_factor": 3,
            "replica_lag_time_max_ms": 2_000,
            "groups": GroupConfig(initial_rebalance_delay_ms=0, partitions=3),
            **settings,
        }
        self.metadata_log = MemoryMetadataLog()
        self.stores: dict[int, MemoryStore] = {}
        self.nodes: dict[int, Node] = {}
        self.ledger: list[LedgerEvent] = []
        self.cut: set[tuple[int, int]] = set()
        self.holding: Callable[[int, int, Any], bool] | None = None
        self.held: list[Callable[[], None]] = []
        self._open: WeakKeyDictionary[Encoded, Any] = WeakKeyDictionary()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self._tokens = itertools.count(1)
        self._ids = itertools.count(1)
        self.start_controller()
        for broker_id in range(1, brokers + 1):
            self.start_broker(broker_id)
        self.run_until(lambda: self.all_unfenced(range(1, brokers + 1)))

    # Nodes.

    @property
    def controller(self) -> ControllerCore:
        return self.nodes[CONTROLLER].core

    def broker(self, broker_id: int) -> BrokerCore:
        return self.nodes[broker_id].core

    def start_controller(self) -> None:
        core = ControllerCore(
            100,
            CLUSTER,
            self.metadata_log,
            self.controller_config,
            new_id=lambda: uuid.UUID(int=next(self._ids)),
        )
        self._start(Node(CONTROLLER, core))

    def start_broker(self, broker_id: int) -> None:
        store = self.stores.setdefault(broker_id, MemoryStore())
        directory = LogDirectory.open(store, cluster_id=CLUSTER, node_id=broker_id, now=self.now)
        config = BrokerConfig(
            broker_id=broker_id,
            cluster_id=CLUSTER,
            incarnation_id=uuid.UUID(int=10_000 + next(self._ids)),
            listeners=(
                Listener("PLAINTEXT", "host", 9000 + broker_id),
                Listener("CONTROL", "host", 9100 + broker_id),
            ),
            directory_ids=(directory.directory_id,),
            previous_broker_epoch=directory.previous_generation,
            last_broker_epoch=directory.last_generation,
            **self.settings,
        )
        members = itertools.count(1)
        core = BrokerCore(config, directory, lambda client_id: f"{client_id}-{next(members)}")
        self._start(Node(broker_id, core))

    def _start(self, node: Node) -> None:
        self.nodes[node.node_id] = node
        self._perform(node, node.core.start(self.now))

    def crash(self, node_id: int, *, wipe: bool = False, keep_unflushed: bool = True) -> None:
        """The process is gone at once; of its disk stays what the test says."""
        node = self.nodes[node_id]
        node.alive = False
        if node_id in self.stores:
            store = self.stores[node_id]
            if wipe:
                self.stores[node_id] = MemoryStore()
            else:
                store.crash(None if not keep_unflushed else lambda name, size: size)

    def stop(self, broker_id: int) -> None:
        """Controlled shutdown, to its end."""
        node = self.nodes[broker_id]
        self._perform(node, node.core.handle(Stop(), self.now))
        self.run_until(lambda: node.exit is not None)
        directory = node.core.replicas.logs
        directory.checkpoint(node.core.replicas.high_watermarks())
        directory.shutdown(node.core.lifecycle.broker_epoch)

    # Time.

    def run(self, ms: int) -> None:
        end = self.now + ms
        while (due := self._next()) is not None and due <= end:
            self._step(due)
        self.now = end

    def run_until(self, condition: Callable[[], bool], ms: int = 60_000) -> None:
        end = self.now + ms
        while not condition():
            due = self._next()
            assert due is not None and due <= end, "the world stood still, or ran out of time"
            self._step(due)

    def _next(self) -> int | None:
        times = [self._queue[0][0]] if self._queue else []
        times += [
            node.core.deadline
            for node in self.nodes.values()
            if node.alive and node.core.deadline is not None
        ]
        return None if not times else max(min(times), self.now)

    def _step(self, due: int) -> None:
        self.now = due
        if self._queue and self._queue[0][0] <= due:
            heapq.heappop(self._queue)[2]()
            return
        for node in list(self.nodes.values()):
            if node.alive and node.core.deadline is not None and node.core.deadline <= due:
                self._perform(node, node.core.handle(Wake(), self.now))

    def _later(self, delay_ms: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay_ms, next(self._sequence), call))

    # Messages.

    def _perform(self, node: Node, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._carry(node, effect)
            elif isinstance(effect, Respond):
                node.askers.pop(effect.token)(effect.message)
            elif isinstance(effect, Hangup):
                node.askers.pop(effect.token)(HUNG_UP)
            elif isinstance(effect, Report):
                self.ledger.append(effect.event)
            elif isinstance(effect, Exit):
                node.exit = effect
                node.alive = False

    def _carry(self, sender: Node, send: Send) -> None:
        done = []

        def reply(message: Any) -> None:
            if done:
                return
            done.append(True)
            if self.nodes.get(sender.node_id) is sender and sender.alive:
                self._perform(sender, sender.core.handle(Reply(send.token, message), self.now))

        def answer(receiver: Node, message: Any) -> None:
            if message == HUNG_UP:
                self._later(1, lambda: reply(None))
                return
            copy = _through_the_codec(message, send.version)
            self._gated(receiver.node_id, sender.node_id, copy, lambda: reply(copy))

        def deliver() -> None:
            receiver = self.nodes.get(send.to)
            if receiver is None or not receiver.alive:
                self._later(1, lambda: reply(None))
                return
            token = next(self._tokens)
            receiver.askers[token] = lambda message: answer(receiver, message)
            peer = Peer(control=True, connection=sender.node_id * 10 + send.lane)
            request = Request(token, send.version, _through_the_codec(send.message, send.version), peer)
            self._perform(receiver, receiver.core.handle(request, self.now))

        self._later(send.timeout_ms, lambda: reply(None))
        self._gated(sender.node_id, send.to, self._opened(send.message), deliver)

    def _opened(self, message: Any) -> Any:
        """What a test sees of a message; the same object as long as the same bytes are sent."""
        if not isinstance(message, Encoded):
            return message
        if message not in self._open:
            self._open[message] = codec.opened(message)
        return self._open[message]

    def _gated(self, sender: int, receiver: int, message: Any, go: Callable[[], None]) -> None:
        if (sender, receiver) in self.cut:
            return
        if self.holding is not None and self.holding(sender, receiver, message):
            self.held.append(go)
            return
        self._later(1, go)

    def hold(self, api: str, sender: int | None = None) -> None:
        """Hold messages of that class name (of that sender) until `release`."""
        self.holding = lambda frm, to, message: type(message).__name__ == api and sender in (None, frm)

    def release(self) -> None:
        self.holding = None
        held, self.held = self.held, []
        for go in held:
            self._later(1, go)

    def isolate(self, one: int, other: int) -> None:
        self.cut |= {(one, other), (other, one)}

    def heal(self) -> None:
        self.cut.clear()

    # What a client does.

    def ask(
        self, broker_id: int, message: Any, version: int, *, control: bool = False, connection: int = 0
    ) -> list[Any]:
        """Put a client's request, on a connection of its own unless given; the list gets the answer."""
        node = self.nodes[broker_id]
        token = next(self._tokens)
        answers: list[Any] = []
        node.askers[token] = lambda answer: answers.append(
            answer if answer in (None, HUNG_UP) else _through_the_codec(answer, version)
        )
        peer = Peer(
            control=control, host="client", client_id="client", connection=connection or 1_000 + token
        )
        request = Request(token, version, _through_the_codec(message, version), peer)
        self._perform(node, node.core.handle(request, self.now))
        return answers

    def call(self, broker_id: int, message: Any, version: int, *, control: bool = False) -> Any:
        answers = self.ask(broker_id, message, version, control=control)
        self.run_until(lambda: bool(answers))
        return answers[0]

    # Questions.

    def all_unfenced(self, broker_ids: Any) -> bool:
        """Every broker runs and every broker knows that of every other."""
        alive = [node for node in self.nodes.values() if node.alive and node.node_id != CONTROLLER]
        return all(
            (known := node.core.image.broker(broker_id)) is not None
            and not known.fenced
            and node.core.lifecycle.serving()
            for node in alive
            for broker_id in broker_ids
        )

    def partition(self, topic: str, index: int = 0) -> Any:
        return self.controller.image.partition(topic, index)


def batch(*values: bytes, timestamp: int = 1_000, **about: Any) -> bytearray:
    """A record batch as a producer would send it."""
    return records.encode_batch(
        [
            records.Record(offset=i, timestamp=timestamp, key=None, value=value)
            for i, value in enumerate(values)
        ],
        **about,
    )


def _through_the_codec(message: Any, version: int) -> Any:
    return codec.decode(codec.class_of(message), version, bytearray(codec.encode(message, version)))

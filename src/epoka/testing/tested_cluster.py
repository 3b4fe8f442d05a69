"""What a test holds in its hands: a cluster that it shares, and topics, groups and clients of its own.

Verbs that do harm are remembered, so that whoever comes next finds the cluster whole. Waits have deadlines
and say what they waited for and what they saw.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from epoka.client.connection import Connection
from epoka.client.errors import ClientError
from epoka.cluster.cluster import Cluster, HeldMessages
from epoka.cluster.errors import BadCluster, ClusterError
from epoka.cluster.ports import HOST
from epoka.cluster.status import ClusterStatus
from epoka.ledger.why import Answer, History
from epoka.model.ledger import LedgerEvent
from epoka.model.partitions import PartitionState
from epoka.testing import clients
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from epoka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from epoka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

WITHIN_S = 30.0
LOOK_AGAIN_S = 0.005
TIMEOUT_MS = 30_000
CREATE_VERSION, DELETE_VERSION, METADATA_VERSION = 7, 6, 12


class TestedCluster:
    """One test's view of a cluster."""

    __test__ = False

    def __init__(self, cluster: Cluster, connections: dict[int, Connection] | None = None) -> None:
        """`connections` are those to brokers that outlive the test."""
        self.cluster = cluster
        """The cluster itself; a test that harms it through this name has to mend it."""
        self.harmed = False
        self.began_ms = int(time.time() * 1000)
        self._topics: list[str] = []
        self._holds: list[HeldMessages] = []
        self._ends: list[Callable[[], None]] = []
        self._connections = {} if connections is None else connections

    # What it is.

    @property
    def bootstrap(self) -> str:
        """What a client is given as `bootstrap.servers`."""
        return self.cluster.bootstrap

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return self.cluster.broker_ids

    def status(self) -> ClusterStatus:
        return self.cluster.status()

    def generation(self, broker: int) -> int:
        return self.cluster.generation(broker)

    def ledger(self) -> list[LedgerEvent]:
        """What was decided since the test began."""
        return [event for event in self.cluster.ledger() if event.time_ms >= self.began_ms]

    def why_broker(self, broker: int) -> Answer:
        """Why a broker is as it is, from the ledger."""
        return History(self.cluster.ledger()).why_broker(broker)

    def why_partition(self, topic: str, partition: int = 0) -> Answer:
        return History(self.cluster.ledger()).why_partition(topic, partition)

    # What a test has of its own.

    def topic(
        self,
        name: str = "topic",
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Mapping[str, Any] | None = None,
    ) -> str:
        """A new topic that every broker knows; returns its name, which begins with `name`.

        It is deleted after the test.
        """
        chosen = f"{name}-{secrets.token_hex(4)}"
        topic = CreatableTopic(
            name=chosen,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=tuple(CreatableTopicConfig(key, str(value)) for key, value in (config or {}).items()),
        )
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS)
        (result,) = self._ask(request, CREATE_VERSION).topics
        if result.error_code:
            code = ErrorCode.of(result.error_code)
            raise BadCluster(
                f"topic {name} was not created: {result.error_message or code.message} ({code.name})"
            )
        self._topics.append(chosen)
        asked = MetadataRequest(topics=(MetadataRequestTopic(name=chosen),), allow_auto_topic_creation=False)
        for broker in self._running():
            self._until(
                lambda b=broker: self._knows(b, asked, partitions if partitions > 0 else 1),  # type: ignore[misc]
                lambda b=broker: f"broker {b} to know {chosen}",  # type: ignore[misc]
                WITHIN_S,
            )
        return chosen

    def group(self, name: str = "group") -> str:
        """The name of a consumer group that nobody else has."""
        return f"{name}-{secrets.token_hex(4)}"

    def producer(self, settings: Mapping[str, Any] | None = None, *, library: str | None = None) -> Any:
        """A producer of the library that is installed, or of `library`; it is closed after the test."""
        return self._ended(clients.producer(self.bootstrap, settings or {}, library))

    def consumer(
        self,
        *topics: str,
        group: str | None = "",
        settings: Mapping[str, Any] | None = None,
        library: str | None = None,
    ) -> Any:
        """A consumer of `topics` from their beginning, in a group of its own unless one is named."""
        name = self.group() if group == "" else group
        return self._ended(clients.consumer(self.bootstrap, topics, name, settings or {}, library))

    def admin(self, settings: Mapping[str, Any] | None = None, *, library: str | None = None) -> Any:
        return self._ended(clients.admin(self.bootstrap, settings or {}, library))

    # What can be done to it.

    def bounce(self, broker: int, how: str = "clean") -> tuple[int, int]:
        """End a broker and start it again: clean, unclean, fast or wiped; its generation before and after."""
        self.harmed = True
        return self.cluster.bounce(broker, how)

    def kill(self, node: int) -> None:
        self.harmed = True
        self.cluster.kill(node)

    def stop(self, node: int) -> None:
        self.harmed = True
        self.cluster.stop(node)

    def start(self, node: int) -> None:
        self.cluster.start(node)

    def pause(self, node: int) -> None:
        self.harmed = True
        self.cluster.pause(node)

    def resume(self, node: int) -> None:
        self.cluster.resume(node)

    def wipe(self, node: int) -> None:
        self.harmed = True
        self.cluster.wipe(node)

    def isolate(self, node: int, from_: str | int | Iterable[int] | None = None) -> None:
        """Cut a node off from `"controller"`, `"brokers"`, ids or all; clients still reach it."""
        self.harmed = True
        self.cluster.isolate(node, from_)

    def heal(self) -> None:
        self.cluster.heal()

    def hold(self, api: str, to: str | int | None = None) -> HeldMessages:
        """Hold back what nodes send each other of one API, until it is released or the test is over."""
        self.harmed = True
        held = self.cluster.hold(api, to)
        self._holds.append(held)
        return held

    # What can be waited for.

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition now; -1 for none."""
        return self._partition(topic, partition).leader

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        return self._partition(topic, partition).isr

    def eventually_leader(
        self,
        topic: str,
        partition: int = 0,
        *,
        leader: int | None = None,
        other_than: int | None = None,
        within_s: float = WITHIN_S,
    ) -> int:
        """Wait until a partition has a leader: this one, another one than that, or any; returns it."""

        found, seen = -1, ""

        def fits() -> bool:
            nonlocal found, seen
            found = self.leader(topic, partition)
            seen = f"; it is led by {found}"
            return found == leader if leader is not None else found >= 0 and found != other_than

        wanted = f"led by {leader}" if leader is not None else "led by somebody"
        wanted += f" other than {other_than}" if other_than is not None else ""
        self._until(
            fits,
            lambda: f"{topic}-{partition} to be {wanted}{seen}",
            within_s,
        )
        return found

    def eventually_isr(
        self,
        topic: str,
        partition: int = 0,
        *,
        isr: Collection[int] | int | None = None,
        within_s: float = WITHIN_S,
    ) -> tuple[int, ...]:
        """Wait until these brokers, so many, or all replicas are in sync; returns who is."""

        found: tuple[int, ...] = ()
        seen = ""

        def fits() -> bool:
            nonlocal found, seen
            state = self._partition(topic, partition)
            found = state.isr
            seen = f"; it is {list(found)}"
            if isinstance(isr, int):
                return len(found) == isr
            return set(found) == set(state.replicas if isr is None else isr)

        wanted = "all its replicas" if isr is None else str(isr if isinstance(isr, int) else sorted(isr))
        self._until(
            fits,
            lambda: f"the ISR of {topic}-{partition} to be {wanted}{seen}",
            within_s,
        )
        return found

    # Afterwards.

    def end_clients(self) -> None:
        """Close what the test has left open, and let go of what it holds."""
        for held in self._holds:
            held.release()
        while self._ends:
            self._ends.pop()()

    def forget_topics(self) -> None:
        """Delete the test's topics."""
        names = tuple(DeleteTopicState(name=name) for name in self._topics)
        if names:
            self._ask(DeleteTopicsRequest(topics=names, timeout_ms=TIMEOUT_MS), DELETE_VERSION)

    # Inside.

    def _ended(self, client: Any) -> Any:
        self._ends.append(clients.closing(client))
        return client

    def _partition(self, topic: str, partition: int) -> PartitionState:
        state = self.cluster.image().partition(topic, partition)
        if state is None:
            raise BadCluster(f"there is no partition {topic}-{partition}")
        return state

    def _running(self) -> list[int]:
        return [broker for broker in self.broker_ids if self.cluster.state(broker) == "running"]

    def _knows(self, broker: int, asked: MetadataRequest, partitions: int) -> bool:
        try:
            (topic,) = self._connection(broker).ask(asked, version=METADATA_VERSION).topics
        except ClientError:
            self._drop(broker)
            return False
        led = sum(each.leader_id >= 0 for each in topic.partitions)
        return bool(topic.error_code == 0 and led >= partitions)

    def _ask(self, request: Any, version: int) -> Any:
        """The answer of any broker.

        Each is asked twice, the second time on a new connection: a kept one may have died with an earlier
        life of its broker.
        """
        reasons: dict[int, str] = {}
        for broker in self._running() * 2:
            try:
                return self._connection(broker).ask(request, version=version, wait_ms=TIMEOUT_MS)
            except ClientError as error:
                reasons[broker] = str(error)
                self._drop(broker)
        raise ClusterError("; ".join(reasons.values()) or "no broker is running")

    def _drop(self, broker: int) -> None:
        """A connection is broken; the next question makes another."""
        connection = self._connections.pop(broker, None)
        if connection is not None:
            connection.close()

    def _connection(self, broker: int) -> Connection:
        if broker not in self._connections:
            self._connections[broker] = Connection((HOST, self.cluster.layout.place(broker).client_port))
        return self._connections[broker]

    def _until(self, condition: Callable[[], bool], what: Callable[[], str], within_s: float) -> None:
        """A cluster that cannot say is not there yet; one that was asked for nonsense will never be."""
        deadline = time.monotonic() + within_s
        while True:
            trouble = ""
            try:
                if condition():
                    return
            except BadCluster:
                raise
            except ClusterError as error:
                trouble = f"; {error}"
            if time.monotonic() >= deadline:
                raise AssertionError(f"waited {within_s:g} s in vain for {what()}{trouble}")
            time.sleep(LOOK_AGAIN_S)

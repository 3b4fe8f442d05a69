"""A cluster as a client sees it: who leads what, where offsets begin and end, and how to ask again.

Decides whom to ask and whether an answer is worth another attempt. Every question has a deadline; within it
leaders may change and brokers may come and go. It must never turn an error into an empty answer.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from epoka.client.connection import Connection
from epoka.client.errors import ClientError, Refused, TopicGone, Unreachable, check
from epoka.client.settings import Address, ClientSettings
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import find_coordinator, list_offsets, offset_commit
from epoka.wire.messages import metadata as metadata_wire
from epoka.wire.messages import offset_for_leader_epoch as epoch_wire

EARLIEST = -2
LATEST = -1
CONSUMER = -1
GROUP = 0

T = TypeVar("T")
TopicPartition = tuple[str, int]


class PartitionView(msgspec.Struct, frozen=True):
    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()


class TopicView(msgspec.Struct, frozen=True):
    name: str
    id: uuid.UUID
    partitions: dict[int, PartitionView]
    is_internal: bool = False

    @property
    def id_text(self) -> str:
        return str(self.id) if self.id.int else ""


class FoundOffset(msgspec.Struct, frozen=True):
    """An offset, and the leader epoch in which it was true; -1 for both if there is none."""

    offset: int
    leader_epoch: int = -1


class ClusterClient:
    """Blocking, for one thread. `patience_ms` bounds every question, retries included."""

    def __init__(self, settings: ClientSettings, *, patience_ms: int = 60_000) -> None:
        self.settings = settings
        self.patience_ms = patience_ms
        self._addresses: dict[int, Address] = {}
        self._connections: dict[int, Connection] = {}
        self._controller_id = -1
        self._any: Connection | None = None
        self._topics: dict[str, TopicView] = {}
        self._received_before = 0

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in (*self._connections.values(), self._any):
            if connection is not None:
                connection.close()
        self._connections.clear()
        self._any = None

    # Topics.

    def metadata(
        self, names: Iterable[str] | None = (), *, create: bool = False
    ) -> metadata_wire.MetadataResponse:
        """The brokers and these topics as one broker tells them, asked for once; None stands for all."""
        answer: metadata_wire.MetadataResponse = self.anyone().ask(
            metadata_wire.MetadataRequest(
                topics=None
                if names is None
                else tuple(metadata_wire.MetadataRequestTopic(name=name) for name in sorted({*names})),
                allow_auto_topic_creation=create,
            )
        )
        self._learn(answer)
        return answer

    def topics(self, names: Iterable[str]) -> dict[str, TopicView]:
        """Fresh views of topics; those that do not exist are left out."""
        wanted = {*names}
        found = self._ask_topics(wanted)
        for name in wanted - found.keys():
            self._topics.pop(name, None)
        return found

    def topics_like(self, pattern: str) -> dict[str, TopicView]:
        """Topics whose whole name matches, without the cluster's own."""
        try:
            regex = re.compile(pattern)
        except re.error as error:
            raise ClientError(f"{pattern!r} is no regular expression: {error}") from None
        found = self._ask_topics(None)
        return {name: view for name, view in found.items() if regex.fullmatch(name) and not view.is_internal}

    def topic_made(self, name: str) -> TopicView:
        """A topic of which every partition has a leader; asking makes it, where the cluster allows that."""

        def ask() -> TopicView:
            (told,) = self.metadata((name,), create=True).topics
            check(told.error_code, f"topic {name}")
            view = self._topics[name] = _view(told)
            for partition in view.partitions:
                self.leading(name, partition)
            return view

        return self.patiently(f"topic {name}", ask)

    def topic(self, name: str) -> TopicView:
        """The topic as last seen, asked for if never seen."""
        known = self._topics.get(name)
        if known is None:
            known = self.topics([name]).get(name)
        if known is None:
            raise TopicGone(f"there is no topic {name}")
        return known

    def refresh(self, name: str) -> TopicView:
        self._topics.pop(name, None)
        return self.topic(name)

    def _ask_topics(self, names: Iterable[str] | None) -> dict[str, TopicView]:
        def ask() -> dict[str, TopicView]:
            found: dict[str, TopicView] = {}
            for topic in self.metadata(names).topics:
                if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    check(topic.error_code, f"topic {topic.name}")
                    found[topic.name or ""] = _view(topic)
            return found

        found = self.patiently("metadata", ask)
        self._topics.update(found)
        return found

    def _learn(self, answer: metadata_wire.MetadataResponse) -> None:
        self._addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        self._controller_id = answer.controller_id
        for node, connection in list(self._connections.items()):
            # A connection to a place where the broker no longer is would only time out.
            if connection.closed or self._addresses.get(node, connection.address) != connection.address:
                self._drop(node)

    # Offsets.

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """The offset of a time for each partition; -1 when no record is as young as that.

        A time is EARLIEST, LATEST, or milliseconds, which stand for the first record that is not older.
        """
        found: dict[TopicPartition, FoundOffset] = {}

        def ask() -> None:
            left = {each: when for each, when in wanted.items() if each not in found}
            complaints: list[Exception] = []
            for node, parts in self._by_leader(left).items():
                request = list_offsets.ListOffsetsRequest(
                    replica_id=CONSUMER,
                    isolation_level=self.settings.isolation,
                    topics=tuple(
                        list_offsets.ListOffsetsTopic(
                            name=topic,
                            partitions=tuple(
                                list_offsets.ListOffsetsPartition(
                                    partition_index=partition, timestamp=left[topic, partition]
                                )
                                for partition in partitions
                            ),
                        )
                        for topic, partitions in parts.items()
                    ),
                )
                try:
                    answer = self.node(node).ask(request)
                except Unreachable as error:
                    complaints.append(error)
                    continue
                for topic in answer.topics:
                    for each in topic.partitions:
                        if each.error_code:
                            what = f"the offsets of {topic.name}-{each.partition_index}"
                            complaints.append(Refused(what, ErrorCode.of(each.error_code)))
                        else:
                            found[topic.name, each.partition_index] = FoundOffset(
                                each.offset, each.leader_epoch
                            )
            for complaint in complaints:
                for name in {topic for topic, _ in left}:
                    self._topics.pop(name, None)
                raise complaint

        self.patiently("the offsets of partitions", ask)
        return found

    def end_of_epoch(self, topic: str, partition: int, epoch: int) -> tuple[int, int]:
        """The largest epoch up to `epoch` that the leader's log knows, and the offset where it ends."""

        def ask() -> tuple[int, int]:
            view = self.leading(topic, partition)
            request = epoch_wire.OffsetForLeaderEpochRequest(
                replica_id=CONSUMER,
                topics=(
                    epoch_wire.OffsetForLeaderTopic(
                        topic=topic,
                        partitions=(
                            epoch_wire.OffsetForLeaderPartition(
                                partition=partition,
                                current_leader_epoch=view.leader_epoch,
                                leader_epoch=epoch,
                            ),
                        ),
                    ),
                ),
            )
            answer = self.node(view.leader).ask(request)
            each = answer.topics[0].partitions[0]
            if each.error_code:
                self._topics.pop(topic, None)
                raise Refused(f"leader epochs of {topic}-{partition}", ErrorCode.of(each.error_code))
            return each.leader_epoch, each.end_offset

        return self.patiently("leader epochs", ask)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store offsets for a group that has no members."""

        def ask() -> None:
            coordinator = self.coordinator(group)
            by_topic: dict[str, list[Any]] = {}
            for (topic, partition), offset in sorted(offsets.items()):
                by_topic.setdefault(topic, []).append(
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=""
                    )
                )
            answer = self.node(coordinator).ask(
                offset_commit.OffsetCommitRequest(
                    group_id=group,
                    topics=tuple(
                        offset_commit.OffsetCommitRequestTopic(name=name, partitions=tuple(parts))
                        for name, parts in by_topic.items()
                    ),
                )
            )
            for topic in answer.topics:
                for each in topic.partitions:
                    what = f"the offset of {topic.name}-{each.partition_index} was not committed"
                    check(each.error_code, what)

        self.patiently(f"commit of group {group}", ask)

    def coordinator(self, group: str) -> int:
        """The broker that keeps a group, asked for once."""
        request = find_coordinator.FindCoordinatorRequest(key=group, key_type=GROUP)
        someone = self.anyone()
        # From version 4 on a request names many groups; one is all that is needed here.
        asked = someone.ask(request, version=someone.version_for(request, highest=3))
        check(asked.error_code, f"the coordinator of group {group}")
        self._addresses[asked.node_id] = (asked.host, asked.port)
        return int(asked.node_id)

    # Connections.

    def brokers(self) -> list[int]:
        """Every broker that the cluster names now."""
        self.metadata()
        return sorted(self._addresses)

    def controller(self) -> Connection:
        """Where changes are asked for: in old clusters only the controller takes them."""
        if self._controller_id not in self.brokers():
            return self.anyone()
        return self.node(self._controller_id)

    def anyone(self) -> Connection:
        """A connection to some broker: one that is open, or the first that answers.

        The last one asked comes last when it was closed: a broker that is cut off from its controller takes
        connections, and answers nothing on them.
        """
        for connection in (self._any, *self._connections.values()):
            if connection is not None and connection.free:
                return connection
        complaints = []
        addresses = [*dict.fromkeys((*self.settings.bootstrap, *self._addresses.values()))]
        if self._any is not None and self._any.address in addresses:
            behind = addresses.index(self._any.address) + 1
            addresses = addresses[behind:] + addresses[:behind]
        for address in addresses:
            try:
                self._any = self._opened(address)
                return self._any
            except Unreachable as error:
                complaints.append(str(error))
        raise Unreachable("; ".join(complaints))

    def node(self, node: int) -> Connection:
        """The connection to one broker."""
        connection = self._connections.get(node)
        if connection is not None and not connection.closed:
            return connection
        address = self._addresses.get(node)
        if address is None:
            raise Unreachable(f"nobody says where broker {node} is")
        connection = self._connections[node] = self._opened(address)
        return connection

    def _opened(self, address: Address) -> Connection:
        connection = Connection(address, self.settings)
        # A process that stands still takes connections, too; one that tells its versions is at work.
        connection.version_for(metadata_wire.MetadataRequest)
        return connection

    def leader(self, topic: str, partition: int) -> Connection:
        return self.node(self.leading(topic, partition).leader)

    def leader_epoch(self, topic: str, partition: int) -> int:
        return self.leading(topic, partition).leader_epoch

    def forget(self, topic: str) -> None:
        """The view of a topic has proved to be out of date."""
        self._topics.pop(topic, None)

    @property
    def received_bytes(self) -> int:
        opened = (*self._connections.values(), self._any)
        return self._received_before + sum(each.received_bytes for each in opened if each is not None)

    def patiently(self, what: str, ask: Callable[[], T], patience_ms: int | None = None) -> T:
        """Ask until there is an answer, for as long as asking again can help and the time is not up."""
        deadline = time.monotonic() + (self.patience_ms if patience_ms is None else patience_ms) / 1000
        pause_s = self.settings.retry_backoff_ms / 1000
        while True:
            try:
                return ask()
            except (Unreachable, Refused) as error:
                if isinstance(error, Refused) and not error.code.retriable:
                    raise
                if time.monotonic() + pause_s > deadline:
                    raise Unreachable(f"{what}: gave up, the last answer was: {error}") from error
                time.sleep(pause_s)
                pause_s = min(2 * pause_s + 0.001, self.settings.retry_backoff_max_ms / 1000)

    def leading(self, topic: str, partition: int) -> PartitionView:
        view = self.topic(topic)
        known = view.partitions.get(partition)
        if known is None:
            self._topics.pop(topic, None)
            raise TopicGone(f"{topic} has no partition {partition}, it has {len(view.partitions)}")
        if known.leader < 0 or known.leader not in self._addresses:
            self._topics.pop(topic, None)
            raise Refused(f"{topic}-{partition}", ErrorCode.LEADER_NOT_AVAILABLE)
        return known

    def _by_leader(self, wanted: Iterable[TopicPartition]) -> dict[int, dict[str, list[int]]]:
        missing = {topic for topic, _ in wanted} - self._topics.keys()
        if missing:
            self.topics(missing)
        asked: dict[int, dict[str, list[int]]] = {}
        for topic, partition in sorted(wanted):
            leader = self.leading(topic, partition).leader
            asked.setdefault(leader, {}).setdefault(topic, []).append(partition)
        return asked

    def _drop(self, node: int) -> None:
        connection = self._connections.pop(node)
        self._received_before += connection.received_bytes
        connection.close()


def _view(told: metadata_wire.MetadataResponseTopic) -> TopicView:
    return TopicView(
        told.name or "",
        told.topic_id,
        {
            each.partition_index: PartitionView(each.leader_id, each.leader_epoch, tuple(each.replica_nodes))
            for each in told.partitions
        },
        told.is_internal,
    )

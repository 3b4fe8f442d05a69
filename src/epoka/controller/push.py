"""How state reaches brokers in zookeeper mode: LeaderAndIsr, UpdateMetadata, StopReplica, one queue a life.

After records were replayed, whoever hosts a changed partition gets LeaderAndIsr, everybody one
UpdateMetadata, and whoever has to give something up StopReplica, in this order. A queue belongs to one
generation of a broker and ends with it. One request is under way to a broker at a time; a failed connection
is tried again while the generation lives, a refusal is not. Answers of a generation that is no longer talked
to change nothing (`reply.generation`).

The maximum generation comes from the last picture of the registry and from nothing else: from level
`shared-updates` on a life that only a heartbeat has told of gets nothing until a picture has it, because a
maximum raised by hearsay would cover requests made for lives that were over by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from epoka import fencing
from epoka.controller.decision import refusal
from epoka.controller.state import ControllerState
from epoka.model.events import Effect, RegistryEntry, Send
from epoka.model.image import LEADER_UNCHANGED, PartitionRef, Topic
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FeatureLevel
from epoka.model.records import MetadataRecord
from epoka.model.registrations import BrokerRegistration, Endpoint
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import leader_and_isr as lai
from epoka.wire.messages import metadata_records as m
from epoka.wire.messages import stop_replica as sr
from epoka.wire.messages import update_metadata as um

RETRY_MS: Final = 100
LANE: Final = 1
MOST_QUEUED: Final = 500
"""A longer queue is replaced by the whole state: a broker that can't be reached must not fill our memory."""
DELETED: Final = -2
"""The leader that UpdateMetadata gives for partitions of a topic that is no more."""
_FIRST_TOKEN: Final = 1 << 40
"""Tokens of the ledger's requests count from 1; these never meet them."""


class Versions(msgspec.Struct, frozen=True):
    leader_and_isr: int
    update_metadata: int
    stop_replica: int

    @property
    def grouped(self) -> bool:
        """KIP-380 names each topic once."""
        return self.leader_and_isr >= 2

    @property
    def shared(self) -> bool:
        """One payload for every broker: the maximum generation instead of the receiver's own."""
        return self.leader_and_isr >= 5


VERSIONS: Final = {
    FeatureLevel.LEGACY: Versions(1, 4, 0),
    FeatureLevel.GENERATIONS: Versions(2, 5, 1),
    FeatureLevel.HEARTBEATS: Versions(2, 5, 1),
    FeatureLevel.SHARED_UPDATES: Versions(5, 7, 4),
    FeatureLevel.ELIGIBLE_ISR: Versions(5, 8, 4),
    FeatureLevel.FETCH_EPOCHS: Versions(5, 8, 4),
}


class Offline(msgspec.Struct, frozen=True):
    """Partitions that a broker can't hold: its disk has failed."""

    broker_id: int
    partitions: tuple[tuple[str, int], ...]


class _Item(msgspec.Struct, frozen=True):
    message: Any
    version: int
    offset: int
    """How far the image was when the request was made."""


class _Channel:
    """What one life of a broker is still to be told."""

    __slots__ = ("acknowledged", "broker_id", "epoch", "in_flight", "queue", "retry_ms")

    def __init__(self, broker_id: int, epoch: int) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.queue: deque[_Item] = deque()
        self.in_flight: int | None = None
        self.retry_ms: int | None = None
        self.acknowledged = -1


class _Changes:
    """What the records since the last push mean for single brokers."""

    __slots__ = ("deleted", "roles", "stops")

    def __init__(self) -> None:
        self.roles: dict[tuple[str, int], bool] = {}
        """Partitions whose hosts need LeaderAndIsr, and whether they are new."""
        self.stops: dict[tuple[int, bool], dict[tuple[str, int], None]] = {}
        """Broker and whether to delete, to partitions."""
        self.deleted: dict[str, tuple[Topic, list[tuple[int, tuple[int, ...]]]]] = {}


class Push:
    def __init__(self, state: ControllerState, controller_epoch: int) -> None:
        self.controller_epoch = controller_epoch
        self.max_epoch = -1
        self.ready = False
        """Nothing is sent before the registry has been seen once."""
        self.events: list[LedgerEvent] = []
        """For the ledger; the core takes them."""
        self.offline: list[Offline] = []
        """Partitions that brokers said they can't hold; the core takes them."""
        self._state = state
        self._seen: dict[int, int] = {}
        self._channels: dict[int, _Channel] = {}
        self._changes = _Changes()
        self._asked: dict[int, tuple[int, int]] = {}
        self._next_token = _FIRST_TOKEN

    @property
    def deadline(self) -> int | None:
        return min(
            (each.retry_ms for each in self._channels.values() if each.retry_ms is not None), default=None
        )

    def acknowledged(self, *, leaving: int) -> int | None:
        """How far every other active broker is known to have been told; None when there is no other."""
        image = self._state.image
        offsets = []
        for broker in image.brokers.values():
            if broker.id == leaving or broker.fenced or self._state.stopping(broker.id):
                continue
            channel = self._channels.get(broker.id)
            if channel is not None:
                offsets.append(channel.acknowledged if channel.queue else image.offset)
        return min(offsets, default=None)

    # What the registry tells.

    def registry_read(self, registrations: Sequence[RegistryEntry]) -> None:
        """A new picture. Channels of lives that it does not show are closed before anything is decided, so
        nothing that follows from the change is sent to a life that is over."""
        self._seen = {entry.id: entry.epoch for entry in registrations}
        self.max_epoch = max(self._seen.values(), default=-1)
        for channel in list(self._channels.values()):
            if not self._may_talk_to(channel.broker_id, channel.epoch):
                del self._channels[channel.broker_id]

    def _may_talk_to(self, broker_id: int, epoch: int) -> bool:
        level, seen = self._state.image.level, self._seen.get(broker_id)
        if level < FeatureLevel.GENERATIONS:
            return seen is not None
        if VERSIONS[level].shared:
            return seen == epoch
        return seen is None or epoch >= seen

    # What records tell.

    def applying(self, record: MetadataRecord) -> None:
        """Note what the record is about to change, while the image still shows what was before."""
        image, changes = self._state.image, self._changes
        if isinstance(record, m.PartitionRecord):
            topic = image.topic(record.topic_id)
            if topic is not None:
                changes.roles[topic.name, record.partition_id] = True
        elif isinstance(record, m.PartitionChangeRecord):
            topic = image.topic(record.topic_id)
            old = image.partition(record.topic_id, record.partition_id)
            if topic is None or old is None:
                return
            if record.leader != LEADER_UNCHANGED or record.replicas is not None:
                changes.roles.setdefault((topic.name, record.partition_id), False)
            if record.replicas is not None:
                for host in old.replicas:
                    if host not in record.replicas:
                        self._note_stop(host, (topic.name, record.partition_id), delete=True)
        elif isinstance(record, m.RemoveTopicRecord):
            topic = image.topic(record.topic_id)
            if topic is not None:
                self._note_deletion(topic)

    def _note_deletion(self, topic: Topic) -> None:
        image, changes = self._state.image, self._changes
        gone: list[tuple[int, tuple[int, ...]]] = []
        for index, state in image.partitions_of(topic.id):
            changes.roles.pop((topic.name, index), None)
            gone.append((index, state.replicas))
            for host in state.replicas:
                self._note_stop(host, (topic.name, index), delete=True)
        changes.deleted[topic.name] = (topic, gone)

    def _note_stop(self, broker_id: int, partition: tuple[str, int], *, delete: bool) -> None:
        self._changes.stops.setdefault((broker_id, delete), {})[partition] = None

    def stop(self, broker_id: int, refs: Iterable[PartitionRef]) -> None:
        """Have a broker stop following, and keep what it has; goes with the next push."""
        for ref in refs:
            self._note_stop(broker_id, (ref.topic.name, ref.index), delete=False)

    def applied(self, now: int) -> list[Effect]:
        """Queue what follows from everything since the last call, and send what can be sent."""
        image = self._state.image
        delta = image.collected()
        changes, self._changes = self._changes, _Changes()
        if not self.ready:
            return []
        new = self._open_and_close()
        everybody = delta.level_changed
        versions = VERSIONS[image.level]
        touched = [
            PartitionRef(topic, index)
            for topic_id, index in delta.changed_partitions
            if (topic := image.topic(topic_id)) is not None
        ]
        update = whole = None
        if touched or changes.deleted or delta.changed_brokers:
            update = self._update_metadata(versions, touched, changes.deleted)
        roles = [
            (PartitionRef(topic, index), is_new)
            for (name, index), is_new in changes.roles.items()
            if (topic := image.topic(name)) is not None
        ]
        for channel in self._channels.values():
            if everybody or channel.broker_id in new:
                if whole is None:
                    whole = self._update_metadata(versions, image.all_partitions(), changes.deleted)
                self._queue_everything(channel, versions, whole)
            else:
                self._queue_roles(channel, versions, roles)
                if update is not None:
                    self._queue(channel, update, versions.update_metadata)
            self._queue_stops(channel, versions, changes)
        return self._send_all(now)

    def _open_and_close(self) -> set[int]:
        image = self._state.image
        for channel in list(self._channels.values()):
            broker = image.broker(channel.broker_id)
            if broker is None or broker.epoch != channel.epoch:
                del self._channels[channel.broker_id]
        new: set[int] = set()
        for broker in image.brokers.values():
            if broker.id not in self._channels and self._may_talk_to(broker.id, broker.epoch):
                self._channels[broker.id] = _Channel(broker.id, broker.epoch)
                new.add(broker.id)
        if new:
            self._channels = {broker_id: self._channels[broker_id] for broker_id in sorted(self._channels)}
        return new

    # Queues.

    def _queue(self, channel: _Channel, message: Any, version: int) -> None:
        if not VERSIONS[self._state.image.level].shared and self._state.image.level > FeatureLevel.LEGACY:
            message = msgspec.structs.replace(message, broker_epoch=channel.epoch)
        channel.queue.append(_Item(message, version, self._state.image.offset))

    def _queue_everything(
        self, channel: _Channel, versions: Versions, whole: um.UpdateMetadataRequest
    ) -> None:
        hosted = [(ref, False) for ref in self._state.image.hosted_by(channel.broker_id)]
        self._queue_roles(channel, versions, hosted)
        self._queue(channel, whole, versions.update_metadata)

    def _queue_roles(
        self, channel: _Channel, versions: Versions, roles: Sequence[tuple[PartitionRef, bool]]
    ) -> None:
        image = self._state.image
        hosted = [(ref, is_new) for ref, is_new in roles if channel.broker_id in image.state(ref).replicas]
        if hosted:
            self._queue(channel, self._leader_and_isr(versions, hosted), versions.leader_and_isr)

    def _queue_stops(self, channel: _Channel, versions: Versions, changes: _Changes) -> None:
        for (broker_id, delete), partitions in changes.stops.items():
            if broker_id == channel.broker_id:
                request = self._stop_replica(versions, list(partitions), delete=delete)
                self._queue(channel, request, versions.stop_replica)

    def _shorten(self, channel: _Channel) -> None:
        """Instead of a long story the way things are now; only what has to be given up can't be told so."""
        versions = VERSIONS[self._state.image.level]
        first = [channel.queue[0]] if channel.in_flight is not None else []
        stops = [each for each in channel.queue if isinstance(each.message, sr.StopReplicaRequest)]
        channel.queue = deque(first + [each for each in stops if each not in first])
        whole = self._update_metadata(versions, self._state.image.all_partitions(), {})
        self._queue_everything(channel, versions, whole)

    def wake(self, now: int) -> list[Effect]:
        for channel in self._channels.values():
            if channel.retry_ms is not None and channel.retry_ms <= now:
                channel.retry_ms = None
        return self._send_all(now)

    def _send_all(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for channel in self._channels.values():
            if len(channel.queue) > MOST_QUEUED:
                self._shorten(channel)
            effects += self._send(channel)
        return effects

    def _send(self, channel: _Channel) -> list[Effect]:
        if channel.in_flight is not None or channel.retry_ms is not None or not channel.queue:
            return []
        item = channel.queue[0]
        token = self._next_token
        self._next_token += 1
        channel.in_flight = token
        self._asked[token] = (channel.broker_id, channel.epoch)
        timeout_ms = self._state.config.control_request_timeout_ms
        return [Send(channel.broker_id, token, item.message, item.version, timeout_ms, LANE)]

    def answered(self, token: int, answer: Any | None, now: int) -> list[Effect]:
        asked = self._asked.pop(token, None)
        if asked is None:
            return []
        broker_id, epoch = asked
        channel = self._channels.get(broker_id)
        verdict = self._state.rules.ask(
            fencing.reply.generation, epoch, None if channel is None else channel.epoch
        )
        if verdict.refused:
            if answer is not None:
                event = refusal(verdict, broker=broker_id, broker_epoch=epoch)
                self.events.append(msgspec.structs.replace(event, verdict="ignored"))
            return []
        if answer is not None:
            self._take_in(broker_id, epoch, answer)
        if channel is None or channel.in_flight != token:
            return []
        channel.in_flight = None
        if answer is None:
            channel.retry_ms = now + RETRY_MS
            return []
        channel.acknowledged = channel.queue.popleft().offset
        return self._send(channel)

    def _take_in(self, broker_id: int, epoch: int, answer: Any) -> None:
        """Nothing that was refused is sent again: a stale generation has a channel of its own by then, or
        will have."""
        error = ErrorCode.of(answer.error_code)
        if error is not ErrorCode.NONE:
            self.events.append(
                LedgerEvent(
                    kind="control-refused",
                    broker=broker_id,
                    broker_epoch=epoch,
                    error=error.name,
                    detail=f"{type(answer).__name__}, not sent again",
                )
            )
        offline = tuple(
            (each.topic_name, each.partition_index)
            for each in getattr(answer, "partition_errors", ())
            if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        )
        if offline:
            self.offline.append(Offline(broker_id, offline))

    # Messages.

    def _about(self, versions: Versions) -> dict[str, Any]:
        about = {"controller_id": self._state.node_id, "controller_epoch": self.controller_epoch}
        if versions.shared:
            about["max_broker_epoch"] = self.max_epoch
        return about

    def _leader_and_isr(
        self, versions: Versions, partitions: Sequence[tuple[PartitionRef, bool]]
    ) -> lai.LeaderAndIsrRequest:
        image = self._state.image
        rows: dict[str, list[lai.LeaderAndIsrPartitionState]] = {}
        leaders: dict[int, None] = {}
        for ref, is_new in partitions:
            state = image.state(ref)
            leaders[state.leader] = None
            rows.setdefault(ref.topic.name, []).append(
                lai.LeaderAndIsrPartitionState(
                    topic_name="" if versions.grouped else ref.topic.name,
                    partition_index=ref.index,
                    controller_epoch=self.controller_epoch,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.isr,
                    partition_epoch=state.partition_epoch,
                    replicas=state.replicas,
                    is_new=is_new,
                )
            )
        live = [broker for each in sorted(leaders) if (broker := image.broker(each)) is not None]
        about = self._about(versions)
        about["live_leaders"] = tuple(
            lai.LeaderAndIsrLiveLeader(broker_id=broker.id, host_name=door.host, port=door.port)
            for broker in live
            if (door := _door(broker)) is not None
        )
        if versions.grouped:
            about["topic_states"] = tuple(
                lai.LeaderAndIsrTopicState(topic_name=name, partition_states=tuple(states))
                for name, states in rows.items()
            )
        else:
            about["ungrouped_partition_states"] = tuple(each for states in rows.values() for each in states)
        return lai.LeaderAndIsrRequest(**about)

    def _update_metadata(
        self,
        versions: Versions,
        refs: Sequence[PartitionRef],
        deleted: dict[str, tuple[Topic, list[tuple[int, tuple[int, ...]]]]],
    ) -> um.UpdateMetadataRequest:
        image = self._state.image
        rows: dict[Topic, list[um.UpdateMetadataPartitionState]] = {}
        for topic, gone in deleted.values():
            if image.topic(topic.name) is None:
                rows[topic] = [
                    self._row(versions, topic, index, DELETED, -1, -1, (), replicas)
                    for index, replicas in gone
                ]
        for ref in refs:
            state = image.state(ref)
            rows.setdefault(ref.topic, []).append(
                self._row(
                    versions,
                    ref.topic,
                    ref.index,
                    state.leader,
                    state.leader_epoch,
                    state.partition_epoch,
                    state.isr,
                    state.replicas,
                )
            )
        about = self._about(versions)
        about["live_brokers"] = self._live_brokers(versions)
        if versions.grouped:
            about["topic_states"] = tuple(
                um.UpdateMetadataTopicState(
                    topic_name=topic.name, topic_id=topic.id, partition_states=tuple(states)
                )
                for topic, states in rows.items()
            )
        else:
            about["ungrouped_partition_states"] = tuple(each for states in rows.values() for each in states)
        return um.UpdateMetadataRequest(**about)

    def _row(
        self,
        versions: Versions,
        topic: Topic,
        index: int,
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...],
    ) -> um.UpdateMetadataPartitionState:
        known = self._state.image.brokers
        return um.UpdateMetadataPartitionState(
            topic_name="" if versions.grouped else topic.name,
            partition_index=index,
            controller_epoch=self.controller_epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=isr,
            partition_epoch=partition_epoch,
            replicas=replicas,
            offline_replicas=tuple(each for each in replicas if each not in known),
        )

    def _live_brokers(self, versions: Versions) -> tuple[um.UpdateMetadataBroker, ...]:
        """An inactive broker is as good as absent (KIP-343), unless the version can say that it is there."""
        told = versions.update_metadata >= 8
        return tuple(
            um.UpdateMetadataBroker(
                id=broker.id,
                endpoints=tuple(
                    um.UpdateMetadataEndpoint(
                        port=each.port,
                        host=each.host,
                        listener=each.name,
                        security_protocol=each.security_protocol,
                    )
                    for each in broker.endpoints
                ),
                rack=broker.rack,
                broker_epoch=broker.epoch if told else -1,
                fenced=told and broker.fenced,
                in_controlled_shutdown=told and broker.in_controlled_shutdown,
            )
            for broker in self._state.image.brokers.values()
            if told or not broker.fenced
        )

    def _stop_replica(
        self, versions: Versions, partitions: Sequence[tuple[str, int]], *, delete: bool
    ) -> sr.StopReplicaRequest:
        about = self._about(versions)
        about["delete_partitions"] = delete
        if versions.grouped:
            topics: dict[str, list[int]] = {}
            for name, index in partitions:
                topics.setdefault(name, []).append(index)
            about["topics"] = tuple(
                sr.StopReplicaTopic(name=name, partition_indexes=tuple(indexes))
                for name, indexes in topics.items()
            )
        else:
            about["ungrouped_partitions"] = tuple(
                sr.StopReplicaPartition(topic_name=name, partition_index=index) for name, index in partitions
            )
        return sr.StopReplicaRequest(**about)


def _door(broker: BrokerRegistration) -> Endpoint | None:
    return broker.control_endpoint or (broker.endpoints[0] if broker.endpoints else None)

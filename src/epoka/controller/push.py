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

import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from epoka import fencing
from epoka.controller.control_bodies import Flags
from epoka.controller.control_requests import ControlRequests, Gone, none_new
from epoka.controller.decision import refusal
from epoka.controller.state import ControllerState
from epoka.model.events import Effect, RegistryEntry, Send
from epoka.model.image import LEADER_UNCHANGED, ClusterImage, PartitionRef, Topic
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FeatureLevel
from epoka.model.partitions import Rows
from epoka.model.records import MetadataRecord
from epoka.wire.encoded import Encoded
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import metadata_records as m
from epoka.wire.messages import stop_replica as sr
from epoka.wire.messages import update_metadata as um

RETRY_MS: Final = 100
LANE: Final = 1
MOST_QUEUED = 500
"""A longer queue is replaced by the whole state: a broker that can't be reached must not fill our memory."""
SLOWEST_BYTES_PER_MS: Final = 250
"""A large request has as much longer to arrive: two hundred brokers may share one line of ours."""
TOKENS: Final = 1 << 40
"""Every mandate counts from another multiple: a node may still hear answers to what it asked in its last one.
Tokens of the ledger's requests are behind the middle."""


class Offline(msgspec.Struct, frozen=True):
    """Partitions that a broker can't hold: its disk has failed."""

    broker_id: int
    partitions: tuple[tuple[str, int], ...]


class _Item(msgspec.Struct, frozen=True):
    message: Any
    version: int
    offset: int
    """How far the image was when the request was made."""
    deleted: Mapping[str, Gone] = {}
    """Topics whose end it tells of."""


class _Channel:
    """What one life of a broker is still to be told."""

    __slots__ = ("acknowledged", "behind", "broker_id", "deleted", "epoch", "in_flight", "queue", "updated")

    def __init__(self, broker_id: int, epoch: int) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.queue: deque[_Item] = deque()
        self.in_flight: int | None = None
        self.acknowledged = -1
        self.behind = False
        """Has to be told everything as soon as it can be told anything; until then changes are not queued."""
        self.deleted: dict[str, Gone] = {}
        """What everything does not name, because it is no more, for one who is behind."""
        self.updated = False
        """Whether it has taken in an update of ours."""


class _Changes:
    """What the records since the last push mean for single brokers."""

    __slots__ = ("deleted", "roles", "stops")

    def __init__(self) -> None:
        self.roles: dict[tuple[str, int], bool] = {}
        """Partitions whose hosts need LeaderAndIsr, and whether they are new."""
        self.stops: dict[int, dict[bool, dict[tuple[str, int], None]]] = {}
        """Broker, then whether to delete, to partitions."""
        self.deleted: dict[str, Gone] = {}


class _Roles:
    """The rows of partitions whose hosts need LeaderAndIsr, and which of them concern a broker."""

    __slots__ = ("_by_host", "_is_new", "_rows")

    def __init__(self, image: ClusterImage, roles: Mapping[tuple[str, int], bool]) -> None:
        self._by_host: dict[int, Rows] = {}
        if not roles:
            return
        rows = image.rows_of(roles)
        is_new = np.fromiter(roles.values(), np.bool_, len(roles))
        rows, is_new = rows[rows >= 0], is_new[rows >= 0]
        order = image.order_of(rows)
        self._rows, self._is_new = rows[order], is_new[order]
        self._by_host = image.partitions.places_by_host(self._rows)

    def of(self, broker_id: int) -> tuple[Rows, Flags] | None:
        places = self._by_host.get(broker_id)
        return None if places is None else (self._rows[places], self._is_new[places])


class Push:
    def __init__(self, state: ControllerState, controller_epoch: int) -> None:
        self.ready = False
        """Nothing is sent before the registry has been seen once."""
        self.events: list[LedgerEvent] = []
        """For the ledger; the core takes them."""
        self.offline: list[Offline] = []
        """Partitions that brokers said they can't hold; the core takes them."""
        self._state = state
        self._requests = ControlRequests(state, controller_epoch)
        self._last_whole: tuple[tuple[int, int], weakref.ref[Encoded]] | None = None
        self._seen: dict[int, int] = {}
        self._channels: dict[int, _Channel] = {}
        self._retries: dict[int, int] = {}
        """Broker to the time of its next try, for those who could not be reached."""
        self._changes = _Changes()
        self._asked: dict[int, tuple[int, int]] = {}
        self._next_token = TOKENS * controller_epoch

    @property
    def max_epoch(self) -> int:
        """The greatest generation in the last picture of the registry."""
        return self._requests.max_epoch

    @property
    def deadline(self) -> int | None:
        return min(self._retries.values(), default=None)

    def acknowledged(self, *, leaving: int) -> int | None:
        """How far every other active broker is known to have been told; None when there is no other."""
        image = self._state.image
        offsets = []
        for broker in image.brokers.values():
            if broker.id == leaving or broker.fenced or self._state.stopping(broker.id):
                continue
            channel = self._channels.get(broker.id)
            if channel is not None:
                told = not channel.queue and not channel.behind
                offsets.append(image.offset if told else channel.acknowledged)
        return min(offsets, default=None)

    # What the registry tells.

    def registry_read(self, registrations: Sequence[RegistryEntry]) -> None:
        """A new picture. Channels of lives that it does not show are closed before anything is decided, so
        nothing that follows from the change is sent to a life that is over."""
        self._seen = {entry.id: entry.epoch for entry in registrations}
        self._requests.max_epoch = max(self._seen.values(), default=-1)
        for channel in list(self._channels.values()):
            if not self._may_talk_to(channel.broker_id, channel.epoch):
                self._close(channel)

    def _may_talk_to(self, broker_id: int, epoch: int) -> bool:
        level, seen = self._state.image.level, self._seen.get(broker_id)
        if level < FeatureLevel.GENERATIONS:
            return seen is not None
        if self._requests.versions.shared:
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
        self._changes.stops.setdefault(broker_id, {}).setdefault(delete, {})[partition] = None

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
        rows = image.rows_of(delta.changed_partitions)
        rows = rows[rows >= 0]
        update = whole = None
        if len(rows) or changes.deleted or delta.changed_brokers:
            update = self._requests.update_metadata(image.in_order(rows), changes.deleted)
        roles = _Roles(image, changes.roles)
        for channel in self._channels.values():
            if channel.behind:
                channel.deleted |= changes.deleted
            elif everybody or channel.broker_id in new:
                if whole is None:
                    whole = self._whole(changes.deleted)
                self._queue_everything(channel, whole, changes.deleted)
            else:
                if (own := roles.of(channel.broker_id)) is not None:
                    self._queue_roles(channel, *own)
                if update is not None:
                    self._queue_update(channel, update, changes.deleted)
            self._queue_stops(channel, changes)
        return self._send_all(now)

    def _close(self, channel: _Channel) -> None:
        del self._channels[channel.broker_id]
        self._retries.pop(channel.broker_id, None)

    def _open_and_close(self) -> set[int]:
        image = self._state.image
        for channel in list(self._channels.values()):
            broker = image.broker(channel.broker_id)
            if broker is None or broker.epoch != channel.epoch:
                self._close(channel)
        new: set[int] = set()
        for broker in image.brokers.values():
            if broker.id not in self._channels and self._may_talk_to(broker.id, broker.epoch):
                self._channels[broker.id] = _Channel(broker.id, broker.epoch)
                new.add(broker.id)
        if new:
            self._channels = {broker_id: self._channels[broker_id] for broker_id in sorted(self._channels)}
        return new

    # Queues.

    def _queue(
        self, channel: _Channel, message: Any, version: int, deleted: Mapping[str, Gone] | None = None
    ) -> None:
        if not self._requests.versions.shared and self._state.image.level > FeatureLevel.LEGACY:
            message = msgspec.structs.replace(message, broker_epoch=channel.epoch)
        channel.queue.append(_Item(message, version, self._state.image.offset, deleted or {}))

    def _queue_update(self, channel: _Channel, update: Any, deleted: Mapping[str, Gone]) -> None:
        self._queue(channel, update, self._requests.versions.update_metadata, deleted)

    def _queue_everything(self, channel: _Channel, whole: Any, deleted: Mapping[str, Gone]) -> None:
        image = self._state.image
        hosted = image.in_order(image.partitions.rows_hosted_by(channel.broker_id))
        if len(hosted):
            self._queue_roles(channel, hosted, none_new(hosted))
        self._queue_update(channel, whole, deleted)

    def _catch_up(self, channel: _Channel) -> None:
        """Tell of what is no more in a request of its own, so that the large one is the same for others.

        It comes first: below `eligible-isr` a topic that was made again is else taken for the old one, and
        its epochs for stale. But a broker takes the first update of a controller for all there is, so before
        that the large one comes first.
        """
        deleted, channel.deleted, channel.behind = channel.deleted, {}, False
        if channel.updated:
            self._queue_ended(channel, deleted)
        self._queue_everything(channel, self._whole({}), {})
        if not channel.updated:
            present = self._state.image.topic
            self._queue_ended(channel, {name: gone for name, gone in deleted.items() if not present(name)})

    def _queue_ended(self, channel: _Channel, deleted: Mapping[str, Gone]) -> None:
        if deleted:
            ended = self._requests.update_metadata(np.zeros(0, np.int64), deleted)
            self._queue_update(channel, ended, deleted)

    def _queue_roles(self, channel: _Channel, rows: Rows, is_new: Flags) -> None:
        request = self._requests.leader_and_isr(rows, is_new)
        self._queue(channel, request, self._requests.versions.leader_and_isr)

    def _queue_stops(self, channel: _Channel, changes: _Changes) -> None:
        for delete, partitions in changes.stops.get(channel.broker_id, {}).items():
            request = self._requests.stop_replica(list(partitions), delete=delete)
            self._queue(channel, request, self._requests.versions.stop_replica)

    def _whole(self, deleted: Mapping[str, Gone]) -> Any:
        """UpdateMetadata with everything; the same bytes for all who need it while nothing changes."""
        image = self._state.image
        key = (image.offset, self._requests.max_epoch)
        if not deleted and self._last_whole is not None and self._last_whole[0] == key:
            found = self._last_whole[1]()
            if found is not None:
                return found
        whole = self._requests.update_metadata(image.all_rows(), deleted)
        if not deleted and isinstance(whole, Encoded):
            # Whoever still has to send it keeps it; nobody else does.
            self._last_whole = (key, weakref.ref(whole))
        return whole

    def _shorten(self, channel: _Channel) -> None:
        """Instead of a long story the way things will be; only what has to be given up can't be told so."""
        first = [channel.queue[0]] if channel.in_flight is not None else []
        stops = [each for each in channel.queue if isinstance(each.message, sr.StopReplicaRequest)]
        for dropped in channel.queue:
            channel.deleted |= dropped.deleted
        channel.queue = deque(first + [each for each in stops if each not in first])
        channel.behind = True

    def wake(self, now: int) -> list[Effect]:
        self._retries = {broker_id: at for broker_id, at in self._retries.items() if at > now}
        return self._send_all(now)

    def _send_all(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for channel in self._channels.values():
            if len(channel.queue) > MOST_QUEUED:
                self._shorten(channel)
            effects += self._send(channel)
        return effects

    def _send(self, channel: _Channel) -> list[Effect]:
        if channel.in_flight is not None or channel.broker_id in self._retries:
            return []
        if channel.behind:
            self._catch_up(channel)
        if not channel.queue:
            return []
        item = channel.queue[0]
        token = self._next_token
        self._next_token += 1
        channel.in_flight = token
        self._asked[token] = (channel.broker_id, channel.epoch)
        timeout_ms = self._state.config.control_request_timeout_ms
        if isinstance(item.message, Encoded):
            timeout_ms += len(item.message.body) // SLOWEST_BYTES_PER_MS
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
            self._retries[broker_id] = now + RETRY_MS
            return []
        channel.acknowledged = channel.queue.popleft().offset
        if isinstance(answer, um.UpdateMetadataResponse) and answer.error_code == ErrorCode.NONE:
            channel.updated = True
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

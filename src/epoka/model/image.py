"""The cluster as the metadata log tells it: brokers, topics, partitions, configurations, the feature level.

`apply` is the only writer, and it does what the record says without asking whether it was wise: the
controller has already decided. A restart, a broker and the simulator replay the same records into the same
image. A record that contradicts the image is a bug of ours, and `InvariantBroken` says which.

Lists that come out of here are ordered by topic name and partition index, or by broker id, never by how the
image came to be: an image rebuilt from a snapshot leads to the same decisions as the one it was taken from.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import msgspec
import numpy as np

from epoka.model import records as framing
from epoka.model.errors import InvariantBroken
from epoka.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.model.partitions import PartitionState, PartitionTable, Rows
from epoka.model.registrations import BrokerRegistration, Endpoint, Feature
from epoka.wire.messages import metadata_records as m

LEADER_UNCHANGED: Final = -2
RECOVERY_UNCHANGED: Final = -1
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4

_NO_CONFIG: Final[Mapping[str, str]] = MappingProxyType({})


class Topic(NamedTuple):
    name: str
    id: TopicId


class PartitionRef(msgspec.Struct, frozen=True, gc=False):
    """The name of a partition."""

    topic: Topic
    index: int


class Delta(msgspec.Struct, frozen=True, gc=False):
    """What a run of records changed, in the order in which it was first touched."""

    first_offset: int
    last_offset: int
    new_topics: tuple[Topic, ...] = ()
    deleted_topics: tuple[Topic, ...] = ()
    changed_partitions: tuple[tuple[TopicId, int], ...] = ()
    """New ones included, those of deleted topics not."""
    changed_brokers: tuple[BrokerId, ...] = ()
    changed_configs: tuple[tuple[int, str], ...] = ()
    """Resource type and name."""
    level_changed: bool = False


class _TopicRows:
    """A topic and the table row of each of its partitions (-1: no such index)."""

    __slots__ = ("rows", "slot", "topic")

    def __init__(self, topic: Topic, slot: int) -> None:
        self.topic = topic
        self.slot = slot
        self.rows = array("i")

    def copy(self) -> _TopicRows:
        copied = _TopicRows(self.topic, self.slot)
        copied.rows = self.rows[:]
        return copied

    def row(self, index: int) -> int:
        return self.rows[index] if 0 <= index < len(self.rows) else -1


class _Changes:
    """What is collected on the way to a Delta; dicts because they keep the order of arrival."""

    __slots__ = ("brokers", "configs", "deleted", "level", "partitions", "topics")

    def __init__(self) -> None:
        self.topics: dict[Topic, None] = {}
        self.deleted: dict[Topic, None] = {}
        self.partitions: dict[tuple[TopicId, int], None] = {}
        self.brokers: dict[BrokerId, None] = {}
        self.configs: dict[tuple[int, str], None] = {}
        self.level = False


class ClusterImage:
    """Everything a node knows of the cluster, up to and including the record at `offset`."""

    def __init__(self) -> None:
        self.offset = -1
        self.next_producer_id = 0
        self.partitions = PartitionTable()
        self._brokers: dict[BrokerId, BrokerRegistration] = {}
        self._by_name: dict[str, _TopicRows] = {}
        self._by_id: dict[TopicId, _TopicRows] = {}
        self._slots: list[_TopicRows | None] = []
        self._free_slots: list[int] = []
        self._ranks: Rows | None = None
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._features: dict[str, int] = {}
        self.level = FeatureLevel.HEARTBEATS
        """What the cluster lives by; replayed like everything else, and asked for with every request."""
        self._changes = _Changes()

    # Questions.

    @property
    def features(self) -> Mapping[str, int]:
        return MappingProxyType(self._features)

    @property
    def brokers(self) -> Mapping[BrokerId, BrokerRegistration]:
        """All registered brokers, fenced ones too, by id in ascending order."""
        return MappingProxyType(self._brokers)

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        return self._brokers.get(broker_id)  # type: ignore[call-overload, no-any-return]

    def topic(self, topic: str | UUID) -> Topic | None:
        entry = self._by_name.get(topic) if isinstance(topic, str) else self._by_id.get(topic)  # type: ignore[call-overload]
        return entry.topic if entry else None

    def topics(self) -> list[Topic]:
        return [self._by_name[name].topic for name in sorted(self._by_name)]

    @property
    def topic_count(self) -> int:
        return len(self._by_name)

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    def partition(self, topic: str | UUID, index: int) -> PartitionState | None:
        entry = self._entry(topic)
        row = entry.row(index) if entry else -1
        return self.partitions.state(row) if row >= 0 else None

    def partition_count_of(self, topic: str | UUID) -> int:
        entry = self._entry(topic)
        return len(entry.rows) if entry else 0

    def partitions_of(self, topic: str | UUID) -> Iterator[tuple[int, PartitionState]]:
        entry = self._entry(topic)
        if entry:
            for index, row in enumerate(entry.rows):
                if row >= 0:
                    yield index, self.partitions.state(row)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What was set for that resource itself; defaults are not mixed in."""
        found = self._configs.get((resource_type, name))
        return MappingProxyType(found) if found else _NO_CONFIG

    def configured(self) -> list[tuple[int, str]]:
        """Resource type and name of everything that has settings of its own."""
        return sorted(self._configs)

    def topic_config(self, topic: str) -> Mapping[str, str]:
        return self.config(TOPIC_RESOURCE, topic)

    def hosted_by(self, broker_id: int) -> list[PartitionRef]:
        """Partitions with the broker in their assignment."""
        return self.refs(self.partitions.rows_hosted_by(broker_id))

    def led_by(self, broker_id: int) -> list[PartitionRef]:
        return self.refs(self.partitions.rows_led_by(broker_id))

    def leads_any(self, broker_id: int) -> bool:
        return bool(len(self.partitions.rows_led_by(broker_id)))

    def with_isr_member(self, broker_id: int) -> list[PartitionRef]:
        return self.refs(self.partitions.rows_with_isr_member(broker_id))

    def without_leader(self) -> list[PartitionRef]:
        return self.refs(self.partitions.rows_led_by(-1))

    def reassigning(self) -> list[PartitionRef]:
        return self.refs(self.partitions.rows_reassigning())

    def all_partitions(self) -> list[PartitionRef]:
        return [
            PartitionRef(entry.topic, index)
            for _, entry in sorted(self._by_name.items())
            for index, row in enumerate(entry.rows)
            if row >= 0
        ]

    def refs(self, rows: Rows) -> list[PartitionRef]:
        """The names of table rows, in the order of topic name and index."""
        rows = self.in_order(rows)
        slots, indexes = self.partitions.topic[rows], self.partitions.index[rows]
        return [
            PartitionRef(self.topic_in(slot), index) for slot, index in zip(slots.tolist(), indexes.tolist())
        ]

    # Table rows, for whoever reads whole columns.

    def in_order(self, rows: Rows) -> Rows:
        """Rows in the order of topic name and index."""
        return rows[self.order_of(rows)] if len(rows) > 1 else rows

    def order_of(self, rows: Rows) -> Rows:
        """Where in `rows` the first one stands by topic name and index, then the second, and so on."""
        table = self.partitions
        return np.lexsort((table.index[rows], self._topic_ranks()[table.topic[rows]]))

    def all_rows(self) -> Rows:
        """Every row, in the order of topic name and index."""
        columns = [np.frombuffer(self._by_name[name].rows, np.int32) for name in sorted(self._by_name)]
        rows = np.concatenate([np.zeros(0, np.int32), *columns])
        return rows[rows >= 0].astype(np.int64)

    def rows_of(self, partitions: Iterable[tuple[str | UUID, int]]) -> Rows:
        """The row of each of these partitions, -1 for one that does not exist."""
        found = array("q")
        for topic, index in partitions:
            entry = self._entry(topic)
            found.append(entry.row(index) if entry else -1)
        return np.array(found, np.int64)

    def topic_in(self, slot: int) -> Topic:
        """Whose partitions have this number in the table's column `topic`."""
        entry = self._slots[slot]
        assert entry is not None
        return entry.topic

    def state(self, ref: PartitionRef) -> PartitionState:
        """The state of a partition that is known to exist."""
        return self.partitions.state(self._by_id[ref.topic.id].rows[ref.index])

    # Replaying.

    def apply(self, record: framing.MetadataRecord, offset: int) -> None:
        """Take in one record. The only way in which an image changes."""
        handler = _APPLY.get(type(record))
        if handler is None:
            raise InvariantBroken(f"no image knows what to do with {type(record).__name__}")
        handler(self, record)
        self.offset = offset

    def apply_batch(self, records: Iterable[framing.MetadataRecord], base_offset: int) -> Delta:
        """Take in records that follow one another and say what they changed."""
        self._changes = changes = _Changes()
        offset = base_offset - 1
        for offset, record in enumerate(records, base_offset):
            self.apply(record, offset)
        return self._delta(changes, base_offset, offset)

    def tell_partition(self, topic_id: UUID, index: int, state: PartitionState) -> None:
        """Take in a partition that was told whole, new or known (zookeeper mode, where no record tells)."""
        entry = self._known_topic(topic_id, "a told partition")
        row = entry.row(index)
        if row < 0:
            self._add_partition(partition_record(topic_id, index, state))
        else:
            self.partitions.put(row, state)
            self._changes.partitions[entry.topic.id, index] = None

    def tell_partitions(self, topic_id: UUID, states: Mapping[int, PartitionState]) -> None:
        """Take in partitions of a topic that has none yet."""
        self._put_new(self._known_topic(topic_id, "told partitions"), states)

    def collected(self) -> Delta:
        """What `apply` has changed since the last delta was taken."""
        return self._delta(self._changes, -1, self.offset)

    def load(self, records: Iterable[framing.MetadataRecord], last_offset: int) -> Delta:
        """Fill an empty image from a snapshot whose last record was `last_offset`."""
        if self.offset != -1:
            raise InvariantBroken("a snapshot was loaded into an image that is not empty")
        self._changes = changes = _Changes()
        run: list[m.PartitionRecord] = []
        for record in records:
            if run and (type(record) is not m.PartitionRecord or record.topic_id != run[0].topic_id):
                self._add_partitions(run)
                run = []
            if type(record) is m.PartitionRecord:
                run.append(record)
            else:
                self.apply(record, last_offset)
        if run:
            self._add_partitions(run)
        self.offset = last_offset
        return self._delta(changes, 0, last_offset)

    def copy_of(self, other: ClusterImage) -> None:
        """Fill an empty image with everything that another one holds, and share nothing with it."""
        if self.offset != -1:
            raise InvariantBroken("an image that is not empty was to become the copy of another")
        self.offset = other.offset
        self.next_producer_id = other.next_producer_id
        self.partitions = other.partitions.copy()
        self._brokers = dict(other._brokers)
        self._slots = [None if entry is None else entry.copy() for entry in other._slots]
        entries = [entry for entry in self._slots if entry is not None]
        self._by_name = {entry.topic.name: entry for entry in entries}
        self._by_id = {entry.topic.id: entry for entry in entries}
        self._free_slots = list(other._free_slots)
        self._ranks = None
        self._configs = {key: dict(values) for key, values in other._configs.items()}
        self._features = dict(other._features)
        self.level = other.level
        self._changes = _Changes()

    def _delta(self, changes: _Changes, first: int, last: int) -> Delta:
        self._changes = _Changes()
        return Delta(
            first,
            last,
            tuple(changes.topics),
            tuple(changes.deleted),
            tuple(changes.partitions),
            tuple(changes.brokers),
            tuple(changes.configs),
            changes.level,
        )

    def _register_broker(self, record: m.RegisterBrokerRecord) -> None:
        broker_id = BrokerId(record.broker_id)
        self._put_broker(
            BrokerRegistration(
                broker_id,
                BrokerEpoch(record.broker_epoch),
                record.incarnation_id,
                tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
                tuple(
                    Feature(f.name, f.min_supported_version, f.max_supported_version) for f in record.features
                ),
                record.rack,
                record.fenced,
                record.in_controlled_shutdown,
                tuple(record.log_dirs),
            )
        )

    def _unregister_broker(self, record: m.UnregisterBrokerRecord) -> None:
        known = self._known_broker(record.broker_id, record.broker_epoch, "UnregisterBrokerRecord")
        del self._brokers[known.id]
        self._changes.brokers[known.id] = None

    def _change_registration(self, record: m.BrokerRegistrationChangeRecord) -> None:
        known = self._known_broker(record.broker_id, record.broker_epoch, "BrokerRegistrationChangeRecord")
        self._put_broker(
            msgspec.structs.replace(
                known,
                fenced=record.fenced > 0 if record.fenced else known.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown > 0
                if record.in_controlled_shutdown
                else known.in_controlled_shutdown,
            )
        )

    def _known_broker(self, broker_id: int, epoch: int, what: str) -> BrokerRegistration:
        known = self.broker(broker_id)
        if known is None or known.epoch != epoch:
            raise InvariantBroken(
                f"{what} for broker {broker_id} epoch {epoch}",
                f"the image holds {known}",
            )
        return known

    def _put_broker(self, registration: BrokerRegistration) -> None:
        new = registration.id not in self._brokers
        self._brokers[registration.id] = registration
        if new:
            self._brokers = {broker_id: self._brokers[broker_id] for broker_id in sorted(self._brokers)}
        self._changes.brokers[registration.id] = None

    def _add_topic(self, record: m.TopicRecord) -> None:
        topic = Topic(record.name, TopicId(record.topic_id))
        if topic.name in self._by_name or topic.id in self._by_id:
            raise InvariantBroken(f"topic {topic.name} {topic.id} is created twice")
        slot = self._free_slots.pop() if self._free_slots else len(self._slots)
        entry = _TopicRows(topic, slot)
        if slot == len(self._slots):
            self._slots.append(entry)
        else:
            self._slots[slot] = entry
        self._by_name[topic.name] = self._by_id[topic.id] = entry
        self._ranks = None
        self._changes.topics[topic] = None

    def _remove_topic(self, record: m.RemoveTopicRecord) -> None:
        entry = self._known_topic(record.topic_id, "RemoveTopicRecord")
        for index, row in enumerate(entry.rows):
            if row >= 0:
                self.partitions.remove(row)
                self._changes.partitions.pop((entry.topic.id, index), None)
        del self._by_name[entry.topic.name], self._by_id[entry.topic.id]
        self._slots[entry.slot] = None
        self._free_slots.append(entry.slot)
        self._ranks = None
        self._configs.pop((TOPIC_RESOURCE, entry.topic.name), None)
        if entry.topic in self._changes.topics:
            del self._changes.topics[entry.topic]
        else:
            self._changes.deleted[entry.topic] = None

    def _add_partition(self, record: m.PartitionRecord) -> None:
        entry = self._known_topic(record.topic_id, "PartitionRecord")
        index = record.partition_id
        if entry.row(index) >= 0:
            raise InvariantBroken(f"partition {entry.topic.name}-{index} is created twice")
        while len(entry.rows) <= index:
            entry.rows.append(-1)
        entry.rows[index] = self.partitions.add(entry.slot, index, _new_state(record))
        self._changes.partitions[entry.topic.id, index] = None

    def _add_partitions(self, records: Sequence[m.PartitionRecord]) -> None:
        """Partitions of one topic, as fast as they can be added."""
        entry = self._known_topic(records[0].topic_id, "PartitionRecord")
        states = {record.partition_id: _new_state(record) for record in records}
        if len(entry.rows) or len(states) != len(records):
            for record in records:
                self._add_partition(record)
        else:
            self._put_new(entry, states)

    def _put_new(self, entry: _TopicRows, states: Mapping[int, PartitionState]) -> None:
        if len(entry.rows):
            raise InvariantBroken(f"topic {entry.topic.name} has partitions already")
        entry.rows = array("i", [-1]) * (max(states, default=-1) + 1)
        for index, row in zip(states, self.partitions.add_many(entry.slot, states), strict=True):
            entry.rows[index] = row
            self._changes.partitions[entry.topic.id, index] = None

    def _change_partition(self, record: m.PartitionChangeRecord) -> None:
        entry = self._known_topic(record.topic_id, "PartitionChangeRecord")
        row = entry.row(record.partition_id)
        if row < 0:
            raise InvariantBroken(f"a change of partition {entry.topic.name}-{record.partition_id}, unknown")
        self.partitions.put(row, changed(self.partitions.state(row), record))
        self._changes.partitions[entry.topic.id, record.partition_id] = None

    def _set_config(self, record: m.ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        values = self._configs.setdefault(key, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del self._configs[key]
        self._changes.configs[key] = None

    def _set_feature(self, record: m.FeatureLevelRecord) -> None:
        self._features[record.name] = record.feature_level
        if record.name == FEATURE_NAME:
            self.level = FeatureLevel(record.feature_level)
            self._changes.level = True

    def _set_producer_ids(self, record: m.ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _ignore(self, record: m.NoOpRecord) -> None:
        """A record that only moves the offset."""

    # Snapshots.

    def to_records(self) -> list[framing.MetadataRecord]:
        """Records that rebuild this image from nothing; their own offsets mean nothing."""
        return list(self.iter_records())

    def iter_records(self) -> Iterator[framing.MetadataRecord]:
        for name in sorted(self._features):
            yield m.FeatureLevelRecord(name=name, feature_level=self._features[name])
        for broker in self._brokers.values():
            yield register_broker_record(broker)
        for name in sorted(self._by_name):
            entry = self._by_name[name]
            yield m.TopicRecord(name=name, topic_id=entry.topic.id)
            for index, row in enumerate(entry.rows):
                if row >= 0:
                    yield partition_record(entry.topic.id, index, self.partitions.state(row))
        for resource_type, resource in sorted(self._configs):
            for name, value in sorted(self._configs[resource_type, resource].items()):
                yield m.ConfigRecord(
                    resource_type=resource_type, resource_name=resource, name=name, value=value
                )
        if self.next_producer_id:
            yield m.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)

    def state_hash(self) -> str:
        """Equal for equal images, however they came to be; the offset does not count."""
        digest = hashlib.blake2b(digest_size=16)
        for record in self.iter_records():
            encoded = framing.encode_record(record)
            digest.update(len(encoded).to_bytes(4, "big"))
            digest.update(encoded)
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterImage):
            return NotImplemented
        return self.offset == other.offset and self.to_records() == other.to_records()

    __hash__ = None  # type: ignore[assignment]

    # Inside.

    def _entry(self, topic: str | UUID) -> _TopicRows | None:
        if isinstance(topic, str):
            return self._by_name.get(topic)
        return self._by_id.get(topic)  # type: ignore[call-overload, no-any-return]

    def _known_topic(self, topic_id: UUID, what: str) -> _TopicRows:
        entry = self._by_id.get(TopicId(topic_id))
        if entry is None:
            raise InvariantBroken(f"{what} for topic {topic_id}, which the image does not hold")
        return entry

    def _topic_ranks(self) -> Rows:
        """The place of each topic slot in the order of names."""
        if self._ranks is None:
            ranks = np.zeros(len(self._slots), np.int64)
            for rank, name in enumerate(sorted(self._by_name)):
                ranks[self._by_name[name].slot] = rank
            self._ranks = ranks
        return self._ranks


def _ids(brokers: Sequence[int]) -> tuple[BrokerId, ...]:
    return cast("tuple[BrokerId, ...]", tuple(brokers))


def _new_state(record: m.PartitionRecord) -> PartitionState:
    return PartitionState(
        BrokerId(record.leader),
        LeaderEpoch(record.leader_epoch),
        PartitionEpoch(record.partition_epoch),
        _ids(record.replicas),
        _ids(record.isr),
        _ids(record.adding_replicas),
        _ids(record.removing_replicas),
        record.leader_recovery_state,
    )


def changed(old: PartitionState, record: m.PartitionChangeRecord) -> PartitionState:
    """What a partition is after a change: every change raises the partition epoch, a leader that is set the
    leader epoch too."""
    led = record.leader != LEADER_UNCHANGED
    recovery = record.leader_recovery_state
    return PartitionState(
        BrokerId(record.leader) if led else old.leader,
        LeaderEpoch(old.leader_epoch + 1) if led else old.leader_epoch,
        PartitionEpoch(old.partition_epoch + 1),
        old.replicas if record.replicas is None else _ids(record.replicas),
        old.isr if record.isr is None else _ids(record.isr),
        old.adding if record.adding_replicas is None else _ids(record.adding_replicas),
        old.removing if record.removing_replicas is None else _ids(record.removing_replicas),
        old.recovery if recovery == RECOVERY_UNCHANGED else recovery,
    )


def register_broker_record(broker: BrokerRegistration) -> m.RegisterBrokerRecord:
    """The record that tells of this registration."""
    return m.RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation,
        broker_epoch=broker.epoch,
        end_points=tuple(
            m.BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in broker.endpoints
        ),
        features=tuple(
            m.BrokerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in broker.features
        ),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
    )


def partition_record(topic_id: UUID, index: int, state: PartitionState) -> m.PartitionRecord:
    """The record that creates a partition in this state."""
    return m.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=state.replicas,
        isr=state.isr,
        removing_replicas=state.removing,
        adding_replicas=state.adding,
        leader=state.leader,
        leader_recovery_state=state.recovery,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
    )


_APPLY: dict[type, Callable[[ClusterImage, Any], None]] = {
    m.RegisterBrokerRecord: ClusterImage._register_broker,
    m.UnregisterBrokerRecord: ClusterImage._unregister_broker,
    m.BrokerRegistrationChangeRecord: ClusterImage._change_registration,
    m.TopicRecord: ClusterImage._add_topic,
    m.RemoveTopicRecord: ClusterImage._remove_topic,
    m.PartitionRecord: ClusterImage._add_partition,
    m.PartitionChangeRecord: ClusterImage._change_partition,
    m.ConfigRecord: ClusterImage._set_config,
    m.FeatureLevelRecord: ClusterImage._set_feature,
    m.ProducerIdsRecord: ClusterImage._set_producer_ids,
    m.NoOpRecord: ClusterImage._ignore,
}

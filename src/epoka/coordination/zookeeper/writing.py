"""Metadata records to operations on nodes. Pure: it reads what is known and writes nothing.

A batch is one atomic step. Records become batches in their order, so that a crash between two batches leaves
the beginning of an append; no record is ever half there, except that

- a new topic's assignment names all of its partitions at once: a partition of it that has no state
  yet has never been led, and is loaded as such;
- a topic too large to be deleted in one step is marked in `/admin/delete_topics` first and loses its mark
  last: whoever loads a marked topic finishes its deletion.

The version of a partition's state node is the partition's epoch: every change writes the node once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from epoka.controller.metadata_log import Unwritable
from epoka.coordination.zookeeper import paths, znodes
from epoka.coordination.zookeeper.operations import Create, Delete, Operation, SetData, size_of
from epoka.coordination.zookeeper.znodes import Assignment, StateZnode, TopicZnode
from epoka.model.errors import InvariantBroken
from epoka.model.image import TOPIC_RESOURCE, ClusterImage, changed
from epoka.model.partitions import PartitionState
from epoka.model.records import MetadataRecord
from epoka.wire.messages import metadata_records as m

MOST_OPERATIONS: Final = 490
MOST_BYTES: Final = 700_000
"""ZooKeeper refuses requests above 1 MB. The guard of each step, and assignments that grow, need room too."""
MOST_NODE_BYTES: Final = 980_000
_BYTES_A_REPLICA: Final = 24
"""What one more replica in an assignment takes at most, in three lists."""


class Batch(msgspec.Struct):
    """One atomic step."""

    operations: list[Operation] = []
    size: int = 0
    versions: dict[str, int | None] = {}
    """What is known of nodes when the step is done: their versions, None for those that are gone."""

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)
        self.size += size_of(operation)


class Known(msgspec.Struct):
    """What a controller has learned of nodes, beside the image."""

    versions: dict[str, int] = {}
    """Of nodes with one writer: assignments, settings, features, producer ids, shutdowns."""
    left_alone: set[str] = set()
    """Nodes that cannot be read: they stay as they are until somebody mends them, or deletes their topic."""

    def learn(self, versions: Mapping[str, int | None]) -> None:
        for path, version in versions.items():
            if version is None:
                self.versions.pop(path, None)
                self.left_alone.discard(path)
            else:
                self.versions[path] = version


def translate(
    records: Sequence[MetadataRecord],
    image: ClusterImage,
    known: Known,
    controller_epoch: int,
    nodes_of: Callable[[str], Collection[str]],
) -> list[Batch]:
    """The steps that make the records durable. `nodes_of` tells which nodes a topic consists of."""
    translation = _Translation(records, image, known, controller_epoch, nodes_of)
    for record in records:
        translation.take(record)
    translation.end_batch()
    return translation.batches or [Batch()]


def deletion(topic: str, nodes: Collection[str], *, marked: bool = False) -> list[Batch]:
    """The steps that delete a topic's nodes, children first; in one step if it fits."""
    deletes: list[Operation] = [
        Delete(path) for path in sorted(nodes, key=lambda path: (-path.count("/"), path))
    ]
    mark = paths.deletion(topic)
    many = len(deletes) + 2 > MOST_OPERATIONS or sum(map(size_of, deletes)) > MOST_BYTES
    if many and not marked:
        deletes.insert(0, Create(mark))
    if many or marked:
        deletes.append(Delete(mark))
    return in_steps(deletes)


def in_steps(operations: Sequence[Operation]) -> list[Batch]:
    """Operations that depend on nothing but their order, as few steps as possible."""
    batches: list[Batch] = []
    for operation in operations:
        if not batches or not _has_room(batches[-1], 1, size_of(operation)):
            batches.append(Batch())
        batches[-1].add(operation)
    return batches


def _has_room(batch: Batch, operations: int, size: int) -> bool:
    return len(batch.operations) + operations <= MOST_OPERATIONS and batch.size + size <= MOST_BYTES


class _Translation:
    """One append on its way into batches: what the image will be is kept beside it."""

    def __init__(
        self,
        records: Sequence[MetadataRecord],
        image: ClusterImage,
        known: Known,
        controller_epoch: int,
        nodes_of: Callable[[str], Collection[str]],
    ) -> None:
        self.batches: list[Batch] = []
        self.batch = Batch()
        self._image = image
        self._known = known
        self._controller_epoch = controller_epoch
        self._nodes_of = nodes_of
        self._versions: dict[str, int | None] = {}
        self._topics: dict[UUID, str | None] = {}
        self._created: dict[UUID, list[str]] = {}
        self._states: dict[UUID, dict[int, PartitionState]] = {}
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._features = dict(image.features)
        self._next_producer_id = image.next_producer_id
        self._dirty_topics: dict[UUID, None] = {}
        self._dirty_configs: dict[tuple[int, str], None] = {}
        self._reserved = 0
        self._reserved_operations = 0
        self._planned: dict[UUID, dict[int, m.PartitionRecord]] = {}
        for record in records:
            if isinstance(record, m.PartitionRecord):
                self._planned.setdefault(record.topic_id, {})[record.partition_id] = record
        self._announced: set[UUID] = set()
        """Topics whose assignment in these batches names all the planned partitions already."""

    def take(self, record: MetadataRecord) -> None:
        match record:
            case m.TopicRecord():
                self._add_topic(record)
            case m.PartitionRecord():
                self._add_partition(record)
            case m.PartitionChangeRecord():
                self._change_partition(record)
            case m.RemoveTopicRecord():
                self._remove_topic(record)
            case m.ConfigRecord():
                self._set_config(record)
            case m.FeatureLevelRecord():
                self._features[record.name] = record.feature_level
                self._put(paths.FEATURES, znodes.encode_features(self._features))
            case m.ProducerIdsRecord():
                first, self._next_producer_id = self._next_producer_id, record.next_producer_id
                block = znodes.encode_producer_ids(record.broker_id, first, record.next_producer_id)
                self._put(paths.PRODUCER_IDS, block)
            case m.RegisterBrokerRecord():
                self._put(paths.generation(record.broker_id), znodes.encode_generation(record.broker_epoch))
                self._set_shutdown(record.broker_id, record.broker_epoch, record.in_controlled_shutdown)
            case m.UnregisterBrokerRecord():
                self._drop(paths.generation(record.broker_id))
                self._set_shutdown(record.broker_id, record.broker_epoch, stopping=False)
            case m.BrokerRegistrationChangeRecord():
                # Whether a broker is fenced lives as long as its session; nothing of it is stored.
                if record.in_controlled_shutdown:
                    stopping = record.in_controlled_shutdown > 0
                    self._set_shutdown(record.broker_id, record.broker_epoch, stopping)
            case m.NoOpRecord():
                pass
            case _:
                raise InvariantBroken(f"no node keeps a {type(record).__name__}")

    def end_batch(self) -> None:
        """Close the step: what several of its records changed is written once, as they left it."""
        for topic_id in self._dirty_topics:
            name = self._topic(topic_id)
            if name is not None:
                self._write(paths.topic(name), self._encode_topic(topic_id))
        for resource_type, name in self._dirty_configs:
            self._write_config(resource_type, name)
        self._dirty_topics.clear()
        self._dirty_configs.clear()
        self._reserved = self._reserved_operations = 0
        if self.batch.operations:
            self.batches.append(self.batch)
            self.batch = Batch()

    # Topics and partitions.

    def _add_topic(self, record: m.TopicRecord) -> None:
        name = record.name
        if not name or "/" in name or name in (".", ".."):
            raise InvariantBroken(f"{name!r} cannot be the name of a node")
        path = paths.topic(name)
        for each in (path, paths.config(TOPIC_RESOURCE, name)):
            if each in self._known.left_alone:
                raise Unwritable(f"{each}: the node is there, but cannot be read; it is left alone")
        self._topics[record.topic_id] = name
        self._announced.add(record.topic_id)
        assignment = self._encode_topic(record.topic_id)
        self._make_room(4, size_of(Create(path, assignment)))
        self._write(path, assignment)
        self._create(record.topic_id, path)
        self._create(record.topic_id, paths.partitions(name), write=True)
        self._touch_config(TOPIC_RESOURCE, name)

    def _add_partition(self, record: m.PartitionRecord) -> None:
        name = self._known_topic(record.topic_id)
        if record.partition_epoch != 0:
            raise InvariantBroken(
                f"partition {name}-{record.partition_id} begins at epoch {record.partition_epoch}: "
                "the version of a new node is 0"
            )
        state = PartitionState(
            *(record.leader, record.leader_epoch, record.partition_epoch),  # type: ignore[arg-type]
            *(record.replicas, record.isr, record.adding_replicas, record.removing_replicas),  # type: ignore[arg-type]
            record.leader_recovery_state,
        )
        data = self._encode_state(state)
        path = paths.state(name, record.partition_id)
        announces = record.topic_id not in self._announced
        assignment = self._size_of_assignment(record.topic_id) if announces else 0
        self._make_room(3, size_of(Create(path, data)) * 2 + assignment)
        if announces:
            self._announced.add(record.topic_id)
            self._touch_assignment(record.topic_id)
        self._states.setdefault(record.topic_id, {})[record.partition_id] = state
        self._create(record.topic_id, paths.partition(name, record.partition_id), write=True)
        self._create(record.topic_id, path)
        self.batch.add(Create(path, data))

    def _change_partition(self, record: m.PartitionChangeRecord) -> None:
        name = self._known_topic(record.topic_id)
        changing = self._states.setdefault(record.topic_id, {})
        old = changing.get(record.partition_id) or self._image.partition(record.topic_id, record.partition_id)
        if old is None:
            raise InvariantBroken(f"a change of partition {name}-{record.partition_id}, unknown")
        path = paths.state(name, record.partition_id)
        if path in self._known.left_alone:
            raise Unwritable(f"{path}: the node cannot be read; it is left alone")
        new = changed(old, record)
        data = self._encode_state(new)
        moves = (old.replicas, old.adding, old.removing) != (new.replicas, new.adding, new.removing)
        assignment = self._size_of_assignment(record.topic_id) if moves else 0
        self._make_room(2, size_of(SetData(path, data)) + assignment)
        if moves:
            self._touch_assignment(record.topic_id)
            self._reserved += _BYTES_A_REPLICA * (len(new.replicas) + len(new.adding) + len(new.removing))
        changing[record.partition_id] = new
        if old.partition_epoch < 0:
            self._create(record.topic_id, path)
            self.batch.add(Create(path, data))
        else:
            self.batch.add(SetData(path, data, old.partition_epoch))

    def _remove_topic(self, record: m.RemoveTopicRecord) -> None:
        topic_id = record.topic_id
        name = self._known_topic(topic_id)
        nodes = set(self._created.get(topic_id, ()))
        if self._image.topic(topic_id) is not None:
            nodes |= set(self._nodes_of(name))
        config = paths.config(TOPIC_RESOURCE, name)
        unreadable = config in self._known.left_alone
        if self._version(config) is not None or (TOPIC_RESOURCE, name) in self._dirty_configs or unreadable:
            nodes.add(config)
        self.end_batch()
        steps = deletion(name, nodes)
        self.batches += steps[:-1]
        for operation in steps[-1].operations:
            self.batch.add(operation)
        for path in nodes:
            self._note(path, None)
        self._topics[topic_id] = None
        self._created.pop(topic_id, None)
        self._planned.pop(topic_id, None)
        self._configs[TOPIC_RESOURCE, name] = {}

    def _encode_topic(self, topic_id: UUID) -> bytes:
        partitions: dict[int, Assignment] = {}
        if self._image.topic(topic_id) is not None:
            for index, state in self._image.partitions_of(topic_id):
                partitions[index] = Assignment(state.replicas, state.adding, state.removing)
        for index, planned in self._planned.get(topic_id, {}).items():
            partitions[index] = Assignment(
                planned.replicas, planned.adding_replicas, planned.removing_replicas
            )
        for index, state in self._states.get(topic_id, {}).items():
            partitions[index] = Assignment(state.replicas, state.adding, state.removing)
        return znodes.encode_topic(TopicZnode(topic_id, partitions))

    def _encode_state(self, state: PartitionState) -> bytes:
        return znodes.encode_state(
            StateZnode(state.leader, state.leader_epoch, state.isr, self._controller_epoch, state.recovery)
        )

    def _touch_assignment(self, topic_id: UUID) -> None:
        if topic_id not in self._dirty_topics:
            self._reserved_operations += 1
            self._reserved += self._size_of_assignment(topic_id)
            self._dirty_topics[topic_id] = None

    def _size_of_assignment(self, topic_id: UUID) -> int:
        """What the assignment adds to the step; nothing if the step has room for it already."""
        return 0 if topic_id in self._dirty_topics else len(self._encode_topic(topic_id))

    def _topic(self, topic_id: UUID) -> str | None:
        if topic_id in self._topics:
            return self._topics[topic_id]
        topic = self._image.topic(topic_id)
        return topic.name if topic else None

    def _known_topic(self, topic_id: UUID) -> str:
        name = self._topic(topic_id)
        if name is None:
            raise InvariantBroken(f"a record of topic {topic_id}, which is not there")
        return name

    # Settings and shutdowns.

    def _set_config(self, record: m.ConfigRecord) -> None:
        try:
            path = paths.config(record.resource_type, record.resource_name)
        except ValueError as error:
            raise InvariantBroken(str(error)) from error
        if path in self._known.left_alone:
            raise Unwritable(f"{path}: the node cannot be read; it is left alone")
        self._make_room(2, len(path) + len(record.name) + len(record.value or ""))
        self._touch_config(record.resource_type, record.resource_name)
        settings = self._settings(record.resource_type, record.resource_name)
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
            self._reserved += len(record.name) + len(record.value) + 8

    def _settings(self, resource_type: int, name: str) -> dict[str, str]:
        key = (resource_type, name)
        if key not in self._configs:
            self._configs[key] = dict(self._image.config(resource_type, name))
        return self._configs[key]

    def _touch_config(self, resource_type: int, name: str) -> None:
        key = (resource_type, name)
        if key not in self._dirty_configs:
            self._dirty_configs[key] = None
            self._reserved_operations += 2
            self._reserved += len(znodes.encode_config(self._settings(resource_type, name))) + 256

    def _write_config(self, resource_type: int, name: str) -> None:
        self._write(
            paths.config(resource_type, name),
            znodes.encode_config(self._settings(resource_type, name)),
        )
        note = znodes.encode_config_change(paths.config_entity(resource_type, name))
        self.batch.add(Create(f"{paths.CONFIG_CHANGES}/config_change_", note, sequence=True))

    def _set_shutdown(self, broker_id: int, generation: int, stopping: bool) -> None:
        path = paths.shutdown(broker_id)
        if stopping:
            self._put(path, znodes.encode_shutdown(generation, self._controller_epoch))
        else:
            self._drop(path)

    # Nodes.

    def _drop(self, path: str) -> None:
        if self._version(path) is not None:
            self._make_room(1, len(path))
            self.batch.add(Delete(path))
            self._note(path, None)

    def _put(self, path: str, data: bytes) -> None:
        if path in self._known.left_alone:
            raise Unwritable(f"{path}: the node cannot be read; it is left alone")
        self._make_room(1, size_of(SetData(path, data)))
        self._write(path, data)

    def _write(self, path: str, data: bytes) -> None:
        """Create the node, or set it if it has the version that we know."""
        if len(data) > MOST_NODE_BYTES:
            raise Unwritable(
                f"{path}: {len(data):,} bytes are more than ZooKeeper keeps in a node ({MOST_NODE_BYTES:,})"
            )
        version = self._version(path)
        if version is None:
            self.batch.add(Create(path, data))
            self._note(path, 0)
        else:
            self.batch.add(SetData(path, data, version))
            self._note(path, version + 1)

    def _create(self, topic_id: UUID, path: str, *, write: bool = False) -> None:
        """Remember a node as one that a deletion in the same append has to take away again."""
        self._created.setdefault(topic_id, []).append(path)
        if write:
            self.batch.add(Create(path))

    def _version(self, path: str) -> int | None:
        return self._versions[path] if path in self._versions else self._known.versions.get(path)

    def _note(self, path: str, version: int | None) -> None:
        self._versions[path] = self.batch.versions[path] = version

    def _make_room(self, operations: int, size: int) -> None:
        """End the step before the next record if that would not fit any more."""
        if self.batch.operations or self._reserved_operations:
            operations += self._reserved_operations
            if not _has_room(self.batch, operations, size + self._reserved):
                self.end_batch()

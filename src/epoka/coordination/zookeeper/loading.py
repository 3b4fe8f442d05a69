"""Nodes to records: the whole state of a cluster, read with few, large requests.

What cannot be read is named and left alone. It costs as little as is safe: a partition without its state is
offline, a topic without its assignment is not there. What would be dangerous to guess, the level and the next
producer id, stops the controller instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import NAMESPACE_OID, UUID, uuid5

import msgspec

from epoka.controller.metadata_log import MetadataLogFailed
from epoka.coordination.zookeeper import paths, znodes
from epoka.coordination.zookeeper.operations import Create, Node, Operation
from epoka.coordination.zookeeper.registry import RegistrySnapshot
from epoka.coordination.zookeeper.session import Session
from epoka.coordination.zookeeper.writing import Known
from epoka.coordination.zookeeper.znodes import Assignment, BadZnode, StateZnode, TopicZnode
from epoka.model.ids import BrokerEpoch, BrokerId, is_topic_name
from epoka.model.image import BROKER_RESOURCE, TOPIC_RESOURCE, partition_record, register_broker_record
from epoka.model.levels import FEATURE_NAME, HIGHEST
from epoka.model.partitions import PartitionState
from epoka.model.records import MetadataRecord
from epoka.model.registrations import BrokerRegistration
from epoka.wire.messages import metadata_records as m


class Picture(msgspec.Struct):
    """What was found."""

    records: list[MetadataRecord] = []
    known: Known = msgspec.field(default_factory=Known)
    notes: list[str] = []
    missing: list[Operation] = []
    """Nodes to create so that partitions that were never led can get their state."""


class _Topic(NamedTuple):
    name: str
    id: UUID
    partitions: Mapping[int, Assignment]


def read_all(session: Session, registry: RegistrySnapshot) -> Picture:
    """Everything but what brokers are doing at this moment."""
    picture = Picture(notes=list(registry.notes))
    picture.records += _features(session, picture)
    picture.records += _brokers(session, registry, picture)
    topics = _topics(session, picture)
    picture.records += _partitions(session, topics, picture)
    topic_names = {topic.name for topic in topics}
    picture.records += _configs(session, TOPIC_RESOURCE, paths.TOPIC_CONFIGS, topic_names, picture)
    picture.records += _configs(session, BROKER_RESOURCE, paths.BROKER_CONFIGS, None, picture)
    picture.records += _producer_ids(session, picture)
    return picture


def nodes_of_topic(session: Session, topic: str) -> list[str]:
    """All nodes of a topic, its own included, whoever made them."""
    found: list[str] = []
    level = [paths.topic(topic)]
    while level:
        below = []
        for path, names in zip(level, session.children_of_many(level)):
            if names is not None:
                found.append(path)
                below += [f"{path}/{name}" for name in names]
        level = below
    return found


def _leave_alone(picture: Picture, bad: BadZnode, consequence: str = "") -> None:
    picture.known.left_alone.add(bad.path)
    picture.notes.append(f"{bad}; it is left alone" + (f", {consequence}" if consequence else ""))


def _features(session: Session, picture: Picture) -> Iterator[MetadataRecord]:
    node = session.get(paths.FEATURES)
    if node is None:
        return
    try:
        features = znodes.decode_features(paths.FEATURES, node.data)
    except BadZnode as bad:
        raise MetadataLogFailed(f"the cluster's level is unknown: {bad}") from bad
    if features.get(FEATURE_NAME, 0) > HIGHEST:
        raise MetadataLogFailed(
            f"{paths.FEATURES}: the cluster is on level {features[FEATURE_NAME]}; this release ends at "
            f"{int(HIGHEST)}, {HIGHEST}"
        )
    picture.known.versions[paths.FEATURES] = node.stat.version
    for name, level in sorted(features.items()):
        yield m.FeatureLevelRecord(name=name, feature_level=level)


def _brokers(session: Session, registry: RegistrySnapshot, picture: Picture) -> Iterator[MetadataRecord]:
    stopping: dict[str, int] = {}
    for name, path, node in _children(session, paths.SHUTDOWNS):
        try:
            stopping[name] = znodes.decode_shutdown(path, node.data)
            picture.known.versions[path] = node.stat.version
        except BadZnode as bad:
            _leave_alone(picture, bad)
    before: dict[int, int] = {}
    for name, path, node in _children(session, paths.GENERATIONS):
        try:
            if not paths.is_broker_id(name):
                raise BadZnode(path, "its name is not a broker id")
            before[int(name)] = znodes.decode_generation(path, node.data)
            picture.known.versions[path] = node.stat.version
        except BadZnode as bad:
            _leave_alone(picture, bad)
    for broker in registry.brokers.values():
        generation = before.pop(broker.id, None)
        path = paths.generation(broker.id)
        if generation is None and path not in picture.known.left_alone:
            picture.missing.append(Create(path, znodes.encode_generation(broker.generation)))
            picture.known.versions[path] = 0
        # The life that the controller before knew: one that has followed it since is seen in the first
        # picture of the registry, as a bounce like any other.
        registration = broker.registration()
        known = registration.epoch if generation is None else BrokerEpoch(generation)
        yield register_broker_record(
            msgspec.structs.replace(
                registration,
                epoch=known,
                incarnation=UUID(int=known),
                # A shutdown counts for the generation that asked for it and for no other.
                in_controlled_shutdown=stopping.get(str(broker.id)) == known,
            )
        )
    for broker_id, generation in sorted(before.items()):
        # It has ended since; as it is not in the registry, it is handled as a failure.
        yield register_broker_record(
            BrokerRegistration(
                BrokerId(broker_id), BrokerEpoch(generation), UUID(int=generation), fenced=True
            )
        )


def _topics(session: Session, picture: Picture) -> list[_Topic]:
    topics: list[_Topic] = []
    owners: dict[UUID, str] = {}
    for name, path, node in _children(session, paths.TOPICS):
        try:
            if not is_topic_name(name):
                raise BadZnode(path, "its name is no topic's")
            content = znodes.decode_topic(path, node.data)
            topic_id = _topic_id(name, node, content)
            if topic_id in owners:
                raise BadZnode(path, f"its id {topic_id} is that of topic {owners[topic_id]}")
        except BadZnode as bad:
            _leave_alone(picture, bad, "and the topic is not there")
            continue
        owners[topic_id] = name
        picture.known.versions[path] = node.stat.version
        topics.append(_Topic(name, topic_id, content.partitions))
    return topics


def _topic_id(name: str, node: Node, content: TopicZnode) -> UUID:
    """A topic older than topic ids gets one from the transaction that created it, the same every time."""
    return content.id or uuid5(NAMESPACE_OID, f"{name} {node.stat.created_zxid}")


def _partitions(session: Session, topics: Sequence[_Topic], picture: Picture) -> Iterator[MetadataRecord]:
    wanted = [paths.state(topic.name, index) for topic in topics for index in topic.partitions]
    states = iter(zip(wanted, session.get_many(wanted)))
    never_led: list[tuple[_Topic, int]] = []
    for topic in topics:
        yield m.TopicRecord(name=topic.name, topic_id=topic.id)
        for index, assignment in topic.partitions.items():
            path, node = next(states)
            if node is None:
                never_led.append((topic, index))
            yield partition_record(topic.id, index, _state(path, node, assignment, picture))
    _mend(session, never_led, picture)


def _state(path: str, node: Node | None, assignment: Assignment, picture: Picture) -> PartitionState:
    # Nobody ever led it, so nobody has anything of it, and all replicas are equally good.
    isr, epoch = assignment.replicas, -1
    if node is not None:
        try:
            return znodes.decode_state(path, node.data).to_state(assignment, node.stat.version)
        except BadZnode as bad:
            _leave_alone(picture, bad, "and the partition is offline")
            isr, epoch = (), node.stat.version
    return StateZnode(leader=-1, leader_epoch=-1, isr=isr, controller_epoch=-1).to_state(assignment, epoch)


def _mend(session: Session, never_led: Sequence[tuple[_Topic, int]], picture: Picture) -> None:
    """Partitions that were never led may lack the nodes above their state."""
    above: dict[str, None] = {}
    for topic, index in never_led:
        above[paths.partitions(topic.name)] = None
        above[paths.partition(topic.name, index)] = None
    found = session.get_many(list(above))
    picture.missing += [Create(path) for path, node in zip(above, found) if node is None]


def _configs(
    session: Session, resource_type: int, folder: str, topics: set[str] | None, picture: Picture
) -> Iterator[MetadataRecord]:
    for name, path, node in _children(session, folder):
        try:
            settings = znodes.allowed(path, znodes.decode_config(path, node.data), picture.notes.append)
            if resource_type == BROKER_RESOURCE and not (name.isdigit() or name == paths.DEFAULT_BROKER):
                raise BadZnode(path, "its name is not a broker id")
        except BadZnode as bad:
            _leave_alone(picture, bad)
            continue
        picture.known.versions[path] = node.stat.version
        if topics is not None and name not in topics:
            picture.notes.append(f"{path}: settings of a topic that is not there; they are left alone")
            continue
        resource = "" if name == paths.DEFAULT_BROKER else name
        for key, value in sorted(settings.items()):
            yield m.ConfigRecord(resource_type=resource_type, resource_name=resource, name=key, value=value)


def _producer_ids(session: Session, picture: Picture) -> Iterator[MetadataRecord]:
    node = session.get(paths.PRODUCER_IDS)
    if node is None:
        return
    try:
        next_producer_id = znodes.decode_producer_ids(paths.PRODUCER_IDS, node.data)
    except BadZnode as bad:
        raise MetadataLogFailed(f"the next producer id is unknown: {bad}") from bad
    picture.known.versions[paths.PRODUCER_IDS] = node.stat.version
    if next_producer_id:
        yield m.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=next_producer_id)


def _children(session: Session, folder: str) -> Iterator[tuple[str, str, Node]]:
    """Name, path and content of each child; one that vanished in between is left out."""
    names = session.children_of(folder)
    nodes = session.get_many([f"{folder}/{name}" for name in names])
    for name, node in zip(names, nodes):
        if node is not None:
            yield name, f"{folder}/{name}", node

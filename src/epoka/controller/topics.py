"""Topics come, grow and go: CreateTopics, CreatePartitions, DeleteTopics.

The ISR of a new partition holds only brokers that may be in one, and its leader is the first of them
(KIP-841). Each topic of a request succeeds or fails on its own; those that succeed become one atomic batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from epoka.controller.decision import Decision
from epoka.controller.placement import place
from epoka.controller.state import ControllerState
from epoka.model.ids import (
    MAX_TOPIC_NAME,
    ZERO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    is_topic_name,
)
from epoka.model.image import TOPIC_RESOURCE, partition_record
from epoka.model.partitions import PartitionState
from epoka.model.records import MetadataRecord
from epoka.model.topic_configs import TOPIC_KEYS, validate
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from epoka.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from epoka.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from epoka.wire.messages.metadata_records import ConfigRecord, RemoveTopicRecord, TopicRecord
from epoka.wire.texts import fitting

_TOPIC_SOURCE: Final = 1
_STATIC_SOURCE: Final = 4
_DEFAULT_SOURCE: Final = 5


class _Refused(Exception):
    """One topic of the request can't be had; its siblings go on. Never leaves this module."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def on_create_topics(state: ControllerState, request: CreateTopicsRequest) -> Decision:
    named = Counter(topic.name for topic in request.topics)
    folded = {_folded(topic.name): topic.name for topic in state.image.topics()}
    records: list[MetadataRecord] = []
    results: dict[str, CreatableTopicResult] = {}
    created = 0
    for topic in request.topics:
        if topic.name in results:
            continue
        try:
            if named[topic.name] > 1:
                raise _Refused(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice")
            _check_name(state, topic.name, folded)
            configs = _checked_configs(topic)
            assignments = _assignments(state, topic, created)
            isrs = [_first_isr(state, each, manual=bool(topic.assignments)) for each in assignments]
        except _Refused as refused:
            results[topic.name] = CreatableTopicResult(
                name=topic.name, error_code=refused.error, error_message=fitting(refused.message)
            )
            continue
        created += len(assignments)
        folded[_folded(topic.name)] = topic.name
        topic_id = ZERO_TOPIC_ID if request.validate_only else state.new_id()
        records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        records += [
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
            for name, value in configs.items()
        ]
        records += [
            _new_partition(topic_id, index, replicas, isr)
            for index, (replicas, isr) in enumerate(zip(assignments, isrs))
        ]
        results[topic.name] = CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            num_partitions=len(assignments),
            replication_factor=len(assignments[0]),
            configs=_described(state, configs),
        )
    response = CreateTopicsResponse(topics=tuple(results.values()))
    if request.validate_only:
        records = []
    return Decision(response, records, rule="isr.eligible", because="created")


def _check_name(state: ControllerState, name: str, folded: dict[str, str]) -> None:
    if not is_topic_name(name):
        raise _Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{name[:MAX_TOPIC_NAME]!r} is no topic name: 1 to {MAX_TOPIC_NAME} letters, digits, dots, "
            "underscores and dashes, and neither . nor ..",
        )
    if state.image.topic(name) is not None:
        raise _Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    other = folded.get(_folded(name))
    if other is not None:
        # Metric names can't tell a dot from an underscore, so neither may topics.
        raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name!r} collides with {other!r}")


def _folded(name: str) -> str:
    return name.replace(".", "_")


def _checked_configs(topic: CreatableTopic) -> dict[str, str]:
    checked: dict[str, str] = {}
    for each in topic.configs:
        complaint = validate(each.name, each.value)
        if complaint or each.value is None:
            raise _Refused(ErrorCode.INVALID_CONFIG, complaint or "")
        checked[each.name] = each.value
    return checked


def _assignments(state: ControllerState, topic: CreatableTopic, created: int) -> Sequence[Sequence[int]]:
    if topic.assignments:
        if topic.num_partitions not in (-1, len(topic.assignments)) or topic.replication_factor != -1:
            raise _Refused(
                ErrorCode.INVALID_REQUEST, "with an assignment, partition count and replication factor are -1"
            )
        by_index = {each.partition_index: each.broker_ids for each in topic.assignments}
        if sorted(by_index) != list(range(len(topic.assignments))):
            raise _Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "the assignment does not number its partitions from 0 on",
            )
        return _checked_manual(state, [by_index[index] for index in sorted(by_index)])
    count = state.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = topic.replication_factor
    factor = state.config.default_replication_factor if factor == -1 else factor
    _check_count(state, count, created)
    return _placed(state, count, factor, state.image.partition_count + created)


def _check_count(state: ControllerState, count: int, created: int = 0) -> None:
    if count < 1:
        raise _Refused(ErrorCode.INVALID_PARTITIONS, f"{count} partitions; there must be at least one")
    if created + count > state.config.max_partitions_per_request:
        raise _Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"{created + count} partitions; a request may ask {state.config.max_partitions_per_request}",
        )


def _placed(state: ControllerState, count: int, factor: int, start: int) -> Sequence[Sequence[int]]:
    if factor < 1:
        raise _Refused(ErrorCode.INVALID_REPLICATION_FACTOR, f"replication factor {factor} is below 1")
    placed = place(state, count, factor, start=start)
    if isinstance(placed, str):
        raise _Refused(ErrorCode.INVALID_REPLICATION_FACTOR, placed)
    return placed


def _checked_manual(state: ControllerState, assignments: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
    _check_count(state, len(assignments))
    for index, replicas in enumerate(assignments):
        problem = assignment_complaint(state, replicas)
        if problem is None and len(replicas) != len(assignments[0]):
            problem = "the partitions have different replication factors"
        if problem:
            raise _Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index}: {problem}")
    return assignments


def assignment_complaint(state: ControllerState, replicas: Sequence[int]) -> str | None:
    """What is wrong with a list of replicas that somebody made by hand, or None."""
    if not replicas:
        return "no replicas are given"
    if len(set(replicas)) != len(replicas):
        return "a broker is named twice"
    unknown = [broker_id for broker_id in replicas if state.image.broker(broker_id) is None]
    if unknown:
        return f"broker {unknown[0]} is not registered"
    return None


def _first_isr(state: ControllerState, replicas: Sequence[int], *, manual: bool) -> tuple[int, ...]:
    isr = tuple(broker_id for broker_id in replicas if state.may_join_isr(broker_id).accepted)
    if not isr:
        raise _Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT if manual else ErrorCode.INVALID_REPLICATION_FACTOR,
            f"no broker of {list(replicas)} is active",
        )
    return isr


def _new_partition(topic_id: UUID, index: int, replicas: Sequence[int], isr: Sequence[int]) -> MetadataRecord:
    return partition_record(
        topic_id,
        index,
        PartitionState(
            BrokerId(isr[0]),
            LeaderEpoch(0),
            PartitionEpoch(0),
            tuple(map(BrokerId, replicas)),
            tuple(map(BrokerId, isr)),
        ),
    )


def _described(state: ControllerState, configs: dict[str, str]) -> tuple[CreatableTopicConfigs, ...]:
    """The settings of the new topic as the creator is told them, with where each comes from."""
    described = []
    for name, key in TOPIC_KEYS.items():
        if name in configs:
            value, source = configs[name], _TOPIC_SOURCE
        else:
            typed, said_by = state.topic_default(name)
            value, source = key.text(typed) or "", _STATIC_SOURCE if said_by else _DEFAULT_SOURCE
        described.append(CreatableTopicConfigs(name=name, value=value, config_source=source))
    return tuple(described)


def on_create_partitions(state: ControllerState, request: CreatePartitionsRequest) -> Decision:
    named = Counter(topic.name for topic in request.topics)
    records: list[MetadataRecord] = []
    results: dict[str, CreatePartitionsTopicResult] = {}
    for topic in request.topics:
        if topic.name in results:
            continue
        try:
            if named[topic.name] > 1:
                raise _Refused(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice")
            records += _grown(state, topic)
            results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
        except _Refused as refused:
            results[topic.name] = CreatePartitionsTopicResult(
                name=topic.name, error_code=refused.error, error_message=fitting(refused.message)
            )
    response = CreatePartitionsResponse(results=tuple(results.values()))
    if request.validate_only:
        records = []
    return Decision(response, records, rule="isr.eligible", because="partitions added")


def _grown(state: ControllerState, wanted: CreatePartitionsTopic) -> list[MetadataRecord]:
    topic = state.image.topic(wanted.name)
    if topic is None:
        raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.name!r}")
    present = state.image.partition_count_of(topic.id)
    more = wanted.count - present
    if more < 1:
        raise _Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"the topic has {present} partitions; {wanted.count} is not more than that",
        )
    _check_count(state, more)
    first = state.image.partition(topic.id, 0)
    # While it moves it has more: those that are to come and those that are to go.
    factor = len(first.replicas) - len(first.removing) if first else 1
    if wanted.assignments is None:
        assignments = _placed(state, more, factor, state.image.partition_count)
    else:
        if len(wanted.assignments) != more:
            raise _Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{len(wanted.assignments)} assignments for {more} new partitions",
            )
        assignments = _checked_manual(state, [each.broker_ids for each in wanted.assignments])
        if len(assignments[0]) != factor:
            raise _Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the topic's replication factor is {factor}"
            )
    manual = wanted.assignments is not None
    return [
        _new_partition(topic.id, present + each, replicas, _first_isr(state, replicas, manual=manual))
        for each, replicas in enumerate(assignments)
    ]


def on_delete_topics(state: ControllerState, request: DeleteTopicsRequest) -> Decision:
    wanted: list[tuple[str | None, UUID]] = [(each.name, each.topic_id) for each in request.topics]
    wanted += [(name, ZERO_TOPIC_ID) for name in request.topic_names]
    records: list[MetadataRecord] = []
    results = []
    deleted: set[UUID] = set()
    for name, topic_id in wanted:
        error, message = ErrorCode.NONE, None
        topic = state.image.topic(name) if name is not None else state.image.topic(topic_id)
        if name is not None and topic_id != ZERO_TOPIC_ID:
            error, message = ErrorCode.INVALID_REQUEST, "a topic is named by name or by id, not by both"
        elif topic is None and name is not None:
            error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
        elif topic is None:
            error, message = ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic_id}"
        elif topic.id in deleted:
            error, message = ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice"
        else:
            deleted.add(topic.id)
            records.append(RemoveTopicRecord(topic_id=topic.id))
            name, topic_id = topic.name, topic.id
        results.append(
            DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=error, error_message=fitting(message)
            )
        )
    return Decision(DeleteTopicsResponse(responses=tuple(results)), records, because="deleted")

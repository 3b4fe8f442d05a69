"""`epoka topic`: topics of any cluster, through the protocol that clients use."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

import msgspec

from epoka.cli.brokers import asking, check, topic_named
from epoka.cli.output import (
    EXIT_FAILED,
    EXIT_GOOD,
    Failed,
    plural,
    say,
    say_json,
    settings_of,
    table,
    usage,
)
from epoka.client.cluster import ClusterClient
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from epoka.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from epoka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from epoka.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from epoka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementallyAlterableConfig,
)
from epoka.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

TOPIC_RESOURCE = 2
SET_ON_TOPIC = 1
SET, TAKE_BACK = 0, 1
TIMEOUT_MS = 30_000
BY_NAME_OR_ID = 6
"""The version of DeleteTopics from which on topics are named by name or by id."""
MIN_ISR = "min.insync.replicas"

PartitionTest = Callable[[MetadataResponsePartition, int], bool]
"""Whether a partition with this least ISR is to be shown."""


class TopicLine(msgspec.Struct, frozen=True):
    name: str
    topic_id: str
    partitions: int
    replicas: int
    under_replicated: int
    internal: bool


def list_topics(
    pattern: str | None, bootstrap: str | None, data: Path | None, internal: bool, json: bool
) -> int:
    fits = _matching(pattern)
    with asking(bootstrap, data) as client:
        topics = client.metadata(None).topics
    lines = [_line(each) for each in topics if internal or not each.is_internal]
    lines = sorted((line for line in lines if fits(line.name)), key=lambda line: line.name)
    if json:
        say_json(lines)
    elif lines:
        table(
            ("topic", "partitions", "replicas", "under-replicated"),
            [(line.name, line.partitions, line.replicas, line.under_replicated) for line in lines],
        )
    else:
        say("no topics")
    return EXIT_GOOD


def create_topic(
    name: str | None,
    bootstrap: str | None,
    data: Path | None,
    partitions: int,
    replication_factor: int,
    replica_assignment: str | None,
    if_not_exists: bool,
    config: list[str],
    json: bool,
) -> int:
    name = _named(name)
    configs = tuple(CreatableTopicConfig(key, value) for key, value in settings_of(config).items())
    assignments = _assignments(replica_assignment)
    if assignments and (partitions, replication_factor) != (-1, -1):
        usage("--replica-assignment says how many partitions and replicas there are; leave the others out")
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=tuple(CreatableReplicaAssignment(i, ids) for i, ids in enumerate(assignments)),
        configs=configs,
    )
    with asking(bootstrap, data) as client:
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS)
        (result,) = client.controller().ask(request, wait_ms=TIMEOUT_MS).topics
    existed = result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    if not (existed and if_not_exists):
        check(result.error_code, result.error_message, f"topic {name} was not created")
    if json:
        say_json(
            {
                "name": name,
                "created": not existed,
                # A topic that was there, or an older broker, says nothing of these.
                "topic_id": _kafka_id(result.topic_id) if result.topic_id.int else None,
                "partitions": result.num_partitions if result.num_partitions > 0 else None,
                "replicas": result.replication_factor if result.replication_factor > 0 else None,
            }
        )
    elif existed:
        say(f"{name} exists already")
    elif result.num_partitions > 0:
        replicas = plural(result.replication_factor, "replica")
        say(f"created {name}: {plural(result.num_partitions, 'partition')}, {replicas} each")
    else:
        say(f"created {name}")
    return EXIT_GOOD


def alter_topic(
    name: str | None,
    bootstrap: str | None,
    data: Path | None,
    partitions: int | None,
    replica_assignment: str | None,
    config: list[str],
    delete_config: list[str],
    json: bool,
) -> int:
    name = _named(name)
    settings = settings_of(config)
    assignments = _assignments(replica_assignment)
    if assignments and partitions is None:
        usage("--replica-assignment says where new partitions go; say with --partitions how many there are")
    if partitions is None and not settings and not delete_config:
        usage("nothing to alter: give --partitions, --config or --delete-config")
    with asking(bootstrap, data) as client:
        topic_named(client, name)
        if settings or delete_config:
            changes = [IncrementallyAlterableConfig(key, SET, value) for key, value in settings.items()]
            changes += [IncrementallyAlterableConfig(key, TAKE_BACK, None) for key in delete_config]
            alter_settings(client, TOPIC_RESOURCE, name, changes)
        if partitions is not None:
            _add_partitions(client, name, partitions, assignments)
    if json:
        say_json({"name": name, "partitions": partitions, "set": settings, "taken_back": delete_config})
    else:
        say(f"altered {name}")
    return EXIT_GOOD


def describe_topic(
    name: str | None,
    bootstrap: str | None,
    data: Path | None,
    internal: bool,
    under_replicated_partitions: bool,
    under_min_isr_partitions: bool,
    at_min_isr_partitions: bool,
    unavailable_partitions: bool,
    topics_with_overrides: bool,
    json: bool,
) -> int:
    wanted: list[tuple[bool, PartitionTest]] = [
        (under_replicated_partitions, lambda each, least: len(each.isr_nodes) < len(each.replica_nodes)),
        (under_min_isr_partitions, lambda each, least: len(each.isr_nodes) < least),
        (at_min_isr_partitions, lambda each, least: len(each.isr_nodes) == least),
        (unavailable_partitions, lambda each, least: each.leader_id < 0),
    ]
    filters = [test for asked, test in wanted if asked]
    if len(filters) > 1:
        usage("the filters exclude each other; give one")
    fits = _matching(name)
    with asking(bootstrap, data) as client:
        topics = _wanted_topics(client, name, fits, internal)
        settings = _settings(client, [each.name or "" for each in topics])
    told = []
    whole = True
    for topic in topics:
        own, least = settings[topic.name or ""]
        if topics_with_overrides and not own:
            continue
        partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
        shown = [each for each in partitions if all(test(each, least) for test in filters)]
        if filters:
            whole = whole and not shown
        else:
            whole = whole and not _line(topic).under_replicated and all(p.leader_id >= 0 for p in partitions)
        if shown or not filters:
            told.append((topic, own, shown))
    if json:
        values = [_as_json(*each) for each in told]
        if name is not None and [each.name for each in topics] == [name]:
            # The topic itself, whether a filter has left anything of it or not.
            say_json(values[0] if values else _as_json(topics[0], settings[name][0], ()))
        else:
            say_json(values)
    elif filters:
        _partitions_table([(topic.name, each) for topic, _, shown in told for each in shown])
    else:
        for topic, own, shown in told:
            _describe(topic, own, () if topics_with_overrides else shown)
    return EXIT_GOOD if whole else EXIT_FAILED


def delete_topic(
    name: str | None, bootstrap: str | None, data: Path | None, if_exists: bool, json: bool
) -> int:
    name = _named(name)
    with asking(bootstrap, data) as client:
        controller = client.controller()
        # Topics were a plain list of names before they had ids.
        if controller.version_for(DeleteTopicsRequest) >= BY_NAME_OR_ID:
            request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=TIMEOUT_MS)
        else:
            request = DeleteTopicsRequest(topic_names=(name,), timeout_ms=TIMEOUT_MS)
        (result,) = controller.ask(request, wait_ms=TIMEOUT_MS).responses
    absent = result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not (absent and if_exists):
        check(result.error_code, result.error_message, f"topic {name} was not deleted")
    if json:
        say_json({"deleted": None if absent else name})
    else:
        say(f"there is no topic {name}" if absent else f"deleted {name}")
    return EXIT_GOOD


def alter_settings(
    client: ClusterClient, kind: int, name: str, changes: Sequence[IncrementallyAlterableConfig]
) -> None:
    """Change settings of a topic or a broker one by one; Failed when the cluster refuses."""
    resource = IncrementalAlterConfigsResource(kind, name, tuple(changes))
    answer = client.controller().ask(IncrementalAlterConfigsRequest((resource,)), wait_ms=TIMEOUT_MS)
    (result,) = answer.responses
    check(result.error_code, result.error_message, f"the settings of {name or 'the cluster'} stay")


def _add_partitions(
    client: ClusterClient, name: str, partitions: int, assignments: Sequence[tuple[int, ...]]
) -> None:
    topic = CreatePartitionsTopic(
        name=name,
        count=partitions,
        assignments=tuple(CreatePartitionsAssignment(ids) for ids in assignments) or None,
    )
    request = CreatePartitionsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS)
    (result,) = client.controller().ask(request, wait_ms=TIMEOUT_MS).results
    check(result.error_code, result.error_message, f"{name} got no new partitions")


def _wanted_topics(
    client: ClusterClient, pattern: str | None, fits: Callable[[str], bool], internal: bool
) -> list[MetadataResponseTopic]:
    if pattern is not None and re.fullmatch(r"[\w.-]+", pattern) and not re.search(r"[.]", pattern):
        return [topic_named(client, pattern)]
    found = [
        each
        for each in client.metadata(None).topics
        if fits(each.name or "") and (internal or not each.is_internal or pattern == each.name)
    ]
    if pattern is not None and not found:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise Failed(f"no topic fits {pattern} ({code.name})")
    return sorted(found, key=lambda each: each.name or "")


def least_isr(client: ClusterClient, names: Sequence[str]) -> dict[str, int]:
    """The min.insync.replicas of every topic that is there."""
    there = {each.name or "" for each in client.metadata(names).topics if not each.error_code}
    return {name: least for name, (_, least) in _settings(client, sorted(there)).items()}


def _settings(client: ClusterClient, names: Sequence[str]) -> dict[str, tuple[dict[str, str | None], int]]:
    """What was set on each topic itself, and its least ISR."""
    if not names:
        return {}
    resources = tuple(DescribeConfigsResource(TOPIC_RESOURCE, name) for name in names)
    found = {}
    for each in client.anyone().ask(DescribeConfigsRequest(resources), wait_ms=TIMEOUT_MS).results:
        check(each.error_code, each.error_message, f"the settings of {each.resource_name} cannot be read")
        own = {one.name: one.value for one in each.configs if one.config_source == SET_ON_TOPIC}
        least = next((int(one.value or 1) for one in each.configs if one.name == MIN_ISR), 1)
        found[each.resource_name] = (own, least)
    return found


def _describe(
    topic: MetadataResponseTopic,
    own: dict[str, str | None],
    partitions: Sequence[MetadataResponsePartition],
) -> None:
    line = _line(topic)
    say(
        f"Topic: {line.name}  TopicId: {line.topic_id}  PartitionCount: {line.partitions}  "
        f"ReplicationFactor: {line.replicas}  "
        f"Configs: {','.join(f'{key}={value}' for key, value in own.items())}".rstrip()
    )
    if partitions:
        _partitions_table([(topic.name, each) for each in partitions])


def _partitions_table(rows: Sequence[tuple[str | None, MetadataResponsePartition]]) -> None:
    if not rows:
        say("no partitions")
        return
    table(
        ("topic", "partition", "leader", "leader-epoch", "replicas", "isr", "offline"),
        [
            (
                topic,
                p.partition_index,
                "none" if p.leader_id < 0 else p.leader_id,
                p.leader_epoch,
                p.replica_nodes,
                p.isr_nodes,
                p.offline_replicas,
            )
            for topic, p in rows
        ],
    )


def _as_json(
    topic: MetadataResponseTopic,
    own: dict[str, str | None],
    partitions: Sequence[MetadataResponsePartition],
) -> dict[str, object]:
    return {
        **msgspec.structs.asdict(_line(topic)),
        "settings": own,
        "partitions": [
            {
                "partition": each.partition_index,
                "leader": each.leader_id,
                "leader_epoch": each.leader_epoch,
                "replicas": each.replica_nodes,
                "isr": each.isr_nodes,
                "offline": each.offline_replicas,
            }
            for each in partitions
        ],
    }


def _line(topic: MetadataResponseTopic) -> TopicLine:
    replicas = [len(each.replica_nodes) for each in topic.partitions]
    return TopicLine(
        name=topic.name or "",
        topic_id=_kafka_id(topic.topic_id),
        partitions=len(topic.partitions),
        replicas=max(replicas, default=0),
        under_replicated=sum(len(each.isr_nodes) < len(each.replica_nodes) for each in topic.partitions),
        internal=topic.is_internal,
    )


def _kafka_id(topic_id: UUID) -> str:
    """As Kafka's own tools write it."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _named(name: str | None) -> str:
    if not name:
        usage("TOPIC is missing")
    return name


def _matching(pattern: str | None) -> Callable[[str], bool]:
    """Whether a name fits; commas separate alternatives, as in kafka-topics.sh."""
    if pattern is None:
        return lambda name: True
    try:
        compiled = re.compile(pattern.replace(",", "|"))
    except re.error as error:
        usage(f"{pattern!r} is no regular expression: {error}")
    return lambda name: compiled.fullmatch(name) is not None


def _assignments(text: str | None) -> list[tuple[int, ...]]:
    """`1:2,2:3` as the replicas of partition 0 and of partition 1."""
    if text is None:
        return []
    try:
        return [tuple(int(each) for each in ids.split(":")) for ids in text.split(",")]
    except ValueError:
        usage(f"replicas are written as 1:2,2:3, one group a partition, not {text!r}")

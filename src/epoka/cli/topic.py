"""`epoka topic`: topics of any cluster, through the protocol that clients use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from epoka.cli.finding import caller
from epoka.cli.output import EXIT_FAILED, EXIT_GOOD, Failed, plural, say, say_json, settings_of, table
from epoka.cluster.calls import Caller, CallFailed
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from epoka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from epoka.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from epoka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

TOPIC_RESOURCE = 2
SET_ON_TOPIC = 1
TIMEOUT_MS = 30_000
BY_NAME_OR_ID = 6
"""The version of DeleteTopics from which on topics are named by name or by id."""


class TopicLine(msgspec.Struct, frozen=True):
    name: str
    topic_id: str
    partitions: int
    replicas: int
    under_replicated: int
    internal: bool


@contextmanager
def _asking(bootstrap: str | None, data: Path | None) -> Iterator[Caller]:
    try:
        with caller(bootstrap, data) as ask:
            yield ask
    except CallFailed as error:
        raise Failed(str(error)) from error


def list_topics(bootstrap: str | None, data: Path | None, internal: bool, json: bool) -> int:
    with _asking(bootstrap, data) as ask:
        answer = ask.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    lines = [_line(each) for each in answer.topics if internal or not each.is_internal]
    lines.sort(key=lambda line: line.name)
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
    bootstrap: str | None,
    data: Path | None,
    name: str,
    partitions: int,
    replication_factor: int,
    config: list[str],
    json: bool,
) -> int:
    configs = tuple(CreatableTopicConfig(key, value) for key, value in settings_of(config).items())
    request = CreateTopicsRequest(
        topics=(
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
            ),
        ),
        timeout_ms=TIMEOUT_MS,
    )
    with _asking(bootstrap, data) as ask:
        (result,) = ask.ask(request, timeout_s=TIMEOUT_MS / 1000 + 5).topics
    _check(result.error_code, result.error_message, f"topic {name} was not created")
    if json:
        say_json(
            {
                "name": name,
                "topic_id": str(result.topic_id),
                "partitions": result.num_partitions,
                "replicas": result.replication_factor,
            }
        )
    elif result.num_partitions > 0:
        replicas = plural(result.replication_factor, "replica")
        say(f"created {name}: {plural(result.num_partitions, 'partition')}, {replicas} each")
    else:
        say(f"created {name}")
    return EXIT_GOOD


def describe_topic(bootstrap: str | None, data: Path | None, name: str, json: bool) -> int:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    wanted = DescribeConfigsRequest(
        resources=(DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name),)
    )
    with _asking(bootstrap, data) as ask:
        (topic,) = ask.ask(request).topics
        _check(topic.error_code, None, f"topic {name} cannot be described")
        (described,) = ask.ask(wanted).results
    _check(described.error_code, described.error_message, f"the settings of {name} cannot be read")
    settings = {each.name: each.value for each in described.configs if each.config_source == SET_ON_TOPIC}
    line = _line(topic)
    partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
    if json:
        say_json(
            {
                **msgspec.structs.asdict(line),
                "settings": settings,
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
        )
    else:
        say(f"{name}, id {line.topic_id}")
        for key, value in settings.items():
            say(f"  {key} = {value}")
        table(
            ("partition", "leader", "leader epoch", "replicas", "isr"),
            [
                (p.partition_index, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes)
                for p in partitions
            ],
        )
    whole = not line.under_replicated and all(each.leader_id >= 0 for each in partitions)
    return EXIT_GOOD if whole else EXIT_FAILED


def delete_topic(bootstrap: str | None, data: Path | None, name: str, json: bool) -> int:
    with _asking(bootstrap, data) as ask:
        # Topics were a plain list of names before they had ids.
        if ask.version_for(DeleteTopicsRequest.API_KEY) >= BY_NAME_OR_ID:
            request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=TIMEOUT_MS)
        else:
            request = DeleteTopicsRequest(topic_names=(name,), timeout_ms=TIMEOUT_MS)
        (result,) = ask.ask(request, timeout_s=TIMEOUT_MS / 1000 + 5).responses
    _check(result.error_code, result.error_message, f"topic {name} was not deleted")
    if json:
        say_json({"deleted": name})
    else:
        say(f"deleted {name}")
    return EXIT_GOOD


def _line(topic: MetadataResponseTopic) -> TopicLine:
    replicas = [len(each.replica_nodes) for each in topic.partitions]
    return TopicLine(
        name=topic.name or "",
        topic_id=str(topic.topic_id),
        partitions=len(topic.partitions),
        replicas=max(replicas, default=0),
        under_replicated=sum(len(each.isr_nodes) < len(each.replica_nodes) for each in topic.partitions),
        internal=topic.is_internal,
    )


def _check(error_code: int, message: str | None, what: str) -> None:
    if error_code:
        code = ErrorCode.of(error_code)
        raise Failed(f"{what}: {message or code.message} ({code.name})")

"""The few things that a client does, put to a `World`."""

from __future__ import annotations

from typing import Any

from epoka.wire import records
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import create_topics, fetch, list_offsets, produce
from tests.broker.world import World, batch


def create_topic(
    world: World,
    name: str,
    partitions: int = 1,
    replication_factor: int = 3,
    assignment: tuple[int, ...] | None = None,
    broker: int = 1,
    **configs: str,
) -> None:
    """Create a topic and wait until every live broker knows it."""
    assignments: Any = ()
    if assignment is not None:
        assignments = (create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=assignment),)
        partitions = replication_factor = -1
    request = create_topics.CreateTopicsRequest(
        topics=(
            create_topics.CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                assignments=assignments,
                configs=tuple(
                    create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                    for key, value in configs.items()
                ),
            ),
        )
    )
    answer = world.call(broker, request, 7)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0]
    world.run_until(
        lambda: all(node.core.image.topic(name) is not None for node in world.nodes.values() if node.alive)
    )


def producing(
    world: World,
    broker: int,
    topic: str,
    *values: bytes,
    acks: int = -1,
    index: int = 0,
    connection: int = 0,
    **about: Any,
) -> list[Any]:
    """Put a produce; the list gets its answer."""
    request = produce.ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=(
            produce.TopicProduceData(
                name=topic,
                partition_data=(
                    produce.PartitionProduceData(index=index, records=memoryview(batch(*values, **about))),
                ),
            ),
        ),
    )
    return world.ask(broker, request, 9, connection=connection)


def produced(answers: list[Any]) -> produce.PartitionProduceResponse:
    (answer,) = answers
    return answer.responses[0].partition_responses[0]


def write(
    world: World, broker: int, topic: str, *values: bytes, **about: Any
) -> produce.PartitionProduceResponse:
    answers = producing(world, broker, topic, *values, **about)
    world.run_until(lambda: bool(answers))
    return produced(answers)


def fetch_request(
    world: World, topic: str, offset: int = 0, index: int = 0, max_wait_ms: int = 0, **about: Any
) -> fetch.FetchRequest:
    known = world.controller.image.topic(topic)
    assert known is not None
    return fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=about.pop("min_bytes", 1),
        topics=(
            fetch.FetchTopic(
                topic_id=known.id,
                partitions=(
                    fetch.FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        log_start_offset=about.pop("log_start", 0),
                        partition_max_bytes=about.pop("partition_max_bytes", 1 << 20),
                        current_leader_epoch=about.pop("leader_epoch", -1),
                        last_fetched_epoch=about.pop("last_fetched_epoch", -1),
                    ),
                ),
            ),
        ),
        **about,
    )


def values(part: fetch.FetchPartitionResponse) -> list[bytes]:
    data = memoryview(bytes(part.records or b""))
    return [
        bytes(record.value or b"")
        for position, header in records.headers(data)
        for record in records.decode_batch(data, position, header)
    ]


def read(world: World, broker: int, topic: str, offset: int = 0, index: int = 0) -> list[bytes]:
    answer = world.call(broker, fetch_request(world, topic, offset, index), 13)
    part = answer.responses[0].partitions[0]
    assert part.error_code == ErrorCode.NONE, part
    return values(part)


def latest(world: World, broker: int, topic: str, index: int = 0) -> int:
    request = list_offsets.ListOffsetsRequest(
        topics=(
            list_offsets.ListOffsetsTopic(
                name=topic,
                partitions=(list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1),),
            ),
        )
    )
    return int(world.call(broker, request, 5).topics[0].partitions[0].offset)

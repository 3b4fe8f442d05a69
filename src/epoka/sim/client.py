"""The few things that clients and operators do, as requests and as short words for scripts.

Everything goes through Kafka's own messages; topics are named, so the same words work at every level of both
modes. Nothing here knows anything of brokers beyond what they answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from epoka.model.events import CONTROLLER
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.sim.world import Answer, World
from epoka.wire import records
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import (
    alter_partition_reassignments,
    create_topics,
    delete_topics,
    elect_leaders,
    fetch,
    produce,
    update_features,
)

PRODUCE_VERSION = 9
FETCH_VERSION = 12
CREATE_VERSION = 7
DELETE_VERSION = 5


def batch(values: Sequence[bytes], **about: Any) -> bytearray:
    """A record batch as a producer would send it."""
    return records.encode_batch(
        [records.Record(offset=at, timestamp=0, key=None, value=value) for at, value in enumerate(values)],
        **about,
    )


def produce_request(
    topic: str, index: int, batches: bytearray, acks: int = -1, timeout_ms: int = 1_000
) -> produce.ProduceRequest:
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=(
            produce.TopicProduceData(
                name=topic,
                partition_data=(produce.PartitionProduceData(index=index, records=memoryview(batches)),),
            ),
        ),
    )


def fetch_request(topic: str, index: int, offset: int, max_wait_ms: int = 0) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=(
            fetch.FetchTopic(
                topic=topic,
                partitions=(
                    fetch.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20),
                ),
            ),
        ),
    )


def create_request(
    name: str, assignments: Sequence[Sequence[int]], **configs: str
) -> create_topics.CreateTopicsRequest:
    """A topic with that assignment, one row a partition; dots in configs are written as underscores."""
    return create_topics.CreateTopicsRequest(
        timeout_ms=1_000,
        topics=(
            create_topics.CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=tuple(
                    create_topics.CreatableReplicaAssignment(partition_index=at, broker_ids=tuple(replicas))
                    for at, replicas in enumerate(assignments)
                ),
                configs=tuple(
                    create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                    for key, value in configs.items()
                ),
            ),
        ),
    )


def delete_request(name: str) -> delete_topics.DeleteTopicsRequest:
    return delete_topics.DeleteTopicsRequest(topic_names=(name,), timeout_ms=1_000)


def climb_request(level: FeatureLevel) -> update_features.UpdateFeaturesRequest:
    return update_features.UpdateFeaturesRequest(
        feature_updates=(
            update_features.FeatureUpdateKey(
                feature=FEATURE_NAME, max_version_level=int(level), upgrade_type=1
            ),
        )
    )


def elect_request() -> elect_leaders.ElectLeadersRequest:
    """Preferred leaders, for every partition."""
    return elect_leaders.ElectLeadersRequest(topic_partitions=None)


def reassign_request(
    topic: str, index: int, replicas: Sequence[int] | None
) -> alter_partition_reassignments.AlterPartitionReassignmentsRequest:
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        timeout_ms=1_000,
        topics=(
            alter_partition_reassignments.ReassignableTopic(
                name=topic,
                partitions=(
                    alter_partition_reassignments.ReassignablePartition(
                        partition_index=index, replicas=None if replicas is None else tuple(replicas)
                    ),
                ),
            ),
        ),
    )


# Words for scripts.


def create_topic(
    world: World, name: str, *assignments: Sequence[int], broker: int | None = None, **configs: str
) -> None:
    """Create a topic and wait until every node that lives knows it and every partition has its leader."""
    rows = assignments or ((1, 2, 3),)
    answer = world.call(broker or _anybody(world), create_request(name, rows, **configs), CREATE_VERSION)
    if answer is None or answer.topics[0].error_code != ErrorCode.NONE:
        raise AssertionError(f"topic {name} was not made: {answer}")
    world.run_until(
        lambda: (
            all(each.core.image.topic(name) is not None for each in world.brokers())
            and all(
                world.leads(world.partition(name, index).leader, name, index) for index in range(len(rows))
            )
        )
    )


def producing(
    world: World, broker: int, topic: str, *values: bytes, acks: int = -1, index: int = 0, **about: Any
) -> Answer:
    """Put a produce to a broker; the answer comes when it comes."""
    return world.ask(broker, produce_request(topic, index, batch(values, **about), acks), PRODUCE_VERSION)


def produced(answer: Answer) -> produce.PartitionProduceResponse | None:
    """What became of a produce; None when nobody answered."""
    message = answer.message
    return None if message is None else message.responses[0].partition_responses[0]


def write(world: World, broker: int, topic: str, *values: bytes, **about: Any) -> ErrorCode:
    """Produce and wait; NETWORK_EXCEPTION when there was no answer."""
    answer = producing(world, broker, topic, *values, **about)
    world.run_until(lambda: answer.done)
    outcome = produced(answer)
    return ErrorCode.NETWORK_EXCEPTION if outcome is None else ErrorCode.of(outcome.error_code)


def values_of(part: fetch.FetchPartitionResponse) -> list[bytes]:
    content = memoryview(bytes(part.records or b""))
    return [
        bytes(record.value or b"")
        for position, header in records.headers(content)
        for record in records.decode_batch(content, position, header)
    ]


def read(world: World, broker: int, topic: str, offset: int = 0, index: int = 0) -> list[bytes] | ErrorCode:
    """Every committed value that a broker returns from an offset on, or its refusal."""
    answer = world.call(broker, fetch_request(topic, index, offset), FETCH_VERSION)
    if answer is None:
        return ErrorCode.NETWORK_EXCEPTION
    part = answer.responses[0].partitions[0]
    return values_of(part) if part.error_code == ErrorCode.NONE else ErrorCode.of(part.error_code)


def log_of(world: World, broker: int, topic: str, index: int = 0) -> list[bytes]:
    """Every value in a broker's own log, committed or not."""
    log = world.broker(broker).replicas.logs.logs[topic, index]
    content = log.read(log.log_start_offset, 1 << 20) or b""
    return values_of(msgspec.structs.replace(_NOTHING, records=content))


def climb(world: World, level: FeatureLevel) -> ErrorCode:
    answer = world.call(CONTROLLER, climb_request(level), 1, control=True)
    return ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode.of(answer.error_code)


def reassign(world: World, topic: str, index: int, replicas: Sequence[int] | None) -> ErrorCode:
    answer = world.call(CONTROLLER, reassign_request(topic, index, replicas), 0, control=True)
    if answer is None:
        return ErrorCode.NETWORK_EXCEPTION
    return ErrorCode.of(answer.error_code or answer.responses[0].partitions[0].error_code)


def _anybody(world: World) -> int:
    return world.brokers()[0].node_id


_NOTHING = fetch.FetchPartitionResponse()

"""What somebody who only looks (-2, as in Kafka) is told: of every replica, and it counts for nothing."""

import pytest

from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import list_offsets
from epoka.wire.messages.fetch import ReplicaState
from tests.broker.client import create_topic, fetch_request, write
from tests.broker.world import World

CONSUMER, ONLOOKER = -1, -2


@pytest.fixture
def world() -> World:
    """Broker 1 leads and holds two records; broker 2 was cut off after the first."""
    world = World(2)
    create_topic(world, "t", assignment=(1, 2))
    write(world, 1, "t", b"a")
    world.run_until(lambda: world.broker(2).replicas.by_name["t", 0].high_watermark == 1)
    world.isolate(1, 2)
    write(world, 1, "t", b"b", acks=1)
    return world


def end(world: World, broker: int, who: int) -> tuple[int, int]:
    partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = list_offsets.ListOffsetsRequest(
        replica_id=who, topics=(list_offsets.ListOffsetsTopic(name="t", partitions=(partition,)),)
    )
    answer = world.call(broker, request, 7).topics[0].partitions[0]
    return answer.error_code, answer.offset


def test_an_onlooker_sees_where_every_replica_ends(world):
    assert end(world, 1, ONLOOKER) == (ErrorCode.NONE, 2)
    assert end(world, 2, ONLOOKER) == (ErrorCode.NONE, 1)
    assert end(world, 1, CONSUMER) == (ErrorCode.NONE, 1)
    assert end(world, 2, CONSUMER)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_onlooker_reads_the_high_watermark_of_a_follower(world):
    def fetch(who: int):
        request = fetch_request(world, "t", 1, replica_state=ReplicaState(replica_id=who))
        return world.call(2, request, 15).responses[0].partitions[0]

    assert fetch(CONSUMER).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    seen = fetch(ONLOOKER)
    assert (seen.error_code, seen.high_watermark, bytes(seen.records)) == (ErrorCode.NONE, 1, b"")


def test_looking_is_no_progress_of_a_follower(world):
    before = world.broker(1).replicas.by_name["t", 0].leadership.followers[2].end_offset
    request = fetch_request(world, "t", 2, replica_state=ReplicaState(replica_id=ONLOOKER))
    assert world.call(1, request, 15).responses[0].partitions[0].error_code == ErrorCode.NONE
    assert world.broker(1).replicas.by_name["t", 0].leadership.followers[2].end_offset == before
    assert world.broker(1).replicas.by_name["t", 0].high_watermark == 1

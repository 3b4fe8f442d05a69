"""Metadata, topics, settings, offsets and coordinators, asked of one broker core."""

from uuid import UUID

import pytest

from epoka.broker.api import HANDLERS
from epoka.model.events import CONTROLLER
from epoka.wire import codec
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import (
    api_versions,
    create_partitions,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
)
from tests.broker.client import create_topic, latest, read, write
from tests.broker.world import World

LIBRDKAFKA_GATES = {
    0: (0, 7),
    1: (4, 10),
    10: (0, 0),
    11: (0, 0),
    12: (0, 0),
    13: (0, 0),
    14: (0, 0),
    2: (1, 1),
}
"""API key to versions that must be inside the advertised range, or librdkafka switches features off."""


@pytest.fixture
def world() -> World:
    world = World(1)
    create_topic(world, "t", partitions=2, replication_factor=1)
    return world


class TestApiVersions:
    def test_only_what_is_served_is_advertised(self, world):
        answer = world.call(1, api_versions.ApiVersionsRequest(), 3)
        assert {each.api_key for each in answer.api_keys} == {each.key for each in HANDLERS.values()}
        for each in answer.api_keys:
            assert each.max_version == world.broker(1).served[each.api_key][1]

    def test_the_gates_of_librdkafka_are_open(self, world):
        ranges = {each.api_key: each for each in world.call(1, api_versions.ApiVersionsRequest(), 0).api_keys}
        for key, (low, high) in LIBRDKAFKA_GATES.items():
            assert ranges[key].min_version <= low <= high <= ranges[key].max_version

    def test_the_level_is_a_finalized_feature(self, world):
        answer = world.call(1, api_versions.ApiVersionsRequest(), 3)
        assert [(each.name, each.max_version_level) for each in answer.finalized_features] == [
            ("epoka.level", 5)
        ]


class TestMetadata:
    def ask(self, world: World, *names: str, version: int = 12, **about) -> metadata.MetadataResponse:
        topics = tuple(metadata.MetadataRequestTopic(name=name) for name in names) if names else None
        return world.call(1, metadata.MetadataRequest(topics=topics, **about), version)

    def test_tells_of_all_topics_and_brokers(self, world):
        answer = self.ask(world)
        assert [topic.name for topic in answer.topics] == ["t"]
        assert [len(topic.partitions) for topic in answer.topics] == [2]
        assert [(each.node_id, each.port) for each in answer.brokers] == [(1, 9001)]

    def test_an_empty_list_means_none_except_in_version_0(self, world):
        assert world.call(1, metadata.MetadataRequest(topics=()), 1).topics == ()
        assert len(world.call(1, metadata.MetadataRequest(topics=()), 0).topics) == 1

    def test_makes_missing_topics_where_that_is_allowed(self, world):
        assert self.ask(world, "fresh").topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        world.run_until(lambda: world.broker(1).image.topic("fresh") is not None)
        assert self.ask(world, "fresh").topics[0].error_code == ErrorCode.NONE

    def test_makes_nothing_when_the_client_forbids_it(self, world):
        answer = self.ask(world, "fresh", allow_auto_topic_creation=False)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        world.run(1_000)
        assert world.broker(1).image.topic("fresh") is None

    @pytest.mark.parametrize("name", ["a b", "..", "x" * 250, ""])
    def test_a_bad_name_is_refused(self, world, name):
        assert self.ask(world, name).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_a_topic_is_told_of_once_however_often_it_is_named(self, world):
        assert [each.name for each in self.ask(world, *["t"] * 1_000).topics] == ["t"]
        topic_id = world.broker(1).image.topic("t").id
        named = tuple(
            metadata.MetadataRequestTopic(topic_id=topic_id, name=f"name-{number}") for number in range(1_000)
        )
        assert len(world.call(1, metadata.MetadataRequest(topics=named), 12).topics) == 1

    @pytest.mark.parametrize("version", [10, 11, 12])
    def test_a_topic_that_is_asked_for_by_an_unknown_id_can_be_answered(self, world, version):
        asked = metadata.MetadataRequestTopic(topic_id=UUID(int=404), name=None)
        answer = world.call(1, metadata.MetadataRequest(topics=(asked,)), version)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert codec.encode(answer, version)

    def test_fenced_brokers_are_not_shown(self):
        world = World(3)
        world.crash(3)
        world.run_until(lambda: world.broker(1).image.broker(3).fenced)
        answer = world.call(1, metadata.MetadataRequest(topics=None), 12)
        assert [each.node_id for each in answer.brokers] == [1, 2]


class TestTopics:
    def delete(
        self, world: World, *names: str, version: int, broker: int = 1
    ) -> list[tuple[str | None, int]]:
        """Delete topics by name; the names and errors of the answer."""
        if version < 6:
            request = delete_topics.DeleteTopicsRequest(topic_names=names)
        else:
            topics = tuple(delete_topics.DeleteTopicState(name=name) for name in names)
            request = delete_topics.DeleteTopicsRequest(topics=topics)
        answer = world.call(broker, request, version, control=broker == CONTROLLER)
        return [(each.name, each.error_code) for each in answer.responses]

    def test_a_deleted_topic_is_gone_when_the_answer_comes(self, world):
        write(world, 1, "t", b"a")
        request = delete_topics.DeleteTopicsRequest(topics=(delete_topics.DeleteTopicState(name="t"),))
        assert world.call(1, request, 6).responses[0].error_code == ErrorCode.NONE
        assert world.broker(1).image.topic("t") is None
        assert ("t", 0) not in world.broker(1).replicas.logs.logs

    def test_a_topic_made_again_under_the_same_name_is_empty(self, world):
        write(world, 1, "t", b"old")
        request = delete_topics.DeleteTopicsRequest(topics=(delete_topics.DeleteTopicState(name="t"),))
        world.call(1, request, 6)
        create_topic(world, "t", replication_factor=1)
        assert read(world, 1, "t") == []

    @pytest.mark.parametrize("version", [1, 5, 6])
    def test_a_deletion_that_comes_late_spares_the_topic_made_again_under_the_same_name(self, version):
        world = World(2, request_timeout_ms=2_000)
        create_topic(world, "t", assignment=(1, 2))
        world.hold("DeleteTopicsRequest", sender=1)
        assert self.delete(world, "t", version=version) == [("t", ErrorCode.REQUEST_TIMED_OUT)]
        assert self.delete(world, "t", version=version, broker=2) == [("t", ErrorCode.NONE)]
        create_topic(world, "t", assignment=(1, 2), broker=2)
        write(world, 1, "t", b"precious")
        world.release()
        world.run(100)
        assert world.partition("t") is not None
        assert read(world, 1, "t") == [b"precious"]

    @pytest.mark.parametrize("version", [1, 5, 6])
    def test_topics_that_were_named_are_answered_by_name(self, world, version):
        """One is there, one was never, and one is gone although this broker has not heard of it."""
        create_topic(world, "gone", replication_factor=1)
        world.hold("FetchMetadataResponse")
        assert self.delete(world, "gone", version=6, broker=CONTROLLER) == [("gone", ErrorCode.NONE)]
        assert self.delete(world, "t", "never", "gone", "t", version=version) == [
            ("t", ErrorCode.NONE),
            ("never", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("t", ErrorCode.INVALID_REQUEST),
        ]

    def test_a_topic_is_deleted_by_its_id(self, world):
        known, unknown = world.broker(1).image.topic("t").id, UUID(int=404)
        topics = tuple(delete_topics.DeleteTopicState(topic_id=each) for each in (known, unknown))
        answer = world.call(1, delete_topics.DeleteTopicsRequest(topics=topics), 6)
        assert [(each.name, each.topic_id, each.error_code) for each in answer.responses] == [
            ("t", known, ErrorCode.NONE),
            (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        ]

    def test_partitions_are_added(self, world):
        request = create_partitions.CreatePartitionsRequest(
            topics=(create_partitions.CreatePartitionsTopic(name="t", count=5),)
        )
        assert world.call(1, request, 3).results[0].error_code == ErrorCode.NONE
        assert world.broker(1).image.partition_count_of("t") == 5


class TestSettings:
    def alter(self, world: World, resource_type: int, resource: str, name: str, value: str) -> None:
        wanted = incremental_alter_configs.IncrementallyAlterableConfig(
            name=name, config_operation=0, value=value
        )
        resources = incremental_alter_configs.IncrementalAlterConfigsResource(
            resource_type=resource_type, resource_name=resource, configs=(wanted,)
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resources,))
        assert world.call(1, request, 1).responses[0].error_code == ErrorCode.NONE

    def describe(self, world: World, name: str, kind: int = 2) -> dict[str, tuple[str | None, int]]:
        request = describe_configs.DescribeConfigsRequest(
            resources=(describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name),)
        )
        result = world.call(1, request, 4).results[0]
        assert result.error_code == ErrorCode.NONE, result
        return {each.name: (each.value, each.config_source) for each in result.configs}

    def test_a_default_of_brokers_takes_hold_where_a_topic_is_silent(self, world):
        replica = world.broker(1).replicas.by_name["t", 0]
        self.alter(world, 4, "", "min.insync.replicas", "2")
        self.alter(world, 4, "", "log.retention.ms", "3600000")
        assert (replica.min_isr, replica.log.config.retention_ms) == (2, 3_600_000)
        assert self.describe(world, "t")["min.insync.replicas"] == ("2", 3)
        assert self.describe(world, "t")["retention.ms"] == ("3600000", 3)
        self.alter(world, 4, "1", "min.insync.replicas", "3")
        assert replica.min_isr == 3
        assert self.describe(world, "t")["min.insync.replicas"] == ("3", 2)
        assert self.describe(world, "1", 4)["min.insync.replicas"] == ("3", 2)
        self.alter(world, 2, "t", "min.insync.replicas", "1")
        assert replica.min_isr == 1
        create_topic(world, "later", replication_factor=1)
        assert world.broker(1).replicas.by_name["later", 0].min_isr == 3

    def test_a_change_is_described_and_takes_hold(self, world):
        assert self.describe(world, "t")["retention.ms"] == (str(7 * 24 * 3600 * 1000), 5)
        self.alter(world, 2, "t", "max.message.bytes", "200")
        assert self.describe(world, "t")["max.message.bytes"] == ("200", 1)
        assert write(world, 1, "t", b"x" * 500).error_code == ErrorCode.MESSAGE_TOO_LARGE

    def test_an_unknown_topic_has_none(self, world):
        request = describe_configs.DescribeConfigsRequest(
            resources=(describe_configs.DescribeConfigsResource(resource_type=2, resource_name="missing"),)
        )
        assert world.call(1, request, 4).results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestOffsets:
    def list(self, world: World, timestamp: int) -> tuple[int, int]:
        partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = list_offsets.ListOffsetsRequest(
            topics=(list_offsets.ListOffsetsTopic(name="t", partitions=(partition,)),)
        )
        answer = world.call(1, request, 7).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        return answer.offset, answer.timestamp

    def test_earliest_latest_by_time_and_the_newest(self, world):
        for time in (100, 300, 200):
            write(world, 1, "t", b"x", timestamp=time)
        assert self.list(world, -2) == (0, -1)
        assert self.list(world, -1) == (3, -1)
        assert self.list(world, 150) == (1, 300)
        assert self.list(world, 301) == (-1, -1)
        assert self.list(world, -3) == (1, 300)

    @pytest.mark.parametrize(
        ("version", "error"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
    )
    def test_a_new_leader_does_not_guess_where_the_end_is(self, version, error):
        """KIP-207: before its followers have told it, its high watermark is older than what clients know."""
        world = World(3)
        create_topic(world, "t", assignment=(1, 2, 3))
        write(world, 1, "t", b"a", timestamp=100)
        world.run_until(lambda: world.broker(2).replicas.by_name["t", 0].high_watermark == 1)
        write(world, 1, "t", b"b", timestamp=200)
        world.isolate(2, 3)
        world.crash(1)
        world.run_until(lambda: world.broker(2).replicas.by_name["t", 0].leadership is not None)
        replica = world.broker(2).replicas.by_name["t", 0]
        replica.high_watermark = 1

        def ask(timestamp: int) -> tuple[int, int]:
            partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            request = list_offsets.ListOffsetsRequest(
                topics=(list_offsets.ListOffsetsTopic(name="t", partitions=(partition,)),)
            )
            answer = world.call(2, request, version).topics[0].partitions[0]
            return answer.error_code, answer.offset

        assert ask(-1) == ask(150) == (error, -1)
        assert ask(-2) == ask(50) == (ErrorCode.NONE, 0)
        world.heal()
        world.run_until(lambda: replica.high_watermark == 2)
        assert ask(-1) == (ErrorCode.NONE, 2)
        assert ask(150) == (ErrorCode.NONE, 1)

    def test_deleting_records_moves_the_start(self, world):
        for value in (b"a", b"b", b"c"):
            write(world, 1, "t", value)

        def delete(offset: int) -> tuple[int, int]:
            request = delete_records.DeleteRecordsRequest(
                topics=(
                    delete_records.DeleteRecordsTopic(
                        name="t", partitions=(delete_records.DeleteRecordsPartition(offset=offset),)
                    ),
                )
            )
            result = world.call(1, request, 2).topics[0].partitions[0]
            return result.error_code, result.low_watermark

        assert delete(2) == (ErrorCode.NONE, 2)
        assert self.list(world, -2) == (2, -1)
        assert delete(4)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
        assert delete(-1) == (ErrorCode.NONE, 3)
        assert latest(world, 1, "t") == 3

    @pytest.mark.parametrize(("epoch", "expected"), [(0, (0, 1)), (1, (-1, -1))])
    def test_where_a_leader_epoch_ended(self, world, epoch, expected):
        write(world, 1, "t", b"a")
        partition = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=(offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=(partition,)),)
        )
        answer = world.call(1, request, 4).topics[0].partitions[0]
        assert (answer.leader_epoch, answer.end_offset) == expected


def test_every_producer_gets_an_id_of_its_own(world):
    ids = [world.call(1, init_producer_id.InitProducerIdRequest(), 4).producer_id for _ in range(3)]
    assert len(set(ids)) == 3


def test_ids_are_not_given_twice_across_a_restart(world):
    before = world.call(1, init_producer_id.InitProducerIdRequest(), 4).producer_id
    world.stop(1)
    world.start_broker(1)
    world.run_until(lambda: world.all_unfenced([1]))
    assert world.call(1, init_producer_id.InitProducerIdRequest(), 4).producer_id != before


def test_transactions_are_refused_in_a_way_that_no_client_retries(world):
    answer = world.call(1, init_producer_id.InitProducerIdRequest(transactional_id="tx"), 4)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert not ErrorCode.of(answer.error_code).retriable


def test_the_first_question_for_a_coordinator_makes_the_offsets_topic(world):
    request = find_coordinator.FindCoordinatorRequest(key="g")
    assert world.call(1, request, 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.run_until(lambda: world.broker(1).image.topic("__consumer_offsets") is not None)
    answer = world.call(1, request, 2)
    assert (answer.error_code, answer.node_id, answer.port) == (ErrorCode.NONE, 1, 9001)


def test_the_cluster_is_described(world):
    answer = world.call(1, describe_cluster.DescribeClusterRequest(), 0)
    assert [(each.broker_id, each.port) for each in answer.brokers] == [(1, 9001)]
    assert answer.cluster_id == "test-cluster"

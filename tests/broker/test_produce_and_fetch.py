"""Produce and Fetch against one broker core: every acks, every refusal, long polls and limits."""

import pytest

from epoka.log.store import StorageError
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import fetch, produce
from tests.broker.client import create_topic, fetch_request, produced, producing, read, values, write
from tests.broker.world import HUNG_UP, World, batch


@pytest.fixture
def world() -> World:
    world = World(1)
    create_topic(world, "t", replication_factor=1)
    return world


def end_offset(world: World) -> int:
    return world.broker(1).replicas.by_name["t", 0].log.end_offset


class TestProduce:
    @pytest.mark.parametrize("acks", [1, -1])
    def test_is_answered_with_the_base_offset(self, world, acks):
        assert write(world, 1, "t", b"a", b"b", acks=acks).base_offset == 0
        assert write(world, 1, "t", b"c", acks=acks).base_offset == 2
        assert read(world, 1, "t") == [b"a", b"b", b"c"]

    def test_with_acks_0_nothing_is_said(self, world):
        answers = producing(world, 1, "t", b"a", acks=0)
        assert answers == [None]
        assert read(world, 1, "t") == [b"a"]

    def test_with_acks_0_a_refusal_closes_the_connection(self, world):
        assert producing(world, 1, "missing", b"a", acks=0) == [HUNG_UP]

    def test_with_other_acks_is_refused(self, world):
        assert write(world, 1, "t", b"a", acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
        assert end_offset(world) == 0

    def test_to_an_unknown_topic_or_partition(self, world):
        assert write(world, 1, "missing", b"a").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert write(world, 1, "t", b"a", index=7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_to_an_internal_topic_is_refused(self, world):
        assert write(world, 1, "__consumer_offsets", b"a").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def test_a_bad_crc_is_refused_and_nothing_is_written(self, world):
        spoilt = batch(b"abc")
        spoilt[-2] ^= 1
        request = produce.ProduceRequest(
            acks=-1,
            topic_data=(
                produce.TopicProduceData(
                    name="t", partition_data=(produce.PartitionProduceData(records=memoryview(spoilt)),)
                ),
            ),
        )
        assert produced([world.call(1, request, 9)]).error_code == ErrorCode.CORRUPT_MESSAGE
        assert end_offset(world) == 0

    def test_a_batch_over_the_topics_limit_is_refused(self, world):
        create_topic(world, "small", replication_factor=1, max_message_bytes="200")
        assert write(world, 1, "small", b"x" * 500).error_code == ErrorCode.MESSAGE_TOO_LARGE

    def test_a_repeated_idempotent_batch_gets_its_first_offsets(self, world):
        about = {"producer_id": 5, "producer_epoch": 0}
        assert write(world, 1, "t", b"a", base_sequence=0, **about).base_offset == 0
        assert write(world, 1, "t", b"b", base_sequence=1, **about).base_offset == 1
        assert write(world, 1, "t", b"a", base_sequence=0, **about).base_offset == 0
        assert end_offset(world) == 2

    @pytest.mark.parametrize(
        ("version", "error"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)]
    )
    def test_zstd_needs_a_client_that_can_know_it(self, world, version, error):
        records = memoryview(batch(b"x" * 500, codec="zstd"))
        partition = produce.PartitionProduceData(records=records)
        request = produce.ProduceRequest(
            acks=1, topic_data=(produce.TopicProduceData(name="t", partition_data=(partition,)),)
        )
        assert produced([world.call(1, request, version)]).error_code == error

    def test_a_gap_in_the_sequence_is_refused(self, world):
        about = {"producer_id": 5, "producer_epoch": 0}
        write(world, 1, "t", b"a", base_sequence=0, **about)
        error = write(world, 1, "t", b"c", base_sequence=2, **about).error_code
        assert error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_a_full_disk_refuses_the_append_and_keeps_what_was_there_readable(self, world):
        write(world, 1, "t", b"kept")
        world.stores[1].full = True
        assert write(world, 1, "t", b"no").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert read(world, 1, "t") == [b"kept"]
        assert any(event.kind == "storage-failed" for event in world.ledger)

    def test_one_bad_partition_does_not_spoil_the_others(self, world):
        request = produce.ProduceRequest(
            acks=-1,
            timeout_ms=1_000,
            topic_data=tuple(
                produce.TopicProduceData(
                    name=name, partition_data=(produce.PartitionProduceData(records=memoryview(batch(b"x"))),)
                )
                for name in ("missing", "t")
            ),
        )
        answer = world.call(1, request, 9)
        assert [topic.partition_responses[0].error_code for topic in answer.responses] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NONE,
        ]


class TestFetch:
    def test_waits_for_records_and_is_answered_when_they_come(self, world):
        answers = world.ask(1, fetch_request(world, "t", max_wait_ms=5_000), 13)
        world.run(100)
        assert not answers
        write(world, 1, "t", b"a")
        assert values(answers[0].responses[0].partitions[0]) == [b"a"]

    def test_is_answered_empty_when_its_time_is_up(self, world):
        answers = world.ask(1, fetch_request(world, "t", max_wait_ms=300), 13)
        world.run(299)
        assert not answers
        world.run(1)
        assert values(answers[0].responses[0].partitions[0]) == []

    def test_waits_for_min_bytes(self, world):
        answers = world.ask(1, fetch_request(world, "t", max_wait_ms=5_000, min_bytes=300), 13)
        write(world, 1, "t", b"x" * 100)
        assert not answers
        write(world, 1, "t", b"x" * 200)
        assert len(values(answers[0].responses[0].partitions[0])) == 2

    def test_an_answered_wait_leaves_nothing_behind(self, world):
        answers = world.ask(1, fetch_request(world, "t", max_wait_ms=300), 13)
        world.run_until(lambda: bool(answers))
        assert not world.broker(1).replicas.by_name["t", 0].waits.committed

    @pytest.mark.parametrize("offset", [-1, 2])
    def test_out_of_range(self, world, offset):
        write(world, 1, "t", b"a")
        answer = world.call(1, fetch_request(world, "t", offset), 13)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_the_end_is_in_range_and_empty(self, world):
        write(world, 1, "t", b"a")
        assert read(world, 1, "t", 1) == []

    def test_the_first_batch_comes_even_if_it_is_larger_than_the_limit(self, world):
        write(world, 1, "t", b"x" * 1_000)
        write(world, 1, "t", b"y" * 1_000)
        answer = world.call(1, fetch_request(world, "t", partition_max_bytes=10), 13)
        assert values(answer.responses[0].partitions[0]) == [b"x" * 1_000]

    @pytest.mark.parametrize(
        ("epoch", "error"),
        [(-1, ErrorCode.NONE), (0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
    )
    def test_the_leader_epoch_the_client_knows_is_checked(self, world, epoch, error):
        answer = world.call(1, fetch_request(world, "t", leader_epoch=epoch), 13)
        assert answer.responses[0].partitions[0].error_code == error

    def test_what_is_damaged_is_said_and_not_skipped(self, world, monkeypatch):
        write(world, 1, "t", b"a")

        def damaged(*args, **kwargs):
            raise StorageError("no batch where one should be")

        monkeypatch.setattr(type(world.broker(1).replicas.by_name["t", 0].log), "read", damaged)
        answer = world.call(1, fetch_request(world, "t"), 13)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR

    def test_an_unknown_topic_id(self, world):
        from uuid import UUID

        request = fetch.FetchRequest(
            topics=(fetch.FetchTopic(topic_id=UUID(int=999), partitions=(fetch.FetchPartition(),)),)
        )
        answer = world.call(1, request, 13)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_a_session_sends_only_what_is_new(self, world):
        first = world.call(1, fetch_request(world, "t", session_epoch=0), 13)
        assert first.session_id > 0
        quiet = world.call(1, fetch.FetchRequest(session_id=first.session_id, session_epoch=1), 13)
        assert quiet.responses == ()
        write(world, 1, "t", b"a")
        news = world.call(1, fetch.FetchRequest(session_id=first.session_id, session_epoch=2), 13)
        assert values(news.responses[0].partitions[0]) == [b"a"]

    def test_a_session_of_a_former_life_is_not_taken_for_one_of_this_life(self, world):
        write(world, 1, "t", b"a", b"b")
        before = world.call(1, fetch_request(world, "t", session_epoch=0), 13)
        world.stop(1)
        world.start_broker(1)
        world.run_until(lambda: world.all_unfenced([1]))
        somebody_else = world.call(1, fetch_request(world, "t", 1, session_epoch=0), 13)
        assert somebody_else.session_id > 0
        answer = world.call(1, fetch.FetchRequest(session_id=before.session_id, session_epoch=1), 13)
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_a_log_that_parted_ways_is_told_where(self, world):
        write(world, 1, "t", b"a")
        answer = world.call(1, fetch_request(world, "t", 1, last_fetched_epoch=0), 13)
        assert answer.responses[0].partitions[0].diverging_epoch.epoch == -1
        answer = world.call(1, fetch_request(world, "t", 9, last_fetched_epoch=0), 13)
        part = answer.responses[0].partitions[0]
        assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (0, 1)

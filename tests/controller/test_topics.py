"""CreateTopics, CreatePartitions, DeleteTopics, and where replicas are placed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from epoka.model.levels import FeatureLevel
from epoka.wire import codec
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
    CreatableTopicResult,
    CreateTopicsRequest,
)
from epoka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.controller.office import TIMEOUT_MS, Office, check_invariants


def create(office: Office, *topics: CreatableTopic, **fields: Any) -> list[CreatableTopicResult]:
    return list(office.ask(CreateTopicsRequest(topics=topics, **fields), 7).topics)


def three() -> Office:
    office = Office(default_replication_factor=3)
    office.join(1, 2, 3)
    return office


def by_hand(name: str, *assignments: tuple[int, ...]) -> CreatableTopic:
    return CreatableTopic(
        name, -1, -1, tuple(CreatableReplicaAssignment(i, each) for i, each in enumerate(assignments))
    )


def test_a_topic_gets_an_id_partitions_and_settings() -> None:
    office = three()
    (result,) = create(
        office, CreatableTopic("t", 4, 2, configs=(CreatableTopicConfig("retention.ms", "1000"),))
    )
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 4, 2)
    topic = office.image.topic("t")
    assert topic is not None and topic.id == result.topic_id
    assert office.image.partition_count_of("t") == 4
    assert office.image.topic_config("t") == {"retention.ms": "1000"}
    described = {each.name: (each.value, each.config_source) for each in result.configs or ()}
    assert described["retention.ms"] == ("1000", 1) and described["min.insync.replicas"] == ("1", 5)


def test_minus_one_means_the_defaults() -> None:
    office = Office(default_replication_factor=2, num_partitions=5)
    office.join(1, 2, 3)
    (result,) = create(office, CreatableTopic("t", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (5, 2)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (CreatableTopic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic(".", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("x" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("ta.ken", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (CreatableTopic("ta_ken", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic("t", 2**31 - 1, 1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (CreatableTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (CreatableTopic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (CreatableTopic("t", 1, 1, configs=(CreatableTopicConfig("nope", "1"),)), ErrorCode.INVALID_CONFIG),
        (
            CreatableTopic("t", 1, 1, configs=(CreatableTopicConfig("retention.ms", "soon"),)),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            CreatableTopic("t", 1, 1, configs=(CreatableTopicConfig("retention.ms", None),)),
            ErrorCode.INVALID_CONFIG,
        ),
        (by_hand("t", (1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand("t", ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand("t", (1, 9)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand("t", (1, 2), (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            CreatableTopic("t", -1, -1, (CreatableReplicaAssignment(1, (1,)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (CreatableTopic("t", 2, -1, (CreatableReplicaAssignment(0, (1,)),)), ErrorCode.INVALID_REQUEST),
        (CreatableTopic("t", -1, 1, (CreatableReplicaAssignment(0, (1,)),)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_can_not_be_created(topic: CreatableTopic, error: ErrorCode) -> None:
    office = three()
    create(office, CreatableTopic("ta.ken", 1, 1))
    before = office.image.offset
    (result,) = create(office, topic)
    assert result.error_code == error and result.error_message
    assert office.image.offset == before


def test_one_bad_topic_does_not_touch_its_siblings() -> None:
    office = three()
    results = create(office, CreatableTopic("good", 1, 1), CreatableTopic("bad", 0, 1))
    assert [each.error_code for each in results] == [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS]
    assert office.image.topic("good") and not office.image.topic("bad")


def test_names_that_collide_within_one_request_are_noticed() -> None:
    office = three()
    results = create(office, CreatableTopic("a.b", 1, 1), CreatableTopic("a_b", 1, 1))
    assert [each.error_code for each in results] == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_topic_named_twice_is_not_created() -> None:
    office = three()
    (result,) = create(office, CreatableTopic("t", 1, 1), CreatableTopic("t", 2, 1))
    assert result.error_code == ErrorCode.INVALID_REQUEST and office.image.topic("t") is None


def test_validate_only_answers_and_writes_nothing() -> None:
    office = three()
    before = office.image.offset
    (result,) = create(office, CreatableTopic("t", 3, 2), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert office.image.offset == before


def test_a_request_is_bounded_as_a_whole() -> None:
    office = Office(max_partitions_per_request=10)
    office.join(1)
    results = create(office, CreatableTopic("a", 6, 1), CreatableTopic("b", 6, 1), CreatableTopic("c", 4, 1))
    assert [each.error_code for each in results] == [0, ErrorCode.INVALID_PARTITIONS, 0]


def test_the_first_isr_holds_only_active_brokers() -> None:
    office = three()
    office.create("led-by-2", [2, 3])
    office.fence(1)
    office.stop(2)
    office.create("t", [1, 2, 3])
    state = office.partition("t")
    assert (state.replicas, state.isr, state.leader) == ((1, 2, 3), (3,), 3)
    check_invariants(office.image)


def test_below_eligible_isr_a_stopping_broker_may_be_in_the_first_isr() -> None:
    office = Office(FeatureLevel.SHARED_UPDATES)
    office.join(1, 2, 3)
    office.create("led-by-2", [2, 3])
    office.stop(2)
    office.create("t", [2, 3])
    assert office.partition("t").isr == (2, 3)


def test_an_assignment_without_an_active_broker_is_refused() -> None:
    office = three()
    office.fence(1)
    (result,) = create(office, by_hand("t", (1,)))
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_automatic_placement_without_an_active_broker_is_refused() -> None:
    office = Office()
    office.register(1)
    (result,) = create(office, CreatableTopic("t", 1, 1))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_stopping_brokers_get_nothing_and_fenced_ones_the_rest() -> None:
    office = Office()
    office.join(1, 2, 3, 4)
    office.create("led-by-4", [4, 1])
    office.stop(4)
    office.fence(3)
    (result,) = create(office, CreatableTopic("t", 6, 3))
    assert result.error_code == 0
    for _, state in office.image.partitions_of("t"):
        assert set(state.replicas) == {1, 2, 3} and set(state.isr) == {1, 2}
        assert state.replicas[2] == 3
    (refused,) = create(office, CreatableTopic("u", 1, 4))
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_leaders_and_replicas_spread_evenly() -> None:
    office = Office()
    office.join(1, 2, 3, 4, 5)
    create(office, CreatableTopic("t", 20, 3))
    states = [state for _, state in office.image.partitions_of("t")]
    assert set(Counter(state.leader for state in states).values()) == {4}
    assert set(Counter(broker for state in states for broker in state.replicas).values()) == {12}
    seconds = {state.replicas[1] for state in states if state.leader == 1}
    assert len(seconds) > 1, "what a dead leader leaves must not all go to one broker"


def test_small_topics_do_not_all_begin_at_the_same_broker() -> None:
    office = three()
    for number in range(6):
        create(office, CreatableTopic(f"t{number}", 1, 1))
    leaders = Counter(office.partition(f"t{number}").leader for number in range(6))
    assert leaders == {1: 2, 2: 2, 3: 2}


def test_replicas_of_a_partition_are_in_different_racks() -> None:
    office = Office()
    for broker_id, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c"), (6, "c")):
        office.join(broker_id, rack=rack)
    create(office, CreatableTopic("t", 30, 3))
    racks = {broker.id: broker.rack for broker in office.image.brokers.values()}
    states = [state for _, state in office.image.partitions_of("t")]
    assert all({racks[broker] for broker in state.replicas} == {"a", "b", "c"} for state in states)
    assert set(Counter(state.leader for state in states).values()) == {5}


def test_more_replicas_than_racks_fill_up() -> None:
    office = Office()
    for broker_id, rack in ((1, "a"), (2, "a"), (3, "b")):
        office.join(broker_id, rack=rack)
    create(office, CreatableTopic("t", 6, 3))
    for _, state in office.image.partitions_of("t"):
        assert sorted(state.replicas) == [1, 2, 3]


def grow(office: Office, topic: CreatePartitionsTopic, **fields: Any) -> int:
    (result,) = office.ask(CreatePartitionsRequest(topics=(topic,), **fields), 3).results
    return int(result.error_code)


def test_partitions_are_added_behind_the_present_ones() -> None:
    office = three()
    office.create("t", [1, 2])
    assert grow(office, CreatePartitionsTopic("t", 3)) == 0
    assert office.image.partition_count_of("t") == 3
    assert all(len(state.replicas) == 2 for _, state in office.image.partitions_of("t"))
    assert grow(office, CreatePartitionsTopic("t", 4, (CreatePartitionsAssignment((3, 1)),))) == 0
    assert office.partition("t", 3).replicas == (3, 1)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (CreatePartitionsTopic("nobody", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (CreatePartitionsTopic("t", 1), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitionsTopic("t", 0), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitionsTopic("t", 2**31 - 1), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitionsTopic("t", 2, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            CreatePartitionsTopic("t", 2, (CreatePartitionsAssignment((1,)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            CreatePartitionsTopic("t", 2, (CreatePartitionsAssignment((1, 9)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_partitions_that_can_not_be_added(topic: CreatePartitionsTopic, error: ErrorCode) -> None:
    office = three()
    office.create("t", [1, 2])
    assert grow(office, topic) == error
    assert office.image.partition_count_of("t") == 1


def test_partitions_are_not_added_when_only_asked_about() -> None:
    office = three()
    office.create("t", [1, 2])
    assert grow(office, CreatePartitionsTopic("t", 3), validate_only=True) == 0
    assert office.image.partition_count_of("t") == 1


def test_topics_are_deleted_by_name_and_by_id() -> None:
    office = three()
    office.create("a", [1])
    topic_id = office.create("b", [1])
    (result,) = office.ask(DeleteTopicsRequest(topic_names=("a",)), 5).responses
    assert (result.error_code, result.name) == (0, "a")
    (result,) = office.ask(DeleteTopicsRequest(topics=(DeleteTopicState(None, topic_id),)), 6).responses
    assert (result.error_code, result.name, result.topic_id) == (0, "b", topic_id)
    assert office.image.topics() == []
    assert [event.topic for event in office.events("topic-deleted")] == ["a", "b"]


def test_topics_that_can_not_be_deleted() -> None:
    office = three()
    topic_id = office.create("a", [1])
    request = DeleteTopicsRequest(
        topics=(
            DeleteTopicState("nobody"),
            DeleteTopicState(None, office.new_id()),
            DeleteTopicState("a", topic_id),
        )
    )
    errors = [each.error_code for each in office.ask(request, 6).responses]
    assert errors == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
    ]
    twice = [each.error_code for each in office.ask(DeleteTopicsRequest(topic_names=("a", "a")), 5).responses]
    assert twice == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


def test_a_refusal_fits_into_its_answer_however_long_the_name_was() -> None:
    office, longest = three(), "x" * 32_767
    answer = office.ask(DeleteTopicsRequest(topic_names=(longest,)), 5)
    assert answer.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codec.encode(answer, 5)
    answer = office.ask(CreatePartitionsRequest(topics=(CreatePartitionsTopic(longest, 3),)), 1)
    assert answer.results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codec.encode(answer, 1)


def test_a_deleted_topic_holds_up_nothing() -> None:
    office = three()
    office.create("t", [1, 2])
    office.ask(DeleteTopicsRequest(topic_names=("t",)), 5)
    office.pass_time(TIMEOUT_MS + 1)
    assert office.image.partition_count == 0

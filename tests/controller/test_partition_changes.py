"""Elections on request, reassignments, imbalance, and what a change of one partition may be."""

from __future__ import annotations

import pytest

from epoka.controller.partition_change import change
from epoka.fencing import Rules
from epoka.model.image import LEADER_UNCHANGED
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from epoka.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from epoka.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from epoka.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.controller.office import Office, check_invariants


def four() -> Office:
    office = Office()
    office.join(1, 2, 3, 4)
    return office


def elect(office: Office, kind: int = 0, index: int = 0, name: str = "t") -> ErrorCode:
    request = ElectLeadersRequest(kind, (ElectLeadersTopicPartitions(name, (index,)),))
    (topic,) = office.ask(request, 2).replica_election_results
    return ErrorCode(topic.partition_result[0].error_code)


def move(office: Office, replicas: tuple[int, ...] | None, index: int = 0, name: str = "t") -> ErrorCode:
    topic = ReassignableTopic(name, (ReassignablePartition(index, replicas),))
    (answer,) = office.ask(AlterPartitionReassignmentsRequest(topics=(topic,))).responses
    return ErrorCode(answer.partitions[0].error_code)


# Elections.


def led_by_second() -> Office:
    """ "t" on 1, 2, led by 2, both in sync."""
    office = four()
    office.create("t", [1, 2])
    office.fence(1)
    office.heartbeat(1)
    assert office.propose("t", [2, 1]).error_code == 0
    return office


def test_the_preferred_replica_is_elected() -> None:
    office = led_by_second()
    before = office.partition("t")
    assert elect(office) == ErrorCode.NONE
    state = office.partition("t")
    assert (state.leader, state.leader_epoch) == (1, before.leader_epoch + 1)
    assert elect(office) == ErrorCode.ELECTION_NOT_NEEDED


@pytest.mark.parametrize("obstacle", ["fenced", "stopping", "out of sync"])
def test_a_preferred_replica_that_may_not_lead_is_not_elected(obstacle: str) -> None:
    office = led_by_second()
    if obstacle == "fenced":
        office.fence(1)
    elif obstacle == "stopping":
        office.create("u", [1, 2])
        office.stop(1)
    else:
        office.propose("t", [2])
    assert elect(office) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert office.partition("t").leader == 2


def test_an_unclean_election_takes_any_active_replica_and_says_recovering() -> None:
    office = four()
    office.create("t", [1, 2])
    office.propose("t", [1])
    office.fence(1)
    assert office.partition("t").leader == -1
    assert elect(office, 1) == ErrorCode.NONE
    state = office.partition("t")
    assert (state.leader, state.isr, state.recovery) == (2, (2,), 1)
    assert elect(office, 1) == ErrorCode.ELECTION_NOT_NEEDED


def test_an_unclean_election_without_an_active_replica_fails() -> None:
    office = four()
    office.create("t", [1])
    office.fence(1)
    assert elect(office, 1) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_unknown_partitions_and_kinds() -> None:
    office = four()
    office.create("t", [1])
    assert elect(office, index=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(office, name="nobody") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert office.ask(ElectLeadersRequest(7), 2).error_code == ErrorCode.INVALID_REQUEST


def test_an_election_of_everything_tells_only_what_was_done() -> None:
    office = led_by_second()
    office.create("content", [3])
    (topic,) = office.ask(ElectLeadersRequest(0, None), 2).replica_election_results
    assert topic.topic == "t" and office.partition("t").leader == 1


def test_where_it_is_configured_an_unclean_election_happens_by_itself() -> None:
    office = four()
    office.create("t", [1, 2, 3], unclean_leader_election_enable="true")
    office.propose("t", [1])
    office.fence(1)
    state = office.partition("t")
    assert (state.leader, state.isr, state.recovery) == (2, (2,), 1)


def test_without_the_leader_rule_a_stopping_broker_is_elected() -> None:
    office = Office(rules=Rules.without("leader.eligible", "isr.eligible", "isr.generation"))
    office.join(1, 2, 3)
    office.create("u", [1, 3])
    office.create("t", [2, 1])
    office.stop(1)
    assert office.propose("t", [2, 1]).error_code == ErrorCode.NONE
    office.fence(2)
    assert office.partition("t").leader == 1


# Imbalance.


def test_leaderships_go_back_to_the_preferred_replicas_a_few_at_a_time() -> None:
    office = Office(
        auto_leader_rebalance=True, leader_imbalance_check_interval_ms=60_000, leader_imbalance_max_moves=2
    )
    office.join(1, 2)
    for number in range(5):
        office.create(f"t{number}", [1, 2])
    office.fence(1)
    office.heartbeat(1)
    for number in range(5):
        office.propose(f"t{number}", [2, 1])
    office.now += 60_000
    moved = []
    for _ in range(3):
        for broker_id in (1, 2):
            office.heartbeat(broker_id)
        assert office.core.deadline is not None and office.core.deadline <= office.now
        office.wake()
        moved.append(len(office.image.led_by(1)))
    assert moved == [2, 4, 5]
    assert office.core.deadline is not None and office.core.deadline > office.now


def test_a_preferred_replica_out_of_sync_is_left_in_peace() -> None:
    office = Office(auto_leader_rebalance=True, leader_imbalance_check_interval_ms=1_000)
    office.join(1, 2)
    office.create("t", [1, 2])
    office.fence(1)
    office.heartbeat(1)
    offset = office.image.offset
    office.pass_time(5_000)
    assert office.image.offset == offset and office.partition("t").leader == 2


# Reassignments.


def test_a_move_adds_first_and_removes_when_the_new_ones_are_in_sync() -> None:
    office = four()
    office.create("t", [1, 2])
    assert move(office, (3, 4)) == ErrorCode.NONE
    state = office.partition("t")
    assert (state.replicas, state.adding, state.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (state.leader, state.isr) == (1, (1, 2))
    assert office.propose("t", [1, 2, 3]).error_code == ErrorCode.NONE
    assert office.partition("t").reassigning
    assert office.propose("t", [1, 2, 3, 4]).error_code == ErrorCode.NEW_LEADER_ELECTED
    state = office.partition("t")
    assert (state.replicas, state.isr, state.leader, state.reassigning) == ((3, 4), (3, 4), 3, False)


def test_a_replica_that_leaves_raises_the_leader_epoch_of_a_leader_that_stays() -> None:
    office = four()
    office.create("t", [1, 2])
    before = office.partition("t")
    assert move(office, (1,)) == ErrorCode.NONE
    state = office.partition("t")
    assert (state.replicas, state.isr, state.leader) == ((1,), (1,), 1)
    assert state.leader_epoch == before.leader_epoch + 1


def test_another_order_alone_moves_nothing() -> None:
    office = four()
    office.create("t", [1, 2])
    before = office.partition("t")
    assert move(office, (2, 1)) == ErrorCode.NONE
    state = office.partition("t")
    assert (state.replicas, state.leader, state.leader_epoch) == ((2, 1), 1, before.leader_epoch)


def test_a_move_to_where_it_is_changes_nothing() -> None:
    office = four()
    office.create("t", [1, 2])
    offset = office.image.offset
    assert move(office, (1, 2)) == ErrorCode.NONE and office.image.offset == offset


def test_a_cancelled_move_goes_back() -> None:
    office = four()
    office.create("t", [1, 2])
    move(office, (3, 4))
    office.propose("t", [1, 2, 3])
    assert move(office, None) == ErrorCode.NONE
    state = office.partition("t")
    assert (sorted(state.replicas), state.isr, state.leader, state.reassigning) == ([1, 2], (1, 2), 1, False)
    assert move(office, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_new_move_replaces_the_one_under_way() -> None:
    office = four()
    office.create("t", [1, 2])
    move(office, (1, 3))
    assert move(office, (1, 4)) == ErrorCode.NONE
    state = office.partition("t")
    assert (state.replicas, state.adding, state.removing) == ((1, 4, 2), (4,), (2,))


def test_a_cancellation_that_would_leave_no_in_sync_replica_is_refused() -> None:
    office = four()
    office.create("t", [1])
    move(office, (2, 3))
    office.propose("t", [1, 2])
    office.fence(1)
    assert office.partition("t").isr == (2,)
    assert move(office, None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert office.partition("t").isr == (2,)


@pytest.mark.parametrize("replicas", [(), (1, 1), (9,)], ids=["none", "twice", "unregistered"])
def test_a_move_to_what_is_no_assignment(replicas: tuple[int, ...]) -> None:
    office = four()
    office.create("t", [1])
    assert move(office, replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_move_of_what_does_not_exist() -> None:
    assert move(four(), (1,)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_new_replica_that_is_fenced_does_not_complete_the_move() -> None:
    office = four()
    office.create("t", [1])
    move(office, (2,))
    office.fence(2)
    assert office.propose("t", [1, 2]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert office.partition("t").reassigning
    check_invariants(office.image)


def test_partitions_that_are_added_during_a_move_have_as_many_replicas_as_it_ends_with() -> None:
    office = four()
    office.create("t", [1, 2])
    assert move(office, (3, 4)) == ErrorCode.NONE
    wanted = CreatePartitionsTopic("t", 2)
    (result,) = office.ask(CreatePartitionsRequest(topics=(wanted,)), 3).results
    assert result.error_code == ErrorCode.NONE
    assert len(office.partition("t", 1).replicas) == 2


def test_moves_under_way_are_listed() -> None:
    office = four()
    office.create("t", [1, 2], [1, 2])
    office.create("u", [1])
    move(office, (3, 2), index=1)
    move(office, (2,), name="u")
    everything = office.ask(ListPartitionReassignmentsRequest(topics=None)).topics
    assert [(topic.name, topic.partitions[0].partition_index) for topic in everything] == [("t", 1), ("u", 0)]
    (partition,) = everything[0].partitions
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
        (3, 2, 1),
        (3,),
        (1,),
    )
    asked = (ListPartitionReassignmentsTopics("t", (0, 1)),)
    some = office.ask(ListPartitionReassignmentsRequest(topics=asked)).topics
    assert [(topic.name, len(topic.partitions)) for topic in some] == [("t", 1)]


def test_below_eligible_isr_a_stopping_broker_can_still_be_elected() -> None:
    office = Office(FeatureLevel.SHARED_UPDATES)
    office.join(1, 2, 3)
    office.create("u", [1, 3])
    office.create("t", [2, 1])
    office.stop(1)
    assert office.propose("t", [2, 1], version=1).error_code == ErrorCode.NONE
    office.fence(2)
    assert office.partition("t").leader == 1


@pytest.mark.parametrize(
    "wanted",
    [
        {"replicas": (2, 1, 3)},
        {"replicas": (1, 2, 3, 4), "adding": (4,)},
        {"removing": (3,)},
        {"isr": (1, 2)},
    ],
    ids=["another order", "one comes", "one is to go", "another ISR"],
)
def test_where_proposals_name_no_partition_epoch_whatever_changes_raises_the_leader_epoch(
    wanted: dict[str, tuple[int, ...]],
) -> None:
    office = four()
    office.create("t", [1, 2, 3])
    before = office.partition("t")
    topic_id = office.core.image.topic("t").id
    kept = change(topic_id, 0, before, lambda broker: True, **wanted)
    renewed = change(topic_id, 0, before, lambda broker: True, renews=True, **wanted)
    assert kept is not None and renewed is not None
    if "removing" not in wanted:
        assert kept.leader == LEADER_UNCHANGED
    assert renewed.leader == before.leader


def test_what_changes_nothing_raises_nothing() -> None:
    office = four()
    office.create("t", [1, 2, 3])
    before = office.partition("t")
    assert change(office.core.image.topic("t").id, 0, before, lambda broker: True, renews=True) is None

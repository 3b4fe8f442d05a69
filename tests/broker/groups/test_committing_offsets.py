from __future__ import annotations

from typing import Any

import pytest

from epoka.broker.groups.group import GroupState
from epoka.wire.error_codes import ErrorCode

T0 = ("t", 0)
T1 = ("t", 1)
U0 = ("u", 0)


@pytest.mark.parametrize("version", range(2, 10))
def test_a_member_commits_and_the_group_remembers(desk: Any, version: int) -> None:
    (member,) = desk.stable()
    token = desk.commit({T0: 5, U0: 7}, member, 1, version=version)
    assert desk.committed(token) == {T0: ErrorCode.NONE, U0: ErrorCode.NONE}
    assert desk.offsets() == {T0: 5, U0: 7}


def test_a_commit_is_neither_answered_nor_visible_before_it_is_stored(desk: Any) -> None:
    (member,) = desk.stable()
    desk.holds_stores = True
    token = desk.commit({T0: 5}, member, 1)
    assert desk.is_waiting(token)
    assert desk.offsets() == {}

    desk.finish_store()

    assert desk.committed(token) == {T0: ErrorCode.NONE}
    assert desk.offsets() == {T0: 5}


def test_a_consumer_without_a_group_protocol_commits_into_a_group_of_its_own(desk: Any) -> None:
    token = desk.commit({T0: 5})
    assert desk.committed(token) == {T0: ErrorCode.NONE}
    assert desk.state() is GroupState.EMPTY
    assert desk.describe().protocol_type == ""


def test_anyone_may_commit_into_a_group_everyone_left(desk: Any) -> None:
    desk.leave(*desk.stable())
    assert desk.committed(desk.commit({T0: 5}, "whoever")) == {T0: ErrorCode.NONE}


def test_only_members_may_commit_into_a_group_with_members(desk: Any) -> None:
    desk.stable()
    assert desk.committed(desk.commit({T0: 5})) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert desk.committed(desk.commit({T0: 5}, "stranger", 1)) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert desk.committed(desk.commit({T0: 5}, instance_id="i")) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert desk.offsets() == {}


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_a_member_may_only_commit_in_its_generation(desk: Any, generation: int) -> None:
    (member,) = desk.stable()
    token = desk.commit({T0: 5}, member, generation)
    assert desk.committed(token) == {T0: ErrorCode.ILLEGAL_GENERATION}


def test_a_generation_of_an_empty_group_is_nobodys(desk: Any) -> None:
    members = desk.stable()
    desk.leave(*members)
    token = desk.commit({T0: 5}, members[0], 2)
    assert desk.committed(token) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_a_group_that_is_gone_cannot_commit(desk: Any, version: int, error: ErrorCode) -> None:
    assert desk.committed(desk.commit({T0: 5}, "m", 3, version=version)) == {T0: error}
    assert desk.state() is GroupState.DEAD


def test_a_member_may_commit_what_it_read_before_it_rejoins(desk: Any) -> None:
    leader, follower = desk.stable(2)
    desk.join(leader)
    assert desk.state() is GroupState.PREPARING_REBALANCE
    assert desk.committed(desk.commit({T0: 5}, follower, 1)) == {T0: ErrorCode.NONE}


def test_a_member_that_does_not_know_its_assignment_cannot_commit(desk: Any) -> None:
    member = desk.new_id()
    desk.join(member)
    desk.advance(3_000)
    token = desk.commit({T0: 5}, member, 1)
    assert desk.committed(token) == {T0: ErrorCode.REBALANCE_IN_PROGRESS}


def test_too_much_metadata_is_refused_for_its_partition_alone(make_desk: Any) -> None:
    desk = make_desk(offset_metadata_max_bytes=3)
    token = desk.commit({T0: 5}, metadata="abcd")
    assert desk.committed(token) == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert desk.state() is GroupState.DEAD
    assert desk.committed(desk.commit({T0: 5}, metadata="abc")) == {T0: ErrorCode.NONE}


def test_what_was_committed_comes_back_with_its_metadata_and_leader_epoch(desk: Any) -> None:
    desk.commit({T0: 5}, metadata="note", leader_epoch=4)
    (group,) = desk.fetch({"t": [0]}).groups
    ((partition,),) = [topic.partitions for topic in group.topics]
    assert (partition.committed_offset, partition.committed_leader_epoch, partition.metadata) == (
        5,
        4,
        "note",
    )


def test_the_empty_group_id_may_keep_offsets(desk: Any) -> None:
    assert desk.committed(desk.commit({T0: 5}, group_id="")) == {T0: ErrorCode.NONE}
    assert desk.offsets("") == {T0: 5}


def test_a_commit_of_nothing_is_answered(desk: Any) -> None:
    assert desk.committed(desk.commit({})) == {}


def test_the_later_of_two_commits_wins_in_whatever_order_they_are_heard_of(desk: Any) -> None:
    desk.holds_stores = True
    desk.commit({T0: 5}), desk.commit({T0: 6})
    first, second = desk.stores
    for store in (second, first):
        desk.apply(desk.coordinator.stored(store.ticket, ErrorCode.NONE, desk.now))
    assert desk.offsets() == {T0: 6}


def test_a_commit_that_failed_leaves_the_offset_before_it(desk: Any) -> None:
    desk.commit({T0: 5})
    desk.holds_stores = True
    token = desk.commit({T0: 6, T1: 1})
    desk.finish_store(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert set(desk.committed(token).values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert desk.offsets() == {T0: 5}


@pytest.mark.parametrize(
    ("stored", "answered"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_errors_of_the_log_are_told_in_the_words_of_a_coordinator(
    desk: Any, stored: ErrorCode, answered: ErrorCode
) -> None:
    desk.holds_stores = True
    token = desk.commit({T0: 5})
    desk.finish_store(stored)
    assert desk.committed(token) == {T0: answered}


@pytest.mark.parametrize(
    ("stored", "answered"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_stored_is_told_to_all_and_they_start_over(
    desk: Any, stored: ErrorCode, answered: ErrorCode
) -> None:
    members = [desk.new_id(), desk.new_id()]
    for member in members:
        desk.join(member)
    desk.advance(6_000)
    desk.holds_stores = True
    tokens = [desk.sync(members[1]), desk.sync(members[0])]

    desk.finish_store(stored)

    assert [desk.error(token) for token in tokens] == [answered, answered]
    assert desk.state() is GroupState.PREPARING_REBALANCE

from __future__ import annotations

from typing import Any

import pytest

from epoka.broker.groups.group import GroupState
from epoka.wire.error_codes import ErrorCode

T0 = ("t", 0)
T1 = ("t", 1)
U0 = ("u", 0)
DAY_MS = 24 * 60 * 60 * 1000


def test_an_empty_group_is_deleted_with_its_offsets_for_good(desk: Any) -> None:
    desk.commit({T0: 5}, *desk.stable(), 1)
    desk.leave(*desk.group().members)

    assert desk.deleted(desk.delete_groups("g")) == {"g": ErrorCode.NONE}

    for _ in range(2):
        assert desk.state() is GroupState.DEAD
        assert desk.offsets() == {}
        desk.crash()


def test_a_group_with_members_is_not_deleted(desk: Any) -> None:
    desk.stable()
    assert desk.deleted(desk.delete_groups("g")) == {"g": ErrorCode.NON_EMPTY_GROUP}
    assert desk.state() is GroupState.STABLE


def test_a_group_that_does_not_exist_is_not_deleted(desk: Any) -> None:
    assert desk.deleted(desk.delete_groups("g")) == {"g": ErrorCode.GROUP_ID_NOT_FOUND}


def test_many_groups_are_deleted_in_one_answer(desk: Any) -> None:
    desk.stable(group_id="busy")
    for number in range(6):
        desk.commit({T0: 1}, group_id=f"g{number}")
    names = [f"g{number}" for number in range(6)]
    desk.holds_stores = True

    token = desk.delete_groups("busy", *names, "unknown", "g0")

    for _ in names:
        assert desk.is_waiting(token)
        desk.finish_store()
    assert desk.deleted(token) == {
        "busy": ErrorCode.NON_EMPTY_GROUP,
        **dict.fromkeys(names, ErrorCode.NONE),
        "unknown": ErrorCode.GROUP_ID_NOT_FOUND,
    }


def test_a_group_nothing_was_stored_of_is_deleted_at_once(desk: Any) -> None:
    pending = desk.new_id()
    desk.holds_stores = True
    assert desk.deleted(desk.delete_groups("g")) == {"g": ErrorCode.NONE}
    assert desk.error(desk.join(pending)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_deletion_that_cannot_be_stored_deletes_nothing(desk: Any) -> None:
    desk.leave(*desk.stable())
    desk.commit({T0: 5})
    desk.holds_stores = True
    token = desk.delete_groups("g")

    desk.finish_store(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert desk.deleted(token) == {"g": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert desk.offsets() == {T0: 5}
    assert desk.generation() == 2


def test_a_commit_behind_a_deletion_that_failed_counts(desk: Any) -> None:
    desk.commit({T0: 5, T1: 6})
    desk.holds_stores = True
    desk.delete_groups("g")
    desk.commit({T0: 9})
    desk.finish_store(ErrorCode.NOT_ENOUGH_REPLICAS)
    desk.finish_store()
    assert desk.offsets() == {T0: 9, T1: 6}


def test_a_commit_behind_a_deletion_that_succeeded_counts_alone(desk: Any) -> None:
    desk.commit({T0: 5, T1: 6})
    desk.holds_stores = True
    deleting = desk.delete_groups("g")
    desk.commit({T0: 9})
    desk.finish_store()
    assert desk.deleted(deleting) == {"g": ErrorCode.NONE}
    assert desk.offsets() == {}
    desk.finish_store()
    for _ in range(2):
        assert desk.offsets() == {T0: 9}
        desk.crash()


def test_two_removals_that_both_fail_remove_nothing(desk: Any) -> None:
    desk.commit({T0: 5, T1: 6})
    desk.holds_stores = True
    desk.delete_offsets([T0])
    desk.delete_groups("g")
    desk.finish_store(ErrorCode.NOT_ENOUGH_REPLICAS)
    desk.finish_store(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert desk.offsets() == {T0: 5, T1: 6}


def test_a_tombstone_that_failed_does_not_take_the_commit_before_it(desk: Any) -> None:
    desk.holds_stores = True
    desk.commit({T0: 5})
    desk.apply(desk.coordinator.topics_deleted(["t"], desk.now))
    desk.finish_store()
    desk.finish_store(ErrorCode.NOT_ENOUGH_REPLICAS)
    for _ in range(2):
        assert desk.offsets() == {T0: 5}
        desk.crash()


def test_of_a_commit_and_the_tombstone_behind_it_the_tombstone_wins_in_whatever_order(desk: Any) -> None:
    desk.commit({T1: 1})
    desk.holds_stores = True
    desk.commit({T0: 5})
    desk.delete_offsets([T0])
    first, second = desk.stores
    for store in (second, first):
        desk.apply(desk.coordinator.stored(store.ticket, ErrorCode.NONE, desk.now))
    assert desk.offsets() == {T1: 1}


def test_a_group_that_someone_joins_while_its_deletion_is_on_its_way_goes_on(desk: Any) -> None:
    desk.leave(*desk.stable())
    desk.commit({T0: 5})
    desk.holds_stores = True
    deleting = desk.delete_groups("g")
    joining = desk.join(desk.new_id())
    desk.advance(3_000)

    desk.commit_stores()

    assert desk.deleted(deleting) == {"g": ErrorCode.NONE}
    assert desk.answers[joining].generation_id == 3
    assert desk.offsets() == {}


def test_a_group_that_was_used_and_left_while_its_deletion_is_on_its_way_keeps_its_generation(
    desk: Any,
) -> None:
    desk.leave(*desk.stable())
    desk.holds_stores = True
    desk.delete_groups("g")
    member = desk.new_id()
    desk.join(member)
    desk.advance(3_000)
    desk.leave(member)
    desk.commit_stores()
    for _ in range(2):
        assert (desk.state(), desk.generation()) == (GroupState.EMPTY, 4)
        desk.crash()


def test_a_commit_on_its_way_does_not_outlive_the_deletion_behind_it(desk: Any) -> None:
    desk.commit({T0: 5})
    desk.holds_stores = True
    committing = desk.commit({T1: 6})
    deleting = desk.delete_groups("g")
    desk.commit_stores()
    assert desk.committed(committing) == {T1: ErrorCode.NONE}
    assert desk.deleted(deleting) == {"g": ErrorCode.NONE}
    for _ in range(2):
        assert desk.offsets() == {}
        desk.crash()


def test_offsets_of_an_empty_group_are_deleted_one_by_one(desk: Any) -> None:
    desk.commit({T0: 5, T1: 6, U0: 7})
    answer = desk.answers[desk.delete_offsets([T0, ("v", 3)])]
    assert answer.error_code == ErrorCode.NONE
    assert {(t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions} == {
        ("t", 0, 0),
        ("v", 3, 0),
    }
    for _ in range(2):
        assert desk.offsets() == {T1: 6, U0: 7}
        desk.crash()


def test_offsets_a_group_is_reading_are_not_deleted(desk: Any) -> None:
    (member,) = desk.stable()
    desk.commit({T0: 5, U0: 7}, member, 1)
    answer = desk.answers[desk.delete_offsets([T0, U0])]
    errors = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert errors == {"t": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "u": ErrorCode.NONE}
    assert desk.offsets() == {T0: 5}


def test_a_group_whose_subscription_cannot_be_read_keeps_all_its_offsets(desk: Any) -> None:
    (member,) = desk.stable(protocols={"range": b"\x00\x00\x00\x00\x00\x09nonsense"})
    desk.commit({U0: 7}, member, 1)
    answer = desk.answers[desk.delete_offsets([U0])]
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_offsets_of_a_group_that_is_not_of_consumers_are_not_deleted_while_it_has_members(desk: Any) -> None:
    desk.stable(protocol_type="connect")
    assert desk.error(desk.delete_offsets([T0])) is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_an_unknown_group_are_not_deleted(desk: Any) -> None:
    assert desk.error(desk.delete_offsets([T0])) is ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.error(desk.delete_offsets([T0], group_id="")) is ErrorCode.INVALID_GROUP_ID


def test_deleting_offsets_waits_for_the_log_and_deletes_nothing_when_it_fails(desk: Any) -> None:
    desk.commit({T0: 5, T1: 6})
    desk.holds_stores = True
    token = desk.delete_offsets([T0])
    assert desk.is_waiting(token)
    desk.finish_store(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert desk.error(token) is ErrorCode.NOT_COORDINATOR
    assert desk.offsets() == {T0: 5, T1: 6}


def test_offsets_of_deleted_topics_go_with_them(desk: Any) -> None:
    (member,) = desk.stable()
    desk.commit({T0: 5, U0: 7}, member, 1)
    desk.commit({T0: 5}, group_id="only-t")
    desk.commit({U0: 5}, group_id="only-u")

    desk.apply(desk.coordinator.topics_deleted(["t"], desk.now))

    for _ in range(2):
        assert desk.offsets() == {U0: 7}
        assert desk.offsets("only-u") == {U0: 5}
        assert desk.state("only-t") is GroupState.DEAD
        desk.crash()


def test_a_commit_on_its_way_for_a_deleted_topic_goes_as_well(desk: Any) -> None:
    desk.commit({U0: 1})
    desk.holds_stores = True
    desk.commit({T0: 5})
    desk.apply(desk.coordinator.topics_deleted(["t"], desk.now))
    desk.commit_stores()
    for _ in range(2):
        assert desk.offsets() == {U0: 1}
        desk.crash()


def test_deleted_topics_nobody_read_change_nothing(desk: Any) -> None:
    desk.leave(*desk.stable())
    desk.apply(desk.coordinator.topics_deleted(["other"], desk.now))
    assert desk.state() is GroupState.EMPTY


# Retention


def test_offsets_of_a_group_without_members_expire_after_it_was_left(make_desk: Any) -> None:
    desk = make_desk(max_session_timeout_ms=DAY_MS)
    (member,) = desk.stable(session_ms=DAY_MS)
    desk.commit({T0: 5}, member, 1)
    for _ in range(24 * 9):
        desk.advance(DAY_MS // 24)
        assert desk.heartbeat(member) is ErrorCode.NONE
    assert desk.offsets() == {T0: 5}
    desk.leave(member)

    desk.advance(7 * DAY_MS - 600_001)
    assert desk.offsets() == {T0: 5}
    desk.advance(2 * 600_000)

    for _ in range(2):
        assert desk.state() is GroupState.DEAD
        assert desk.offsets() == {}
        desk.crash()


def test_how_long_a_group_has_been_empty_survives_a_change_of_coordinator(desk: Any) -> None:
    (member,) = desk.stable()
    desk.commit({T0: 5}, member, 1)
    desk.leave(member)
    desk.advance(6 * DAY_MS)
    desk.crash()
    desk.advance(1 * DAY_MS + 600_000)
    assert desk.offsets() == {}


def test_offsets_of_a_lone_consumer_expire_after_their_commit(desk: Any) -> None:
    desk.commit({T0: 5})
    desk.advance(6 * DAY_MS)
    desk.commit({T1: 6})
    desk.advance(DAY_MS + 600_000)
    assert desk.offsets() == {T1: 6}
    desk.advance(6 * DAY_MS)
    assert desk.state() is GroupState.DEAD


def test_offsets_of_topics_a_group_no_longer_reads_expire(make_desk: Any) -> None:
    desk = make_desk(max_session_timeout_ms=DAY_MS)
    (member,) = desk.stable(session_ms=DAY_MS)
    desk.commit({T0: 5, U0: 7}, member, 1)
    for _ in range(24 * 7 + 1):
        desk.advance(DAY_MS // 24)
        assert desk.heartbeat(member) is ErrorCode.NONE
    assert desk.offsets() == {T0: 5}


def test_nothing_expires_during_a_rebalance(desk: Any) -> None:
    leader, _ = desk.stable(2, session_ms=1_800_000)
    desk.commit({U0: 7}, leader, 1)
    group = desk.group()
    desk.join(leader, session_ms=1_800_000)
    assert group.state is GroupState.PREPARING_REBALANCE
    assert group.expired_offsets(desk.now + 30 * DAY_MS, 7 * DAY_MS) == []


def test_a_commit_on_its_way_keeps_its_offset_from_expiring(desk: Any) -> None:
    desk.commit({T0: 5})
    desk.advance(7 * DAY_MS - 600_000)
    desk.holds_stores = True
    desk.commit({T0: 6})
    desk.advance(1_200_000)
    desk.commit_stores()
    assert desk.offsets() == {T0: 6}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_old_client_may_name_a_retention_of_its_own(desk: Any, version: int) -> None:
    desk.commit({T0: 5}, version=version, retention_ms=DAY_MS)
    desk.commit({T1: 6}, version=version)
    desk.crash()
    desk.advance(DAY_MS - 600_000)
    assert desk.offsets() == {T0: 5, T1: 6}
    desk.advance(1_200_000)
    assert desk.offsets() == {T1: 6}


def test_a_retention_longer_than_time_is_for_ever(desk: Any) -> None:
    desk.commit({T0: 5}, version=3, retention_ms=(1 << 63) - 1)
    desk.crash()
    desk.advance(400 * DAY_MS)
    assert desk.offsets() == {T0: 5}


def test_an_expiry_that_cannot_be_stored_is_tried_again(desk: Any) -> None:
    desk.commit({T0: 5})
    desk.advance(7 * DAY_MS - 600_000)
    desk.holds_stores = True
    desk.advance(1_200_000)
    desk.finish_store(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert desk.offsets() == {T0: 5}
    desk.holds_stores = False
    desk.advance(600_000)
    assert desk.offsets() == {}


def test_a_group_without_offsets_or_members_is_cleared_away(desk: Any) -> None:
    desk.leave(*desk.stable())
    desk.advance(600_000)
    for _ in range(2):
        assert desk.state() is GroupState.DEAD
        desk.crash()


def test_a_group_someone_is_about_to_join_is_not_cleared_away(make_desk: Any) -> None:
    desk = make_desk(offsets_retention_check_interval_ms=5_000)
    desk.advance(4_000)
    member = desk.new_id()
    desk.advance(1_000)
    token = desk.join(member)
    desk.advance(3_000)
    assert desk.error(token) is ErrorCode.NONE


def test_a_coordinator_of_nothing_has_nothing_to_wake_up_for(desk: Any) -> None:
    desk.stable()
    assert desk.coordinator.deadline is not None
    for partition in range(4):
        desk.unload(partition)
    assert desk.coordinator.deadline is None

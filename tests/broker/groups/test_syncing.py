from __future__ import annotations

from typing import Any

import pytest

from epoka.broker.groups.group import GroupState
from epoka.wire.error_codes import ErrorCode


def completing(desk: Any, size: int = 2, **options: Any) -> list[str]:
    members = [desk.new_id(**options) for _ in range(size)]
    for member in members:
        desk.join(member, **options)
    while desk.state() is not GroupState.COMPLETING_REBALANCE:
        desk.advance(3_000)
    return members


@pytest.mark.parametrize("version", range(6))
def test_followers_wait_for_the_leader_and_get_their_share(desk: Any, version: int) -> None:
    leader, follower = completing(desk)
    waiting = desk.sync(follower, version=version)
    assert desk.is_waiting(waiting)

    leading = desk.sync(leader, version=version, assignments={leader: b"L", follower: b"F"})

    assert (desk.answers[leading].assignment, desk.answers[waiting].assignment) == (b"L", b"F")
    assert desk.answers[waiting].protocol_name == ("range" if version >= 5 else None)
    assert desk.answers[waiting].protocol_type == ("consumer" if version >= 5 else None)
    assert desk.state() is GroupState.STABLE


def test_an_assignment_is_shown_to_nobody_before_it_is_stored(desk: Any) -> None:
    leader, follower = completing(desk)
    desk.holds_stores = True
    tokens = [desk.sync(follower), desk.sync(leader, assignments={follower: b"F"})]
    assert all(desk.is_waiting(token) for token in tokens)
    assert desk.state() is GroupState.COMPLETING_REBALANCE

    desk.finish_store()

    assert [desk.error(token) for token in tokens] == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_member_the_leader_forgot_gets_an_empty_assignment(desk: Any) -> None:
    leader, follower = completing(desk)
    waiting = desk.sync(follower)
    desk.sync(leader, assignments={leader: b"L", "stranger": b"S"})
    assert (desk.error(waiting), desk.answers[waiting].assignment) == (ErrorCode.NONE, b"")


def test_a_follower_that_syncs_late_gets_its_share_at_once(desk: Any) -> None:
    leader, follower = completing(desk)
    desk.sync(leader, assignments={follower: b"F"})
    assert desk.answers[desk.sync(follower)].assignment == b"F"


def test_an_assignment_from_a_follower_is_not_taken(desk: Any) -> None:
    leader, follower = completing(desk)
    desk.sync(follower, assignments={leader: b"", follower: b"everything"})
    assert desk.state() is GroupState.COMPLETING_REBALANCE


def test_a_leader_that_syncs_again_while_stable_changes_nothing(desk: Any) -> None:
    leader = desk.stable()[0]
    answer = desk.answers[desk.sync(leader, assignments={leader: b"other"})]
    assert answer.assignment == leader.encode()


def test_a_sync_that_is_sent_again_releases_the_one_before_it(desk: Any) -> None:
    leader, follower = completing(desk)
    first, second = desk.sync(follower), desk.sync(follower)
    assert desk.error(first) is ErrorCode.REBALANCE_IN_PROGRESS
    desk.sync(leader)
    assert desk.error(second) is ErrorCode.NONE


def test_of_two_assignments_on_their_way_the_second_counts(desk: Any) -> None:
    leader, _ = completing(desk)
    desk.holds_stores = True
    desk.sync(leader, assignments={leader: b"first"})
    second = desk.sync(leader, assignments={leader: b"second"})

    desk.finish_store()
    assert desk.state() is GroupState.COMPLETING_REBALANCE
    desk.finish_store()

    assert desk.answers[second].assignment == b"second"


def test_a_sync_during_a_rebalance_is_sent_back_to_joining(desk: Any) -> None:
    leader, follower = desk.stable(2)
    desk.join(leader)
    assert desk.error(desk.sync(follower)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_releases_those_who_wait_for_an_assignment(desk: Any) -> None:
    _, follower = completing(desk)
    waiting = desk.sync(follower)
    desk.join(desk.new_id())
    assert desk.error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_assignment_that_a_rebalance_overtook_is_ignored(desk: Any) -> None:
    leader, follower = completing(desk)
    desk.holds_stores = True
    waiting = desk.sync(leader, assignments={follower: b"F"})
    desk.join(desk.new_id())
    assert desk.error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS

    desk.finish_store()

    assert desk.state() is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_a_sync_of_another_generation_is_refused(desk: Any, generation: int) -> None:
    leader = completing(desk)[0]
    assert desk.error(desk.sync(leader, generation)) is ErrorCode.ILLEGAL_GENERATION


def test_a_sync_of_a_stranger_is_refused(desk: Any) -> None:
    assert desk.error(desk.sync("stranger", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    completing(desk)
    assert desk.error(desk.sync("stranger", 1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_into_an_empty_group_is_refused(desk: Any) -> None:
    members = desk.stable()
    desk.leave(*members)
    assert desk.error(desk.sync(members[0])) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_of_another_protocol_is_refused(desk: Any) -> None:
    leader = completing(desk)[0]
    assert desk.error(desk.sync(leader, protocol_type="connect")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.error(desk.sync(leader, protocol_name="sticky")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    right = desk.sync(leader, protocol_type="consumer", protocol_name="range")
    assert desk.error(right) is ErrorCode.NONE


def test_a_sync_for_no_group_at_all_is_refused(desk: Any) -> None:
    assert desk.error(desk.sync("m", 1, group_id="")) is ErrorCode.INVALID_GROUP_ID


def test_members_that_never_sync_are_out_after_the_rebalance_timeout(desk: Any) -> None:
    leader, silent = completing(desk, session_ms=200_000, rebalance_ms=30_000)
    waiting = desk.sync(leader)
    desk.commit_stores()
    assert desk.error(waiting) is ErrorCode.NONE

    desk.advance(30_000)

    assert desk.heartbeat(silent) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_syncs_is_out_and_the_others_start_over(desk: Any) -> None:
    leader, follower = completing(desk, session_ms=200_000, rebalance_ms=30_000)
    waiting = desk.sync(follower)

    desk.advance(30_000)

    assert desk.error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.answers[desk.join(follower, session_ms=200_000)].leader == follower


def test_when_everyone_has_synced_nobody_is_thrown_out(desk: Any) -> None:
    members = desk.stable(2, session_ms=200_000, rebalance_ms=30_000)
    desk.advance(60_000)
    assert list(desk.group().members) == members
    assert desk.state() is GroupState.STABLE


def test_a_member_is_excused_from_heartbeats_while_its_sync_waits(desk: Any) -> None:
    leader, follower = completing(desk)
    waiting = desk.sync(follower)
    for _ in range(4):
        desk.advance(9_000)
        assert desk.heartbeat(leader) is ErrorCode.NONE
    assert desk.is_waiting(waiting)
    desk.sync(leader)
    assert desk.error(waiting) is ErrorCode.NONE
    desk.advance(9_000)
    assert desk.heartbeat(follower) is ErrorCode.NONE

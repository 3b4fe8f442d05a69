from __future__ import annotations

from typing import Any

from epoka.broker.groups.group import GroupState
from epoka.wire.error_codes import ErrorCode


def test_a_member_of_a_stable_group_may_go_on(desk: Any) -> None:
    assert desk.heartbeat(desk.stable()[0]) is ErrorCode.NONE


def test_a_heartbeat_is_how_members_learn_of_a_rebalance(desk: Any) -> None:
    leader, follower = desk.stable(2)
    desk.join(leader)
    assert desk.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_may_heartbeat_before_it_syncs(desk: Any) -> None:
    member = desk.new_id()
    desk.join(member)
    desk.advance(3_000)
    assert desk.state() is GroupState.COMPLETING_REBALANCE
    assert desk.heartbeat(member) is ErrorCode.NONE


def test_a_heartbeat_of_another_generation_is_refused(desk: Any) -> None:
    assert desk.heartbeat(desk.stable()[0], 0) is ErrorCode.ILLEGAL_GENERATION


def test_a_heartbeat_of_a_stranger_is_refused(desk: Any) -> None:
    assert desk.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    desk.stable()
    assert desk.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_for_no_group_at_all_is_refused(desk: Any) -> None:
    assert desk.heartbeat("m", 1, "") is ErrorCode.INVALID_GROUP_ID


def test_a_silent_member_is_out_when_its_session_ends(desk: Any) -> None:
    leader, silent = desk.stable(2)
    desk.advance(9_999)
    assert desk.heartbeat(leader) is ErrorCode.NONE

    desk.advance(1)

    assert desk.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(silent) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_session_alive(desk: Any) -> None:
    (member,) = desk.stable()
    for _ in range(10):
        desk.advance(9_999)
        assert desk.heartbeat(member) is ErrorCode.NONE


def test_a_refused_heartbeat_keeps_no_session_alive(desk: Any) -> None:
    (member,) = desk.stable()
    desk.advance(9_000)
    assert desk.heartbeat(member, 7) is ErrorCode.ILLEGAL_GENERATION
    desk.advance(1_000)
    assert desk.state() is GroupState.EMPTY


def test_committing_offsets_keeps_a_session_alive(desk: Any) -> None:
    (member,) = desk.stable()
    desk.advance(9_000)
    desk.commit({("t", 0): 1}, member, 1)
    desk.advance(9_000)
    assert desk.heartbeat(member) is ErrorCode.NONE


def test_a_group_whose_members_all_went_silent_is_empty(desk: Any) -> None:
    desk.stable(3)
    desk.advance(10_000)
    assert desk.state() is GroupState.EMPTY
    assert desk.generation() == 2

from __future__ import annotations

from typing import Any

import pytest

from epoka.broker.groups.group import GroupState
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.leave_group import MemberIdentity


@pytest.mark.parametrize("version", range(3))
def test_up_to_version_2_one_member_leaves(desk: Any, version: int) -> None:
    (member,) = desk.stable()
    assert desk.leave_alone(member, version=version).error_code == ErrorCode.NONE
    assert desk.state() is GroupState.EMPTY


def test_up_to_version_2_the_error_is_that_of_the_member(desk: Any) -> None:
    desk.stable()
    assert desk.leave_alone("stranger").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.leave_alone("m", "unknown").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_several_members_leave_and_each_has_an_error_of_its_own(desk: Any) -> None:
    members = desk.stable(3)
    answer = desk.leave(members[0], "stranger", members[1])
    assert answer.error_code == ErrorCode.NONE
    assert [(each.member_id, each.error_code) for each in answer.members] == [
        (members[0], ErrorCode.NONE),
        ("stranger", ErrorCode.UNKNOWN_MEMBER_ID),
        (members[1], ErrorCode.NONE),
    ]
    assert list(desk.group().members) == members[2:]


def test_those_who_stay_are_told_to_rejoin(desk: Any) -> None:
    leader, follower = desk.stable(2)
    desk.leave(leader)
    assert desk.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_leaves_during_a_rebalance_no_longer_holds_it_up(desk: Any) -> None:
    leader, follower = desk.stable(2)
    token = desk.join(leader)
    desk.leave(follower)
    assert desk.answers[token].generation_id == 2


def test_a_member_that_leaves_gets_an_answer_to_its_waiting_join(desk: Any) -> None:
    leader, _ = desk.stable(2)
    token = desk.join(leader)
    desk.leave(leader)
    assert desk.error(token) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_gets_an_answer_to_its_waiting_sync(desk: Any) -> None:
    members = [desk.new_id(), desk.new_id()]
    for member in members:
        desk.join(member)
    desk.advance(6_000)
    token = desk.sync(members[1])
    desk.leave(members[1])
    assert desk.error(token) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_while_the_leader_computes_starts_a_rebalance(desk: Any) -> None:
    members = [desk.new_id(), desk.new_id()]
    for member in members:
        desk.join(member)
    desk.advance(6_000)
    desk.leave(members[1])
    assert desk.state() is GroupState.PREPARING_REBALANCE


def test_an_id_that_was_given_out_may_be_returned(desk: Any) -> None:
    pending = desk.new_id()
    assert desk.leave(pending).members[0].error_code == ErrorCode.NONE
    assert desk.error(desk.join(pending)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_returning_a_given_id_lets_the_rebalance_go_on(desk: Any) -> None:
    (leader,) = desk.stable()
    pending = desk.new_id()
    token = desk.join(leader)
    desk.leave(pending)
    assert desk.answers[token].generation_id == 2


def test_nobody_is_nobody(desk: Any) -> None:
    desk.stable()
    nobody = MemberIdentity(member_id="", group_instance_id=None)
    unknown = MemberIdentity(member_id="", group_instance_id="i")
    assert [each.error_code for each in desk.leave(nobody, unknown).members] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


def test_an_unknown_group_has_no_members(desk: Any) -> None:
    answer = desk.leave("m", group_id="unknown")
    assert answer.error_code == ErrorCode.NONE
    assert answer.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_needs_a_name_to_be_left(desk: Any) -> None:
    assert desk.leave("m", group_id="").error_code == ErrorCode.INVALID_GROUP_ID

from __future__ import annotations

from typing import Any

import pytest

from epoka.broker.groups.group import GroupState
from epoka.wire.error_codes import ErrorCode


def test_a_dynamic_member_is_given_an_id_before_it_joins(desk: Any) -> None:
    answer = desk.answers[desk.join(version=4)]

    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id == "client-1"
    assert answer.generation_id == -1
    assert desk.state() is GroupState.EMPTY


def test_before_version_4_a_member_joins_without_an_id(desk: Any) -> None:
    token = desk.join(version=3)
    desk.advance(3_000)

    answer = desk.answers[token]
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 1)
    assert answer.leader == answer.member_id == "client-1"


@pytest.mark.parametrize("version", range(10))
def test_the_only_member_becomes_the_leader_of_the_first_generation(desk: Any, version: int) -> None:
    member_id = desk.new_id() if version >= 4 else ""
    token = desk.join(member_id, version=version)
    desk.advance(3_000)

    answer = desk.answers[token]
    assert answer.error_code == ErrorCode.NONE
    assert answer.generation_id == 1
    assert answer.protocol_name == "range"
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert answer.leader == answer.member_id
    assert [member.member_id for member in answer.members] == [answer.member_id]
    assert not answer.skip_assignment


def test_only_the_leader_learns_who_the_others_are(desk: Any) -> None:
    first, second = desk.new_id(), desk.new_id()
    leading, following = desk.join(first), desk.join(second)
    desk.advance(6_000)

    assert [member.member_id for member in desk.answers[leading].members] == [first, second]
    assert desk.answers[following].members == ()
    assert desk.answers[following].leader == first


def test_a_client_without_an_id_of_its_own_may_join(desk: Any) -> None:
    assert desk.answers[desk.join(client_id=None)].member_id == "-1"


def test_a_given_id_that_is_never_used_expires_with_its_session(desk: Any) -> None:
    member_id = desk.new_id()
    desk.advance(10_000)

    assert desk.error(desk.join(member_id)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_given_id_holds_the_rebalance_up_until_it_is_used(desk: Any) -> None:
    leader, late = desk.stable()[0], desk.new_id()
    rejoined = desk.join(leader)
    assert desk.is_waiting(rejoined)

    joined = desk.join(late)

    assert desk.error(rejoined) is desk.error(joined) is ErrorCode.NONE


def test_a_given_id_that_expires_lets_the_rebalance_go_on(desk: Any) -> None:
    leader = desk.stable()[0]
    desk.new_id()
    rejoined = desk.join(leader)

    desk.advance(10_000)

    assert desk.answers[rejoined].generation_id == 2


def test_an_unknown_member_of_an_unknown_group_is_refused(desk: Any) -> None:
    assert desk.error(desk.join("stranger")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.state() is GroupState.DEAD


def test_an_unknown_member_of_a_known_group_is_refused(desk: Any) -> None:
    desk.stable()
    assert desk.error(desk.join("stranger")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_cannot_be_used_by_a_static_member(desk: Any) -> None:
    member_id = desk.new_id()
    assert desk.error(desk.join(member_id, instance_id="i")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_needs_a_name(desk: Any) -> None:
    assert desk.error(desk.join(group_id="")) is ErrorCode.INVALID_GROUP_ID


def test_a_nameless_group_with_offsets_still_cannot_be_joined(desk: Any) -> None:
    desk.commit({("t", 0): 1}, group_id="")
    assert desk.error(desk.join(group_id="")) is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(desk: Any, session_ms: int) -> None:
    assert desk.error(desk.join(session_ms=session_ms)) is ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_a_session_timeout_on_its_bounds_is_accepted(desk: Any, session_ms: int) -> None:
    assert desk.error(desk.join(session_ms=session_ms)) is ErrorCode.MEMBER_ID_REQUIRED


def test_version_0_takes_the_session_timeout_for_the_rebalance_timeout(desk: Any) -> None:
    desk.join(version=0, session_ms=7_000)
    (member,) = desk.group().members.values()
    assert member.rebalance_timeout_ms == 7_000


def test_a_member_without_protocols_is_refused_and_leaves_no_group_behind(desk: Any) -> None:
    assert desk.error(desk.join(protocols={})) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.state() is GroupState.DEAD


def test_a_member_without_a_protocol_type_is_refused(desk: Any) -> None:
    assert desk.error(desk.join(protocol_type="")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_of_another_protocol_type_is_refused(desk: Any) -> None:
    desk.stable()
    assert desk.error(desk.join(protocol_type="connect")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_that_shares_no_protocol_with_all_others_is_refused(desk: Any) -> None:
    desk.stable(protocols={"range": b"", "sticky": b""})
    assert desk.error(desk.join(protocols={"roundrobin": b""})) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.error(desk.join(protocols={"sticky": b""})) is ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_cannot_change_to_a_protocol_the_others_do_not_know(desk: Any) -> None:
    member = desk.stable(2)[1]
    token = desk.join(member, protocols={"roundrobin": b""})
    assert desk.error(token) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_may_take_up_another_protocol_type(desk: Any) -> None:
    desk.leave(*desk.stable())
    assert desk.state() is GroupState.EMPTY

    desk.stable(protocol_type="connect", protocols={"default": b"x"})

    assert desk.describe().protocol_type == "connect"


def test_a_group_whose_members_all_left_while_it_was_forming_takes_anyone(desk: Any) -> None:
    member = desk.new_id()
    desk.join(member)
    desk.leave(member)
    assert desk.state() is GroupState.PREPARING_REBALANCE

    assert desk.error(desk.join(protocol_type="connect")) is ErrorCode.MEMBER_ID_REQUIRED


def test_a_protocol_that_is_named_twice_counts_once(desk: Any) -> None:
    from epoka.broker.groups.member import protocols_of

    assert protocols_of([("range", b"1"), ("range", b"2")]) == {"range": b"1"}


def test_a_full_group_turns_new_members_away(make_desk: Any) -> None:
    desk = make_desk(max_size=2)
    desk.stable(2)

    answer = desk.answers[desk.join()]

    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert desk.state() is GroupState.STABLE


def test_the_last_to_join_a_group_that_fills_up_is_turned_away(make_desk: Any) -> None:
    desk = make_desk(max_size=2)
    first, second, third = (desk.new_id() for _ in range(3))
    joined = [desk.join(first), desk.join(second)]

    assert desk.error(desk.join(third)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert third not in desk.group().pending_members

    desk.advance(6_000)
    assert [desk.error(token) for token in joined] == [ErrorCode.NONE, ErrorCode.NONE]


def test_members_who_do_not_rejoin_a_shrunken_group_in_time_are_turned_away(make_desk: Any) -> None:
    desk = make_desk()
    members = desk.stable(3)
    desk.config = type(desk.config)(initial_rebalance_delay_ms=3_000, partitions=4, max_size=2)
    desk.crash()
    assert desk.state() is GroupState.PREPARING_REBALANCE

    waiting = [desk.join(member) for member in members[:2]]
    refused = desk.join(members[2])

    assert desk.error(refused) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [desk.error(token) for token in waiting] == [ErrorCode.NONE, ErrorCode.NONE]
    assert list(desk.group().members) == members[:2]


def test_a_follower_that_rejoins_unchanged_learns_the_present_generation(desk: Any) -> None:
    leader, follower = desk.stable(2)

    answer = desk.answers[desk.join(follower)]

    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 1, leader)
    assert answer.members == ()
    assert desk.state() is GroupState.STABLE


def test_a_follower_that_rejoins_with_other_metadata_starts_a_rebalance(desk: Any) -> None:
    _, follower = desk.stable(2)

    token = desk.join(follower, protocols={"range": b"changed"})

    assert desk.is_waiting(token)
    assert desk.state() is GroupState.PREPARING_REBALANCE


def test_the_order_in_which_protocols_are_preferred_is_part_of_the_metadata(desk: Any) -> None:
    _, follower = desk.stable(2, protocols={"range": b"", "sticky": b""})
    desk.join(follower, protocols={"sticky": b"", "range": b""})
    assert desk.state() is GroupState.PREPARING_REBALANCE


def test_a_leader_that_rejoins_always_starts_a_rebalance(desk: Any) -> None:
    leader, _ = desk.stable(2)
    token = desk.join(leader)
    assert desk.is_waiting(token)
    assert desk.state() is GroupState.PREPARING_REBALANCE


def test_a_member_whose_join_answer_was_lost_gets_it_again(desk: Any) -> None:
    first, second = desk.new_id(), desk.new_id()
    desk.join(first), desk.join(second)
    desk.advance(6_000)
    assert desk.state() is GroupState.COMPLETING_REBALANCE

    leading, following = desk.answers[desk.join(first)], desk.answers[desk.join(second)]

    assert leading.generation_id == following.generation_id == 1
    assert [member.member_id for member in leading.members] == [first, second]
    assert following.members == ()
    assert desk.state() is GroupState.COMPLETING_REBALANCE


def test_a_member_that_changes_while_the_leader_computes_starts_over(desk: Any) -> None:
    first, second = desk.new_id(), desk.new_id()
    desk.join(first), desk.join(second)
    desk.advance(6_000)
    following = desk.sync(second)

    rejoined = desk.join(first, protocols={"range": b"changed"})

    assert desk.error(following) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.is_waiting(rejoined)
    assert desk.state() is GroupState.PREPARING_REBALANCE


def test_a_join_that_is_sent_again_releases_the_one_before_it(desk: Any) -> None:
    member = desk.new_id()
    first, second = desk.join(member), desk.join(member)

    assert desk.error(first) is ErrorCode.REBALANCE_IN_PROGRESS
    desk.advance(3_000)
    assert desk.error(second) is ErrorCode.NONE

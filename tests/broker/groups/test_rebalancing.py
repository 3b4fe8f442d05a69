from __future__ import annotations

from typing import Any

import pytest

from epoka.broker.groups.group import Group, GroupState
from epoka.model.errors import InvariantBroken
from epoka.wire.error_codes import ErrorCode


def test_the_first_rebalance_waits_for_more_members(desk: Any) -> None:
    token = desk.join(desk.new_id())
    desk.advance(2_999)
    assert desk.is_waiting(token)
    desk.advance(1)
    assert desk.error(token) is ErrorCode.NONE


def test_without_a_delay_the_first_rebalance_is_over_at_once(make_desk: Any) -> None:
    desk = make_desk(initial_rebalance_delay_ms=0)
    token = desk.join(desk.new_id())
    assert desk.answers[token].generation_id == 1


def test_every_new_member_draws_the_first_delay_out(desk: Any) -> None:
    first = desk.join(desk.new_id())
    desk.advance(2_000)
    second = desk.join(desk.new_id())
    desk.advance(1_000)
    assert desk.is_waiting(first)
    desk.advance(3_000)
    assert desk.error(first) is desk.error(second) is ErrorCode.NONE


def test_the_first_delay_is_drawn_out_no_further_than_the_rebalance_timeout(desk: Any) -> None:
    first = desk.join(desk.new_id(), rebalance_ms=7_000)
    for _ in range(6):
        desk.advance(1_000)
        desk.join(desk.new_id())
    assert desk.is_waiting(first)
    desk.advance(1_000)
    assert desk.error(first) is ErrorCode.NONE


def test_a_group_that_was_used_before_waits_for_its_first_member_as_well(desk: Any) -> None:
    desk.leave(*desk.stable())
    token = desk.join(desk.new_id())
    assert desk.is_waiting(token)
    desk.advance(3_000)
    assert desk.answers[token].generation_id == 3


def test_a_rebalance_is_over_when_everyone_has_rejoined(desk: Any) -> None:
    first, second = desk.stable(2)
    joined = desk.join(desk.new_id())
    rejoined = [desk.join(first)]
    assert desk.is_waiting(joined)
    rejoined.append(desk.join(second))
    assert {desk.answers[token].generation_id for token in (joined, *rejoined)} == {2}


def test_who_does_not_rejoin_within_the_rebalance_timeout_is_out(desk: Any) -> None:
    leader, absent = desk.stable(2, session_ms=200_000, rebalance_ms=60_000)
    rejoined = desk.join(leader, session_ms=200_000)
    desk.advance(59_999)
    assert desk.is_waiting(rejoined)

    desk.advance(1)

    assert [member.member_id for member in desk.answers[rejoined].members] == [leader]
    assert desk.heartbeat(absent) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_of_all_members_counts(desk: Any) -> None:
    patient, hasty = desk.new_id(), desk.new_id()
    desk.join(patient, rebalance_ms=90_000, session_ms=200_000)
    desk.join(hasty, rebalance_ms=10_000, session_ms=200_000)
    desk.advance(6_000)
    desk.assign()
    rejoined = desk.join(hasty, rebalance_ms=10_000, session_ms=200_000, protocols={"range": b"changed"})
    desk.advance(89_999)
    assert desk.is_waiting(rejoined)
    desk.advance(1)
    assert desk.error(rejoined) is ErrorCode.NONE


def test_when_the_leader_is_out_the_first_who_joined_leads(desk: Any) -> None:
    leader, second, third = desk.stable(3)
    tokens = [desk.join(third, protocols={"range": b"changed"}), desk.join(second)]
    desk.leave(leader)
    assert {desk.answers[token].leader for token in tokens} == {second}


def test_a_leader_that_rejoins_leads_on(desk: Any) -> None:
    first, second = desk.stable(2)
    desk.join(second, protocols={"range": b"changed"})
    token = desk.join(first)
    assert desk.answers[token].leader == first


def test_a_member_is_excused_from_heartbeats_while_its_join_waits(desk: Any) -> None:
    leader, other = desk.stable(2, session_ms=200_000)
    rejoined = desk.join(leader, session_ms=10_000)
    desk.advance(30_000)
    assert desk.is_waiting(rejoined)
    desk.join(other, session_ms=200_000)
    assert desk.error(rejoined) is ErrorCode.NONE


def test_a_member_that_is_not_heard_of_during_a_rebalance_is_out(desk: Any) -> None:
    leader, _ = desk.stable(2)
    rejoined = desk.join(leader)
    desk.advance(10_000)
    assert [member.member_id for member in desk.answers[rejoined].members] == [leader]


def test_a_new_member_whose_join_waits_too_long_is_out(desk: Any) -> None:
    desk.stable(1, session_ms=1_800_000, rebalance_ms=900_000)
    new = desk.join(desk.new_id())
    desk.advance(299_999)
    assert desk.is_waiting(new)
    desk.advance(1)
    answer = desk.answers[new]
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_a_group_everyone_left_is_empty_in_a_generation_of_its_own(desk: Any) -> None:
    members = desk.stable(2)
    desk.leave(*members)
    assert desk.state() is GroupState.EMPTY
    assert desk.generation() == 2
    assert desk.group().protocol_name is None


def test_a_group_everyone_left_before_it_formed_is_empty_after_the_delay(desk: Any) -> None:
    member = desk.new_id()
    token = desk.join(member)
    desk.leave(member)
    assert desk.error(token) is ErrorCode.UNKNOWN_MEMBER_ID
    desk.advance(3_000)
    assert desk.state() is GroupState.EMPTY


def test_the_protocol_most_members_prefer_is_chosen(desk: Any) -> None:
    preferences = [("range", "sticky"), ("sticky", "range"), ("sticky", "range")]
    tokens = [desk.join(desk.new_id(), protocols=dict.fromkeys(each, b"")) for each in preferences]
    desk.advance(6_000)
    assert {desk.answers[token].protocol_name for token in tokens} == {"sticky"}


def test_a_protocol_not_all_members_know_is_not_chosen(desk: Any) -> None:
    desk.join(desk.new_id(), protocols={"sticky": b"", "range": b""})
    desk.join(desk.new_id(), protocols={"sticky": b"", "range": b""})
    token = desk.join(desk.new_id(), protocols={"range": b""})
    desk.advance(6_000)
    assert desk.answers[token].protocol_name == "range"


def test_a_tie_between_protocols_goes_to_the_member_that_came_first(desk: Any) -> None:
    token = desk.join(desk.new_id(), protocols={"sticky": b"", "range": b""})
    desk.join(desk.new_id(), protocols={"range": b"", "sticky": b""})
    desk.advance(6_000)
    assert desk.answers[token].protocol_name == "sticky"


def test_votes_of_members_who_left_are_forgotten(desk: Any) -> None:
    leader, _, _ = desk.stable(3, protocols={"range": b"", "sticky": b""})
    desk.leave(*list(desk.group().members)[1:])
    token = desk.join(leader, protocols={"sticky": b""})
    assert desk.answers[token].protocol_name == "sticky"


def test_the_leader_sees_what_each_member_says_in_the_chosen_protocol(desk: Any) -> None:
    token = desk.join(desk.new_id(), protocols={"sticky": b"s1", "range": b"r1"})
    desk.join(desk.new_id(), protocols={"range": b"r2"})
    desk.advance(6_000)
    assert [member.metadata for member in desk.answers[token].members] == [b"r1", b"r2"]


def test_a_state_cannot_be_skipped() -> None:
    group = Group("g", 0, 0)
    with pytest.raises(InvariantBroken, match="from Empty to Stable"):
        group.transition(GroupState.STABLE, 0)


def test_a_disconnected_member_gets_no_answer_and_times_out_later(desk: Any) -> None:
    member = desk.new_id()
    token = desk.join(member)
    desk.coordinator.disconnected([token, 999])
    desk.advance(3_000)
    assert desk.is_waiting(token)
    assert desk.state() is GroupState.COMPLETING_REBALANCE
    desk.advance(10_000)
    assert desk.state() is GroupState.EMPTY

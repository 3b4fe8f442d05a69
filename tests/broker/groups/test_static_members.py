from __future__ import annotations

from typing import Any

import pytest

from epoka.broker.groups.group import GroupState
from epoka.wire.codec import encode
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.group_records import ConsumerProtocolSubscription
from epoka.wire.messages.leave_group import MemberIdentity


def reading(*topics: str, owned: bytes = b"") -> dict[str, bytes]:
    """Metadata of a consumer, and behind it what a newer version of the protocol adds."""
    return {"range": b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=topics), 0) + owned}


def static_group(desk: Any, *instance_ids: str, **options: Any) -> list[str]:
    """A stable group of static members, the leader first."""
    tokens = [desk.join(instance_id=instance_id, **options) for instance_id in instance_ids]
    while desk.is_waiting(tokens[0]):
        desk.advance(3_000)
    desk.assign()
    assert desk.state() is GroupState.STABLE
    return [desk.answers[token].member_id for token in tokens]


def test_a_static_member_joins_without_being_given_an_id_first(desk: Any) -> None:
    (member_id,) = static_group(desk, "i")
    assert member_id == "i-1"
    assert desk.describe().members[0].group_instance_id == "i"


def test_a_restarted_follower_takes_its_place_again_without_a_rebalance(desk: Any) -> None:
    leader, follower = static_group(desk, "a", "b")

    answer = desk.answers[desk.join(instance_id="b")]

    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 1, leader)
    assert answer.member_id != follower
    assert desk.state() is GroupState.STABLE
    synced = desk.answers[desk.sync(answer.member_id, instance_id="b")]
    assert synced.assignment == follower.encode()


def test_a_restarted_leader_of_version_9_leads_on_but_assigns_nothing(desk: Any) -> None:
    _, follower = static_group(desk, "a", "b")

    answer = desk.answers[desk.join(instance_id="a", version=9)]

    assert answer.leader == answer.member_id == desk.group().leader_id
    assert answer.skip_assignment
    assert {member.member_id for member in answer.members} == {answer.member_id, follower}
    assert desk.state() is GroupState.STABLE


def test_a_restarted_leader_of_an_older_version_is_told_its_former_id_leads(desk: Any) -> None:
    leader, _ = static_group(desk, "a", "b")

    answer = desk.answers[desk.join(instance_id="a", version=8)]

    assert answer.leader == leader != answer.member_id
    assert answer.members == ()
    assert desk.group().leader_id == answer.member_id


def test_the_former_self_of_a_restarted_member_is_fenced(desk: Any) -> None:
    _, former = static_group(desk, "a", "b")
    desk.join(instance_id="b")

    assert desk.heartbeat(former, instance_id="b") is ErrorCode.FENCED_INSTANCE_ID
    assert desk.error(desk.sync(former, instance_id="b")) is ErrorCode.FENCED_INSTANCE_ID
    assert desk.error(desk.join(former, instance_id="b")) is ErrorCode.FENCED_INSTANCE_ID
    assert desk.committed(desk.commit({("t", 0): 1}, former, 1, instance_id="b")) == {
        ("t", 0): ErrorCode.FENCED_INSTANCE_ID
    }
    (left,) = desk.leave(MemberIdentity(member_id=former, group_instance_id="b")).members
    assert left.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert desk.state() is GroupState.STABLE


def test_a_former_self_that_does_not_say_its_instance_is_unknown(desk: Any) -> None:
    _, former = static_group(desk, "a", "b")
    desk.join(instance_id="b")
    assert desk.heartbeat(former) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_nobody_knows_is_an_unknown_member(desk: Any) -> None:
    (member,) = static_group(desk, "a")
    assert desk.heartbeat(member, instance_id="b") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_waiting_join_is_fenced_when_its_instance_joins_again(desk: Any) -> None:
    former = desk.join(instance_id="a")
    present = desk.join(instance_id="a")

    assert desk.error(former) is ErrorCode.FENCED_INSTANCE_ID
    desk.advance(6_000)
    assert desk.error(present) is ErrorCode.NONE
    assert len(desk.group().members) == 1


def test_a_waiting_sync_is_fenced_and_the_leader_starts_over_when_a_member_restarts(desk: Any) -> None:
    desk.join(instance_id="a"), desk.join(instance_id="b")
    desk.advance(6_000)
    leader, follower = desk.group().members
    waiting = desk.sync(follower, instance_id="b")

    desk.join(instance_id="b")

    assert desk.error(waiting) is ErrorCode.FENCED_INSTANCE_ID
    assert desk.state() is GroupState.PREPARING_REBALANCE
    late = desk.sync(leader, instance_id="a", assignments={follower: b"stale"})
    assert desk.error(late) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_restarts_during_a_rebalance_joins_it(desk: Any) -> None:
    leader, _ = static_group(desk, "a", "b")
    rejoined = desk.join(leader, instance_id="a")
    assert desk.is_waiting(rejoined)

    restarted = desk.join(instance_id="b")

    assert desk.answers[rejoined].generation_id == desk.answers[restarted].generation_id == 2


def test_a_restarted_member_with_another_preferred_protocol_starts_a_rebalance(desk: Any) -> None:
    both = {"range": b"", "sticky": b""}
    static_group(desk, "a", protocols=both)

    answer = desk.answers[desk.join(instance_id="a", protocols={"sticky": b"", "range": b""})]

    assert (answer.generation_id, answer.protocol_name) == (2, "sticky")


def test_a_restarted_member_that_reads_other_topics_starts_a_rebalance(desk: Any) -> None:
    static_group(desk, "a", "b", protocols=reading("t"))
    token = desk.join(instance_id="b", protocols=reading("t", "u"))
    assert desk.is_waiting(token)
    assert desk.state() is GroupState.PREPARING_REBALANCE


def test_a_restarted_member_that_only_forgot_what_it_owned_starts_none(desk: Any) -> None:
    static_group(desk, "a", "b", protocols=reading("t", owned=b"\x00\x00\x00\x01"))
    token = desk.join(instance_id="b", protocols=reading("t"))
    assert desk.error(token) is ErrorCode.NONE
    assert desk.state() is GroupState.STABLE


def test_a_static_member_that_is_away_stays_until_its_session_ends(desk: Any) -> None:
    static_group(desk, "a", "b")
    desk.heartbeat("a-1", instance_id="a")
    desk.advance(9_999)
    desk.heartbeat("a-1", instance_id="a")
    assert len(desk.group().members) == 2

    desk.advance(1)

    assert list(desk.group().members) == ["a-1"]


def test_a_static_member_that_misses_a_rebalance_is_still_a_member(desk: Any) -> None:
    leader, absent = static_group(desk, "a", "b", session_ms=200_000, rebalance_ms=20_000)
    rejoined = desk.join(leader, instance_id="a", session_ms=200_000, rebalance_ms=20_000)

    desk.advance(20_000)

    assert desk.answers[rejoined].generation_id == 2
    assert set(desk.group().members) == {leader, absent}


def test_a_group_none_of_whose_static_members_rejoined_waits_for_them(desk: Any) -> None:
    leader, follower = static_group(desk, "a", "b", session_ms=200_000, rebalance_ms=20_000)
    dynamic = desk.new_id()
    desk.join(dynamic)
    desk.leave(dynamic)
    assert desk.state() is GroupState.PREPARING_REBALANCE

    desk.advance(25_000)
    assert desk.state() is GroupState.PREPARING_REBALANCE
    assert set(desk.group().members) == {leader, follower}

    desk.advance(200_000)
    assert desk.state() is GroupState.EMPTY


def test_an_absent_leader_is_replaced_by_one_who_joined(desk: Any) -> None:
    _, follower = static_group(desk, "a", "b", session_ms=200_000, rebalance_ms=20_000)
    changed = {"range": b"changed"}
    rejoined = desk.join(
        follower, instance_id="b", session_ms=200_000, rebalance_ms=20_000, protocols=changed
    )

    desk.advance(20_000)

    assert desk.answers[rejoined].leader == follower
    assert len(desk.answers[rejoined].members) == 2


def test_a_static_member_with_no_time_to_rebalance_does_not_keep_the_coordinator_busy(desk: Any) -> None:
    static_group(desk, "a", session_ms=200_000, rebalance_ms=0)
    desk.join(instance_id="b", rebalance_ms=0)
    desk.leave(MemberIdentity(member_id="", group_instance_id="b"))
    assert desk.state() is GroupState.PREPARING_REBALANCE

    desk.apply(desk.coordinator.wake(desk.now))

    assert desk.coordinator.deadline >= desk.now + 1_000
    desk.advance(200_000)
    assert desk.state() is GroupState.EMPTY


def test_an_operator_takes_a_static_member_out_by_its_instance(desk: Any) -> None:
    static_group(desk, "a", "b")

    answer = desk.leave(MemberIdentity(member_id="", group_instance_id="b"))

    assert [(m.group_instance_id, m.error_code) for m in answer.members] == [("b", ErrorCode.NONE)]
    assert "b" not in desk.group().static_members


def test_an_instance_that_left_may_join_anew(desk: Any) -> None:
    static_group(desk, "a", "b")
    desk.leave(MemberIdentity(member_id="", group_instance_id="b"))
    token = desk.join(instance_id="b")
    desk.join("a-1", instance_id="a")
    assert desk.answers[token].generation_id == 2


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
def test_a_restart_that_cannot_be_stored_is_undone(desk: Any, error: ErrorCode) -> None:
    leader, former = static_group(desk, "a", "b", protocols=reading("t"))
    desk.holds_stores = True
    token = desk.join(instance_id="b", session_ms=30_000, protocols=reading("t", owned=b"\x00\x00\x00\x01"))
    assert desk.is_waiting(token)

    desk.finish_store(error)

    answer = desk.answers[token]
    assert (answer.error_code, answer.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert set(desk.group().members) == {leader, former}
    assert desk.group().members[former].session_timeout_ms == 10_000
    assert desk.group().members[former].protocols == reading("t")
    assert desk.heartbeat(former, instance_id="b") is ErrorCode.NONE


def test_a_restarted_leader_that_cannot_be_stored_leads_under_its_former_id(desk: Any) -> None:
    (former,) = static_group(desk, "a")
    desk.holds_stores = True
    desk.join(instance_id="a")
    desk.finish_store(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert desk.group().leader_id == former


def test_a_restart_whose_store_is_overtaken_by_a_rebalance_joins_that(desk: Any) -> None:
    leader, _ = static_group(desk, "a", "b")
    desk.holds_stores = True
    restarted = desk.join(instance_id="b")
    rejoined = desk.join(leader, instance_id="a")
    assert desk.answers[restarted].generation_id == desk.answers[rejoined].generation_id == 2

    desk.finish_store()

    assert desk.state() is GroupState.COMPLETING_REBALANCE


def test_of_two_restarts_in_a_row_the_second_counts(desk: Any) -> None:
    static_group(desk, "a", "b")
    desk.holds_stores = True
    first, second = desk.join(instance_id="b"), desk.join(instance_id="b")
    assert desk.error(first) is ErrorCode.FENCED_INSTANCE_ID

    desk.commit_stores()

    assert desk.error(second) is ErrorCode.NONE
    assert desk.group().static_members["b"] == desk.answers[second].member_id


def test_a_restarted_member_survives_a_change_of_coordinator_under_its_new_id(desk: Any) -> None:
    _, former = static_group(desk, "a", "b")
    present = desk.answers[desk.join(instance_id="b")].member_id

    desk.crash()

    assert desk.heartbeat(present, instance_id="b") is ErrorCode.NONE
    assert desk.heartbeat(former, instance_id="b") is ErrorCode.FENCED_INSTANCE_ID
    assert desk.answers[desk.sync(present, instance_id="b")].assignment == former.encode()

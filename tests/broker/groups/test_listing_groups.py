from __future__ import annotations

from typing import Any

import pytest

from epoka.broker.groups.group import GroupState
from epoka.wire.error_codes import ErrorCode


@pytest.mark.parametrize("version", range(6))
def test_a_stable_group_is_described_with_its_members(desk: Any, version: int) -> None:
    leader, follower = desk.stable(2, protocols={"range": b"meta"})
    described = desk.describe(version=version)
    assert described.error_code == ErrorCode.NONE
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [
        (m.member_id, m.client_id, m.client_host, m.member_metadata, m.member_assignment)
        for m in described.members
    ] == [(m, "client", "/10.0.0.1", b"meta", m.encode()) for m in (leader, follower)]


def test_while_a_group_rebalances_only_its_members_are_shown(desk: Any) -> None:
    leader, follower = desk.stable(2)
    desk.join(leader)
    described = desk.describe()
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [(m.member_id, m.member_metadata, m.member_assignment) for m in described.members] == [
        (leader, b"", b""),
        (follower, b"", b""),
    ]


@pytest.mark.parametrize(("version", "shown"), [(3, None), (4, "i")])
def test_instances_are_shown_from_version_4_on(desk: Any, version: int, shown: str | None) -> None:
    desk.join(instance_id="i")
    assert desk.describe(version=version).members[0].group_instance_id == shown


def test_an_unknown_group_is_described_as_dead(desk: Any) -> None:
    described = desk.describe("unknown")
    assert (described.error_code, described.group_state) == (ErrorCode.NONE, GroupState.DEAD)


def test_a_group_of_another_coordinator_is_not_described(desk: Any) -> None:
    desk.stable()
    desk.unload(desk.coordinator.partition_for("g"))
    described = desk.describe()
    assert (described.error_code, described.group_state) == (ErrorCode.NOT_COORDINATOR, "")


def listed(answer: Any) -> dict[str, tuple[str, str, str]]:
    assert answer.error_code == ErrorCode.NONE
    return {each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in answer.groups}


@pytest.mark.parametrize("version", range(6))
def test_all_groups_are_listed(desk: Any, version: int) -> None:
    desk.stable()
    desk.commit({("t", 0): 1}, group_id="lone")
    kind = "classic" if version >= 5 else ""
    assert listed(desk.list(version=version)) == {
        "g": ("consumer", "Stable" if version >= 4 else "", kind),
        "lone": ("", "Empty" if version >= 4 else "", kind),
    }


def test_groups_are_listed_by_state_whatever_its_letters_case(desk: Any) -> None:
    desk.stable()
    desk.commit({("t", 0): 1}, group_id="lone")
    assert set(listed(desk.list(states=("stable",)))) == {"g"}
    assert set(listed(desk.list(states=("EMPTY", "Stable")))) == {"g", "lone"}
    assert set(listed(desk.list(states=("Dead",)))) == set()


def test_groups_are_listed_by_type(desk: Any) -> None:
    desk.stable()
    assert set(listed(desk.list(types=("Classic",)))) == {"g"}
    assert set(listed(desk.list(types=("consumer",)))) == set()


def test_a_list_that_is_still_being_loaded_says_so(desk: Any) -> None:
    desk.stable()
    other = (desk.coordinator.partition_for("g") + 1) % 4
    desk.unload(other)
    desk.coordinator.load_started(other)
    answer = desk.list()
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [each.group_id for each in answer.groups] == ["g"]

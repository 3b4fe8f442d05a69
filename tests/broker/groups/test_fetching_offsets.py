from __future__ import annotations

from typing import Any

import pytest

from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup


def found(topics: Any) -> dict[tuple[str, int], tuple[int, ErrorCode]]:
    return {
        (topic.name, each.partition_index): (each.committed_offset, ErrorCode(each.error_code))
        for topic in topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_answers_for_the_partitions_asked(desk: Any, version: int) -> None:
    desk.commit({("t", 0): 5, ("t", 1): 6})
    answer = desk.fetch({"t": [1, 2], "u": [0]}, version=version)
    assert found(answer.topics) == {
        ("t", 1): (6, ErrorCode.NONE),
        ("t", 2): (-1, ErrorCode.NONE),
        ("u", 0): (-1, ErrorCode.NONE),
    }
    assert answer.error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(2, 10))
def test_without_a_list_of_topics_all_are_told(desk: Any, version: int) -> None:
    desk.commit({("t", 0): 5, ("u", 1): 6})
    answer = desk.fetch(version=version)
    topics = answer.topics if version < 8 else answer.groups[0].topics
    assert found(topics) == {("t", 0): (5, ErrorCode.NONE), ("u", 1): (6, ErrorCode.NONE)}


@pytest.mark.parametrize("version", [8, 9])
def test_many_groups_answer_each_for_itself(desk: Any, version: int) -> None:
    groups = [f"g{number}" for number in range(8)]
    gone = desk.coordinator.partition_for(groups[0])
    for number, group_id in enumerate(groups):
        desk.commit({("t", 0): number}, group_id=group_id)
    desk.unload(gone)
    request = OffsetFetchRequest(
        groups=tuple(OffsetFetchRequestGroup(group_id, topics=None) for group_id in groups)
    )

    answer = desk.answers[desk.ask(desk.coordinator.offset_fetch, version, request)]

    assert [each.group_id for each in answer.groups] == groups
    for number, each in enumerate(answer.groups):
        if desk.coordinator.partition_for(each.group_id) == gone:
            assert (each.error_code, each.topics) == (ErrorCode.NOT_COORDINATOR, ())
        else:
            assert found(each.topics) == {("t", 0): (number, ErrorCode.NONE)}


def test_an_unknown_group_has_no_offsets(desk: Any) -> None:
    assert desk.fetch().groups[0].topics == ()
    assert found(desk.fetch({"t": [0]}).groups[0].topics) == {("t", 0): (-1, ErrorCode.NONE)}


def test_a_stable_offset_cannot_be_had_while_a_commit_is_on_its_way(desk: Any) -> None:
    desk.commit({("t", 0): 5})
    desk.holds_stores = True
    desk.commit({("t", 0): 6})

    asked = {"t": [0]}
    unstable = found(desk.fetch(asked, require_stable=True).groups[0].topics)
    assert unstable == {("t", 0): (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)}
    assert found(desk.fetch(asked).groups[0].topics) == {("t", 0): (5, ErrorCode.NONE)}

    desk.finish_store()
    assert found(desk.fetch(asked, require_stable=True).groups[0].topics) == {("t", 0): (6, ErrorCode.NONE)}


def test_version_1_has_no_place_for_an_error_but_the_partitions(desk: Any) -> None:
    desk.unload(desk.coordinator.partition_for("g"))
    answer = desk.fetch({"t": [0]}, version=1)
    assert found(answer.topics) == {("t", 0): (-1, ErrorCode.NOT_COORDINATOR)}


def test_from_version_2_on_the_error_is_told_once(desk: Any) -> None:
    desk.unload(desk.coordinator.partition_for("g"))
    answer = desk.fetch({"t": [0]}, version=2)
    assert (answer.error_code, answer.topics) == (ErrorCode.NOT_COORDINATOR, ())

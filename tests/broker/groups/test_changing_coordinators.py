from __future__ import annotations

import struct
from typing import Any

import pytest

from epoka.broker.groups import GroupConfig, GroupCoordinator
from epoka.broker.groups.group import GroupState
from epoka.broker.groups.registry import java_hash
from epoka.wire.error_codes import ErrorCode

T0 = ("t", 0)


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("\U0001f600", 1772899),
        ("é", 233),
    ],
)
def test_group_ids_are_hashed_like_java_strings(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed & 0xFFFFFFFF


def test_a_group_belongs_to_the_partition_of_its_hash() -> None:
    coordinator = GroupCoordinator(GroupConfig(), str)
    assert coordinator.partition_for("hello") == 99162322 % 50
    assert coordinator.partition_for("polygenelubricants") == 0


def every_error(desk: Any) -> dict[str, ErrorCode]:
    return {
        "join": desk.error(desk.join("m")),
        "sync": desk.error(desk.sync("m", 1)),
        "heartbeat": desk.heartbeat("m", 1),
        "leave": ErrorCode(desk.leave("m").error_code),
        "commit": desk.committed(desk.commit({T0: 1}))[T0],
        "fetch": ErrorCode(desk.fetch().groups[0].error_code),
        "delete offsets": desk.error(desk.delete_offsets([T0])),
        "delete groups": desk.deleted(desk.delete_groups("g"))["g"],
        "describe": ErrorCode(desk.describe().error_code),
    }


def test_a_broker_that_does_not_coordinate_a_group_says_so(desk: Any) -> None:
    desk.unload(desk.coordinator.partition_for("g"))
    assert set(every_error(desk).values()) == {ErrorCode.NOT_COORDINATOR}


def test_while_a_group_is_loaded_clients_are_asked_to_wait_in_words_they_know(desk: Any) -> None:
    partition = desk.coordinator.partition_for("g")
    desk.unload(partition)
    desk.coordinator.load_started(partition)
    errors = every_error(desk)
    assert errors.pop("sync") is ErrorCode.REBALANCE_IN_PROGRESS
    assert errors.pop("heartbeat") is ErrorCode.NONE
    assert set(errors.values()) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


def test_a_load_that_is_given_up_is_no_longer_waited_for(desk: Any) -> None:
    partition = desk.coordinator.partition_for("g")
    desk.unload(partition)
    desk.coordinator.load_started(partition)
    desk.unload(partition)
    assert desk.heartbeat("m", 1) is ErrorCode.NOT_COORDINATOR


def test_a_stable_group_goes_on_with_its_new_coordinator(desk: Any) -> None:
    leader, follower = desk.stable(2)
    before = desk.describe()

    desk.crash()

    assert desk.describe() == before
    assert desk.heartbeat(follower, 1) is ErrorCode.NONE
    assert desk.answers[desk.sync(follower, 1)].assignment == follower.encode()
    assert desk.group().leader_id == leader
    assert desk.error(desk.join(follower)) is ErrorCode.NONE


def test_a_loaded_member_has_one_session_to_find_its_coordinator(desk: Any) -> None:
    desk.stable()
    desk.advance(9_000)
    desk.crash()
    desk.advance(9_999)
    assert desk.state() is GroupState.STABLE
    desk.advance(1)
    assert desk.state() is GroupState.EMPTY


def test_a_generation_whose_assignment_was_not_stored_is_forgotten(desk: Any) -> None:
    (leader,) = desk.stable()
    desk.holds_stores = True
    assert desk.answers[desk.join(leader)].generation_id == 2
    desk.sync(leader)
    desk.crash()
    assert desk.generation() == 1
    assert desk.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION


def test_an_empty_group_keeps_its_generation(desk: Any) -> None:
    desk.leave(*desk.stable())
    desk.crash()
    assert (desk.state(), desk.generation()) == (GroupState.EMPTY, 2)


def test_offsets_survive_with_all_they_carry(desk: Any) -> None:
    (member,) = desk.stable()
    desk.commit({T0: 5, ("u", 3): 6}, member, 1, metadata="note", leader_epoch=2)
    before = desk.fetch()
    desk.crash()
    assert desk.fetch() == before


def test_unloading_sends_everyone_who_waits_away(desk: Any) -> None:
    first, second = desk.new_id(), desk.new_id()
    desk.join(first), desk.join(second)
    desk.advance(6_000)
    syncing = desk.sync(second)
    joining = desk.join(desk.new_id("other"), "other")
    desk.commit({T0: 1}, group_id="lone")
    desk.holds_stores = True
    committing = desk.commit({T0: 1}, group_id="lone")
    deleting_offsets = desk.delete_offsets([T0], group_id="lone")
    desk.commit({T0: 1}, group_id="lonely")
    deleting_group = desk.delete_groups("lonely")

    for partition in range(4):
        desk.unload(partition)

    assert desk.error(syncing) is ErrorCode.NOT_COORDINATOR
    assert desk.error(joining) is ErrorCode.NOT_COORDINATOR
    assert desk.committed(committing) == {T0: ErrorCode.NOT_COORDINATOR}
    assert desk.error(deleting_offsets) is ErrorCode.NOT_COORDINATOR
    assert desk.deleted(deleting_group) == {"lonely": ErrorCode.NOT_COORDINATOR}
    assert not desk.coordinator._outbox.waiting


def test_a_store_that_is_heard_of_after_unloading_is_ignored(desk: Any) -> None:
    desk.holds_stores = True
    desk.commit({T0: 1})
    desk.unload(desk.coordinator.partition_for("g"))
    before = dict(desk.answers)
    desk.finish_store()
    assert desk.answers == before


def test_a_static_restart_on_its_way_is_sent_away_once(desk: Any) -> None:
    desk.join(instance_id="a")
    desk.advance(3_000)
    desk.assign()
    desk.holds_stores = True
    token = desk.join(instance_id="a")
    desk.unload(desk.coordinator.partition_for("g"))
    assert desk.error(token) is ErrorCode.NOT_COORDINATOR
    desk.finish_store()


def test_groups_of_other_partitions_are_not_disturbed(desk: Any) -> None:
    groups = [f"g{number}" for number in range(8)]
    members = {group_id: desk.stable(group_id=group_id, session_ms=600_000)[0] for group_id in groups}
    gone = desk.coordinator.partition_for("g0")
    desk.unload(gone)
    for group_id, member in members.items():
        expected = (
            ErrorCode.NOT_COORDINATOR if desk.coordinator.partition_for(group_id) == gone else ErrorCode.NONE
        )
        assert desk.heartbeat(member, 1, group_id) is expected


def test_a_partition_that_is_here_is_not_loaded_over(desk: Any) -> None:
    (member,) = desk.stable()
    partition = desk.coordinator.partition_for("g")
    desk.log[partition].clear()
    desk.coordinator.load_started(partition)
    assert desk.heartbeat(member) is ErrorCode.NONE
    desk.load(partition)
    assert desk.heartbeat(member) is ErrorCode.NONE


def test_records_nobody_can_read_are_passed_over_and_counted(desk: Any) -> None:
    desk.commit({T0: 5})
    partition = desk.coordinator.partition_for("g")
    offset_key, offset_value = desk.log[partition][-1]
    assert offset_value is not None
    group_key = b"\x00\x02\x00\x01g"
    desk.log[partition] += [
        (b"", b""),
        (b"\x00\x03future", b""),
        (b"\x00\x01\x00\x07cut", b""),
        (offset_key, b"\x00\x63" + offset_value[2:]),
        (offset_key, offset_value[:9]),
        (group_key, b"\x00"),
    ]
    desk.log[partition].append((None, b"no key"))

    desk.crash()

    assert desk.coordinator.unread_records == 7
    assert desk.offsets() == {T0: 5}


def test_a_group_record_that_contradicts_itself_is_passed_over(desk: Any) -> None:
    from epoka.broker.groups.records import read
    from epoka.wire.codec import encode
    from epoka.wire.messages.group_records import GroupMemberMetadata, GroupMetadataValue

    def record(protocol: str | None, *members: tuple[str, str | None]) -> object:
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol=protocol,
            members=tuple(GroupMemberMetadata(member_id=m, group_instance_id=i) for m, i in members),
        )
        return read(b"\x00\x02\x00\x01g", b"\x00\x03" + encode(value, 3))

    assert record("range", ("a", "i"), ("b", None)) is not None
    assert record(None, ("a", None)) is None
    assert record("range", ("a", None), ("a", None)) is None
    assert record("range", ("a", "i"), ("b", "i")) is None


def test_offsets_are_stored_in_kafkas_format(desk: Any) -> None:
    desk.commit({T0: 5}, metadata="note", leader_epoch=2)
    ((key, value),) = desk.log[desk.coordinator.partition_for("g")]
    assert key == b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x00"
    assert value == struct.pack(">hqih4sq", 3, 5, 2, 4, b"note", desk.now)


def test_an_offset_with_a_retention_is_stored_in_the_format_that_has_it(desk: Any) -> None:
    desk.commit({T0: 5}, version=3, retention_ms=1_000)
    ((_, value),) = desk.log[desk.coordinator.partition_for("g")]
    assert value == struct.pack(">hqhqq", 1, 5, 0, desk.now, desk.now + 1_000)


def test_groups_are_stored_in_kafkas_format(desk: Any) -> None:
    (member,) = desk.stable(protocols={"range": b"meta"})
    ((key, value),) = desk.log[desk.coordinator.partition_for("g")]
    group = desk.group()

    def string(text: str) -> bytes:
        return struct.pack(">h", len(text)) + text.encode()

    def data(content: bytes) -> bytes:
        return struct.pack(">i", len(content)) + content

    assert key == b"\x00\x02" + string("g")
    assert value == (
        struct.pack(">h", 3)
        + string("consumer")
        + struct.pack(">i", 1)
        + string("range")
        + string(member)
        + struct.pack(">q", group.state_timestamp)
        + struct.pack(">i", 1)
        + string(member)
        + struct.pack(">h", -1)
        + string("client")
        + string("/10.0.0.1")
        + struct.pack(">ii", 60_000, 10_000)
        + data(b"meta")
        + data(member.encode())
    )


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_groups_written_by_older_and_newer_coordinators_are_read(desk: Any, version: int) -> None:
    from epoka.wire.codec import encode
    from epoka.wire.messages.group_records import GroupMemberMetadata, GroupMetadataValue

    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="m",
        members=(
            GroupMemberMetadata(member_id="m", session_timeout=10_000, subscription=b"s", assignment=b"a"),
        ),
    )
    entry = (b"\x00\x02\x00\x01g", struct.pack(">h", version) + encode(value, version))
    desk.log[desk.coordinator.partition_for("g")].append(entry)

    desk.crash()

    assert (desk.state(), desk.generation()) == (GroupState.STABLE, 7)
    assert desk.answers[desk.sync("m", 7)].assignment == b"a"
    assert desk.group().members["m"].rebalance_timeout_ms == 10_000


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_offsets_written_by_older_and_newer_coordinators_are_read(desk: Any, version: int) -> None:
    from epoka.wire.codec import encode
    from epoka.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue

    value = OffsetCommitValue(offset=9, metadata="m", commit_timestamp=desk.now)
    for key_version in (0, 1):
        key = OffsetCommitKey(group="g", topic="t", partition=key_version)
        entry = (
            struct.pack(">h", key_version) + encode(key, key_version),
            struct.pack(">h", version) + encode(value, version),
        )
        desk.log[desk.coordinator.partition_for("g")].append(entry)

    desk.crash()

    assert desk.offsets() == {("t", 0): 9, ("t", 1): 9}

"""What a client can learn of consumer groups and do to them, on any cluster. Asks; prints nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from epoka.cli.brokers import Brokers, TopicPartition, by_topic, check
from epoka.wire.codec import decode_prefix
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import WireError
from epoka.wire.messages.delete_groups import DeleteGroupsRequest
from epoka.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from epoka.wire.messages.group_records import ConsumerProtocolAssignment
from epoka.wire.messages.list_groups import ListGroupsRequest
from epoka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from epoka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

GROUPS_BY_LIST = 8
"""The version of OffsetFetch from which on it asks for several groups."""
_VERSION_BYTES = 2


class GroupLine(msgspec.Struct, frozen=True):
    group: str
    state: str
    protocol_type: str
    coordinator: int


class Member(msgspec.Struct, frozen=True):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class Group(msgspec.Struct, frozen=True):
    group: str
    state: str
    protocol: str
    coordinator: int
    members: tuple[Member, ...]

    @property
    def exists(self) -> bool:
        return self.state != "Dead"


def list_groups(brokers: Brokers) -> list[GroupLine]:
    """Every group, each from its coordinator."""
    found = []
    for broker_id in brokers.ids:
        answer = brokers.broker(broker_id).ask(ListGroupsRequest())
        check(answer.error_code, None, f"the groups of broker {broker_id} cannot be listed")
        found += [
            GroupLine(each.group_id, each.group_state, each.protocol_type, broker_id)
            for each in answer.groups
        ]
    return sorted(found, key=lambda line: line.group)


def describe(brokers: Brokers, group: str) -> Group:
    coordinator = brokers.coordinators([group])[group]
    (described,) = brokers.broker(coordinator).ask(DescribeGroupsRequest(groups=(group,))).groups
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return Group(group, "Dead", "", coordinator, ())
    check(described.error_code, None, f"group {group} cannot be described")
    return Group(
        group, described.group_state, described.protocol_data, coordinator, tuple(_members(described))
    )


def committed(brokers: Brokers, group: str) -> dict[TopicPartition, int]:
    """Every offset that the group has committed."""
    caller = brokers.coordinator(group)
    if caller.version_for(OffsetFetchRequest.API_KEY) >= GROUPS_BY_LIST:
        (answer,) = caller.ask(
            OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=None),))
        ).groups
    else:
        answer = caller.ask(OffsetFetchRequest(group_id=group, topics=None))
    check(answer.error_code, None, f"the offsets of group {group} cannot be read")
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, None, f"the offset of {topic.name}-{each.partition_index} cannot be read")
            if each.committed_offset >= 0:
                found[topic.name, each.partition_index] = each.committed_offset
    return found


def commit(brokers: Brokers, group: str, offsets: dict[TopicPartition, int]) -> None:
    """Write offsets for a group that has no members."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=tuple(
                OffsetCommitRequestPartition(partition_index=each, committed_offset=offsets[topic, each])
                for each in partitions
            ),
        )
        for topic, partitions in by_topic(offsets).items()
    ]
    answer = brokers.coordinator(group).ask(OffsetCommitRequest(group_id=group, topics=tuple(topics)))
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, None, f"the offset of {topic.name}-{each.partition_index} was not reset")


def delete(brokers: Brokers, group: str) -> None:
    (result,) = brokers.coordinator(group).ask(DeleteGroupsRequest(groups_names=(group,))).results
    check(result.error_code, None, f"group {group} was not deleted")


def _members(described: DescribedGroup) -> Sequence[Member]:
    members = [
        Member(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            _assigned(each.member_assignment),
        )
        for each in described.members
    ]
    return sorted(members, key=lambda member: member.member_id)


def _assigned(assignment: Any) -> tuple[TopicPartition, ...]:
    """The partitions of a consumer; nothing for what is no consumer's assignment."""
    if len(assignment) < _VERSION_BYTES:
        return ()
    try:
        known, _ = decode_prefix(ConsumerProtocolAssignment, 0, assignment, _VERSION_BYTES)
    except WireError:
        return ()
    return tuple(
        sorted(
            (topic.topic, partition) for topic in known.assigned_partitions for partition in topic.partitions
        )
    )

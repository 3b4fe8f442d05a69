"""What a client can learn of consumer groups and do to them, on any cluster."""

from __future__ import annotations

from typing import Any

import msgspec

from epoka.client.cluster import ClusterClient, TopicPartition
from epoka.client.errors import check
from epoka.wire.codec import decode_prefix
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import WireError
from epoka.wire.messages.delete_groups import DeleteGroupsRequest
from epoka.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from epoka.wire.messages.group_records import ConsumerProtocolAssignment
from epoka.wire.messages.list_groups import ListGroupsRequest
from epoka.wire.messages.offset_fetch import OffsetFetchRequest

GROUPS_BY_LIST = 8
"""The version of OffsetFetch from which on it asks for several groups."""
DEAD = "Dead"
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
    members: tuple[Member, ...] = ()

    @property
    def exists(self) -> bool:
        return self.state != DEAD


def list_groups(client: ClusterClient) -> list[GroupLine]:
    """Every group, each from its coordinator, by name."""

    def ask() -> list[GroupLine]:
        found = []
        for node in client.brokers():
            answer = client.node(node).ask(ListGroupsRequest())
            check(answer.error_code, f"the groups of broker {node} cannot be listed")
            found += [
                GroupLine(each.group_id, each.group_state, each.protocol_type, node) for each in answer.groups
            ]
        return sorted(found, key=lambda line: line.group)

    return client.patiently("the list of groups", ask)


def describe(client: ClusterClient, group: str) -> Group:
    """A group and its members; one that nobody knows is Dead."""

    def ask() -> Group:
        coordinator = client.coordinator(group)
        (described,) = client.node(coordinator).ask(DescribeGroupsRequest(groups=(group,))).groups
        if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return Group(group, DEAD, "", coordinator)
        check(described.error_code, f"group {group} cannot be described")
        return Group(group, described.group_state, described.protocol_data, coordinator, _members(described))

    return client.patiently(f"group {group}", ask)


def committed(client: ClusterClient, group: str) -> dict[TopicPartition, int]:
    """Every offset that the group has committed."""

    def ask() -> dict[TopicPartition, int]:
        connection = client.node(client.coordinator(group))
        request = OffsetFetchRequest(group_id=group, topics=None)
        answer = connection.ask(request, version=connection.version_for(request, GROUPS_BY_LIST - 1))
        check(answer.error_code, f"the offsets of group {group} cannot be read")
        found = {}
        for topic in answer.topics:
            for each in topic.partitions:
                check(each.error_code, f"the offset of {topic.name}-{each.partition_index} cannot be read")
                if each.committed_offset >= 0:
                    found[topic.name, each.partition_index] = each.committed_offset
        return found

    return client.patiently(f"the offsets of group {group}", ask)


def delete(client: ClusterClient, group: str) -> None:
    """Forget a group that has no members, and its offsets."""

    def ask() -> None:
        coordinator = client.node(client.coordinator(group))
        (result,) = coordinator.ask(DeleteGroupsRequest(groups_names=(group,))).results
        check(result.error_code, f"group {group} was not deleted")

    client.patiently(f"group {group}", ask)


def _members(described: DescribedGroup) -> tuple[Member, ...]:
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
    return tuple(sorted(members, key=lambda member: member.member_id))


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

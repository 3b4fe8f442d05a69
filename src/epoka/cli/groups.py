"""What a client can learn of consumer groups and do to them, on any cluster. Asks; prints nothing."""

from __future__ import annotations

from epoka.cli.brokers import Brokers, TopicPartition, by_topic, check
from epoka.client.groups import DEAD, GROUPS_BY_LIST, Group, GroupLine, group_of
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.delete_groups import DeleteGroupsRequest
from epoka.wire.messages.describe_groups import DescribeGroupsRequest
from epoka.wire.messages.list_groups import ListGroupsRequest
from epoka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from epoka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup


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
        return Group(group, DEAD, "", coordinator)
    check(described.error_code, None, f"group {group} cannot be described")
    return group_of(described, coordinator)


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

"""DescribeGroups 0-5 and ListGroups 0-5: what there is to see of groups. Nothing changes here."""

from __future__ import annotations

from typing import Final

from epoka.broker.groups.group import Group, GroupState
from epoka.broker.groups.registry import Registry
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from epoka.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

GROUP_TYPE: Final = "classic"


def describe_groups(
    registry: Registry, version: int, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    named = dict.fromkeys(request.groups)
    return DescribeGroupsResponse(groups=tuple(_describe(registry, version, each) for each in named))


def _describe(registry: Registry, version: int, group_id: str) -> DescribedGroup:
    refusal = registry.refusal(group_id, may_be_nameless=True)
    if refusal is not None:
        return DescribedGroup(error_code=refusal, group_id=group_id)
    group = registry.get(group_id)
    if group is None:
        return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if group.state is GroupState.STABLE else "",
        members=_members(group, version),
    )


def _members(group: Group, version: int) -> tuple[DescribedGroupMember, ...]:
    """What members read and were assigned is shown of stable groups only: elsewhere it is in flux."""
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return tuple(
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id if version >= 4 else None,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=b"" if protocol is None else member.metadata(protocol),
            member_assignment=b"" if protocol is None else member.assignment,
        )
        for member in group.members.values()
    )


def list_groups(registry: Registry, version: int, request: ListGroupsRequest) -> ListGroupsResponse:
    """Groups in these states and of these types, letters' case aside; no filter means all."""
    states = {state.lower() for state in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    return ListGroupsResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if registry.is_loading else ErrorCode.NONE,
        groups=tuple(
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value if version >= 4 else "",
                group_type=GROUP_TYPE if version >= 5 else "",
            )
            for group in registry.groups
            if (not states or group.state.value.lower() in states) and (not types or GROUP_TYPE in types)
        ),
    )

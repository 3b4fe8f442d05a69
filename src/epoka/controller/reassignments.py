"""Partitions move between brokers: AlterPartitionReassignments and ListPartitionReassignments.

A move first adds replicas, and when all of them are in the ISR the same record that says so drops the old
ones (see `partition_change`). A new move replaces one under way; cancelling goes back to the replicas from
before. A move or a cancellation that would leave no in-sync replica is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from epoka.controller.decision import Decision
from epoka.controller.elections import election_for
from epoka.controller.partition_change import change
from epoka.controller.state import ControllerState
from epoka.controller.topics import assignment_complaint
from epoka.model.image import PartitionRef
from epoka.model.partitions import PartitionState
from epoka.model.records import MetadataRecord
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from epoka.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from epoka.wire.texts import fitting


class _Outcome(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    record: MetadataRecord | None = None


def on_alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> Decision:
    records: list[MetadataRecord] = []
    topics = []
    seen: set[tuple[str, int]] = set()
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            twice = (topic.name, wanted.partition_index) in seen
            seen.add((topic.name, wanted.partition_index))
            outcome = (
                _Outcome(ErrorCode.INVALID_REQUEST, "the partition is named twice")
                if twice
                else _reassign(state, topic.name, wanted)
            )
            if outcome.record:
                records.append(outcome.record)
            partitions.append(
                ReassignablePartitionResponse(
                    partition_index=wanted.partition_index,
                    error_code=outcome.error,
                    error_message=fitting(outcome.message),
                )
            )
        topics.append(ReassignableTopicResponse(name=topic.name, partitions=tuple(partitions)))
    response = AlterPartitionReassignmentsResponse(responses=tuple(topics))
    return Decision(response, records, rule="leader.eligible", because="reassigned on request")


def _reassign(state: ControllerState, name: str, wanted: ReassignablePartition) -> _Outcome:
    topic, partition = state.image.topic(name), state.image.partition(name, wanted.partition_index)
    if topic is None or partition is None:
        return _Outcome(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{wanted.partition_index}"
        )
    # What the partition had before the move under way, if there is one.
    original = [replica for replica in partition.replicas if replica not in partition.adding]
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    if wanted.replicas is None:
        if not partition.reassigning:
            return _Outcome(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no move is under way")
        replicas, adding, removing = list(original), [], []
    else:
        complaint = assignment_complaint(state, wanted.replicas)
        if complaint:
            return _Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, complaint)
        adding = [replica for replica in wanted.replicas if replica not in original]
        removing = [replica for replica in original if replica not in wanted.replicas]
        replicas = [*wanted.replicas, *removing]
    return _moved(state, PartitionRef(topic, wanted.partition_index), partition, replicas, adding, removing)


def _moved(
    state: ControllerState,
    ref: PartitionRef,
    partition: PartitionState,
    replicas: Sequence[int],
    adding: Sequence[int],
    removing: Sequence[int],
) -> _Outcome:
    isr = [member for member in partition.isr if member in replicas]
    if not isr:
        return _Outcome(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"no in-sync replica of {list(partition.isr)} would stay",
        )
    record = change(
        ref.topic.id,
        ref.index,
        partition,
        state.may_lead(),
        election=election_for(state, ref.topic.name),
        isr=isr,
        replicas=replicas,
        adding=adding,
        removing=removing,
        renews=state.renews_leaders,
    )
    return _Outcome(record=record)


def on_list_partition_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest
) -> Decision:
    image = state.image
    wanted = None
    if request.topics is not None:
        wanted = {(each.name, index) for each in request.topics for index in each.partition_indexes}
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for ref in image.reassigning():
        if wanted is None or (ref.topic.name, ref.index) in wanted:
            partition = image.state(ref)
            topics.setdefault(ref.topic.name, []).append(
                OngoingPartitionReassignment(
                    partition_index=ref.index,
                    replicas=partition.replicas,
                    adding_replicas=partition.adding,
                    removing_replicas=partition.removing,
                )
            )
    return Decision(
        ListPartitionReassignmentsResponse(
            topics=tuple(
                OngoingTopicReassignment(name=name, partitions=tuple(partitions))
                for name, partitions in topics.items()
            )
        )
    )

"""A leader proposes an ISR by the KIP-343 draft: IsrChange, at levels `heartbeats` and `shared-updates`.

The draft knows no partition epoch, so a proposal made before another change may undo it; AlterPartition
closed that. A leader that is late in learning of `eligible-isr` may still take members out; what it adds has
to be proposed by AlterPartition. Results stand in the order of the request.
"""

from __future__ import annotations

from epoka import fencing
from epoka.controller.decision import Decision, refusal
from epoka.controller.partition_change import change
from epoka.controller.state import ControllerState
from epoka.fencing import Verdict
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FeatureLevel
from epoka.model.partitions import PartitionState
from epoka.model.records import MetadataRecord
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.isr_change import (
    IsrChangePartition,
    IsrChangeRequest,
    IsrChangeResponse,
    IsrChangeResult,
)


def on_isr_change(state: ControllerState, request: IsrChangeRequest) -> Decision:
    verdict = state.rules.ask(
        fencing.registration.requester, request.incarnation_id, state.registered_epoch(request.broker_id)
    )
    if verdict.refused:
        return Decision(
            IsrChangeResponse(
                top_level_error_code=ErrorCode.INVALID_INCARNATION_ID, top_level_error_message=verdict.reason
            ),
            events=[refusal(verdict, broker=request.broker_id, broker_epoch=request.incarnation_id)],
        )
    records: list[MetadataRecord] = []
    events: list[LedgerEvent] = []
    results = []
    seen: set[tuple[str, int]] = set()
    for topic in request.topics:
        named = state.image.topic(topic.topic_name)
        for proposal in topic.partitions:
            place = (topic.topic_name, proposal.partition_index)
            partition = state.image.partition(*place)
            if partition is None or named is None:
                verdict = _refuse(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(place), "a partition", "there is no such one"
                )
            elif place in seen:
                verdict = _refuse(ErrorCode.INVALID_REQUEST, "two proposals", "one", "it is named twice")
            else:
                verdict = _judge(state, request, proposal, partition)
            seen.add(place)
            results.append(
                IsrChangeResult(
                    error_code=verdict.error, error_message=verdict.reason if verdict.refused else None
                )
            )
            if verdict.refused or partition is None or named is None:
                events.append(
                    refusal(
                        verdict,
                        broker=request.broker_id,
                        broker_epoch=request.incarnation_id,
                        topic=topic.topic_name,
                        partition=proposal.partition_index,
                        leader_epoch=proposal.leader_epoch,
                        isr=tuple(proposal.isr_nodes),
                    )
                )
                continue
            record = change(
                named.id, proposal.partition_index, partition, state.may_lead(), isr=proposal.isr_nodes
            )
            if record is not None:
                records.append(record)
    return Decision(
        IsrChangeResponse(results=tuple(results)),
        records,
        rule="isr.leader",
        because=f"proposed by leader {request.broker_id}",
        events=events,
    )


def _judge(
    state: ControllerState,
    request: IsrChangeRequest,
    proposal: IsrChangePartition,
    partition: PartitionState,
) -> Verdict:
    isr = proposal.isr_nodes
    if request.broker_id != partition.leader or proposal.leader_epoch != partition.leader_epoch:
        return Verdict(
            "isr.leader",
            False,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {request.broker_id}, leader epoch {proposal.leader_epoch}",
            f"broker {partition.leader}, leader epoch {partition.leader_epoch}",
            "the requester does not lead the partition",
        )
    if not isr or len(set(isr)) != len(isr) or any(each not in partition.replicas for each in isr):
        return _refuse(
            ErrorCode.INVALID_REQUEST,
            str(list(isr)),
            f"some of {list(partition.replicas)}, each once",
            "not an ISR",
        )
    if partition.leader not in isr:
        return _refuse(
            ErrorCode.INVALID_REQUEST, str(list(isr)), f"one with {partition.leader}", "it lacks the leader"
        )
    added = [member for member in isr if member not in partition.isr]
    if added and state.image.level >= FeatureLevel.ELIGIBLE_ISR:
        # It may be of long ago, and carries nothing by which that would show.
        return _refuse(
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            str(added),
            "AlterPartition",
            "the cluster's level is above this",
        )
    for member in isr:
        verdict = _member(state, member)
        if verdict.refused:
            return verdict
    return Verdict("isr.leader")


def _member(state: ControllerState, member: int) -> Verdict:
    level = state.image.level
    verdict = Verdict("isr.eligible")
    if level >= FeatureLevel.ELIGIBLE_ISR:
        verdict = state.may_join_isr(member)
    if verdict.accepted and level >= FeatureLevel.FETCH_EPOCHS:
        registered_epoch = state.registered_epoch(member)
        verdict = state.rules.ask(
            fencing.isr.generation,
            member,
            -1,
            -2 if registered_epoch is None else registered_epoch,
            being_added=False,
        )
    return verdict


def _refuse(error: ErrorCode, given: str, expected: str, reason: str) -> Verdict:
    return Verdict("isr.valid", False, error, given, expected, reason)

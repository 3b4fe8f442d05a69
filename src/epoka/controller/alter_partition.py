"""A leader proposes an ISR: AlterPartition, versions 0 to 3.

The order of the checks is the contract (KIP-841, KIP-903), because the leader concludes from the error
whether it should revert, wait for metadata or look for another controller. A proposal is taken whole or not
at all, and one partition's refusal does not touch its siblings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from epoka import fencing
from epoka.controller.decision import Decision, refusal
from epoka.controller.partition_change import change
from epoka.controller.state import ControllerState
from epoka.fencing import Verdict
from epoka.model.image import Topic, changed
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FeatureLevel
from epoka.model.partitions import RECOVERED, RECOVERING, PartitionState
from epoka.model.records import MetadataRecord
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionPartitionResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    AlterPartitionTopicResponse,
)
from epoka.wire.messages.metadata_records import PartitionChangeRecord

TOPIC_IDS_SINCE: Final = 2
GENERATIONS_SINCE: Final = 3
TAKEN_BACK: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""A leader that hears these counts on its proposal no more. So that no earlier copy of it, still on its way,
is taken when the member is eligible again, the refusal itself moves the partition epoch on."""


class _Outcome(msgspec.Struct, frozen=True):
    response: AlterPartitionPartitionResponse
    record: PartitionChangeRecord | None = None
    event: LedgerEvent | None = None


def on_alter_partition(state: ControllerState, request: AlterPartitionRequest, version: int) -> Decision:
    verdict = state.rules.ask(
        fencing.registration.requester, request.broker_epoch, state.registered_epoch(request.broker_id)
    )
    if verdict.refused:
        return Decision(
            AlterPartitionResponse(error_code=verdict.error),
            events=[refusal(verdict, broker=request.broker_id, broker_epoch=request.broker_epoch)],
        )
    records: list[MetadataRecord] = []
    events: list[LedgerEvent] = []
    topics = []
    seen: set[tuple[str, int]] = set()
    for asked in request.topics:
        outcomes = _topic(state, request, asked, version, seen)
        records += [outcome.record for outcome in outcomes if outcome.record]
        events += [outcome.event for outcome in outcomes if outcome.event]
        topics.append(
            AlterPartitionTopicResponse(
                topic_name=asked.topic_name,
                topic_id=asked.topic_id,
                partitions=tuple(outcome.response for outcome in outcomes),
            )
        )
    return Decision(
        AlterPartitionResponse(topics=tuple(topics)),
        records,
        rule=_strictest_rule(state.image.level),
        because=f"proposed by leader {request.broker_id}",
        events=events,
    )


def _strictest_rule(level: FeatureLevel) -> str:
    """The rule that an accepted proposal has passed last."""
    if level >= FeatureLevel.FETCH_EPOCHS:
        return "isr.generation"
    return "isr.eligible" if level >= FeatureLevel.ELIGIBLE_ISR else "isr.partition-epoch"


def _topic(
    state: ControllerState,
    request: AlterPartitionRequest,
    asked: AlterPartitionTopic,
    version: int,
    seen: set[tuple[str, int]],
) -> list[_Outcome]:
    by_id = version >= TOPIC_IDS_SINCE
    topic = state.image.topic(asked.topic_id) if by_id else state.image.topic(asked.topic_name)
    if topic is None:
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        name = str(asked.topic_id) if by_id else asked.topic_name
        unknown = Verdict("isr.partition", False, error, name, "a topic", "there is no such topic")
        return [_refused(request, name, proposal, unknown) for proposal in asked.partitions]
    outcomes = []
    for proposal in asked.partitions:
        partition = state.image.partition(topic.id, proposal.partition_index)
        if partition is None:
            verdict = Verdict(
                "isr.partition",
                False,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                str(proposal.partition_index),
                "a partition",
                "there is no such partition",
            )
        elif (topic.name, proposal.partition_index) in seen:
            # The second proposal was made without knowing what became of the first.
            verdict = _invalid("two proposals", "one", "the partition is named twice")
        else:
            verdict = _judge(state, request, proposal, partition, version)
        seen.add((topic.name, proposal.partition_index))
        if verdict.refused or partition is None:
            outcome = _refused(request, topic.name, proposal, verdict)
            if verdict.error in TAKEN_BACK:
                record = PartitionChangeRecord(partition_id=proposal.partition_index, topic_id=topic.id)
                outcome = msgspec.structs.replace(outcome, record=record)
            outcomes.append(outcome)
        else:
            outcomes.append(_accepted(state, request, topic, proposal, partition, version))
    return outcomes


def _judge(
    state: ControllerState,
    request: AlterPartitionRequest,
    proposal: AlterPartitionPartition,
    partition: PartitionState,
    version: int,
) -> Verdict:
    """The checks in their order; the first that refuses is the answer."""
    ask = state.rules.ask
    verdict = ask(
        fencing.isr.ahead,
        proposal.leader_epoch,
        partition.leader_epoch,
        proposal.partition_epoch,
        partition.partition_epoch,
    )
    if verdict.accepted:
        verdict = ask(fencing.isr.leader_epoch, proposal.leader_epoch, partition.leader_epoch)
    if verdict.accepted:
        verdict = ask(fencing.isr.leader, request.broker_id, partition.leader)
    if verdict.accepted and _already_so(state, request, proposal, partition, version):
        return verdict
    if verdict.accepted:
        verdict = ask(fencing.isr.partition_epoch, proposal.partition_epoch, partition.partition_epoch)
    if verdict.accepted:
        verdict = _well_formed(proposal, partition, version)
    if verdict.accepted:
        verdict = _members(state, proposal, partition, version)
    return verdict


def _already_so(
    state: ControllerState,
    request: AlterPartitionRequest,
    proposal: AlterPartitionPartition,
    partition: PartitionState,
    version: int,
) -> bool:
    """What is asked for is what is: the leader missed the first answer. Zookeeper mode has always said yes to
    that (KAFKA-14144); a leader in log mode reads the metadata log instead."""
    return (
        state.pushes
        and request.broker_id == partition.leader
        and sorted(proposed_isr(proposal, version)) == sorted(partition.isr)
        and proposal.leader_recovery_state == partition.recovery
    )


def _well_formed(proposal: AlterPartitionPartition, partition: PartitionState, version: int) -> Verdict:
    isr = proposed_isr(proposal, version)
    if len(set(isr)) != len(isr) or any(member < 0 or member not in partition.replicas for member in isr):
        return _invalid(str(list(isr)), f"some of {list(partition.replicas)}, each once", "not an ISR")
    if partition.leader not in isr:
        return _invalid(str(list(isr)), f"an ISR with {partition.leader}", "the ISR lacks the leader")
    recovery = proposal.leader_recovery_state
    if recovery not in (RECOVERED, RECOVERING):
        return _invalid(f"recovery state {recovery}", "0 or 1", "there is no such recovery state")
    if recovery == RECOVERING and len(isr) > 1:
        return _invalid(str(list(isr)), "the leader alone", "a recovering leader has no ISR but itself")
    if recovery == RECOVERING and partition.recovery == RECOVERED:
        return _invalid("recovering", "recovered", "a recovered partition can't go back")
    return Verdict("isr.valid")


def _members(
    state: ControllerState, proposal: AlterPartitionPartition, partition: PartitionState, version: int
) -> Verdict:
    """KIP-841 and KIP-903, as far as the cluster has climbed. Every member counts, on a shrink too."""
    level = state.image.level
    epochs = {each.broker_id: each.broker_epoch for each in proposal.new_isr_with_epochs}
    for member in proposed_isr(proposal, version):
        verdict = Verdict("isr.eligible")
        if level >= FeatureLevel.ELIGIBLE_ISR:
            verdict = state.may_join_isr(member)
        if verdict.accepted and level >= FeatureLevel.FETCH_EPOCHS:
            registered_epoch = state.registered_epoch(member)
            verdict = state.rules.ask(
                fencing.isr.generation,
                member,
                epochs.get(member, -1),
                -2 if registered_epoch is None else registered_epoch,
                being_added=member not in partition.isr,
            )
        if verdict.refused:
            if version < TOPIC_IDS_SINCE:
                return msgspec.structs.replace(verdict, error=ErrorCode.OPERATION_NOT_ATTEMPTED)
            return verdict
    return Verdict("isr.eligible")


def proposed_isr(proposal: AlterPartitionPartition, version: int) -> Sequence[int]:
    if version >= GENERATIONS_SINCE:
        return [each.broker_id for each in proposal.new_isr_with_epochs]
    return proposal.new_isr


def _accepted(
    state: ControllerState,
    request: AlterPartitionRequest,
    topic: Topic,
    proposal: AlterPartitionPartition,
    partition: PartitionState,
    version: int,
) -> _Outcome:
    record = None
    if not _already_so(state, request, proposal, partition, version):
        record = change(
            topic.id,
            proposal.partition_index,
            partition,
            state.may_lead(),
            isr=proposed_isr(proposal, version),
            recovery=proposal.leader_recovery_state,
        )
    new = partition if record is None else changed(partition, record)
    if new.leader != request.broker_id:
        # The proposal completed a reassignment that leaves the requester out.
        moved = ErrorCode.NEW_LEADER_ELECTED if version >= TOPIC_IDS_SINCE else ErrorCode.FENCED_LEADER_EPOCH
        return _Outcome(_error(proposal, moved), record)
    response = AlterPartitionPartitionResponse(
        partition_index=proposal.partition_index,
        leader_id=new.leader,
        leader_epoch=new.leader_epoch,
        isr=new.isr,
        leader_recovery_state=new.recovery,
        partition_epoch=new.partition_epoch,
    )
    return _Outcome(response, record)


def _refused(
    request: AlterPartitionRequest, topic: str, proposal: AlterPartitionPartition, verdict: Verdict
) -> _Outcome:
    event = refusal(
        verdict,
        broker=request.broker_id,
        broker_epoch=request.broker_epoch,
        topic=topic,
        partition=proposal.partition_index,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        isr=tuple(proposal.new_isr) or tuple(each.broker_id for each in proposal.new_isr_with_epochs),
    )
    return _Outcome(_error(proposal, verdict.error), event=event)


def _error(proposal: AlterPartitionPartition, error: ErrorCode) -> AlterPartitionPartitionResponse:
    return AlterPartitionPartitionResponse(partition_index=proposal.partition_index, error_code=error)


def _invalid(given: str, expected: str, reason: str) -> Verdict:
    return Verdict("isr.valid", False, ErrorCode.INVALID_REQUEST, given, expected, reason)

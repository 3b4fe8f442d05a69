"""Leadership when brokers come and go, and when somebody asks for an election.

A broker that leaves (fenced, stopping, replaced by its next life, unregistered) is taken out of every ISR
it can leave; what it led gets another leader from the rest of the ISR, or none. A broker that comes back
may lead what has no leader and kept it as last ISR member. ElectLeaders moves leadership to the preferred
replica, or, when told to lose data, to any.
"""

from __future__ import annotations

import numpy as np

from epoka.controller.decision import Decision
from epoka.controller.partition_change import Election, change
from epoka.controller.state import ControllerState
from epoka.model.ids import NO_BROKER
from epoka.model.records import MetadataRecord
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionElectionResult,
    ReplicaElectionResult,
)
from epoka.wire.texts import fitting

PREFERRED_TYPE = 0
UNCLEAN_TYPE = 1


def election_for(state: ControllerState, topic: str) -> Election:
    """How hard a leader of this topic is looked for when its own is gone."""
    return Election.UNCLEAN if state.unclean_allowed(topic) else Election.KEEP


def leave_all(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """The partition changes that take a broker out of every ISR it can leave and every leadership it has."""
    image = state.image
    partitions = image.partitions
    rows = partitions.each_once(
        np.concatenate((partitions.rows_with_isr_member(broker_id), partitions.rows_led_by(broker_id)))
    )
    may_lead = state.may_lead(leaving=broker_id)
    elections: dict[str, Election] = {}
    records: list[MetadataRecord] = []
    for ref in image.refs(rows):
        topic = ref.topic
        election = elections.get(topic.name)
        if election is None:
            election = elections[topic.name] = election_for(state, topic.name)
        partition = image.state(ref)
        isr = [member for member in partition.isr if member != broker_id]
        record = change(
            topic.id,
            ref.index,
            partition,
            may_lead,
            election=election,
            isr=isr,
            renews=state.renews_leaders,
        )
        if record:
            records.append(record)
    return records


def lead_again(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """Elections that the return of a broker makes possible, of partitions without a leader only."""
    image = state.image
    partitions = image.partitions
    rows = np.intersect1d(
        partitions.rows_led_by(NO_BROKER), partitions.rows_hosted_by(broker_id), assume_unique=True
    )
    may_lead = state.may_lead(joining=broker_id)
    records: list[MetadataRecord] = []
    for ref in image.refs(rows):
        election = election_for(state, ref.topic.name)
        record = change(ref.topic.id, ref.index, image.state(ref), may_lead, election=election)
        if record:
            records.append(record)
    return records


def lead_uncleanly(state: ControllerState) -> Decision:
    """Elections that a setting makes possible: whoever allows unclean ones waits for a leader, not for the
    next broker to come back."""
    image = state.image
    may_lead = state.may_lead()
    records: list[MetadataRecord] = []
    for ref in image.without_leader():
        if state.unclean_allowed(ref.topic.name):
            record = change(ref.topic.id, ref.index, image.state(ref), may_lead, election=Election.UNCLEAN)
            if record:
                records.append(record)
    return Decision(None, records, rule="leader.eligible", because="unclean elections are allowed")


def on_elect_leaders(state: ControllerState, request: ElectLeadersRequest) -> Decision:
    if request.election_type not in (PREFERRED_TYPE, UNCLEAN_TYPE):
        return Decision(ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
    image = state.image
    records: list[MetadataRecord] = []
    results: dict[str, list[PartitionElectionResult]] = {}
    everything = request.topic_partitions is None
    if request.topic_partitions is None:
        asked = [(ref.topic.name, ref.index) for ref in image.all_partitions()]
    else:
        asked = [(each.topic, index) for each in request.topic_partitions for index in each.partitions]
    for name, index in dict.fromkeys(asked):
        error, message, record = _elect_one(state, name, index, request.election_type)
        if everything and error == ErrorCode.ELECTION_NOT_NEEDED:
            continue
        if record:
            records.append(record)
        results.setdefault(name, []).append(
            PartitionElectionResult(partition_id=index, error_code=error, error_message=fitting(message))
        )
    response = ElectLeadersResponse(
        replica_election_results=tuple(
            ReplicaElectionResult(topic=name, partition_result=tuple(partitions))
            for name, partitions in results.items()
        )
    )
    kind = "preferred" if request.election_type == PREFERRED_TYPE else "unclean"
    return Decision(response, records, rule="leader.eligible", because=f"{kind} election on request")


def _elect_one(
    state: ControllerState, name: str, index: int, election_type: int
) -> tuple[ErrorCode, str | None, MetadataRecord | None]:
    partition, topic = state.image.partition(name, index), state.image.topic(name)
    if partition is None or topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}", None
    if election_type == PREFERRED_TYPE:
        preferred = partition.replicas[0]
        if partition.leader == preferred:
            return ErrorCode.ELECTION_NOT_NEEDED, None, None
        record = change(topic.id, index, partition, state.may_lead(), election=Election.PREFERRED)
        if record is None or record.leader != preferred:
            return (
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"the preferred leader {preferred} is not an active member of the ISR",
                None,
            )
        return ErrorCode.NONE, None, record
    if partition.leader != NO_BROKER:
        return ErrorCode.ELECTION_NOT_NEEDED, None, None
    record = change(topic.id, index, partition, state.may_lead(), election=Election.UNCLEAN)
    if record is None:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is active", None
    return ErrorCode.NONE, None, record

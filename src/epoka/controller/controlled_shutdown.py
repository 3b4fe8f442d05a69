"""A broker leaves in order: first its leaderships and its places in ISRs, then the broker.

It is let go when it leads nothing and every active broker has read the log far enough to know that, so
nobody goes on fetching from it. From `eligible-isr` on the shutdown is a record: leaders learn of it, a new
controller finds it, and only the broker's next life ends it (KIP-841). Below that it is soft state. That
it was let go is a record at every level: a heartbeat that comes late must not bring it back.
"""

from __future__ import annotations

import msgspec

from epoka import fencing
from epoka.controller.decision import Decision, refusal
from epoka.controller.elections import leave_all
from epoka.controller.partition_change import change
from epoka.controller.state import ControllerState
from epoka.model.ids import NO_BROKER
from epoka.model.image import PartitionRef
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FeatureLevel
from epoka.model.records import MetadataRecord
from epoka.model.registrations import BrokerRegistration
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from epoka.wire.messages.metadata_records import BrokerRegistrationChangeRecord


def steps(state: ControllerState, broker: BrokerRegistration) -> list[MetadataRecord]:
    """The shutdown itself, unless it is on record, and whatever the broker still has to give up."""
    records: list[MetadataRecord] = []
    if _is_persisted(state) and not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
            )
        )
    return [*records, *leave_all(state, broker.id)]


def may_go(state: ControllerState, broker: BrokerRegistration) -> bool:
    """Whether a stopping broker leads nothing, and every active one knows."""
    session = state.sessions.get(broker.id)
    if session is None or session.shutdown_offset is None or state.image.leads_any(broker.id):
        return False
    lowest = state.lowest_active_offset(leaving=broker.id)
    return lowest is None or session.shutdown_offset <= lowest


def release(state: ControllerState, broker: BrokerRegistration) -> list[MetadataRecord]:
    """The broker is fenced, and on record as stopping: it can't be unfenced in this life."""
    if broker.fenced and broker.in_controlled_shutdown:
        return []
    return [
        *leave_all(state, broker.id),
        BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, fenced=1, in_controlled_shutdown=1
        ),
    ]


def untold(state: ControllerState, broker: BrokerRegistration) -> list[LedgerEvent]:
    """What the ledger must be told of a beginning shutdown because no record tells it."""
    if _is_persisted(state) or state.stopping(broker.id):
        return []
    return [
        LedgerEvent(
            kind="stopping",
            rule="shutdown.generation",
            broker=broker.id,
            broker_epoch=broker.epoch,
            detail="controlled shutdown, known to this controller only",
        )
    ]


def _is_persisted(state: ControllerState) -> bool:
    return state.image.level >= FeatureLevel.ELIGIBLE_ISR


class Shutdown(msgspec.Struct, frozen=True):
    """What a ControlledShutdown request leads to."""

    decision: Decision
    broker: BrokerRegistration | None = None
    """None when the request was refused."""
    stops: tuple[PartitionRef, ...] = ()
    """What the broker follows and is told to stop following."""


def on_controlled_shutdown(state: ControllerState, request: ControlledShutdownRequest) -> Shutdown:
    """KIP-380's request. Partitions with one replica never stand in the way; where the broker is the last
    ISR member it stays leader, and that is what it is told."""
    broker = state.image.broker(request.broker_id)
    verdict = state.rules.ask(
        fencing.shutdown.generation, request.broker_epoch, broker.epoch if broker else None
    )
    if verdict.refused or broker is None:
        error = verdict.error if verdict.refused else ErrorCode.BROKER_NOT_AVAILABLE
        events = [refusal(verdict, broker=request.broker_id, broker_epoch=request.broker_epoch)]
        return Shutdown(
            Decision(ControlledShutdownResponse(error_code=error), events=events if verdict.refused else [])
        )
    records: list[MetadataRecord] = []
    if _is_persisted(state) and not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
            )
        )
    may_lead = state.may_lead(leaving=broker.id)
    stops, remaining = [], []
    for ref in state.image.hosted_by(broker.id):
        partition = state.image.state(ref)
        if len(partition.replicas) < 2 or partition.leader == NO_BROKER:
            continue
        isr = [member for member in partition.isr if member != broker.id]
        # Whoever leads for want of another stays, though it may be stopping, too: it has been told so.
        stays = None if partition.leader == broker.id else partition.leader
        record = change(
            ref.topic.id,
            ref.index,
            partition,
            lambda candidate, stays=stays: candidate == stays or may_lead(candidate),  # type: ignore[misc]
            isr=isr,
            renews=state.renews_leaders,
        )
        if partition.leader == broker.id:
            if record is None or record.leader == NO_BROKER:
                remaining.append(RemainingPartition(topic_name=ref.topic.name, partition_index=ref.index))
                continue
        else:
            stops.append(ref)
        if record is not None:
            records.append(record)
    response = ControlledShutdownResponse(remaining_partitions=tuple(remaining))
    decision = Decision(
        response,
        records,
        rule="shutdown.generation",
        because="controlled shutdown",
        events=untold(state, broker),
    )
    return Shutdown(decision, broker, tuple(stops))

"""A broker leaves in order: first its leaderships and its places in ISRs, then the broker.

It is let go when it leads nothing and every active broker has read the log far enough to know that, so
nobody goes on fetching from it. From `eligible-isr` on the shutdown is a record: leaders learn of it, a new
controller finds it, and only the broker's next life ends it (KIP-841). Below that it is soft state.
"""

from __future__ import annotations

from epoka.controller.elections import leave_all
from epoka.controller.state import ControllerState
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FeatureLevel
from epoka.model.records import MetadataRecord
from epoka.model.registrations import BrokerRegistration
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

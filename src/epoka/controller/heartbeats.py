"""What a heartbeat leads to: fenced, unfenced, stopping, free to go. And what silence leads to.

The order of records depends on the step, so that a reader who stops anywhere in between sees nothing wrong:
to fence, first the partitions, then the broker; to unfence and to stop, first the broker, then the
partitions.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from epoka import fencing
from epoka.controller import controlled_shutdown
from epoka.controller.decision import Decision, refusal
from epoka.controller.elections import lead_again, leave_all
from epoka.controller.state import ControllerState
from epoka.model.ids import BrokerId
from epoka.model.records import MetadataRecord
from epoka.model.registrations import BrokerRegistration
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from epoka.wire.messages.metadata_records import BrokerRegistrationChangeRecord


class Standing(Enum):
    """Where a broker stands between two heartbeats."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    STOPPING = "stopping"
    RELEASED = "released"
    """Fenced, and told to shut down now."""


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """The decision on a heartbeat, and the standing it leads to; None when the heartbeat was refused."""

    decision: Decision
    standing: Standing | None = None


def on_broker_heartbeat(state: ControllerState, request: BrokerHeartbeatRequest) -> Heartbeat:
    broker = state.image.broker(request.broker_id)
    verdict = state.rules.ask(
        fencing.heartbeat.generation, request.broker_epoch, broker.epoch if broker else None
    )
    if verdict.refused or broker is None:
        error = verdict.error if verdict.refused else ErrorCode.BROKER_ID_NOT_REGISTERED
        return Heartbeat(
            Decision(
                BrokerHeartbeatResponse(error_code=error),
                events=[refusal(verdict, broker=request.broker_id, broker_epoch=request.broker_epoch)],
            )
        )
    standing = next_standing(state, broker, request)
    records, rule, because = _steps(state, broker, standing)
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=standing in (Standing.FENCED, Standing.RELEASED),
        should_shut_down=standing is Standing.RELEASED,
    )
    events = controlled_shutdown.untold(state, broker) if standing is Standing.STOPPING else []
    return Heartbeat(Decision(response, records, rule=rule, because=because, events=events), standing)


def next_standing(
    state: ControllerState, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> Standing:
    """The transition table. A broker is unfenced only when it has read its own registration."""
    if broker.fenced:
        # Whoever has asked to go never asks to stay: without the wish it is a late heartbeat.
        if request.want_shut_down or broker.in_controlled_shutdown:
            return Standing.RELEASED
        wants_in = not request.want_fence and not _has_no_disk(broker, request)
        if wants_in and request.current_metadata_offset >= broker.epoch:
            return Standing.UNFENCED
        return Standing.FENCED
    if state.stopping(broker.id):
        return Standing.RELEASED if controlled_shutdown.may_go(state, broker) else Standing.STOPPING
    if request.want_fence or _has_no_disk(broker, request):
        return Standing.RELEASED if request.want_shut_down else Standing.FENCED
    if request.want_shut_down:
        return Standing.STOPPING if state.image.leads_any(broker.id) else Standing.RELEASED
    return Standing.UNFENCED


def _has_no_disk(broker: BrokerRegistration, request: BrokerHeartbeatRequest) -> bool:
    """All its log directories are offline: nothing is left that it could lead or follow with."""
    offline = set(request.offline_log_dirs)
    return bool(offline) and offline.issuperset(broker.log_dirs)


def _steps(
    state: ControllerState, broker: BrokerRegistration, standing: Standing
) -> tuple[list[MetadataRecord], str, str]:
    """Records for the way from where the broker is to its next standing, and what they rest on."""
    if standing is Standing.UNFENCED and broker.fenced:
        return unfence(state, broker), "heartbeat.generation", "caught up with its own registration"
    if standing is Standing.STOPPING:
        return controlled_shutdown.steps(state, broker), "shutdown.generation", "controlled shutdown"
    if standing is Standing.RELEASED:
        released = controlled_shutdown.release(state, broker)
        return released, "shutdown.generation", "controlled shutdown granted"
    if standing is Standing.FENCED and not broker.fenced:
        return fence(state, broker), "heartbeat.generation", "the broker wants to be fenced"
    return [], "", ""


def fence(state: ControllerState, broker: BrokerRegistration) -> list[MetadataRecord]:
    return [
        *leave_all(state, broker.id),
        BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=1),
    ]


def unfence(state: ControllerState, broker: BrokerRegistration) -> list[MetadataRecord]:
    return [
        BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=-1),
        *lead_again(state, broker.id),
    ]


def next_silent(state: ControllerState, now: int) -> tuple[Decision, BrokerId] | None:
    """The fencing of the unfenced broker that has been silent for longest, if that is too long.

    One at a time: each election must see the result of the one before (KAFKA-13173).
    """
    for contact_ms, broker_id in state.sessions.by_silence():
        broker = state.image.broker(broker_id)
        if broker is None or broker.fenced:
            continue
        verdict = state.rules.ask(fencing.heartbeat.session, contact_ms, now, state.config.session_timeout_ms)
        if verdict.accepted:
            return None
        decision = Decision(
            None,
            fence(state, broker),
            rule=verdict.rule,
            because=verdict.reason,
            events=[refusal(verdict, broker=broker.id, broker_epoch=broker.epoch)],
        )
        return decision, broker.id
    return None


def next_silence_deadline(state: ControllerState) -> int | None:
    """When the next unfenced broker will have been silent for too long."""
    if "heartbeat.session" in state.rules.off:
        return None
    first = state.sessions.longest_silent()
    if first is None:
        return None
    broker = state.image.broker(first[1])
    if broker is not None and not broker.fenced:
        return first[0] + state.config.session_timeout_ms + 1
    for contact_ms, broker_id in state.sessions.by_silence():
        broker = state.image.broker(broker_id)
        if broker is not None and not broker.fenced:
            return contact_ms + state.config.session_timeout_ms + 1
    return None

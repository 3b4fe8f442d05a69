"""Blocks of producer ids: each id is given out once in the life of the cluster."""

from __future__ import annotations

from epoka import fencing
from epoka.controller.decision import Decision, refusal
from epoka.controller.state import ControllerState
from epoka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from epoka.wire.messages.metadata_records import ProducerIdsRecord


def on_allocate_producer_ids(state: ControllerState, request: AllocateProducerIdsRequest) -> Decision:
    verdict = state.rules.ask(
        fencing.registration.requester, request.broker_epoch, state.registered_epoch(request.broker_id)
    )
    if verdict.refused:
        return Decision(
            AllocateProducerIdsResponse(error_code=verdict.error),
            events=[refusal(verdict, broker=request.broker_id, broker_epoch=request.broker_epoch)],
        )
    start, length = state.image.next_producer_id, state.config.producer_id_block
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=start + length
    )
    return Decision(AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=length), [record])

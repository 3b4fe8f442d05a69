"""InitProducerId: an identity for an idempotent producer. Transactional ids are refused (docs/skipped.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import init_producer_id as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.InitProducerIdRequest
VERSIONS = (0, 5)


def handle(core: BrokerCore, request: Request, now: int) -> wire.InitProducerIdResponse | None:
    if request.message.transactional_id is not None:
        return wire.InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    answered: list[int | None] = []

    def given(producer_id: int | None) -> None:
        if producer_id is None:
            response = wire.InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            response = wire.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        core.respond(request, response)

    core.wait(request, answered.clear)
    core.producer_ids.take(given, now + core.config.request_timeout_ms)
    return None

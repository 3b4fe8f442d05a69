"""Producer ids for idempotent producers, taken from the controller a block at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from epoka.model.events import CONTROLLER
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import allocate_producer_ids as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

RETRY_MS = 100

Given = Callable[[int | None], None]


class ProducerIds:
    def __init__(self, core: BrokerCore) -> None:
        self.core = core
        self._next = 0
        self._end = 0
        self._asking = False
        self._waiting: deque[tuple[int, Given]] = deque()

    def take(self, given: Given, by_ms: int) -> None:
        """Call `given` with a fresh id, now or when a block has come; with None when none came in time."""
        self._waiting.append((by_ms, given))
        self._serve(self.core.now)

    def _serve(self, now: int) -> None:
        while self._waiting and self._next < self._end:
            _, given = self._waiting.popleft()
            self._next += 1
            given(self._next - 1)
        while self._waiting and self._waiting[0][0] <= now:
            self._waiting.popleft()[1](None)
        if self._waiting and not self._asking:
            self._ask(now)

    def _ask(self, now: int) -> None:
        self._asking = True
        request = wire.AllocateProducerIdsRequest(
            broker_id=self.core.config.broker_id, broker_epoch=self.core.lifecycle.broker_epoch
        )
        self.core.send(CONTROLLER, request, 0, self._answered)

    def _answered(self, reply: wire.AllocateProducerIdsResponse | None, now: int) -> None:
        if reply is None or reply.error_code != ErrorCode.NONE:
            self.core.deadlines.at(now + RETRY_MS, self._again)
            return
        self._asking = False
        self._next = reply.producer_id_start
        self._end = reply.producer_id_start + reply.producer_id_len
        self._serve(now)

    def _again(self, now: int) -> None:
        self._asking = False
        self._serve(now)

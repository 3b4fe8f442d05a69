"""How state reaches brokers in log mode, and onlookers in both: they read the log, and wait at its end.

Decides nothing about the cluster. Whoever waits is answered when there are records for it, or when its time
is up; nobody is kept by a controller that has failed.
"""

from __future__ import annotations

from epoka.controller import fetch_metadata
from epoka.controller.decision import Decision
from epoka.controller.fetch_metadata import Parked
from epoka.controller.metadata_log import MetadataLog
from epoka.controller.state import ControllerState
from epoka.model.events import Effect, Hangup, Request, Respond
from epoka.wire.messages.fetch_metadata import FetchMetadataRequest


class Reading:
    def __init__(self, state: ControllerState, log: MetadataLog) -> None:
        self._state = state
        self._log = log
        self._parked: list[Parked] = []

    @property
    def deadline(self) -> int | None:
        return min([parked.until_ms for parked in self._parked]) if self._parked else None

    def fetch(self, message: FetchMetadataRequest, request: Request, now: int) -> Decision | list[Effect]:
        """The refusal of a fetch, or what follows from it at once: an answer, or nothing yet."""
        refused = fetch_metadata.on_fetch_metadata(self._state, message, self._log.end_offset)
        if refused:
            return refused
        if message.from_offset == self._log.end_offset and message.max_wait_ms > 0:
            until_ms = now + min(message.max_wait_ms, self._state.config.max_fetch_wait_ms)
            self._parked.append(Parked(request.token, request.peer.connection, message, until_ms))
            return []
        return [Respond(request.token, fetch_metadata.answer(self._state, self._log, message, now))]

    def applied(self, now: int) -> list[Effect]:
        """Answer whoever waits for what is there now, or has waited long enough."""
        effects: list[Effect] = []
        waiting = []
        for parked in self._parked:
            if parked.request.from_offset < self._log.end_offset or parked.until_ms <= now:
                response = fetch_metadata.answer(self._state, self._log, parked.request, now)
                effects.append(Respond(parked.token, response))
            else:
                waiting.append(parked)
        self._parked = waiting
        return effects

    def disconnected(self, connection: int) -> None:
        self._parked = [parked for parked in self._parked if parked.connection != connection]

    def end(self, reason: str) -> list[Effect]:
        """The controller has failed: nobody is answered any more."""
        effects: list[Effect] = [Hangup(parked.token, reason) for parked in self._parked]
        self._parked = []
        return effects

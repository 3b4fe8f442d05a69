"""The broker as one state machine: `handle(event, now)` in, effects out.

It decides what a broker answers, replicates and refuses; it never awaits, reads a clock or touches a socket.
Requests go to the module of their API in `api/`; everything that lasts longer than one call lives in the
objects below. `handle` is the only method that changes anything from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from epoka.broker import api
from epoka.broker.config import BrokerConfig
from epoka.broker.control_feed import CONTROL_REQUESTS, ControlFeed
from epoka.broker.deadlines import Deadline, Deadlines
from epoka.broker.fetch_sessions import FetchSessions
from epoka.broker.following import Following
from epoka.broker.isr_changes import IsrChanges
from epoka.broker.lifecycle import Lifecycle, LifeState
from epoka.broker.metadata_feed import MetadataFeed
from epoka.broker.offsets_topic import OffsetsTopic
from epoka.broker.pipelines import Pipelines
from epoka.broker.producer_ids import ProducerIds
from epoka.broker.registry_life import RegistryLife
from epoka.broker.replicas import Logs, Replicas
from epoka.fencing.verdict import Rules, Verdict
from epoka.log.store import StorageError
from epoka.model import ledger_outbox
from epoka.model.events import (
    Disconnected,
    Effect,
    Event,
    Hangup,
    IsrWritten,
    Registered,
    Reply,
    Report,
    Request,
    Respond,
    Send,
    SettingsRead,
    Stop,
    StorageFailed,
    Wake,
)
from epoka.model.image import ClusterImage, Delta
from epoka.model.ledger import LedgerEvent
from epoka.model.ledger_outbox import LedgerOutbox

EVENTS_PER_MS = 1024

Answered = Callable[[Any, int], None]
"""What to do with the answer to a request of ours; the message is None when there was none."""


class BrokerCore:
    def __init__(
        self,
        config: BrokerConfig,
        logs: Logs,
        new_member_id: Callable[[str], str],
        rules: Rules | None = None,
    ) -> None:
        self.config = config
        self.rules = rules or Rules()
        self.image = ClusterImage()
        self.deadlines = Deadlines()
        self.lifecycle: Lifecycle = RegistryLife(self) if config.zookeeper else Lifecycle(self)
        self.feed: MetadataFeed | ControlFeed = ControlFeed(self) if config.zookeeper else MetadataFeed(self)
        self.replicas = Replicas(self, logs)
        self.following = Following(self)
        self.isr_changes = IsrChanges(self)
        self.sessions = FetchSessions(config.fetch_session_slots, config.incarnation_id)
        self.pipelines = Pipelines()
        self.producer_ids = ProducerIds(self)
        self.creating: set[str] = set()
        """Topics that this broker has asked the controller to make."""
        self.offsets = OffsetsTopic(self, new_member_id)
        self.handlers = {**api.HANDLERS, **api.CONTROL_HANDLERS} if config.zookeeper else api.HANDLERS
        self.served = {handler.key: handler.versions for handler in self.handlers.values()}
        """API key to the versions that are really served."""
        self.now = 0
        """The time of the event that is being handled."""
        self._effects: list[Effect] = []
        self._applied: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self._answered: dict[int, Answered] = {}
        self._next_token = 1
        self._event_id = 0
        self._outbox = LedgerOutbox()
        self._outbox_alarm: Deadline | None = None
        self._waiting: dict[int, dict[int, Callable[[], None]]] = {}
        self._early: list[Request] = []
        """Control requests that wait until this life is registered."""

    @property
    def deadline(self) -> int | None:
        heap = self.deadlines.heap
        if heap and heap[0][2].call is not None:
            return heap[0][0]
        return self.deadlines.next

    def start(self, now: int) -> list[Effect]:
        self._effects = []
        self.now = now
        # A later life never repeats an id, so a reader of the ledger can tell events apart.
        self._event_id = now * EVENTS_PER_MS
        self.lifecycle.start(now)
        self.replicas.start(now)
        return self._effects

    def handle(self, event: Event, now: int) -> list[Effect]:
        effects: list[Effect] = []
        self._effects = effects
        self.now = now
        kind = type(event)
        if kind is Request:
            self._on_request(event, now)  # type: ignore[arg-type]
        elif kind is Wake:
            self.deadlines.run(now)
        elif isinstance(event, Reply):
            answered = self._answered.pop(event.token, None)
            if answered is not None:
                answered(event.message, now)
        elif isinstance(event, Disconnected):
            for forget in self._waiting.pop(event.connection, {}).values():
                forget()
            self.pipelines.ended(event.connection)
            self._early = [each for each in self._early if each.peer.connection != event.connection]
        elif isinstance(event, Stop):
            self.lifecycle.stop(now)
        elif isinstance(event, StorageFailed):
            self.replicas.storage_failed(event.reason, now)
        elif isinstance(event, IsrWritten):
            self.isr_changes.written(event, now)
        elif isinstance(self.feed, ControlFeed) and isinstance(self.lifecycle, RegistryLife):
            if isinstance(event, Registered):
                self.lifecycle.registered(event.epoch, now)
                early, self._early = self._early, []
                for request in early:
                    self._on_request(request, now)
            elif isinstance(event, SettingsRead):
                self.feed.settings_read(event, now)
                self.lifecycle.settings_read(now)
        return effects

    def _is_early(self, request: Request) -> bool:
        """Whether a control request has come before this life has a generation to compare with.

        It may be for the life before, whose session is not over yet, or for this one, if the controller saw
        the registration first. So it waits.
        """
        if not isinstance(self.feed, ControlFeed) or self.lifecycle.broker_epoch >= 0:
            return False
        message = request.message
        return (
            isinstance(message, CONTROL_REQUESTS) and max(message.broker_epoch, message.max_broker_epoch) >= 0
        )

    def _on_request(self, request: Request, now: int) -> None:
        handler = self.handlers[type(request.message)]
        if handler.control and not request.peer.control:
            self.emit(
                Hangup(
                    request.token, f"{type(request.message).__name__} is for brokers and controllers alone"
                )
            )
            return
        if handler.control and self._is_early(request):
            self._early.append(request)
            return
        self.lifecycle.notice_silence(now)
        if not request.peer.control and not handler.always and not self.lifecycle.serving():
            refusal = handler.refuse(self, request) if handler.refuse is not None else None
            if refusal is None:
                self.emit(Hangup(request.token, "this broker does not serve now"))
            else:
                self.emit(Respond(request.token, refusal))
            return
        answer = handler.handle(self, request, now)
        if answer is not None:
            self.emit(Respond(request.token, answer))

    # What the parts of the broker use to speak to the outside.

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def send(
        self,
        to: int,
        message: Any,
        version: int,
        answered: Answered,
        *,
        lane: int = 0,
        timeout_ms: int | None = None,
    ) -> None:
        token = self._next_token
        self._next_token += 1
        self._answered[token] = answered
        self._effects.append(
            Send(to, token, message, version, timeout_ms or self.config.request_timeout_ms, lane)
        )

    def respond(self, request: Request, message: Any | None) -> None:
        """Answer a request that had to wait."""
        waiting = self._waiting.get(request.peer.connection)
        if waiting is not None:
            waiting.pop(request.token, None)
        self._effects.append(Respond(request.token, message))

    def wait(self, request: Request, forget: Callable[[], None]) -> None:
        """A request waits from now on; if its connection goes, `forget` drops what waits."""
        self._waiting.setdefault(request.peer.connection, {})[request.token] = forget

    def report(self, event: LedgerEvent, now: int) -> None:
        self._event_id += 1
        stamped = msgspec.structs.replace(
            event,
            time_ms=now,
            node=self.config.broker_id,
            generation=self.lifecycle.broker_epoch,
            event_id=self._event_id,
        )
        self._effects.append(Report(stamped))
        if self.config.ledger_topic:
            self._outbox.add(stamped, now)
            self._send_ledger_later()

    def report_verdict(self, verdict: Verdict, now: int, **about: Any) -> None:
        self.report(
            LedgerEvent(
                kind="verdict",
                rule=verdict.rule,
                verdict="accepted" if verdict.accepted else "refused",
                error=verdict.error.name,
                given=verdict.given,
                expected=verdict.expected,
                detail=verdict.reason,
                **about,
            ),
            now,
        )

    def _send_ledger_later(self) -> None:
        due = self._outbox.due
        if due is not None and (self._outbox_alarm is None or self._outbox_alarm.call is None):
            self._outbox_alarm = self.deadlines.at(due, self._send_ledger)

    def _send_ledger(self, now: int) -> None:
        state = self.image.partition(ledger_outbox.TOPIC, 0)
        if state is None or state.leader < 0 or self.lifecycle.broker_epoch < 0:
            self._outbox.put_off(now)
        elif (request := self._outbox.request(now)) is not None:
            self.send(
                state.leader,
                request,
                ledger_outbox.PRODUCE_VERSION,
                self._ledger_answered,
                timeout_ms=ledger_outbox.TIMEOUT_MS * 2,
            )
        self._send_ledger_later()

    def _ledger_answered(self, reply: Any, now: int) -> None:
        self._outbox.answered(reply, now)
        self._send_ledger_later()

    # Metadata.

    def ready_to_serve(self) -> bool:
        """False asks the controller to fence this broker: its disk has failed, and others can take over.

        A broker that is alone goes on: what it has can still be read.
        """
        if self.replicas.offline_reason is None:
            return True
        return not any(
            each.active for each in self.image.brokers.values() if each.id != self.config.broker_id
        )

    def replace_image(self, image: ClusterImage, delta: Delta, now: int) -> None:
        """A snapshot: whatever the new image does not know any more is gone, though no record says so."""
        gone = [topic for topic in self.image.topics() if image.topic(topic.id) is None]
        # What was read and not acted on, because this life was not registered, is in neither image.
        gone += self.image.collected().deleted_topics
        delta = msgspec.structs.replace(delta, deleted_topics=tuple(gone))
        self.image = image
        self.replicas.replace_all(now)
        self.apply(delta, now)

    def apply(self, delta: Delta, now: int) -> None:
        """Bring replicas, fetchers and coordinators in line with what changed in the image."""
        self.replicas.apply(delta, now)
        try:
            self.offsets.apply(delta, now)
        except StorageError as error:
            self.replicas.storage_failed(str(error), now)
        waiting, self._applied = self._applied, []
        for seen, then in waiting:
            if seen():
                then()
            else:
                self._applied.append((seen, then))

    def when_seen(self, seen: Callable[[], bool], then: Callable[[], None], by_ms: int) -> None:
        """Do `then` as soon as the image shows what was asked for, or at `by_ms` at the latest."""
        if seen():
            then()
            return
        entry = (seen, then)
        self._applied.append(entry)

        def give_up(now: int) -> None:
            if entry in self._applied:
                self._applied.remove(entry)
                then()

        self.deadlines.at(by_ms, give_up)

    @property
    def controller_epoch(self) -> int:
        """The controller that was last obeyed; -1 in log mode, where the log says what counts."""
        return self.feed.controller_epoch if isinstance(self.feed, ControlFeed) else -1

    def stopping(self) -> bool:
        return self.lifecycle.state is LifeState.STOPPING

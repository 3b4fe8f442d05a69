"""The controller in zookeeper mode: what the registry, heartbeats and shutdowns lead to, step by step.

Each step is a decision that is written and replayed before the next one is made, because the next one rests
on it: failure handling, then the new generation, then start-up handling. A higher generation in a heartbeat
is a bounce that the registry has not told of yet, and is handled like one (KIP-343 with KIP-380).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Final

import msgspec

from epoka import fencing
from epoka.controller import controlled_shutdown, heartbeats, registry
from epoka.controller.decision import Decision, refusal
from epoka.controller.partition_change import change
from epoka.controller.push import Offline, Push
from epoka.controller.state import ControllerState
from epoka.model.events import Effect, RegistryChanged, RegistryEntry, Request
from epoka.model.ids import BrokerId
from epoka.model.levels import FeatureLevel
from epoka.model.records import MetadataRecord
from epoka.model.registrations import WITH_HEARTBEATS, BrokerRegistration
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.controlled_shutdown import ControlledShutdownRequest
from epoka.wire.messages.metadata_heartbeat import MetadataHeartbeatRequest, MetadataHeartbeatResponse

CarryOut = Callable[[Callable[[], Decision], int, "int | None"], list[Effect]]
"""The core's: make a decision, write it, replay it, answer."""


class BrokerState(IntEnum):
    """KIP-343's states."""

    INITIAL = 0
    INACTIVE = 1
    ACTIVE = 2
    STOPPING = 3


_STATES: Final = {state.value: state for state in BrokerState}


class RegistryMode:
    def __init__(self, state: ControllerState, push: Push, decide: CarryOut) -> None:
        self._state = state
        self._push = push
        self._decide = decide
        self._picture: RegistryChanged | None = None
        self._versions: dict[int, int] = {}

    # The registry.

    def registry_changed(self, picture: RegistryChanged, now: int) -> list[Effect]:
        state, push = self._state, self._push
        takeover = not push.ready
        self._picture = picture
        self._versions = {entry.id: entry.version for entry in picture.registrations}
        push.registry_read(picture.registrations)
        changes = registry.compare(state, picture)
        effects: list[Effect] = []
        # Who goes on living comes first: a new controller must know whom it may elect for those who do not.
        for entry in changes.living:
            effects += self._decide(self._refreshed(entry, takeover), now, None)
        for entry in changes.new:
            if not takeover:
                # Below `eligible-isr` a leader may have taken the life before into an ISR after its end.
                effects += self._decide(self._left(entry.id, "its session had ended"), now, None)
            effects += self._begin(entry, "a new broker", now, takeover=takeover)
        for broker in changes.dead:
            effects += self._end(broker, "its session ended", now)
        for entry in changes.bounced:
            effects += self._bounce(entry, now)
        if takeover:
            for broker_id in registry.strangers(state):
                effects += self._decide(self._left(broker_id, "it was gone before the takeover"), now, None)
            # Who came back while there was no controller is no news to this one, and still may be waited for.
            for entry in changes.living:
                effects += self._decide(partial(registry.start_up, state, entry.id), now, None)
        for entry in picture.registrations:
            self._keep_session(entry.id, now)
        push.ready = True
        return effects + push.applied(now)

    def level_changed(self, now: int) -> list[Effect]:
        """Bounces that the level before could not see are seen now."""
        return [] if self._picture is None else self.registry_changed(self._picture, now)

    def _begin(self, entry: RegistryEntry, because: str, now: int, *, takeover: bool = False) -> list[Effect]:
        state = self._state
        effects = self._decide(lambda: registry.begin(state, entry, because, takeover=takeover), now, None)
        return effects + self._decide(lambda: registry.start_up(state, entry.id), now, None)

    def _end(self, broker: BrokerRegistration, because: str, now: int) -> list[Effect]:
        self._state.sessions.drop(broker.id)
        return self._decide(lambda: registry.end(self._state, broker, because), now, None)

    def _bounce(self, entry: RegistryEntry, now: int) -> list[Effect]:
        known = self._state.image.broker(entry.id)
        assert known is not None
        effects = self._end(known, f"generation {entry.epoch} followed", now)
        return effects + self._begin(entry, f"after generation {known.epoch}", now)

    def _left(self, broker_id: int, because: str) -> Callable[[], Decision]:
        return lambda: registry.left(self._state, broker_id, because)

    def _refreshed(self, entry: RegistryEntry, takeover: bool) -> Callable[[], Decision]:
        return lambda: registry.refresh(self._state, entry, takeover=takeover)

    def _keep_session(self, broker_id: int, now: int) -> None:
        """A broker with heartbeats has a session from the moment it is active; fenced ones need none."""
        broker = self._state.image.broker(broker_id)
        if broker is not None and not broker.fenced and self._beats(broker_id):
            session = self._state.sessions.get(broker_id)
            if session is None or not session.beats or session.epoch != broker.epoch:
                self._state.sessions.heard(broker.id, broker.epoch, now)

    def _beats(self, broker_id: int) -> bool:
        return self._versions.get(broker_id, 0) >= WITH_HEARTBEATS

    # Heartbeats.

    def metadata_heartbeat(self, request: Request, now: int) -> list[Effect]:
        message: MetadataHeartbeatRequest = request.message
        refused = self._refused(message)
        if refused is not None:
            return self._decide(lambda: refused, now, request.token)
        broker = self._state.image.broker(message.broker_id)
        effects: list[Effect] = []
        if broker is not None and message.incarnation_id > broker.epoch:
            effects += self._adopt(broker, message.incarnation_id, now)
        return effects + self._decide(lambda: self._heartbeat(message, now), now, request.token)

    def _refused(self, message: MetadataHeartbeatRequest) -> Decision | None:
        if message.broker_id < 0 or message.target_state not in _STATES:
            return Decision(
                MetadataHeartbeatResponse(
                    error_code=ErrorCode.INVALID_REQUEST, error_string="no such broker id or state"
                )
            )
        verdict = self._state.rules.ask(
            fencing.heartbeat.generation,
            message.incarnation_id,
            self._state.registered_epoch(message.broker_id),
            adopts_higher=True,
        )
        if verdict.accepted:
            return None
        return Decision(
            MetadataHeartbeatResponse(
                error_code=verdict.error, error_string=verdict.reason, current_state=BrokerState.INACTIVE
            ),
            events=[refusal(verdict, broker=message.broker_id, broker_epoch=message.incarnation_id)],
        )

    def _adopt(self, broker: BrokerRegistration, epoch: int, now: int) -> list[Effect]:
        """The registry will tell the rest of it; until then what is known of the life before is taken."""
        if not registry.is_bounce(self._state, broker, epoch):
            return []
        entry = RegistryEntry(
            broker.id,
            epoch,
            self._versions.get(broker.id, WITH_HEARTBEATS),
            broker.endpoints,
            broker.rack,
            broker.features,
        )
        return self._bounce(entry, now)

    def _heartbeat(self, message: MetadataHeartbeatRequest, now: int) -> Decision:
        state = self._state
        broker = state.image.broker(message.broker_id)
        if broker is None:
            # The registry has not told of this life yet; it will.
            return Decision(MetadataHeartbeatResponse(current_state=BrokerState.INITIAL))
        target = _STATES[message.target_state]
        if not broker.fenced:
            self._contact(broker, now)
        if target is BrokerState.STOPPING:
            return self._stop(broker, now)
        if broker.fenced:
            if target is not BrokerState.ACTIVE:
                return self._answer(BrokerState.INACTIVE)
            if self._beats(broker.id):
                state.sessions.heard(broker.id, broker.epoch, now)
            return self._answer(
                BrokerState.ACTIVE,
                heartbeats.unfence(state, broker),
                "heartbeat.generation",
                "it asked to be",
            )
        if state.stopping(broker.id):
            return self._stop(broker, now)
        if target is BrokerState.ACTIVE or not self._beats(broker.id):
            return self._answer(BrokerState.ACTIVE)
        return self._answer(
            BrokerState.INACTIVE,
            heartbeats.fence(state, broker),
            "heartbeat.generation",
            "the broker wants to be inactive",
        )

    def _contact(self, broker: BrokerRegistration, now: int) -> None:
        if self._beats(broker.id):
            self._state.sessions.heard(broker.id, broker.epoch, now)
        else:
            self._state.sessions.attend(broker.id, broker.epoch, now)

    def _stop(self, broker: BrokerRegistration, now: int) -> Decision:
        """Stopping, and inactive once it leads nothing and every active broker has been told."""
        state = self._state
        if broker.fenced:
            return self._answer(BrokerState.INACTIVE)
        session = state.sessions.get(broker.id)
        if (
            session is not None
            and session.shutdown_offset is not None
            and not state.image.leads_any(broker.id)
        ):
            told = self._push.acknowledged(leaving=broker.id)
            if told is None or told >= session.shutdown_offset:
                return self._answer(
                    BrokerState.INACTIVE,
                    heartbeats.fence(state, broker),
                    "shutdown.generation",
                    "controlled shutdown granted",
                )
        events = controlled_shutdown.untold(state, broker)
        records = controlled_shutdown.steps(state, broker)
        state.sessions.begin_shutdown(broker.id, state.image.offset + len(records))
        decision = self._answer(BrokerState.STOPPING, records, "shutdown.generation", "controlled shutdown")
        return msgspec.structs.replace(decision, events=events)

    def _answer(
        self,
        current: BrokerState,
        records: list[MetadataRecord] | None = None,
        rule: str = "",
        because: str = "",
    ) -> Decision:
        return Decision(
            MetadataHeartbeatResponse(current_state=current), records or [], rule=rule, because=because
        )

    # Controlled shutdown by request.

    def controlled_shutdown(self, request: Request, now: int) -> list[Effect]:
        message: ControlledShutdownRequest = request.message
        state = self._state

        def decide() -> Decision:
            shutdown = controlled_shutdown.on_controlled_shutdown(state, message)
            broker = shutdown.broker
            if broker is not None:
                self._contact(broker, now)
                state.sessions.begin_shutdown(
                    BrokerId(broker.id), state.image.offset + len(shutdown.decision.records)
                )
                self._push.stop(broker.id, shutdown.stops)
            return shutdown.decision

        return self._decide(decide, now, request.token) + self._push.applied(now)

    # What brokers answer, and what leaders write.

    def replicas_offline(self, offline: Offline, now: int) -> list[Effect]:
        """A broker can't hold these partitions: it leaves what it can leave of them."""
        state = self._state

        def decide() -> Decision:
            records: list[MetadataRecord] = []
            may_lead = state.may_lead(leaving=offline.broker_id)
            for name, index in offline.partitions:
                topic, partition = state.image.topic(name), state.image.partition(name, index)
                if topic is None or partition is None or offline.broker_id not in partition.isr:
                    continue
                isr = [member for member in partition.isr if member != offline.broker_id]
                record = change(topic.id, index, partition, may_lead, isr=isr, renews=state.renews_leaders)
                if record is not None:
                    records.append(record)
            return Decision(
                None, records, rule="reply.generation", because=f"broker {offline.broker_id} lost its disk"
            )

        return self._decide(decide, now, None)

    def follow_up(self, topic: str, index: int) -> Decision:
        """What a leader's own write leads to: a reassignment that it completes is ended, and an ISR that
        `eligible-isr` forbids, by a leader that was late in learning of the level, is put right."""
        state = self._state
        named, partition = state.image.topic(topic), state.image.partition(topic, index)
        if named is None or partition is None:
            return Decision()
        isr, rule, because = partition.isr, "leader.eligible", "the reassignment is complete"
        if state.image.level >= FeatureLevel.ELIGIBLE_ISR:
            isr = tuple(member for member in isr if state.may_join_isr(member).accepted)
            if len(isr) < len(partition.isr):
                rule, because = "isr.eligible", "written without being asked"
        if isr == partition.isr and not partition.adding and not partition.removing:
            return Decision()
        record = change(named.id, index, partition, state.may_lead(), isr=isr, renews=state.renews_leaders)
        return Decision(None, [] if record is None else [record], rule=rule, because=because)

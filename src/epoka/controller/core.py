"""The controller: every decision about who lives, who leads and who is in sync.

A handler looks at the state and decides: records and an answer. The core makes the records durable, replays
them into the image, and only then lets the answer go. Replaying is the only way the image changes, so a
restart that replays the log stands where the last controller stood. What is not in the log is soft: sessions,
waiting readers, queues of control requests.

Two modes, one core. In log mode brokers register here and read the log (`Reading`). In zookeeper mode, which
a `controller_epoch` asks for, they register elsewhere and are told by control requests (`Push`,
`RegistryMode`); onlookers still read the log.

The core does no I/O except through the metadata log, and reads no clock: time comes with every event. When
the log fails, the controller ends; it must not answer from a state that may not last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

import msgspec

from epoka.controller import (
    alter_partition,
    configs,
    elections,
    features,
    heartbeats,
    imbalance,
    isr_change,
    producer_ids,
    reassignments,
    registration,
    reports,
    topics,
)
from epoka.controller.config import ControllerConfig
from epoka.controller.decision import Decision, refusal
from epoka.controller.heartbeats import Standing
from epoka.controller.ledger_topic import LedgerTopic
from epoka.controller.metadata_log import (
    MetadataLog,
    MetadataLogFailed,
    Overtaken,
    SharedMetadataLog,
    Unwritable,
)
from epoka.controller.push import TOKENS, Push
from epoka.controller.reading import Reading
from epoka.controller.registry_mode import RegistryMode
from epoka.controller.sessions import Sessions
from epoka.controller.state import ControllerState
from epoka.fencing import ALL_RULES, Rules, Verdict
from epoka.model.errors import InvariantBroken
from epoka.model.events import (
    Disconnected,
    Effect,
    Event,
    Exit,
    Hangup,
    IsrChanged,
    RegistryChanged,
    Reply,
    Report,
    Request,
    Respond,
    Stop,
    StorageFailed,
    Wake,
)
from epoka.model.image import ClusterImage
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FEATURE_NAME
from epoka.model.records import MetadataRecord, decode_record, encode_record
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from epoka.wire.messages.alter_configs import AlterConfigsRequest
from epoka.wire.messages.alter_partition import AlterPartitionRequest
from epoka.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from epoka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from epoka.wire.messages.broker_registration import BrokerRegistrationRequest
from epoka.wire.messages.controlled_shutdown import ControlledShutdownRequest
from epoka.wire.messages.create_partitions import CreatePartitionsRequest
from epoka.wire.messages.create_topics import CreateTopicsRequest
from epoka.wire.messages.delete_topics import DeleteTopicsRequest
from epoka.wire.messages.elect_leaders import ElectLeadersRequest
from epoka.wire.messages.fetch_metadata import FetchMetadataRequest
from epoka.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from epoka.wire.messages.isr_change import IsrChangeRequest
from epoka.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from epoka.wire.messages.metadata_heartbeat import MetadataHeartbeatRequest
from epoka.wire.messages.metadata_records import FeatureLevelRecord
from epoka.wire.messages.unregister_broker import UnregisterBrokerRequest
from epoka.wire.messages.update_features import UpdateFeaturesRequest
from epoka.wire.refusals import refuse_all

_EVENTS_PER_MS = 1024
"""Event ids start at the time of the start times this, so that a later life never repeats an id."""


class ControllerCore:
    """`start` once, then `handle` for everything that happens. The runtime wakes it at `deadline`."""

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        log: MetadataLog,
        config: ControllerConfig,
        *,
        new_id: Callable[[], UUID],
        rules: Rules = ALL_RULES,
        controller_epoch: int | None = None,
    ) -> None:
        """`controller_epoch` is the mandate in zookeeper mode, where `log` is a `SharedMetadataLog`; without
        one the controller is in log mode."""
        self.log = log
        self.state = ControllerState(
            node_id,
            cluster_id,
            config,
            rules,
            ClusterImage(),
            Sessions(),
            new_id,
            pushes=controller_epoch is not None,
        )
        self.failed: str | None = None
        self._reading = Reading(self.state, log)
        self._push = None if controller_epoch is None else Push(self.state, controller_epoch)
        self._mandate = "" if controller_epoch is None else str(controller_epoch)
        self._registry = None if self._push is None else RegistryMode(self.state, self._push, self._decide)
        self._imbalance_check_ms: int | None = None
        self._snapshot_offset = -1
        self._next_event_id = 0
        self._ledger_topic = LedgerTopic(self.state, TOKENS * (controller_epoch or 0) + TOKENS // 2)
        self._several_steps: dict[type, Callable[[Request, int], list[Effect]]] = {
            FetchMetadataRequest: self._on_fetch_metadata
        }
        """Requests that lead to more than one decision."""
        self._requests: dict[type, Callable[[Any, Request, int], Decision]] = {
            AlterPartitionRequest: lambda message, request, now: alter_partition.on_alter_partition(
                self.state, message, request.version
            ),
            AllocateProducerIdsRequest: self._stateless(producer_ids.on_allocate_producer_ids),
            AlterConfigsRequest: self._stateless(configs.on_alter_configs),
            AlterPartitionReassignmentsRequest: self._stateless(
                reassignments.on_alter_partition_reassignments
            ),
            CreatePartitionsRequest: self._stateless(topics.on_create_partitions),
            CreateTopicsRequest: self._stateless(topics.on_create_topics),
            DeleteTopicsRequest: self._stateless(topics.on_delete_topics),
            ElectLeadersRequest: self._stateless(elections.on_elect_leaders),
            IncrementalAlterConfigsRequest: self._stateless(configs.on_incremental_alter_configs),
            ListPartitionReassignmentsRequest: self._stateless(reassignments.on_list_partition_reassignments),
            UpdateFeaturesRequest: self._stateless(features.on_update_features),
        }
        if self._registry is None:
            self._requests |= {
                BrokerRegistrationRequest: self._on_broker_registration,
                BrokerHeartbeatRequest: self._on_broker_heartbeat,
                UnregisterBrokerRequest: self._stateless(registration.on_unregister_broker),
            }
        else:
            self._requests[IsrChangeRequest] = self._stateless(isr_change.on_isr_change)
            self._several_steps |= {
                MetadataHeartbeatRequest: self._registry.metadata_heartbeat,
                ControlledShutdownRequest: self._registry.controlled_shutdown,
            }

    # Questions.

    @property
    def image(self) -> ClusterImage:
        return self.state.image

    @property
    def rules(self) -> Rules:
        return self.state.rules

    @property
    def has_seen_registry(self) -> bool:
        """Whether this mandate knows who is registered; before that nobody counts as active."""
        return self._push is None or self._push.ready

    @property
    def served(self) -> dict[int, tuple[int, int]]:
        """The API keys that the controller answers, with the versions."""
        kinds: list[Any] = [*self._requests, *self._several_steps]
        return {kind.API_KEY: (kind.MIN_VERSION, kind.MAX_VERSION) for kind in kinds}

    @property
    def deadline(self) -> int | None:
        """When the runtime must send Wake; may lie in the past, then at once."""
        if self.failed:
            return None
        first = self._reading.deadline
        for due in (
            None if self._push is None else self._push.deadline,
            heartbeats.next_silence_deadline(self.state),
            self._imbalance_check_ms,
            self._ledger_topic.due,
        ):
            if due is not None and (first is None or due < first):
                first = due
        return first

    # What happens.

    def start(self, now: int) -> list[Effect]:
        """Read the log. Every unfenced broker gets a fresh session: what was heard before is lost."""
        state, image = self.state, self.state.image
        self._next_event_id = now * _EVENTS_PER_MS
        loaded = self.log.load()
        self._snapshot_offset = loaded.snapshot_offset
        if loaded.image is not None:
            image.copy_of(loaded.image)
        else:
            if loaded.snapshot_offset >= 0:
                image.load(map(decode_record, loaded.snapshot), loaded.snapshot_offset)
            image.apply_batch(map(decode_record, loaded.tail), loaded.snapshot_offset + 1)
        if image.offset + 1 != self.log.end_offset:
            raise InvariantBroken(
                f"the log ends at {self.log.end_offset}, but its records end at {image.offset}"
            )
        for broker in image.brokers.values():
            # In zookeeper mode the registry says who has sessions.
            if not broker.fenced and not state.pushes:
                state.sessions.heard(broker.id, broker.epoch, now)
        if state.config.auto_leader_rebalance:
            self._imbalance_check_ms = now + state.config.leader_imbalance_check_interval_ms
        effects: list[Effect] = [
            self._report(LedgerEvent(kind="recovered", detail=note), now) for note in loaded.notes
        ]
        if FEATURE_NAME not in image.features:
            born = FeatureLevelRecord(name=FEATURE_NAME, feature_level=state.config.initial_level)
            effects += self._guarded(lambda: self._carry_out(Decision(None, [born], because="born"), now))
        where = f"at offset {image.offset}, level {image.level}"
        effects.append(self._report(LedgerEvent(kind="active", given=self._mandate, detail=where), now))
        return effects

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take in one event. The effects are to happen in their order, and everything before them has
        lasted."""
        if self.failed:
            return [Hangup(event.token, self.failed)] if isinstance(event, Request) else []
        if type(event) is Request:
            # Nearly everything is one.
            try:
                return self._on_request(event, now)
            except MetadataLogFailed as failure:
                return self._fail(str(failure), event.token)
        match event:
            case Wake():
                return self._guarded(lambda: self._on_wake(now))
            case Reply(token, message):
                self._ledger_topic.answered(token, message, now)
                return self._guarded(lambda: self._on_control_answer(token, message, now))
            case RegistryChanged() if self._registry is not None:
                mode = self._registry
                return self._guarded(lambda: mode.registry_changed(event, now))
            case IsrChanged() if self._registry is not None:
                return self._guarded(lambda: self._on_isr_changed(now))
            case Disconnected(connection):
                self._reading.disconnected(connection)
                return []
            case StorageFailed(reason):
                return self._fail(reason)
            case Stop():
                return [Exit(clean=True, reason="stopped")]
            case _:
                return []

    def _on_request(self, request: Request, now: int) -> list[Effect]:
        message = request.message
        decide = self._requests.get(type(message))
        several = self._several_steps.get(type(message)) if decide is None else None
        if decide is None and several is None:
            return [Hangup(request.token, f"the controller does not serve {type(message).__name__}")]
        if not request.peer.control:
            return self._on_wrong_door(request, now)
        if decide is None:
            assert several is not None
            return several(request, now)
        handler, image = decide, self.state.image
        level = image.level
        effects = self._decide(lambda: handler(message, request, now), now, request.token)
        if self._registry is not None and image.level != level:
            effects += self._registry.level_changed(now)
        if isinstance(message, AlterConfigsRequest | IncrementalAlterConfigsRequest):
            effects += self._decide(lambda: elections.lead_uncleanly(self.state), now)
        return effects

    def _on_wrong_door(self, request: Request, now: int) -> list[Effect]:
        """Control requests come through the control listener or not at all."""
        verdict = Verdict(
            "control.listener",
            False,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            request.peer.principal,
            "a connection to the control listener",
            f"{type(request.message).__name__} from {request.peer.host or 'a client'}",
        )
        broker_id = getattr(request.message, "broker_id", -1)
        return [
            Respond(request.token, refuse_all(request.message, verdict.error)),
            self._report(refusal(verdict, broker=broker_id), now),
        ]

    def _on_fetch_metadata(self, request: Request, now: int) -> list[Effect]:
        outcome = self._reading.fetch(request.message, request, now)
        return self._carry_out(outcome, now, request.token) if isinstance(outcome, Decision) else outcome

    def _on_control_answer(self, token: int, message: Any | None, now: int) -> list[Effect]:
        if self._push is None or self._registry is None:
            return []
        effects = self._push.answered(token, message, now)
        offline, self._push.offline = self._push.offline, []
        for each in offline:
            effects += self._registry.replicas_offline(each, now)
        return effects + self._pushed_events(now)

    def _pushed_events(self, now: int) -> list[Effect]:
        if self._push is None:
            return []
        events, self._push.events = self._push.events, []
        return [self._report(event, now) for event in events]

    def _on_isr_changed(self, now: int) -> list[Effect]:
        """Leaders wrote ISRs themselves: they are durable, and are only replayed."""
        assert self._registry is not None
        base_offset, records = self._shared_log().take_isr_changes()
        effects = self._take_in(base_offset, records, now)
        for record in records:
            topic = self.image.topic(record.topic_id)
            if topic is not None:
                mode, name, index = self._registry, topic.name, record.partition_id
                effects += self._decide(lambda m=mode, n=name, i=index: m.follow_up(n, i), now, None)  # type: ignore[misc]
        return effects

    def _shared_log(self) -> SharedMetadataLog:
        return cast(SharedMetadataLog, self.log)

    def _on_broker_registration(
        self, message: BrokerRegistrationRequest, request: Request, now: int
    ) -> Decision:
        return registration.on_broker_registration(self.state, message, now)

    def _on_broker_heartbeat(self, message: BrokerHeartbeatRequest, request: Request, now: int) -> Decision:
        """Contact counts on receipt, whatever comes of the heartbeat, once its generation is accepted."""
        heartbeat = heartbeats.on_broker_heartbeat(self.state, message)
        broker = self.image.broker(message.broker_id)
        if heartbeat.standing is not None and broker is not None:
            self.state.sessions.heard(broker.id, broker.epoch, now, message.current_metadata_offset)
            if heartbeat.standing is Standing.STOPPING:
                last_offset = self.image.offset + len(heartbeat.decision.records)
                self.state.sessions.begin_shutdown(broker.id, last_offset)
        return heartbeat.decision

    def _on_wake(self, now: int) -> list[Effect]:
        """One silent broker is fenced, readers whose time is up are answered, leaderships are balanced."""
        effects: list[Effect] = self._forgive_own_absence(now)
        silent = heartbeats.next_silent(self.state, now)
        if silent:
            effects += self._decide(lambda: self._next_silence(now), now, None)
        due = self._imbalance_check_ms
        if due is not None and due <= now and not silent:
            effects += self._decide(lambda: self._repaired_imbalance(now), now, None)
        creation = self._ledger_topic.creation()
        if creation is not None:
            wanted = creation
            effects += self._decide(lambda: topics.on_create_topics(self.state, wanted), now, None)
        effects += self._reading.applied(now)
        if self._push is not None:
            effects += self._push.wake(now)
        effects += self._ledger_topic.send(now)
        return effects

    def _forgive_own_absence(self, now: int) -> list[Effect]:
        """A controller that was stopped itself finds heartbeats it has not read yet: they must come first.

        It knows by how much later than asked it was woken. Without this, whoever pauses the controller for
        one session timeout fences the whole cluster.
        """
        due = heartbeats.next_silence_deadline(self.state)
        late_ms = 0 if due is None else now - due
        grace_ms = self.state.config.session_timeout_ms // 4
        if late_ms <= grace_ms:
            return []
        self.state.sessions.forgive(late_ms + grace_ms)
        return [self._report(LedgerEvent(kind="paused", detail=f"woken {late_ms} ms late"), now)]

    def _repaired_imbalance(self, now: int) -> Decision:
        decision, more = imbalance.repair(self.state)
        interval_ms = self.state.config.leader_imbalance_check_interval_ms
        self._imbalance_check_ms = now if more else now + interval_ms
        return decision

    def _next_silence(self, now: int) -> Decision:
        silent = heartbeats.next_silent(self.state, now)
        return silent[0] if silent else Decision()

    # How a decision is carried out.

    def _decide(self, make: Callable[[], Decision], now: int, token: int | None = None) -> list[Effect]:
        """Make a decision and carry it out; make it again when a leader's own write came first."""
        effects: list[Effect] = []
        while True:
            decision = make()
            try:
                return effects + self._carry_out(decision, now, token)
            except Overtaken as overtaken:
                effects += self._take_in(overtaken.base_offset, decision.records[: overtaken.written], now)
                taken = self._shared_log().take_partition(overtaken.topic, overtaken.partition)
                effects += self._take_in(*taken, now)
            except Unwritable as unwritable:
                refused = LedgerEvent(kind="unwritable", detail=str(unwritable))
                if token is not None:
                    effects.append(Hangup(token, str(unwritable)))
                return [*effects, self._report(refused, now)]

    def _take_in(self, base_offset: int, records: Sequence[MetadataRecord], now: int) -> list[Effect]:
        """Replay what is durable without our doing, and pass it on."""
        if not records:
            return []
        written = Decision(None, records, rule="isr.leader", because="written by its leader")
        events = self._apply(written, base_offset)
        return [*self._deliver(now), *self._reports(events, now)]

    def _carry_out(self, decision: Decision, now: int, token: int | None = None) -> list[Effect]:
        """Write, replay, answer, tell. In this order and no other."""
        if not decision.records and not decision.events:
            return [] if token is None else [Respond(token, decision.response)]
        events = list(decision.events)
        if decision.records:
            events += self._replay(decision)
        effects: list[Effect] = []
        if token is not None:
            effects.append(Respond(token, decision.response))
        if decision.records:
            effects += self._deliver(now)
        effects += self._reports(events, now)
        if decision.records:
            self._snapshot_when_due()
        return effects

    def _replay(self, decision: Decision) -> list[LedgerEvent]:
        base_offset = self.log.append([encode_record(record) for record in decision.records])
        return self._apply(decision, base_offset)

    def _apply(self, decision: Decision, base_offset: int) -> list[LedgerEvent]:
        image = self.image
        if base_offset != image.offset + 1:
            raise InvariantBroken(f"the log wrote at {base_offset}, the image stands at {image.offset}")
        events = []
        for offset, record in enumerate(decision.records, base_offset):
            before = reports.Before(image, record)
            if self._push is not None:
                self._push.applying(record)
            image.apply(record, offset)
            event = reports.tell(image, record, before, decision)
            if event is not None:
                events.append(event)
        self._forget_sessions(decision)
        return events

    def _deliver(self, now: int) -> list[Effect]:
        """Let brokers know what was replayed."""
        pushed = [] if self._push is None else self._push.applied(now)
        return [*self._reading.applied(now), *pushed, *self._pushed_events(now)]

    def _forget_sessions(self, decision: Decision) -> None:
        """A broker that is fenced, gone or born again has no session, so its next life meets no duplicate."""
        for event in decision.records:
            broker_id = getattr(event, "broker_id", None)
            if broker_id is None:
                continue
            broker, session = self.image.broker(broker_id), self.state.sessions.get(broker_id)
            if session and (broker is None or broker.fenced or broker.epoch != session.epoch):
                self.state.sessions.drop(broker_id)

    def _snapshot_when_due(self) -> None:
        config, image = self.state.config, self.image
        new_records = image.offset - self._snapshot_offset
        if new_records >= max(config.snapshot_after_records, image.partition_count // 2):
            self.log.snapshot(image)
            self._snapshot_offset = image.offset

    # The ledger.

    def _reports(self, events: Sequence[LedgerEvent], now: int) -> list[Effect]:
        """The event that caused the others comes first and is named by them; a verdict comes before what it
        led to."""
        head = next((event for event in events if event.kind in reports.CAUSES), None)
        if head is None:
            return [self._report(event, now) for event in events]
        ground = next((each for each in events if each.kind == "verdict" and each.rule == head.rule), None)
        verdict = [] if ground is None else [self._report(ground, now)]
        first = self._report(head, now, verdict[0].event.event_id if verdict else -1)
        rest = (event for event in events if event is not head and event is not ground)
        return [*verdict, first, *(self._report(event, now, first.event.event_id) for event in rest)]

    def _report(self, event: LedgerEvent, now: int, cause: int = -1) -> Report:
        event_id = self._next_event_id
        self._next_event_id += 1
        stamped = msgspec.structs.replace(
            event, time_ms=now, node=self.state.node_id, event_id=event_id, cause=cause
        )
        self._ledger_topic.add(stamped, now)
        return Report(stamped)

    # When the log fails.

    def _guarded(self, act: Callable[[], list[Effect]], token: int | None = None) -> list[Effect]:
        try:
            return act()
        except MetadataLogFailed as failure:
            return self._fail(str(failure), token)

    def _fail(self, reason: str, token: int | None = None) -> list[Effect]:
        """Nothing after a failed append may be answered: the image and the disk could disagree."""
        self.failed = reason
        effects: list[Effect] = [] if token is None else [Hangup(token, reason)]
        effects += self._reading.end(reason)
        effects.append(Exit(clean=False, reason=reason))
        return effects

    def _stateless(
        self, handler: Callable[[ControllerState, Any], Decision]
    ) -> Callable[[Any, Request, int], Decision]:
        return lambda message, request, now: handler(self.state, message)

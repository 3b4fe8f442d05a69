"""One life of the broker: registration, heartbeats, its generation, and when it must not serve.

The controller says whether the broker is fenced. Beside that the broker fences itself (`heartbeat.contact`,
KIP-343): when it has not reached the controller for `broker.heartbeat.timeout.ms` it ends what it has begun
and takes nothing new, until the controller answers again. An answer tells that the controller counted on the
broker when it was asked, however long the answer has waited to be taken in.
"""

from __future__ import annotations

import enum
from contextlib import suppress
from typing import TYPE_CHECKING

from epoka.fencing import heartbeat as rules
from epoka.log.store import StorageError
from epoka.model.events import CONTROLLER, Exit
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import broker_heartbeat, broker_registration

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REGISTRATION_RETRY_MS = 100
STARTING_INTERVAL_MS = 10
STOPPING_INTERVAL_MS = 50
HEARTBEAT_LANE = 4
"""Of their own: whatever else the controller is asked takes its time, and makes no heartbeat late."""


class LifeState(enum.Enum):
    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


RUNNING, STOPPING = LifeState.RUNNING, LifeState.STOPPING

FATAL = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Answers to a registration that no retry can change."""


class Lifecycle:
    def __init__(self, core: BrokerCore) -> None:
        self.core = core
        self.state = LifeState.STARTING
        self.broker_epoch = -1
        self.fenced = True
        """What the controller said last."""
        self.last_contact_ms = -1
        """When the controller was asked what it has answered last."""
        self.self_fenced = False
        self._began_ms = -1
        self._registering = False
        """From asking for a generation until there is one. Heartbeats wait: the old one is over."""
        self._in_flight = False
        self._immediate = False
        self._beat = 0
        self._stop_by_ms = -1
        self._last_refusal = ErrorCode.NONE

    def serving(self) -> bool:
        """May requests of clients be taken? Only while the controller counts on this broker."""
        return not self.self_fenced and (self.state is RUNNING or self.state is STOPPING)

    def start(self, now: int) -> None:
        self._began_ms = now
        self._registering = True
        self._register(now)

    def _register(self, now: int) -> None:
        config = self.core.config
        request = broker_registration.BrokerRegistrationRequest(
            broker_id=config.broker_id,
            cluster_id=config.cluster_id,
            incarnation_id=config.incarnation_id,
            listeners=tuple(
                broker_registration.BrokerListener(
                    name=listener.name,
                    host=listener.host,
                    port=listener.port,
                    security_protocol=listener.security_protocol,
                )
                for listener in config.listeners
            ),
            features=(
                broker_registration.SupportedFeature(
                    name=FEATURE_NAME,
                    min_supported_version=int(min(FeatureLevel)),
                    max_supported_version=int(max(FeatureLevel)),
                ),
            ),
            rack=config.rack,
            log_dirs=config.directory_ids,
            previous_broker_epoch=config.previous_broker_epoch,
            last_broker_epoch=config.last_broker_epoch,
        )
        self.core.send(CONTROLLER, request, 4, lambda reply, at: self._registered(reply, now, at))

    def _registered(
        self, reply: broker_registration.BrokerRegistrationResponse | None, asked_ms: int, now: int
    ) -> None:
        if self.state is LifeState.ENDED:
            return
        error = ErrorCode.NETWORK_EXCEPTION if reply is None else ErrorCode.of(reply.error_code)
        if reply is not None and error is ErrorCode.NONE:
            self._registering = False
            if not self._take_generation(reply.broker_epoch, now):
                return
            self._contact(asked_ms, now)
            self.core.feed.start(now)
            self._heartbeat(now)
            return
        self._last_refusal = error
        if error in FATAL:
            self._end(now, clean=False, reason=f"the controller refused {self._who()}: {error.name}")
        elif (
            self.state is LifeState.STARTING
            and now - self._began_ms > self.core.config.registration_timeout_ms
        ):
            self._end(now, clean=False, reason=f"{self._who()} was not registered in time: {error.name}")
        else:
            self.core.deadlines.at(now + REGISTRATION_RETRY_MS, self._register)

    def _take_generation(self, epoch: int, now: int) -> bool:
        """Live as this generation, unless whoever gave it does not know of those that we have had.

        Generations only rise, so that is another log, or one that has lost its end. It has not heard of our
        topics either, and their logs would go as strays. The disk keeps the generation it knows, or the next
        life would believe the one after this.
        """
        before = self.core.config.last_broker_epoch
        if epoch <= before or epoch < self.broker_epoch:
            had = max(before, self.broker_epoch)
            reason = (
                f"{self._who()} was given generation {epoch} and has had {had} before: "
                "the cluster's metadata is not what this broker has lived by, or has lost its end"
            )
            self._end(now, clean=False, reason=reason)
            return False
        self.broker_epoch = epoch
        # Before the first heartbeat: who is unfenced is known by the disk. Without, the next life has to
        # wait for the end of this one's session.
        with suppress(StorageError):
            self.core.replicas.logs.remember(epoch)
        return True

    def _who(self) -> str:
        return f"broker {self.core.config.broker_id} of cluster {self.core.config.cluster_id}"

    def lost_the_log(self, now: int) -> None:
        """The controller's metadata log is not the one that this broker has acted on."""
        if self.state is not LifeState.ENDED:
            reason = (
                f"{self._who()} has read metadata up to offset {self.core.image.offset}, "
                "which the controller does not have: its log is another one, or has lost its end"
            )
            self._end(now, clean=False, reason=reason)

    def caught_up(self, now: int) -> None:
        """Metadata moved on: an early heartbeat may unfence the broker."""
        if self.state in (LifeState.STARTING, LifeState.RECOVERY) or self.fenced:
            self.beat_now(now)

    def beat_now(self, now: int) -> None:
        if self.broker_epoch < 0:
            return
        if self._in_flight:
            self._immediate = True
        else:
            self._heartbeat(now)

    def _heartbeat(self, now: int) -> None:
        if self._in_flight or self._registering or self.state is LifeState.ENDED:
            return
        self._in_flight = True
        self._beat += 1
        request = broker_heartbeat.BrokerHeartbeatRequest(
            broker_id=self.core.config.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.core.image.offset,
            want_fence=not self.core.ready_to_serve(),
            want_shut_down=self.state is LifeState.STOPPING,
        )
        self.core.send(
            CONTROLLER,
            request,
            1,
            lambda reply, at: self._heartbeat_answered(reply, now, at),
            lane=HEARTBEAT_LANE,
            timeout_ms=self.core.config.heartbeat_interval_ms,
        )

    def _heartbeat_answered(
        self, reply: broker_heartbeat.BrokerHeartbeatResponse | None, asked_ms: int, now: int
    ) -> None:
        self._in_flight = False
        if self.state is LifeState.ENDED:
            return
        if reply is None:
            self._next_beat(now, self.core.config.heartbeat_interval_ms)
            return
        error = ErrorCode.of(reply.error_code)
        if error is ErrorCode.STALE_BROKER_EPOCH:
            # Another incarnation has our id, or we were unregistered: our generation is over. The same
            # incarnation asks for its place again; if somebody else lives under the id, it is refused.
            self._note("stale", now, error=error.name)
            self._registering = True
            self.core.deadlines.at(now + REGISTRATION_RETRY_MS, self._register)
            return
        if error is not ErrorCode.NONE:
            self._next_beat(now, self.core.config.heartbeat_interval_ms)
            return
        self._contact(asked_ms, now)
        if self.state is LifeState.STOPPING:
            if reply.should_shut_down:
                self._end(now, clean=True, reason="the controller granted the shutdown")
                return
            self._next_beat(now, STOPPING_INTERVAL_MS)
            return
        self._controller_says(reply.is_caught_up, reply.is_fenced, now)
        waiting = self.state is not LifeState.RUNNING or self.fenced
        self._next_beat(now, STARTING_INTERVAL_MS if waiting else self.core.config.heartbeat_interval_ms)

    def _controller_says(self, is_caught_up: bool, is_fenced: bool, now: int) -> None:
        if self.state is LifeState.STARTING and is_caught_up:
            self.state = LifeState.RECOVERY
        if not is_fenced and self.state in (LifeState.STARTING, LifeState.RECOVERY):
            self.state = LifeState.RUNNING
            self._forget_strays()
        if is_fenced != self.fenced:
            self.fenced = is_fenced
            self._note("fenced-by-controller" if is_fenced else "unfenced-by-controller", now)

    def _forget_strays(self) -> None:
        self.core.replicas.forget_strays()

    def initialised(self, now: int) -> None:
        """The controller has told of the cluster (zookeeper mode; in log mode the broker reads)."""

    def _next_beat(self, now: int, interval_ms: int) -> None:
        if self._immediate:
            self._immediate = False
            self._heartbeat(now)
            return
        beat = self._beat

        def due(now: int) -> None:
            if beat == self._beat:
                self._heartbeat(now)

        self.core.deadlines.at(now + interval_ms, due)

    def _contact(self, asked_ms: int, now: int) -> None:
        self.last_contact_ms = asked_ms
        silent_from_ms = asked_ms + self.core.config.heartbeat_timeout_ms + 1
        if self.self_fenced and now < silent_from_ms:
            self.self_fenced = False
            self._note("self-unfenced", now)
        self.core.deadlines.at(silent_from_ms, self._check_contact)

    def notice_silence(self, now: int) -> None:
        """Asked before a request is taken: one that waited while the process was stopped comes before the
        alarm that would have fenced it."""
        if now - self.last_contact_ms > self.core.config.heartbeat_timeout_ms:
            self._check_contact(now)

    def _check_contact(self, now: int) -> None:
        if self.self_fenced or self.state not in (LifeState.RUNNING, LifeState.STOPPING):
            return
        if self.core.image.level < FeatureLevel.HEARTBEATS:
            return
        verdict = self.core.rules.ask(
            rules.contact, self.last_contact_ms, now, self.core.config.heartbeat_timeout_ms
        )
        if not verdict.accepted:
            self.self_fenced = True
            self.core.report_verdict(verdict, now)
            self._note("self-fenced", now)

    def stop(self, now: int) -> None:
        """Controlled shutdown: ask the controller to move leaders away, and leave when it says so."""
        if self.state is LifeState.ENDED:
            return
        if self.state is not LifeState.RUNNING:
            self._end(now, clean=True, reason="stopped before it was running")
            return
        self.state = LifeState.STOPPING
        self._stop_by_ms = now + self.core.config.controlled_shutdown_timeout_ms
        self.core.deadlines.at(self._stop_by_ms, self._give_up_stopping)
        self.beat_now(now)

    def _give_up_stopping(self, now: int) -> None:
        if self.state is LifeState.STOPPING:
            self._end(now, clean=True, reason="the controller did not grant the shutdown in time")

    def _end(self, now: int, *, clean: bool, reason: str) -> None:
        self.state = LifeState.ENDED
        self._note("ended", now, detail=reason)
        self.core.emit(Exit(clean=clean, reason=reason))

    def _note(self, kind: str, now: int, *, error: str = "", detail: str = "") -> None:
        self.core.report(
            LedgerEvent(
                kind=kind,
                broker=self.core.config.broker_id,
                broker_epoch=self.broker_epoch,
                error=error,
                detail=detail,
            ),
            now,
        )

"""One life of the broker in zookeeper mode: its registration, its heartbeats, its controlled shutdown.

The generation comes from the registry, and a new session brings a higher one. Below level `heartbeats` the
session is all there is to being alive; from there on the broker asks the controller to be active once it has
been told of the cluster in its present generation, and fences itself when it can't reach it (KIP-343).
"""

from __future__ import annotations

from typing import Any

from epoka.broker.control_feed import ControlFeed
from epoka.broker.lifecycle import (
    HEARTBEAT_LANE,
    STARTING_INTERVAL_MS,
    STOPPING_INTERVAL_MS,
    Lifecycle,
    LifeState,
)
from epoka.model.events import CONTROLLER, Register
from epoka.model.levels import FeatureLevel
from epoka.model.registrations import WITH_HEARTBEATS, WITHOUT_HEARTBEATS
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import controlled_shutdown, metadata_heartbeat

INACTIVE, ACTIVE, STOPPING = 1, 2, 3
"""KIP-343's states; 0 is what a controller answers that has not heard of the broker yet."""

SHUTDOWN_RETRY_MS = 200


class RegistryLife(Lifecycle):
    _version = 0
    _asking = False

    @property
    def _beats(self) -> bool:
        return self.core.image.level >= FeatureLevel.HEARTBEATS

    def start(self, now: int) -> None:
        """Nothing until the level is known: it decides how the broker registers."""
        self._began_ms = now

    def settings_read(self, now: int) -> None:
        version = WITH_HEARTBEATS if self._beats else WITHOUT_HEARTBEATS
        if version > self._version:
            self._version = version
            self.core.emit(Register(version))
            if self._beats and self.broker_epoch >= 0:
                self._contact(now, now)
                self.beat_now(now)

    def registered(self, epoch: int, now: int) -> None:
        """A life has begun, or another one: whoever was told of the last one must be told again."""
        if epoch <= self.broker_epoch or self.state is LifeState.ENDED:
            return
        if not self._take_generation(epoch, now):
            return
        self._note("registered", now)
        if self._beats:
            self.beat_now(now)
        else:
            self.initialised(now)

    def initialised(self, now: int) -> None:
        """The controller has told of the cluster."""
        if self.state is LifeState.ENDED or not self._is_initialised():
            return
        if not self._beats:
            self._controller_says(is_caught_up=True, is_fenced=False, now=now)
        elif self.state is not LifeState.RUNNING or self.fenced:
            self.beat_now(now)

    def _is_initialised(self) -> bool:
        feed = self.core.feed
        assert isinstance(feed, ControlFeed)
        if self.core.image.level < FeatureLevel.GENERATIONS:
            return feed.updated and self.broker_epoch >= 0
        return feed.seen_epoch >= self.broker_epoch >= 0

    def _forget_strays(self) -> None:
        """The feed does, when it has been told the whole truth."""

    # Heartbeats.

    def _heartbeat(self, now: int) -> None:
        if self._in_flight or self.state is LifeState.ENDED or not self._beats:
            return
        self._in_flight = True
        self._beat += 1
        target = INACTIVE
        if self.state is LifeState.STOPPING:
            target = STOPPING
        elif self._is_initialised() and self.core.ready_to_serve():
            target = ACTIVE
        request = metadata_heartbeat.MetadataHeartbeatRequest(
            broker_id=self.core.config.broker_id, incarnation_id=self.broker_epoch, target_state=target
        )
        self.core.send(
            CONTROLLER,
            request,
            0,
            lambda reply, at: self._beaten(reply, now, at),
            lane=HEARTBEAT_LANE,
            timeout_ms=self.core.config.heartbeat_interval_ms,
        )

    def _beaten(
        self, reply: metadata_heartbeat.MetadataHeartbeatResponse | None, asked_ms: int, now: int
    ) -> None:
        self._in_flight = False
        if self.state is LifeState.ENDED:
            return
        interval_ms = self.core.config.heartbeat_interval_ms
        error = ErrorCode.NETWORK_EXCEPTION if reply is None else ErrorCode.of(reply.error_code)
        if reply is None or error is not ErrorCode.NONE:
            if error is ErrorCode.INVALID_INCARNATION_ID and error is not self._last_refusal:
                # Another life has our id, or our own next one is on its way to us.
                self._note("stale", now, error=error.name)
            self._last_refusal = error
            self._next_beat(now, interval_ms)
            return
        self._last_refusal = error
        self._contact(asked_ms, now)
        if self.state is LifeState.STOPPING:
            if reply.current_state == INACTIVE:
                self._end(now, clean=True, reason="the controller granted the shutdown")
            else:
                self._next_beat(now, STOPPING_INTERVAL_MS)
            return
        active = reply.current_state in (ACTIVE, STOPPING)
        self._controller_says(is_caught_up=active, is_fenced=not active, now=now)
        self._next_beat(now, interval_ms if active else STARTING_INTERVAL_MS)

    # Controlled shutdown.

    def stop(self, now: int) -> None:
        super().stop(now)
        if self.state is LifeState.STOPPING and not self._beats:
            self._ask_for_shutdown(now)

    def _ask_for_shutdown(self, now: int) -> None:
        """With whatever generation the broker has by now: a refusal of an older one heals itself."""
        if self.state is not LifeState.STOPPING or self._asking:
            return
        if self._beats:
            self.beat_now(now)
            return
        self._asking = True
        version = 2 if self.core.image.level >= FeatureLevel.GENERATIONS else 1
        request = controlled_shutdown.ControlledShutdownRequest(
            broker_id=self.core.config.broker_id,
            broker_epoch=self.broker_epoch if version >= 2 else -1,
        )
        self.core.send(
            CONTROLLER,
            request,
            version,
            self._shutdown_answered,
            timeout_ms=self.core.config.heartbeat_interval_ms * 5,
        )

    def _shutdown_answered(self, reply: Any, now: int) -> None:
        self._asking = False
        if self.state is not LifeState.STOPPING:
            return
        if reply is not None and reply.error_code == ErrorCode.NONE:
            if not reply.remaining_partitions:
                self._end(now, clean=True, reason="the controller granted the shutdown")
                return
            if self.core.image.brokers.keys() <= {self.core.config.broker_id}:
                self._end(now, clean=True, reason="nobody is left to take over from the last broker")
                return
        self.core.deadlines.at(now + SHUTDOWN_RETRY_MS, self._ask_for_shutdown)

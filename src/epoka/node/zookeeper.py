"""What ties a node to a ZooKeeper ensemble: watches become events, and effects become requests.

Decides nothing. Whatever may wait for ZooKeeper happens on one thread a node, the desk, and its outcome is
handed to the event loop; only a controller in office writes from the loop itself, because an append is an
answer. A watch never carries news: it sends somebody to look. Watches call again after every reconnection,
so that a look which failed is not missed.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from epoka.coordination.zookeeper import paths
from epoka.coordination.zookeeper.connect import Credentials
from epoka.coordination.zookeeper.election import Election, Held, Mandate
from epoka.coordination.zookeeper.identity import settle_cluster_id
from epoka.coordination.zookeeper.isr import Later, Written, write_isr
from epoka.coordination.zookeeper.registry import IdInUse, Registry
from epoka.coordination.zookeeper.session import (
    AccessDenied,
    Session,
    SessionEvent,
    Watch,
    ZooKeeperError,
    end_session,
)
from epoka.coordination.zookeeper.settings import UnknownLevel, read_settings, watch_settings
from epoka.coordination.zookeeper.znodes import BadZnode, ControllerZnode, decode_controller
from epoka.model.events import (
    Coordinate,
    IsrChanged,
    IsrWritten,
    ReadSettings,
    Register,
    Registered,
    WriteIsr,
)
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.model.registrations import Endpoint, Feature
from epoka.node.client import Address
from epoka.node.config import NodeConfig
from epoka.node.desk import Desk
from epoka.node.office import Elected, ForMandate, Over

log = logging.getLogger(__name__)

SESSION_FILE: Final = "zookeeper.session"
"""In the first log directory: the last session, so that the next life need not wait until it ends."""
STAND_AGAIN_S: Final = 1.0
"""A controller that failed in office lets others have it first."""
TRY_AGAIN_S: Final = 1.0
"""Between two attempts of a broker to register, or to read what it has asked for."""


class Tell(Protocol):
    """How the other thread reaches the node."""

    def event(self, event: Any) -> None:
        """Hand an event to the core, soon, in the order of the calls."""

    def end(self, reason: str) -> None:
        """The node cannot go on; the reason is not a defect of ours."""

    def crash(self, error: Exception) -> None:
        """A defect of ours."""


class Ties:
    """One session with the ensemble, and a desk for what has to wait for it."""

    def __init__(self, config: NodeConfig, proposed_cluster_id: str) -> None:
        """Connect; ZooKeeperError within `zookeeper.connection.timeout.ms` when that cannot be."""
        self.node_id = config.node_id
        self.controller: ControllerZnode | None = None
        """Who is in office, as a broker has last seen it."""
        self.session = open_session(config)
        try:
            self.session.ensure(paths.PERSISTENT)
            self.cluster_id = settle_cluster_id(self.session, proposed_cluster_id)
        except BaseException:
            self.session.close()
            raise
        self._desk = Desk(f"zookeeper-{config.node_id}")
        self._tell: Tell
        self._watches: list[Watch] = []

    def start(self, tell: Tell) -> None:
        """From now on tell the node what happens."""
        self._tell = tell
        self._desk.start(tell.crash)
        self.session.listen(self._on_end)
        self._watches += self._watch()

    def perform(self, effect: Coordinate) -> None:
        """Do what a core asked for; the answer is an event."""
        raise TypeError(f"{type(self).__name__} cannot do {effect!r}")

    def close(self) -> None:
        """End the session in order, and with it what the node held."""
        self.abandon()
        self.session.close()

    def abandon(self) -> None:
        """Tell nothing more."""
        for watch in self._watches:
            watch.stop()
        self._desk.close()

    def _on_end(self, event: SessionEvent) -> None:
        if event is SessionEvent.OVER:
            where = self.session.connect
            self._tell.end(f"ZooKeeper at {where} does not let node {self.node_id} in again; see above why")

    def _watch(self) -> Sequence[Watch]:
        raise NotImplementedError

    def _on_change(self, key: str, job: Callable[[], None]) -> Callable[[], None]:
        return partial(self._desk.ask, key, job)


class BrokerTies(Ties):
    """A broker: its registration, the settings it reads, the ISRs it writes, where the controller is."""

    def __init__(
        self, config: NodeConfig, proposed_cluster_id: str, endpoints: Sequence[Endpoint], folder: Path
    ) -> None:
        super().__init__(config, proposed_cluster_id)
        self._registry = Registry(self.session)
        self._endpoints = tuple(endpoints)
        self._rack = config.string("broker.rack")
        self._timeout_s = config.integer("initial.broker.registration.timeout.ms") / 1000
        self._session_file = folder / SESSION_FILE
        self._version = 0
        self._wanted_settings = 0
        """The last token with which settings were asked for."""
        self._told_settings = 0
        """The last that was answered."""
        self._was_registered = False
        self._registered_as = (0, 0)
        """The session that is registered, and with which version."""

    @property
    def controller_addresses(self) -> Sequence[Address]:
        found = self.controller
        return () if found is None or not found.host else ((found.host, found.port),)

    def perform(self, effect: Coordinate) -> None:
        if isinstance(effect, Register):
            self._version = effect.version
            self._desk.ask("register", self._register)
        elif isinstance(effect, ReadSettings):
            self._wanted_settings = effect.token
            self._desk.ask("settings", self._read_settings)
        else:
            self._desk.ask(f"write {effect.token}", partial(self._write_isr, effect))

    def close(self) -> None:
        super().close()
        try:
            self._session_file.unlink(missing_ok=True)
        except OSError as error:
            # The next life finds a session that has ended, which it does not mind.
            log.warning("%s cannot be deleted: %s", self._session_file, error.strerror)

    def end_last_session(self) -> None:
        """A life before this one was killed. Whoever has its disk knows that it is over, and need not wait
        until ZooKeeper does."""
        try:
            last = msgspec.json.decode(self._session_file.read_bytes(), type=_LastSession)
        except (OSError, msgspec.DecodeError):
            return
        if last.connect == str(self.session.connect):
            # If the ensemble has given the session up already, there is nothing to end.
            with contextlib.suppress(ZooKeeperError):
                end_session(self.session.connect, (last.id, last.password))
        self._session_file.unlink(missing_ok=True)

    def _watch(self) -> Sequence[Watch]:
        self.session.listen(self._on_session)
        return (
            *watch_settings(self.session, self._on_change("settings", self._read_settings)),
            self.session.watch_node(paths.CONTROLLER, self._on_change("controller", self._find_controller)),
        )

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED and self._version:
            self._desk.ask("register", self._register)

    def _register(self) -> None:
        """Be in the registry under the present session; a new one brings a new generation."""
        version = self._version
        if self._registered_as == (self.session.id, version):
            return
        began = time.monotonic()
        while not self._desk.closed:
            try:
                outcome = self._registry.register(
                    self.node_id,
                    endpoints=self._endpoints,
                    version=version,
                    now_ms=time.time_ns() // 1_000_000,
                    rack=self._rack,
                    features=(Feature(FEATURE_NAME, int(min(FeatureLevel)), int(max(FeatureLevel))),),
                    wait_ms=self.session.session_timeout_ms * 3 // 2,
                )
                break
            except AccessDenied as error:
                self._tell.end(f"broker {self.node_id} cannot register: {error}")
                return
            except ZooKeeperError as error:
                if not self._was_registered and time.monotonic() - began > self._timeout_s:
                    self._tell.end(f"broker {self.node_id} was not registered in time: {error}")
                    return
                log.warning("%s", error, extra={"node": self.node_id})
                # Not every refusal comes after a wait: a quota, for instance, is told at once.
                self._desk.pause(TRY_AGAIN_S)
        else:
            return
        if isinstance(outcome, IdInUse):
            self._tell.end(outcome.reason)
            return
        self._registered_as, self._was_registered = (outcome.session, version), True
        self._keep_session()
        self._tell.event(Registered(outcome.generation))

    def _keep_session(self) -> None:
        session_id, password = self.session.key
        content = msgspec.json.encode(_LastSession(str(self.session.connect), session_id, password))
        try:
            self._session_file.touch(mode=0o600)
            self._session_file.write_bytes(content)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._session_file, error.strerror)

    def _read_settings(self) -> None:
        token = self._wanted_settings
        try:
            settings = read_settings(self.session, token)
        except UnknownLevel as error:
            self._tell.end(f"broker {self.node_id} cannot serve this cluster: {error}")
            return
        except ZooKeeperError:
            if token > self._told_settings:
                # A watch calls again after a broken connection. After any other failure nobody does, and the
                # broker waits for this.
                self._desk.pause(TRY_AGAIN_S)
                self._desk.ask("settings", self._read_settings)
            raise
        if settings is not None:
            self._told_settings = token
            self._tell.event(settings)

    def _find_controller(self) -> None:
        node = self.session.get(paths.CONTROLLER)
        try:
            self.controller = None if node is None else decode_controller(paths.CONTROLLER, node.data)
        except BadZnode as bad:
            log.warning("%s; there is no controller until somebody else is elected", bad)
            self.controller = None

    def _write_isr(self, write: WriteIsr) -> None:
        try:
            outcome = write_isr(
                self.session,
                write.topic,
                write.partition,
                write.expected_version,
                leader=write.leader,
                leader_epoch=write.leader_epoch,
                isr=write.isr,
                controller_epoch=write.controller_epoch,
            )
        except ZooKeeperError as error:
            outcome = Later(str(error))
        version = outcome.zk_version if isinstance(outcome, Written) else None
        moved = version is None and not isinstance(outcome, Later)
        self._tell.event(IsrWritten(write.token, version, moved))


class _LastSession(msgspec.Struct, frozen=True):
    connect: str
    id: int
    password: bytes


class ControllerTies(Ties):
    """A candidate: it stands whenever the office is vacant, and in office is told of brokers and ISRs."""

    def __init__(self, config: NodeConfig, proposed_cluster_id: str, control: Address) -> None:
        super().__init__(config, proposed_cluster_id)
        self._registry = Registry(self.session)
        self._election = Election(self.session, ControllerZnode(config.node_id, *control))
        self._mandate: Mandate | None = None
        self._in_office = False
        self._silence: threading.Timer | None = None
        self._known_brokers: set[int] = set()

    def entered(self, mandate: Mandate) -> None:
        """The controller knows the state: from now on it is told what changes, the registry first."""
        self._in_office = True
        self._desk.ask("registry", self._read_registry)
        # What leaders wrote while the state was read was told to nobody.
        self._desk.ask("isr changes", self._on_isr_changes)

    def left(self, mandate: Mandate) -> None:
        """The mandate is over: give the office back if it is still ours, and stand again."""
        self._in_office = False
        self._desk.ask("leave", partial(self._leave, mandate))

    def _watch(self) -> Sequence[Watch]:
        self.session.listen(self._on_session)
        return (
            self._registry.watch(self._on_change("registry", self._read_registry)),
            self.session.watch_children(paths.ISR_CHANGES, self._on_isr_changes),
            self._election.watch(self._on_change("office", self._look_at_the_office)),
        )

    def abandon(self) -> None:
        super().abandon()
        self._listen_to_silence(None)

    def _on_session(self, event: SessionEvent) -> None:
        mandate = self._mandate
        if event is SessionEvent.LOST and mandate is not None:
            self._tell.event(Over(mandate, "its ZooKeeper session has ended"))
        self._listen_to_silence(mandate if event is SessionEvent.SUSPENDED else None)

    def _listen_to_silence(self, mandate: Mandate | None) -> None:
        """Without a connection nobody tells this controller that another one was elected; it must not go on
        telling brokers that they are active. kazoo notices a silent server after two thirds of the session,
        and ZooKeeper ends the session when all of it is over."""
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if mandate is not None:
            over = Over(mandate, "ZooKeeper has not answered for a whole session")
            self._silence = threading.Timer(self.session.session_timeout_ms / 3000, self._tell.event, (over,))
            self._silence.daemon = True
            self._silence.start()

    def _look_at_the_office(self) -> None:
        try:
            self._stand_or_check()
        except ZooKeeperError as error:
            # Not every reason goes away with a change that somebody watches.
            log.warning("%s", error, extra={"node": self.node_id})
            self._desk.pause(STAND_AGAIN_S)
            self._desk.ask("office", self._look_at_the_office)

    def _stand_or_check(self) -> None:
        if self._mandate is None:
            outcome = self._election.stand(time.time_ns() // 1_000_000)
            if isinstance(outcome, Held):
                holder = outcome.controller or f"somebody unreadable ({outcome.reason})"
                log.info("stands by: %s is in office", holder, extra={"node": self.node_id})
                return
            self._mandate = outcome
            self._tell.event(Elected(outcome))
            return
        held = self._election.holder()
        if held is None or held.session != self._mandate.session:
            self._tell.event(Over(self._mandate, "somebody else has the office, or took it away"))

    def _leave(self, mandate: Mandate) -> None:
        if self._mandate != mandate:
            return
        with contextlib.suppress(ZooKeeperError):
            self._election.resign(mandate)
        self._mandate = None
        self._desk.pause(STAND_AGAIN_S)
        self._look_at_the_office()

    def _read_registry(self) -> None:
        mandate = self._mandate
        if mandate is None or not self._in_office:
            # A picture from before the state was read would show brokers as dead that are only new.
            return
        picture = self._registry.snapshot()
        for note in picture.notes:
            log.warning("%s", note, extra={"node": self.node_id})
        for broker_id in picture.brokers.keys() - self._known_brokers:
            # What a living session changes in its registration is not a change of the list.
            self._known_brokers.add(broker_id)
            changed = self._on_change("registry", self._read_registry)
            self._watches.append(self.session.watch_node(paths.broker(broker_id), changed))
        self._tell.event(ForMandate(mandate, picture.changed()))

    def _on_isr_changes(self) -> None:
        mandate = self._mandate
        if mandate is not None and self._in_office:
            self._tell.event(ForMandate(mandate, IsrChanged()))


def open_session(config: NodeConfig) -> Session:
    """The session that a node's configuration describes; ZooKeeperError says why there is none."""
    connect = config.string("zookeeper.connect")
    assert connect is not None
    username = config.string("epoka.zookeeper.username")
    credentials = None
    if username is not None:
        credentials = Credentials(
            config.string("epoka.zookeeper.mechanism") or "digest",
            username,
            config.string("epoka.zookeeper.password") or "",
        )
    session_ms = config.integer("zookeeper.session.timeout.ms")
    session = Session(connect, credentials=credentials, session_timeout_ms=session_ms)
    wait_ms = config["zookeeper.connection.timeout.ms"]
    return session.open(session_ms if wait_ms is None else config.integer("zookeeper.connection.timeout.ms"))

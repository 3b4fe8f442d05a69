"""What ties a node to an ensemble, where one thing happens while another is still under way."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_until
from tests.zookeeper_missing import MISSING

if MISSING is not None:
    pytest.skip(MISSING, allow_module_level=True)

from epoka.coordination.zookeeper import paths
from epoka.coordination.zookeeper.election import Mandate
from epoka.coordination.zookeeper.operations import Node, Stat
from epoka.coordination.zookeeper.registry import RegisteredBroker, Registry, RegistrySnapshot
from epoka.coordination.zookeeper.session import SessionEvent, ZooKeeperError
from epoka.coordination.zookeeper.settings import UnknownLevel
from epoka.coordination.zookeeper.znodes import BrokerZnode, encode_cluster_id
from epoka.model.events import IsrChanged, ReadSettings, Register, Registered, RegistryChanged, SettingsRead
from epoka.model.registrations import WITH_HEARTBEATS, WITHOUT_HEARTBEATS
from epoka.node import zookeeper
from epoka.node.config import NodeConfig, parse
from epoka.node.office import Elected, ForMandate
from epoka.node.zookeeper import BrokerTies, ControllerTies


class FakeSession:
    """A session in which nothing changes unless the test says so."""

    id = 7
    session_timeout_ms = 1000
    connect = "zk:2181"
    key = (7, b"password")

    def __init__(self) -> None:
        self.watches: dict[str, Callable[[], None]] = {}

    def get(self, path: str) -> Node | None:
        stat = Stat._make([0] * len(Stat._fields))
        return Node(encode_cluster_id("c"), stat) if path == paths.CLUSTER_ID else None

    def watch(self, path: str, callback: Callable[[], None]) -> Any:
        self.watches[path] = callback
        return self

    watch_node = watch_children = watch

    def nothing(self, *_: Any) -> None:
        pass

    ensure = listen = stop = close = nothing


class Told:
    """What the node is told."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.event = self.events.append
        self.ends: list[str] = []
        self.end = self.ends.append

    def crash(self, error: Exception) -> None:
        raise error


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    session = FakeSession()
    monkeypatch.setattr(zookeeper, "open_session", lambda config: session)
    return session


def config(tmp_path: Path, role: str) -> NodeConfig:
    settings = {
        "node.id": "1",
        "process.roles": role,
        "zookeeper.connect": "zk:2181",
        "listeners": "PLAINTEXT://127.0.0.1:1,CONTROL://127.0.0.1:2"
        if role == "broker"
        else "CONTROL://127.0.0.1:2",
        "log.dirs": str(tmp_path),
    }
    return parse(settings, source="test")


def test_isrs_that_leaders_write_while_the_state_is_read_are_not_missed(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mandate = Mandate(1, 1, session.id)
    told, ties = Told(), ControllerTies(config(tmp_path, "controller"), "c", ("127.0.0.1", 2))
    monkeypatch.setattr(ties._election, "stand", lambda now_ms: mandate)
    monkeypatch.setattr(Registry, "snapshot", lambda self: RegistrySnapshot({}, 1))
    ties.start(told)
    session.watches[paths.CONTROLLER]()
    wait_until(lambda: Elected(mandate) in told.events, "the election")
    # The state is being read, and the partition has been: its leader writes an ISR, and the watch calls.
    session.watches[paths.ISR_CHANGES]()
    ties.entered(mandate)
    wait_until(lambda: len(told.events) == 3, lambda: f"the registry and the ISRs, not {told.events}")
    registry, changed = (each.event for each in told.events[1:] if isinstance(each, ForMandate))
    assert isinstance(registry, RegistryChanged) and isinstance(changed, IsrChanged)
    ties.close()


def test_a_level_that_rises_while_a_broker_registers_is_registered_too(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    versions: list[int] = []
    begun, may_go = threading.Event(), threading.Event()

    def register(self: Registry, broker_id: int, *, version: int, **_: Any) -> RegisteredBroker:
        versions.append(version)
        begun.set()
        may_go.wait(10)
        return RegisteredBroker(broker_id, 5, session.id, BrokerZnode(version, ()))

    monkeypatch.setattr(Registry, "register", register)
    told, ties = Told(), BrokerTies(config(tmp_path, "broker"), "c", (), tmp_path)
    ties.start(told)
    ties.perform(Register(WITHOUT_HEARTBEATS))
    assert begun.wait(10)
    ties.perform(Register(WITH_HEARTBEATS))
    may_go.set()
    wait_until(lambda: len(told.events) == 2, lambda: f"two registrations, not {versions}")
    assert told.events == [Registered(5), Registered(5)]
    assert versions == [WITHOUT_HEARTBEATS, WITH_HEARTBEATS]
    ties.close()


def test_settings_that_a_broker_waits_for_are_read_after_it_asked_and_again_when_that_fails(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[int] = []
    begun, may_go = threading.Event(), threading.Event()

    def read(session: FakeSession, token: int) -> SettingsRead:
        asked.append(token)
        begun.set()
        may_go.wait(10)
        if asked.count(2) == 1:
            raise ZooKeeperError("throttled")
        return SettingsRead(6, {}, token)

    monkeypatch.setattr(zookeeper, "read_settings", read)
    monkeypatch.setattr(zookeeper, "TRY_AGAIN_S", 0.001)
    told, ties = Told(), BrokerTies(config(tmp_path, "broker"), "c", (), tmp_path)
    ties.start(told)
    ties.perform(ReadSettings(1))
    assert begun.wait(10)
    # The reading under way may have passed over what the broker asks for now.
    ties.perform(ReadSettings(2))
    may_go.set()
    wait_until(lambda: len(told.events) == 2, lambda: f"two readings, not {told.events}")
    assert (asked, told.events) == ([1, 2, 2], [SettingsRead(6, {}, 1), SettingsRead(6, {}, 2)])
    ties.close()


def test_a_broker_whose_cluster_is_on_a_later_level_ends_and_says_so(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def read_settings(*_: Any) -> None:
        raise UnknownLevel("the cluster is on level 99")

    monkeypatch.setattr(zookeeper, "read_settings", read_settings)
    told, ties = Told(), BrokerTies(config(tmp_path, "broker"), "c", (), tmp_path)
    ties.start(told)
    session.watches[paths.FEATURES]()
    wait_until(lambda: told.ends, "the end")
    assert told.ends == ["broker 1 cannot serve this cluster: the cluster is on level 99"]
    ties.close()


def test_a_registration_that_is_refused_at_once_is_tried_again_after_a_pause(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    attempts: list[int] = []
    pauses: list[float] = []

    def register(self: Registry, broker_id: int, **_: Any) -> RegisteredBroker:
        attempts.append(broker_id)
        if len(attempts) < 3:
            raise ZooKeeperError("the quota is used up")
        return RegisteredBroker(broker_id, 5, session.id, BrokerZnode(WITH_HEARTBEATS, ()))

    monkeypatch.setattr(Registry, "register", register)
    told, ties = Told(), BrokerTies(config(tmp_path, "broker"), "c", (), tmp_path)
    monkeypatch.setattr(ties._desk, "pause", pauses.append)
    ties.start(told)
    ties.perform(Register(WITH_HEARTBEATS))
    wait_until(lambda: told.events, "the registration")
    assert (told.events, len(pauses)) == ([Registered(5)], 2)
    ties.close()


def test_a_disk_that_keeps_the_session_does_not_keep_the_node(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    ties = BrokerTies(config(tmp_path, "broker"), "c", (), tmp_path)
    ties.start(Told())
    monkeypatch.setattr(Path, "unlink", refuse)
    ties.close()


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_a_node_that_zookeeper_does_not_let_in_again_ends_and_says_so(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, role: str
) -> None:
    listeners: list[Callable[[SessionEvent], None]] = []
    monkeypatch.setattr(session, "listen", listeners.append, raising=False)
    told = Told()
    ties = (
        BrokerTies(config(tmp_path, role), "c", (), tmp_path)
        if role == "broker"
        else ControllerTies(config(tmp_path, role), "c", ("127.0.0.1", 2))
    )
    ties.start(told)
    for event in (SessionEvent.SUSPENDED, SessionEvent.LOST, SessionEvent.OVER):
        for listener in listeners:
            listener(event)
    assert told.ends == ["ZooKeeper at zk:2181 does not let node 1 in again; see above why"]
    ties.close()

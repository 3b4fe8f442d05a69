"""Registrations and generations: who may register, what a new life is, and one picture of all brokers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from unittest import mock

import pytest

from epoka import fencing
from epoka.coordination.zookeeper import paths
from epoka.coordination.zookeeper.operations import Create, Delete, Node, SetData
from epoka.coordination.zookeeper.registry import IdInUse, RegisteredBroker, Registry
from epoka.coordination.zookeeper.session import Session, ZooKeeperError
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.model.registrations import WITH_HEARTBEATS
from tests.coordination.zookeeper.people import FEATURES, NOW_MS, Open, cut, endpoints, expire, register
from tests.waiting import wait_until


def attempt(session: Session, broker_id: int, wait_ms: int = 0) -> RegisteredBroker | IdInUse:
    return Registry(session).register(
        broker_id, endpoints=endpoints(broker_id), version=WITH_HEARTBEATS, now_ms=NOW_MS, wait_ms=wait_ms
    )


def bounce(session: Session, broker_id: int) -> int:
    """The broker ends its session and registers in a new one; its new generation."""
    expire(session)
    return register(session, broker_id).generation


def test_the_generation_is_the_transaction_that_created_the_node(open_session: Open) -> None:
    session = open_session()
    registered = register(session, 1)
    node = session.get(paths.broker(1))
    assert node is not None
    assert registered.generation == node.stat.created_zxid
    assert (registered.session, node.stat.owner) == (session.id, session.id)
    assert Registry(session).snapshot().brokers == {1: registered}


@pytest.mark.parametrize(
    ("level", "version"),
    [
        (FeatureLevel.LEGACY, 4),
        (FeatureLevel.GENERATIONS, 4),
        (FeatureLevel.HEARTBEATS, 5),
        (FeatureLevel.FETCH_EPOCHS, 5),
    ],
)
def test_from_heartbeats_on_a_registration_has_version_5(
    level: FeatureLevel, version: int, open_session: Open
) -> None:
    session = open_session()
    registered = register(session, 3, level)
    node = session.get(paths.broker(3))
    assert node is not None
    content = json.loads(node.data)
    assert content["version"] == version
    assert content["features"] == {FEATURE_NAME: {"min_version": 0, "max_version": 5}}
    # Without heartbeats a broker is always active; with them it is inactive until one comes.
    registration = registered.registration()
    assert (registration.fenced, registration.epoch) == (version == 5, registered.generation)
    assert (registration.endpoints, registration.features) == (endpoints(3), FEATURES)


def test_a_new_session_is_a_new_generation_and_it_is_higher(open_session: Open) -> None:
    session = open_session()
    first = register(session, 1)
    expire(session)
    assert Registry(session).snapshot().brokers == {}
    second = register(session, 1)
    assert second.generation > first.generation
    assert fencing.registry.is_bounce(fencing.registry.bounce(first.generation, second.generation))


def test_a_broken_connection_is_the_same_generation(open_session: Open) -> None:
    session = open_session()
    first = register(session, 1)
    cut(session)
    assert register(session, 1).generation == first.generation


def test_what_a_living_session_registers_again_is_what_the_registry_says(open_session: Open) -> None:
    session = open_session()
    first = register(session, 1, FeatureLevel.GENERATIONS)
    again = register(session, 1, FeatureLevel.HEARTBEATS)
    assert again.generation == first.generation
    assert Registry(session).snapshot().brokers[1].broker.version == 5


def test_an_id_in_use_is_refused_and_the_holder_is_named(open_session: Open) -> None:
    holder, other = open_session(), open_session()
    registered = register(holder, 1)
    refused = attempt(other, 1)
    assert isinstance(refused, IdInUse)
    assert refused.session == holder.id
    assert refused.reason == f"broker id 1 is in use by a live session (0x{holder.id:x}): host-1:9092"
    assert Registry(other).snapshot().brokers == {1: registered}


def test_a_broker_that_was_killed_waits_for_its_own_last_session(open_session: Open) -> None:
    killed, restarted = open_session(), open_session()
    first = register(killed, 1)
    assert isinstance(attempt(restarted, 1, wait_ms=50), IdInUse)
    outcome: list[RegisteredBroker | IdInUse] = []
    waiting = threading.Thread(target=lambda: outcome.append(attempt(restarted, 1, wait_ms=60_000)))
    waiting.start()
    wait_until(lambda: restarted._client._data_watchers, "the broker to wait")
    killed.close()
    waiting.join(30)
    (second,) = outcome
    assert isinstance(second, RegisteredBroker) and second.generation > first.generation


def test_what_our_own_ended_session_left_behind_is_replaced(open_session: Open) -> None:
    session, ghost = open_session(), open_session()
    left = register(ghost, 1)
    # A server that has not heard yet that the session ended shows its node for a while.
    session._former_ids.add(ghost.id)
    second = register(session, 1)
    assert second.generation > left.generation and second.session == session.id


def test_a_registration_whose_answer_was_lost_is_found_again(
    open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session()
    create = session.create
    generations = []

    def create_and_lose_the_answer(path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
        generations.append(create(path, data, ephemeral=ephemeral).created_zxid)
        monkeypatch.setattr(session, "create", create)
        cut(session)
        session._wait(path, session._client.handler.async_result(), 0)

    monkeypatch.setattr(session, "create", create_and_lose_the_answer)
    assert register(session, 1).generation == generations[0]


def test_deregistering_takes_back_our_own_and_nobody_elses(open_session: Open) -> None:
    ours, other = open_session(), open_session()
    register(ours, 1)
    assert not Registry(other).deregister(1)
    assert not Registry(other).deregister(7)
    assert Registry(ours).snapshot().brokers
    assert Registry(ours).deregister(1)
    assert Registry(ours).snapshot().brokers == {}


def test_the_registry_is_made_when_it_is_missing(open_session: Open) -> None:
    session = open_session()
    assert Registry(session).snapshot().brokers == {}
    assert Registry(session).snapshot().max_generation == -1
    register(session, 1)


def test_a_broker_may_have_the_largest_id_that_a_node_can_have(open_session: Open) -> None:
    session = open_session()
    registered = register(session, 2**31 - 1)
    assert Registry(session).snapshot().brokers == {2**31 - 1: registered}


def test_nodes_that_no_broker_wrote_are_named_and_left_alone(open_session: Open) -> None:
    session = open_session()
    registered = register(session, 1)
    strange = {
        "abc": b"{}",
        "2": b"not json",
        "3": b'{"version":99}',
        "04": b"{}",
        "2147483648": b'{"version":1,"host":"h","port":1}',
    }
    session.multi([Create(f"{paths.BROKER_IDS}/{name}", data, True) for name, data in strange.items()])
    session.create(paths.broker(5), b'{"version":1,"host":"h","port":1}')
    snapshot = Registry(session).snapshot()
    assert snapshot.brokers == {1: registered}
    assert [note.partition(": ")[0] for note in snapshot.notes] == [
        f"{paths.BROKER_IDS}/{name}" for name in ("04", "2", "2147483648", "3", "5", "abc")
    ]
    assert "no session holds it" in snapshot.notes[4]
    assert all(note.endswith("it is left alone") for note in snapshot.notes)
    assert session.children_of(paths.BROKER_IDS) == ["04", "1", "2", "2147483648", "3", "5", "abc"]
    refused = attempt(open_session(), 2)
    assert isinstance(refused, IdInUse) and "it cannot be read" in refused.reason


def test_the_core_is_told_of_one_picture(open_session: Open) -> None:
    session = open_session()
    first, second = register(session, 2, FeatureLevel.LEGACY), register(session, 1)
    event = Registry(session).snapshot().changed()
    assert [(entry.id, entry.epoch, entry.version) for entry in event.registrations] == [
        (1, second.generation, 5),
        (2, first.generation, 4),
    ]
    assert event.position == second.generation


# Facts 3.5: the maximum generation must come from one state of the registry.


class Between(Session):
    """Something happens just before the second broker is read, whichever way the brokers are read."""

    def __init__(self, connect: str, happens: Callable[[], None]) -> None:
        super().__init__(connect, session_timeout_ms=8_000)
        self.happens: Callable[[], None] | None = happens

    def _now(self, path: str) -> None:
        if path == paths.broker(2) and self.happens is not None:
            happens, self.happens = self.happens, None
            happens()

    def get(self, path: str) -> Node | None:
        self._now(path)
        return super().get(path)

    def get_many(self, paths: list[str]) -> list[Node | None]:  # type: ignore[override]
        found = []
        for path in paths:
            self._now(path)
            found += super().get_many([path])
        return found


def highest_of_separate_reads(session: Session) -> int:
    """How Kafka's controller learns the generations: the children, then each of them."""
    nodes = [session.get(f"{paths.BROKER_IDS}/{name}") for name in session.children_of(paths.BROKER_IDS)]
    return max(node.stat.created_zxid for node in nodes if node)


@pytest.fixture
def two_bounces(connect: str, open_session: Open) -> tuple[Between, Callable[[], int]]:
    """A controller that reads broker 1, then broker 2; in between both bounce, broker 1 first."""
    brokers = {1: open_session(), 2: open_session()}
    for broker_id, session in brokers.items():
        register(session, broker_id)
    generations: dict[int, int] = {}

    def bounce_both() -> None:
        for broker_id, session in brokers.items():
            generations[broker_id] = bounce(session, broker_id)

    return Between(connect, bounce_both), lambda: generations[1]


def test_separate_reads_let_a_request_of_a_dead_generation_through(
    two_bounces: tuple[Between, Callable[[], int]],
) -> None:
    controller, own_generation_of_1 = two_bounces
    with controller:
        highest = highest_of_separate_reads(controller)
    # What was built for the first life of broker 1 is accepted by the second: the hole.
    assert fencing.control.max_generation(highest, own_generation_of_1()).accepted


def test_a_snapshot_is_never_a_mixture_of_two_states(
    two_bounces: tuple[Between, Callable[[], int]],
) -> None:
    controller, own_generation_of_1 = two_bounces
    with controller:
        snapshot = Registry(controller).snapshot()
        # The picture is of a moment after both bounces, and says so of both brokers.
        assert snapshot.brokers[1].generation == own_generation_of_1()
        assert snapshot.max_generation == snapshot.brokers[2].generation == snapshot.position


def test_what_a_snapshot_from_before_a_bounce_leads_to_is_refused_after_it(open_session: Open) -> None:
    broker, other, controller = open_session(), open_session(), open_session()
    register(broker, 1)
    register(other, 2)
    before = Registry(controller).snapshot()
    own = bounce(broker, 1)
    for stamp in (before.max_generation, before.position):
        assert fencing.control.max_generation(stamp, own).refused
    after = Registry(controller).snapshot()
    for stamp in (after.max_generation, after.position):
        assert fencing.control.max_generation(stamp, own).accepted


def test_a_broker_that_leaves_during_a_snapshot_is_not_in_it(connect: str, open_session: Open) -> None:
    leaving = open_session()
    register(leaving, 1)
    register(open_session(), 2)
    with Between(connect, lambda: Registry(leaving).deregister(1) and None) as controller:
        assert sorted(Registry(controller).snapshot().brokers) == [2]


def test_a_picture_that_two_sessions_took_is_taken_again(connect: str, open_session: Open) -> None:
    registered = register(open_session(), 2)
    with Between(connect, lambda: expire(controller)) as controller:
        with mock.patch.object(controller, "children", wraps=controller.children) as sweeps:
            assert Registry(controller).snapshot().brokers == {2: registered}
        assert sweeps.call_count == 4


def test_a_registry_that_never_rests_is_an_error_and_not_a_mixture(
    connect: str, open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session()
    register(session, 2)
    restless = Between(connect, lambda: None)

    def again() -> None:
        session.multi([Create(paths.broker(1)), Delete(paths.broker(1))])
        restless.happens = again

    restless.happens = again
    monkeypatch.setattr("epoka.coordination.zookeeper.registry._MOST_SWEEPS", 3)
    with restless, pytest.raises(ZooKeeperError, match="/brokers/ids changes faster than it can be read"):
        Registry(restless).snapshot()


def test_a_change_of_content_alone_is_no_reason_to_read_again(connect: str, open_session: Open) -> None:
    session = open_session()
    registered = register(session, 2)
    node = session.get(paths.broker(2))
    assert node is not None
    with Between(
        connect, lambda: session.multi([SetData(paths.broker(2), node.data)]) and None
    ) as controller:
        assert Registry(controller).snapshot().brokers == {2: registered}


def test_a_watcher_hears_of_new_dead_and_bounced_brokers(open_session: Open) -> None:
    controller, broker = open_session(), open_session()
    controller.ensure([paths.BROKER_IDS])
    registry = Registry(controller)
    calls: list[int] = []
    registry.watch(lambda: calls.append(1))

    def seen() -> dict[int, int]:
        calls.clear()
        return {each.id: each.generation for each in registry.snapshot().brokers.values()}

    wait_until(lambda: calls, "the first call")
    first = register(broker, 1).generation
    wait_until(lambda: calls and seen() == {1: first}, "the new broker")
    calls.clear()
    second = bounce(broker, 1)
    wait_until(lambda: calls and seen() == {1: second}, "the bounce")
    Registry(broker).deregister(1)
    wait_until(lambda: calls and seen() == {}, "the dead broker")

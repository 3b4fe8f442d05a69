"""Sessions: bounded waits, chroot, access rules, events, watches, many reads at once."""

from __future__ import annotations

import socket
import time
from functools import partial
from pathlib import Path

import kazoo.exceptions
import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler

from epoka.coordination.zookeeper.bulk_read import Reading
from epoka.coordination.zookeeper.connect import BadConnectString, Connect, Credentials
from epoka.coordination.zookeeper.operations import Check, Create, Delete, Refused, SetData
from epoka.coordination.zookeeper.server import ZooKeeperServer
from epoka.coordination.zookeeper.session import (
    AccessDenied,
    Interrupted,
    Session,
    SessionEvent,
    Unreachable,
    ZooKeeperError,
    end_session,
)
from tests.coordination.zookeeper.people import Open, cut, expire
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("zk", ("zk:2181",), ""),
        ("a:1,b:2", ("a:1", "b:2"), ""),
        ("a:1, b/kafka", ("a:1", "b:2181"), "/kafka"),
        ("[::1]:2181,127.0.0.1/x/y/", ("[::1]:2181", "127.0.0.1:2181"), "/x/y"),
        ("a/", ("a:2181",), ""),
    ],
)
def test_zookeeper_connect_is_understood(text: str, hosts: tuple[str, ...], chroot: str) -> None:
    assert Connect.parse(text) == Connect(hosts, chroot)


@pytest.mark.parametrize(
    "text", ["", "a:1,", "a:b", "a:0", "a:70000", "::1", "a//b", "a/x/../y", "a b:1", "a:1/x,b:1/x"]
)
def test_a_bad_zookeeper_connect_is_refused(text: str) -> None:
    with pytest.raises(BadConnectString, match=r"zookeeper\.connect"):
        Connect.parse(text)


def test_an_ensemble_that_nobody_runs_is_unreachable_after_a_bounded_wait() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # One port that refuses, and one that accepts and never says a word.
        with socket.create_server(("127.0.0.1", 0)) as closed:
            closed_port = closed.getsockname()[1]
        connect = f"127.0.0.1:{closed_port},127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(Unreachable, match=rf"no ZooKeeper at {connect} within 0\.5 s"):
            Session(connect, session_timeout_ms=1_000).open(500)
        assert time.monotonic() - started < 10


def test_the_chroot_is_made_and_holds_everything(server: ZooKeeperServer, open_session: Open) -> None:
    session = open_session(f"{server.connect}/deep/er")
    session.create("/a", b"1")
    session.multi([Create("/a/b", b"2"), SetData("/a", b"3", 0)])
    assert session.multi([Create("/a/c-", sequence=True)]) == ["/a/c-0000000001"]
    outside = open_session(server.connect)
    assert outside.children_of("/deep/er") == ["a"]
    assert [node and node.data for node in outside.get_many(["/deep/er/a", "/deep/er/a/b", "/a"])] == [
        b"3",
        b"2",
        None,
    ]


def test_with_digest_the_world_may_read_what_we_create_and_nothing_more(open_session: Open) -> None:
    ours = open_session(credentials=Credentials(username="epoka", password="secret"))
    ours.create("/a", b"1")
    stranger, wrong = open_session(), open_session(credentials=Credentials(username="epoka", password="?"))
    for other in (stranger, wrong):
        node = other.get("/a")
        assert node is not None and node.data == b"1"
        for attempt in (SetData("/a", b"2"), Create("/a/b"), Delete("/a")):
            with pytest.raises(Refused, match=r"/a.*: access is denied"):
                other.multi([attempt])
        with pytest.raises(AccessDenied, match="/b: access is denied"):
            other.create("/b")
    again = open_session(credentials=Credentials(username="epoka", password="secret"))
    again.multi([SetData("/a", b"2"), Delete("/a")])


def test_without_authentication_everything_is_everybodys(open_session: Open) -> None:
    open_session().create("/a")
    open_session().multi([Delete("/a")])


@pytest.mark.parametrize("error", ["QuotaExceededError", "ThrottledOpError", "InvalidACLError"])
def test_what_zookeeper_refuses_for_its_own_reasons_is_no_defect_of_ours(error: str) -> None:
    kind = getattr(kazoo.exceptions, error, None)
    if kind is None:
        pytest.skip(f"this kazoo knows no {error}")
    result = AsyncResult(SequentialThreadingHandler())
    result.set_exception(kind())
    with pytest.raises(ZooKeeperError, match=r"^/a: ZooKeeper at 127\.0\.0\.1:1 refuses: "):
        Session("127.0.0.1:1")._wait("/a", result)


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Credentials(username="epoka", password="secret"))


def test_sasl_is_accepted_and_a_wrong_password_is_not(tmp_path: Path) -> None:
    pytest.importorskip("puresasl", reason="SASL needs pure-sasl: pip install 'kazoo[sasl]'")
    jaas = tmp_path / "jaas.conf"
    login = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    jaas.write_text(f'Server {{ {login} user_epoka="secret"; }};\n')
    server = ZooKeeperServer(
        tmp_path / "data",
        settings={"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
        java_options=[f"-Djava.security.auth.login.config={jaas}"],
    )
    with server:
        who = Credentials("DIGEST-MD5", "epoka", "secret")
        with Session(f"{server.connect}/x", credentials=who) as ours, Session(f"{server.connect}/x") as other:
            ours.create("/a")
            with pytest.raises(Refused, match="access is denied"):
                other.multi([SetData("/a", b"")])
            ours.multi([SetData("/a", b"")])
        with pytest.raises(AccessDenied, match="does not accept 'epoka' by DIGEST-MD5"):
            Session(server.connect, credentials=Credentials("DIGEST-MD5", "epoka", "?")).open(5_000)


def test_an_expired_session_is_followed_by_a_new_one_and_everybody_is_told(open_session: Open) -> None:
    session = open_session()
    session.create("/mine", ephemeral=True)
    events: list[SessionEvent] = []
    session.listen(events.append)
    first = session.id
    expire(session)
    assert session.id != first
    assert session.was_ours(first) and not session.was_ours(session.id)
    assert session.get("/mine") is None
    assert events[-2:] == [SessionEvent.LOST, SessionEvent.CONNECTED]


def test_a_session_whose_owner_takes_it_back_before_it_is_closed_is_ended_all_the_same(
    open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session()
    session.create("/mine", ephemeral=True)
    end, ends = KazooClient.stop, 0

    def stop(visitor: KazooClient) -> None:
        nonlocal ends
        ends += 1
        if ends == 1:
            # What ZooKeeper does to a connection whose session is taken up on another one.
            visitor._connection._socket.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: not visitor.connected, "the visitor to be cut off")
        end(visitor)

    monkeypatch.setattr(KazooClient, "stop", stop)
    before = session.id
    end_session(session.connect, session.key)
    assert ends > 1
    wait_until(lambda: session.id != before and session.connected, "a new session")
    assert session.get("/mine") is None


@pytest.mark.parametrize(("asked_ms", "granted_ms"), [(500, 1_000), (8_000, 8_000), (90_000, 60_000)])
def test_a_session_lasts_as_long_as_the_ensemble_grants(
    open_session: Open, asked_ms: int, granted_ms: int
) -> None:
    session = open_session(session_timeout_ms=asked_ms, request_timeout_ms=8_000)
    wait_until(lambda: session.session_timeout_ms == granted_ms, "what was granted")


def test_a_broken_connection_is_the_same_session(open_session: Open) -> None:
    session = open_session()
    session.create("/mine", ephemeral=True)
    first = session.id
    cut(session)
    assert session.id == first and not session.was_ours(first)
    assert session.get("/mine") is not None


def test_a_step_is_done_whole_or_not_at_all(open_session: Open) -> None:
    session = open_session()
    session.create("/a")
    with pytest.raises(Refused) as raised:
        session.multi([Create("/b"), Check("/a", 7), Create("/c")])
    assert (raised.value.position, raised.value.operation) == (1, Check("/a", 7))
    assert session.children_of("/") == ["a"]
    created, stat = session.multi([Create("/b"), SetData("/a", b"x", 0)])
    assert (created, stat.version) == ("/b", 1)


def test_many_nodes_are_read_at_once_in_the_order_asked_for(open_session: Open) -> None:
    session = open_session()
    session.create("/n")
    session.multi([Create(f"/n/{number}", str(number).encode()) for number in range(0, 2500, 2)])
    wanted = [f"/n/{number}" for number in range(2500)]
    found = session.get_many(wanted)
    assert [node and node.data for node in found] == [
        None if number % 2 else str(number).encode() for number in range(2500)
    ]
    assert session._read_singly(Reading.DATA, wanted[:1200]) == found[:1200]
    assert session.children_of_many(["/n/0", "/none", "/"]) == [[], None, ["n"]]
    assert session._read_singly(Reading.CHILDREN, ["/n/0", "/none", "/"]) == [[], None, ["n"]]
    assert session.get_many([]) == []


def test_reads_outlast_a_broken_connection(open_session: Open) -> None:
    session = open_session()
    session.create("/n", b"x")
    pending = session._begin_bulk(Reading.DATA, ["/n"])
    session._client._connection._socket.shutdown(socket.SHUT_RDWR)
    assert [node and node.data for node in session.get_many(["/n"] * 1500)] == [b"x"] * 1500
    assert pending.wait(5)


def test_a_watch_tells_of_every_change_and_looks_again_after_a_reconnection(open_session: Open) -> None:
    watcher, actor = open_session(), open_session()
    actor.create("/n")
    seen: list[list[str]] = []
    calls: list[int] = []
    watch = watcher.watch_children("/n", lambda: calls.append(1))

    def look() -> list[str]:
        while calls:
            calls.pop()
            seen.append(watcher.children_of("/n"))
        return seen[-1] if seen else ["nothing yet"]

    wait_until(lambda: look() == [], "the first call")
    for name in ("a", "b"):
        actor.create(f"/n/{name}")
        wait_until(lambda name=name: name in look(), f"{name} to be seen")  # type: ignore[misc]
    cut(watcher)
    actor.create("/n/c")
    wait_until(lambda: look() == ["a", "b", "c"], "c to be seen")
    expire(watcher)
    actor.multi([Delete("/n/a")])
    wait_until(lambda: look() == ["b", "c"], "the new session to see that a is gone")
    watch.stop()
    look()
    actor.create("/n/d")
    watcher.sync()
    assert not calls


def test_a_watch_tells_that_a_node_came_and_went(open_session: Open) -> None:
    session = open_session()
    calls: list[int] = []
    session.watch_node("/n", lambda: calls.append(1))
    wait_until(lambda: len(calls) == 1, "the first call")
    session.create("/n")
    wait_until(lambda: len(calls) == 2, "the creation")
    session.multi([Delete("/n")])
    wait_until(lambda: len(calls) == 3, "the deletion")


def test_many_hundreds_of_watches_are_set_again_after_a_reconnection(open_session: Open) -> None:
    session = open_session()
    calls = [0] * 600

    def count(number: int) -> None:
        calls[number] += 1

    for number in range(len(calls)):
        session.watch_node(f"/n{number}", partial(count, number))
    wait_until(lambda: min(calls) == 1, "the first calls")
    cut(session)
    wait_until(lambda: min(calls) == 2, "the calls after the reconnection")


# What ends kazoo's thread is told by its end, too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("cause", [kazoo.exceptions.AuthFailedError, kazoo.exceptions.SASLException])
def test_whoever_is_not_let_in_again_is_told_that_it_is_over(
    open_session: Open, monkeypatch: pytest.MonkeyPatch, cause: type[Exception]
) -> None:
    session = open_session()
    events: list[SessionEvent] = []
    session.listen(events.append)

    def refuse(*_: object) -> tuple[float, float]:
        raise cause("no more")

    monkeypatch.setattr(session._client._connection, "_connect", refuse)
    session._client._connection._socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: SessionEvent.OVER in events, lambda: f"the end, not {events}")
    assert events == [SessionEvent.SUSPENDED, SessionEvent.LOST, SessionEvent.OVER]


def test_a_session_that_expires_or_is_closed_is_not_over(open_session: Open) -> None:
    session = open_session()
    events: list[SessionEvent] = []
    session.listen(events.append)
    expire(session)
    session.close()
    assert events[-1] is SessionEvent.LOST and SessionEvent.OVER not in events


def is_interrupted(session: Session) -> bool:
    try:
        session.get("/a")
    except Interrupted:
        return True
    return False


def test_an_ensemble_without_a_majority_interrupts_and_goes_on_when_it_is_back(
    ensemble: ZooKeeperServer, open_session: Open
) -> None:
    session = open_session(f"{ensemble.connect}/half", session_timeout_ms=60_000, request_timeout_ms=2_000)
    impatient = open_session(f"{ensemble.connect}/half", session_timeout_ms=60_000)
    impatient._request_timeout_s = 0.001
    session.create("/a", b"1")
    ensemble.kill(1)
    ensemble.kill(2)
    try:
        # Until the node that is left has noticed that it is alone, it may still listen.
        wait_until(lambda: ensemble.mode(3) is None, "the last node to give up")
        wait_until(lambda: not (session.connected or impatient.connected), "the connections to break")
        # However many ask, nobody is kept, and nothing of it is done later.
        for _ in range(400):
            with pytest.raises(Interrupted, match="there is no connection to ZooKeeper"):
                impatient.multi([SetData("/a", b"late")])
        with pytest.raises(Interrupted, match="there is no connection to ZooKeeper"):
            session.multi([SetData("/a", b"2")])
        assert is_interrupted(session)
        with pytest.raises(Unreachable):
            Session(ensemble.address(3)).open(1_000)
    finally:
        ensemble.restart(1)
        ensemble.restart(2)

    def goes_on() -> bool:
        try:
            node = session.get("/a")
            assert node is not None
            session.multi([SetData("/a", b"3", node.stat.version)])
        except Interrupted:
            return False
        return True

    wait_until(goes_on, "the session to be back")
    node = session.get("/a")
    assert node is not None and (node.data, node.stat.version) == (b"3", 1)

"""One session with a ZooKeeper ensemble: a thin layer over kazoo that decides nothing.

Waits are bounded, errors say what is wrong, and every node that is created gets the same access rules:
everything for whoever is authenticated and reading for the world, or everything for the world when nobody is.
Reads are tried again over a broken connection; a write that was cut off raises `Interrupted`, because
only the caller can tell whether it happened.

Callbacks run on kazoo's threads and must not block. They may come more often than needed, never too seldom:
a watch calls when it is set, at every change, and after every reconnection.

    Exception
      ZooKeeperError      the world's fault, said in a line
        Unreachable       nobody answered in time
        AccessDenied      authentication failed, or a node is not ours to touch
        Interrupted       the connection broke, or the session ended, before the answer came
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final

try:
    from kazoo import exceptions as kazoo_errors
    from kazoo.client import KazooClient
    from kazoo.handlers.threading import KazooTimeoutError
    from kazoo.protocol.states import Callback, EventType, KazooState, KeeperState
    from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE
except ModuleNotFoundError as missing:
    if missing.name != "kazoo":
        raise
    raise ModuleNotFoundError(
        "ZooKeeper mode needs kazoo: pip install 'epoka[zookeeper]'", name="kazoo"
    ) from missing

from epoka.coordination.zookeeper.bulk_read import BulkRead, Failed, Reading
from epoka.coordination.zookeeper.connect import Connect, Credentials
from epoka.coordination.zookeeper.operations import (
    BAD_VERSION,
    NO_AUTH,
    NO_NODE,
    NODE_EXISTS,
    NOT_EMPTY,
    Check,
    Create,
    Delete,
    Node,
    Operation,
    Refused,
    SetData,
    Stat,
)

log = logging.getLogger(__name__)

DEFAULT_SESSION_TIMEOUT_MS: Final = 18_000
DEFAULT_CONNECT_TIMEOUT_MS: Final = 18_000
_BULK: Final = 1000
"""Reads in one request: far below ZooKeeper's limit of 1 MB, as paths are short."""
_IN_FLIGHT: Final = 8
_SINGLE: Final = 100
"""Reads that are under way one by one; kazoo blocks whoever sends some hundreds without a connection."""

_REASONS: Final = {
    kazoo_errors.NodeExistsError: NODE_EXISTS,
    kazoo_errors.NoNodeError: NO_NODE,
    kazoo_errors.BadVersionError: BAD_VERSION,
    kazoo_errors.NotEmptyError: NOT_EMPTY,
    kazoo_errors.NoAuthError: NO_AUTH,
}
_NOT_THE_CAUSE: Final = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
_CUT_OFF: Final = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.OperationTimeoutError,
    kazoo_errors.SessionExpiredError,
    kazoo_errors.SessionMovedError,
    KazooTimeoutError,
)


class ZooKeeperError(Exception):
    """ZooKeeper cannot be used as it should be; the text says why."""


class Unreachable(ZooKeeperError):
    """No server of the ensemble answered in time."""


class AccessDenied(ZooKeeperError):
    """The ensemble does not accept who we are, or what we want to touch."""


class Interrupted(ZooKeeperError):
    """The answer to a request never came: it may have been carried out or not."""


class SessionEvent(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection broke; the session may live on."""
    LOST = "lost"
    """The session is over, and its ephemeral nodes are gone. The next connection is a new session."""
    OVER = "over"
    """After LOST: there will be no next connection, because we are not let in any more."""


class Session:
    """A session with the ensemble that `connect` names. `open` it first; a context manager closes it."""

    def __init__(
        self,
        connect: str | Connect,
        *,
        credentials: Credentials | None = None,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        request_timeout_ms: int | None = None,
    ) -> None:
        self.connect = Connect.parse(connect) if isinstance(connect, str) else connect
        self.session_timeout_ms = session_timeout_ms
        """What was asked for; with a connection, what the ensemble has granted, which may be less or more."""
        self._credentials = credentials
        self._request_timeout_s = (request_timeout_ms or session_timeout_ms) / 1000
        self._acl = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if credentials else OPEN_ACL_UNSAFE
        self._client = self._new_client(str(self.connect))
        self._client._connection._connect = partial(self._connect, self._client._connection._connect)
        self._client.add_listener(self._on_state)
        self._lock = threading.Lock()
        self._listeners: list[Callable[[SessionEvent], None]] = []
        self._id = 0
        self._former_ids: set[int] = set()

    # Beginning and end.

    def open(self, timeout_ms: int = DEFAULT_CONNECT_TIMEOUT_MS) -> Session:
        """Connect, and make the chroot if it is missing; Unreachable or AccessDenied after a bounded wait."""
        started = time.monotonic()
        try:
            self._start(self._client, timeout_ms)
            self._greet(timeout_ms)
            if self.connect.chroot and self.get("/") is None:
                remaining_ms = timeout_ms - int(1000 * (time.monotonic() - started))
                self._create_chroot(max(1000, remaining_ms))
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End the session, and with it its ephemeral nodes."""
        _stop(self._client)

    def __enter__(self) -> Session:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    # Who we are.

    @property
    def id(self) -> int:
        """The present session; 0 before the first."""
        return self._id

    @property
    def connected(self) -> bool:
        return bool(self._client.connected)

    @property
    def key(self) -> tuple[int, bytes]:
        """Id and password of the session: whoever has them can take it over or end it."""
        return self._client._session_id, self._client._session_passwd

    def was_ours(self, session_id: int) -> bool:
        """Whether that was an earlier session of this object, which has ended since."""
        return session_id in self._former_ids

    def listen(self, callback: Callable[[SessionEvent], None]) -> None:
        """Be told when the connection breaks, the session ends, or one of them begins anew."""
        self._listeners.append(callback)

    # Reading.

    def get(self, path: str) -> Node | None:
        """The node, or None."""
        try:
            data, stat = self._read(path, lambda: self._client.get_async(path))
        except kazoo_errors.NoNodeError:
            return None
        return Node(data or b"", Stat._make(stat))

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Many nodes at once, in the order of `paths`; not one consistent state of them."""
        return self._read_many(Reading.DATA, paths)

    def children(self, path: str) -> tuple[list[str], Stat] | None:
        """The names of a node's children in order, and the node's own stat; None without the node."""
        try:
            names, stat = self._read(path, lambda: self._client.get_children_async(path, include_data=True))
        except kazoo_errors.NoNodeError:
            return None
        return sorted(names), Stat._make(stat)

    def children_of(self, path: str) -> list[str]:
        """The names of a node's children in order; none if there is no such node."""
        found = self.children(path)
        return found[0] if found else []

    def children_of_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        return [
            None if names is None else sorted(names) for names in self._read_many(Reading.CHILDREN, paths)
        ]

    def sync(self, path: str = "/") -> None:
        """Let our server catch up with the leader: reads behind this see everything committed before it."""
        self._read(path, lambda: self._client.sync_async(path))

    # Writing.

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> Stat:
        """Create a node and learn its stat in one step; Refused if it exists."""
        operation = Create(path, data, ephemeral=ephemeral)
        self._await_connection(path, self._request_timeout_s)
        try:
            _, stat = self._wait(
                path, self._client.create_async(path, data, self._acl, ephemeral, include_data=True)
            )
        except tuple(_REASONS) as error:
            raise Refused(0, operation, _REASONS[type(error)]) from error
        return Stat._make(stat)

    def multi(self, operations: Sequence[Operation]) -> list[Any]:
        """All of them or none; Refused names the first that could not be done."""
        return self.begin_multi(operations).wait()

    def begin_multi(self, operations: Sequence[Operation]) -> Pending:
        """Send, and let the caller wait for the answer. A session's steps are carried out in their order."""
        self._await_connection(operations[0].path, self._request_timeout_s)
        transaction = self._client.transaction()
        for operation in operations:
            match operation:
                case Create(path, data, ephemeral, sequence):
                    transaction.create(path, data, self._acl, ephemeral, sequence)
                case SetData(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        return Pending(self, operations, transaction.commit_async())

    def ensure(self, paths: Iterable[str]) -> None:
        """Create the nodes that are missing, each with its parents, without content."""
        for path in paths:
            self._read(path, partial(self._client.ensure_path_async, path, self._acl))

    # Watching.

    def watch_children(self, path: str, callback: Callable[[], None]) -> Watch:
        """Call whenever a child may have come or gone."""
        return Watch(self, lambda fired: self._client.get_children_async(path, watch=fired), callback)

    def watch_node(self, path: str, callback: Callable[[], None]) -> Watch:
        """Call whenever the node may have been created, changed or deleted."""
        return Watch(self, lambda fired: self._client.exists_async(path, watch=fired), callback)

    # Inside.

    def _new_client(self, hosts: str, key: tuple[int, bytes] | None = None) -> Any:
        who = self._credentials
        auth = sasl = None
        if who is not None and who.mechanism.lower() == "digest":
            auth = [("digest", f"{who.username}:{who.password}")]
        elif who is not None:
            if importlib.util.find_spec("puresasl") is None:
                raise AccessDenied(f"SASL {who.mechanism} needs pure-sasl: pip install 'kazoo[sasl]'")
            sasl = {"mechanism": who.mechanism, "service": who.service}
            if who.username:
                sasl |= {"username": who.username, "password": who.password}
        return KazooClient(
            hosts,
            timeout=self.session_timeout_ms / 1000,
            client_id=key,
            auth_data=auth,
            sasl_options=sasl,
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
            logger=log.getChild("kazoo"),
        )

    def _connect(self, connect: Callable[..., tuple[float, float]], *address: Any) -> tuple[float, float]:
        """kazoo keeps the session's timeout to itself; it gives a server two thirds of that to answer."""
        answer_ms, connect_ms = connect(*address)
        self.session_timeout_ms = round(answer_ms * 3 / 2)
        return answer_ms, connect_ms

    def _start(self, client: Any, timeout_ms: int) -> None:
        if not client.start_async().wait(timeout_ms / 1000):
            if client.client_state == "AUTH_FAILED":
                raise self._not_accepted()
            raise Unreachable(f"no ZooKeeper at {self.connect} within {timeout_ms / 1000:g} s")

    def _greet(self, timeout_ms: int) -> None:
        """Authentication is settled behind the connection: the first answer tells how it went."""
        try:
            self._client.exists_async("/").get(timeout=timeout_ms / 1000)
        except kazoo_errors.AuthFailedError as error:
            raise self._not_accepted() from error
        except kazoo_errors.NoAuthError as error:
            raise AccessDenied(f"{self.connect}: {NO_AUTH}") from error
        except _CUT_OFF as error:
            if self._client.client_state == "AUTH_FAILED":
                raise self._not_accepted() from error
            raise Unreachable(
                f"no answer from ZooKeeper at {self.connect} within {timeout_ms / 1000:g} s"
            ) from error

    def _not_accepted(self) -> AccessDenied:
        who = self._credentials
        name = f"{who.username!r} by {who.mechanism}" if who else "us"
        return AccessDenied(f"ZooKeeper at {self.connect} does not accept {name}")

    def _create_chroot(self, timeout_ms: int) -> None:
        # kazoo cannot create the root that all of its paths are relative to.
        outside = self._new_client(",".join(self.connect.hosts))
        try:
            self._start(outside, timeout_ms)
            self._wait(self.connect.chroot, outside.ensure_path_async(self.connect.chroot, self._acl))
        finally:
            _stop(outside)

    def _read_many(self, kind: Reading, paths: Sequence[str]) -> list[Any]:
        answers: list[Any] = []
        chunks = [paths[start : start + _BULK] for start in range(0, len(paths), _BULK)]
        sent = [self._begin_bulk(kind, chunk) for chunk in chunks[:_IN_FLIGHT]]
        for number, chunk in enumerate(chunks):
            try:
                found = self._wait(chunk[0], sent[number])
            except Interrupted:
                found = self._read(chunk[0], partial(self._begin_bulk, kind, chunk))
            except kazoo_errors.UnimplementedError:
                # A server before 3.6.
                return answers + self._read_singly(kind, paths[len(answers) :])
            sent[number] = None
            if number + _IN_FLIGHT < len(chunks):
                sent.append(self._begin_bulk(kind, chunks[number + _IN_FLIGHT]))
            for path, answer in zip(chunk, found):
                if isinstance(answer, Failed) and not answer.missing:
                    if answer.denied:
                        raise AccessDenied(f"{path}: {NO_AUTH}")
                    raise ZooKeeperError(f"{path}: ZooKeeper's error {answer.code}")
                answers.append(None if isinstance(answer, Failed) else answer)
        return answers

    def _begin_bulk(self, kind: Reading, paths: Sequence[str]) -> Any:
        client = self._client
        answer = client.handler.async_result()
        self._await_connection(paths[0], self._request_timeout_s)
        client._call(BulkRead(kind, [_rooted(client.chroot, path) for path in paths]), answer)
        return answer

    def _read_singly(self, kind: Reading, paths: Sequence[str]) -> list[Any]:
        """One request a node, many of them on their way at a time."""
        client = self._client
        ask = client.get_async if kind is Reading.DATA else client.get_children_async
        answers: list[Any] = []
        for start in range(0, len(paths), _SINGLE):
            self._await_connection(paths[start], self._request_timeout_s)
            sent = [(path, ask(path)) for path in paths[start : start + _SINGLE]]
            for path, result in sent:
                try:
                    try:
                        found = self._wait(path, result)
                    except Interrupted:
                        found = self._read(path, partial(ask, path))
                except kazoo_errors.NoNodeError:
                    answers.append(None)
                    continue
                is_node = kind is Reading.DATA
                answers.append(Node(found[0] or b"", Stat._make(found[1])) if is_node else found)
        return answers

    def _read(self, path: str, ask: Callable[[], Any]) -> Any:
        """Ask until there is an answer, over broken connections and new sessions, for a bounded time."""
        deadline = time.monotonic() + self._request_timeout_s
        while True:
            try:
                self._await_connection(path, deadline - time.monotonic())
                return self._wait(path, ask(), deadline - time.monotonic())
            except Interrupted:
                if time.monotonic() >= deadline or self._client._stopped.is_set():
                    raise
                # An ended session refuses at once; kazoo begins the next one in a moment.
                time.sleep(0.01)

    def _await_connection(self, path: str, timeout_s: float) -> None:
        """Send nothing before there is a connection.

        kazoo would keep a request until there is one: a write that nobody waits for any more could still take
        place, and after some hundreds of requests the next sender would be blocked for good.
        """
        if self._client._stopped.is_set() or not self._client._live.wait(max(0.0, timeout_s)):
            raise Interrupted(f"{path}: there is no connection to ZooKeeper at {self.connect}")

    def _wait(self, path: str, result: Any, timeout_s: float | None = None) -> Any:
        """The value of one of kazoo's asynchronous results, or one of our errors."""
        limit_s = self._request_timeout_s if timeout_s is None else max(0.0, timeout_s)
        try:
            return result.get(timeout=limit_s)
        except _CUT_OFF as error:
            reason = str(error) or type(error).__name__
            raise Interrupted(f"{path}: no answer from ZooKeeper at {self.connect}: {reason}") from error
        except kazoo_errors.NoAuthError as error:
            raise AccessDenied(f"{path}: {NO_AUTH}") from error
        except kazoo_errors.AuthFailedError as error:
            raise self._not_accepted() from error
        except (*_REASONS, kazoo_errors.UnimplementedError):
            raise
        except kazoo_errors.ZookeeperError as error:
            # A quota, for instance, or a server that has too much to do.
            reason = str(error) or type(error).__name__
            raise ZooKeeperError(f"{path}: ZooKeeper at {self.connect} refuses: {reason}") from error

    def _later(self, call: Callable[[], None]) -> None:
        """Let kazoo's thread for callbacks do it."""
        self._client.handler.dispatch_callback(Callback("session", call, ()))

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            session_id = self._client._session_id
            with self._lock:
                if self._id and session_id != self._id:
                    self._former_ids.add(self._id)
                self._id = session_id
        self._tell(_EVENTS[state])
        expired = self._client.client_state == KeeperState.EXPIRED_SESSION
        if state == KazooState.LOST and not expired and not self._client._stopped.is_set():
            # A refused login, a connection that breaks during SASL, a ticket that ran out: kazoo ends its
            # thread then, and nothing would ever be heard of this session again.
            self._tell(SessionEvent.OVER)

    def _tell(self, event: SessionEvent) -> None:
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception:
                log.exception("a listener of the session failed")


class Pending:
    """A step that was sent and not yet waited for."""

    def __init__(self, session: Session, operations: Sequence[Operation], result: Any) -> None:
        self._session = session
        self._operations = operations
        self._result = result

    def wait(self) -> list[Any]:
        """What each operation gave: a path, a Stat, or True."""
        results = self._session._wait(self._operations[0].path, self._result)
        for position, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, _NOT_THE_CAUSE):
                reason = _REASONS.get(type(result)) or type(result).__name__
                raise Refused(position, self._operations[position], reason) from result
        return [Stat._make(result) if isinstance(result, tuple) else result for result in results]


class Watch:
    """A watch that sets itself again after every event and every reconnection, until it is stopped."""

    def __init__(self, session: Session, arm: Callable[[Any], Any], callback: Callable[[], None]) -> None:
        self._session = session
        self._arm_with = arm
        self._callback = callback
        self._stopped = False
        session.listen(self._on_session)
        self._arm()

    def stop(self) -> None:
        self._stopped = True

    def _arm(self) -> None:
        if not self._stopped and self._session.connected:
            self._arm_with(self._fired).rawlink(self._armed)

    def _fired(self, event: Any) -> None:
        # An event of no type says that the connection broke; the watch is set again with the next one.
        if event.type != EventType.NONE:
            self._arm()

    def _armed(self, result: Any) -> None:
        """Only now, with the watch in place again, is looking worth while: nothing can slip through."""
        if self._stopped:
            return
        if result.successful():
            self._callback()
        elif not isinstance(result.exception, _CUT_OFF):
            log.error("a watch cannot be set: %s", result.exception)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED:
            # This is the thread that sends: after some hundreds of requests it would wait for itself.
            self._session._later(self._arm)


_EVENTS: Final = {
    KazooState.CONNECTED: SessionEvent.CONNECTED,
    KazooState.SUSPENDED: SessionEvent.SUSPENDED,
    KazooState.LOST: SessionEvent.LOST,
}


def end_session(connect: str | Connect, key: tuple[int, bytes], timeout_ms: int = 10_000) -> None:
    """End a session whose id and password are known, from outside; its ephemeral nodes go at once.

    An owner who lives takes the session back as soon as we have it, which may be before we have ended it: so
    it is asked for again until it is no more.
    """
    visitor = Session(connect, session_timeout_ms=timeout_ms)
    deadline = time.monotonic() + timeout_ms / 1000
    lasts = True
    while lasts:
        left_ms = round(1000 * (deadline - time.monotonic()))
        if left_ms <= 0:
            raise Unreachable(f"a session of ZooKeeper at {visitor.connect} could not be ended")
        client = visitor._new_client(str(visitor.connect), key)
        try:
            visitor._start(client, left_ms)
            lasts = client._session_id == key[0]
        finally:
            _stop(client)


def _stop(client: Any) -> None:
    with contextlib.suppress(kazoo_errors.WriterNotClosedException, OSError, AttributeError):
        client.stop()
    with contextlib.suppress(Exception):
        client.close()


def _rooted(chroot: str, path: str) -> str:
    return (chroot + path).rstrip("/") or "/" if chroot else path

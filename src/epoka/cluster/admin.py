"""The door through which commands reach a cluster that another process runs: a socket in its data directory.

Only the user who owns the folder can open it. One JSON request a connection, one JSON answer. Decides
nothing: each verb is the method of `Cluster` with the same name.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from pathlib import Path
from typing import Any

import msgspec

from epoka.cluster.cluster import Cluster
from epoka.cluster.errors import BadCluster, ClusterError
from epoka.cluster.nodes import RUNNING

log = logging.getLogger(__name__)

SOCKET_NAME = "admin.sock"
MAX_REQUEST_BYTES = 64 * 1024
ANSWER_TIMEOUT_S = 180.0
EXIT_FAILED = 1
EXIT_USAGE = 2


class AdminFailed(Exception):
    """The cluster did not do it; `code` is the exit code that a command should end with."""

    def __init__(self, text: str, code: int = EXIT_FAILED) -> None:
        super().__init__(text)
        self.code = code


class AdminRequest(msgspec.Struct, frozen=True):
    verb: str
    node: int | None = None
    how: str = "clean"
    from_: str = "all"


class AdminAnswer(msgspec.Struct, frozen=True):
    outcome: dict[str, Any] = {}
    error: str = ""
    code: int = 0


class AdminDoor:
    """Serves requests for one cluster until it is closed, each in a thread of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._folder = os.open(cluster.data, os.O_RDONLY | os.O_DIRECTORY)
        (cluster.data / SOCKET_NAME).unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            self._socket.bind(_address(self._folder))
        finally:
            os.umask(before)
        self._socket.listen()
        threading.Thread(target=self._serve, name="epoka-admin", daemon=True).start()

    def close(self) -> None:
        # Shutting down wakes the accepting thread; closing alone would not.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        os.close(self._folder)

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._attend, args=(peer,), daemon=True).start()

    def _attend(self, peer: socket.socket) -> None:
        with peer, peer.makefile("rb") as stream:
            peer.settimeout(10)
            try:
                line = stream.readline(MAX_REQUEST_BYTES)
            except OSError:
                return
            try:
                request = msgspec.json.decode(line, type=AdminRequest)
                answer = AdminAnswer(outcome=self._do(request))
            except msgspec.DecodeError as error:
                answer = AdminAnswer(error=f"a request that nobody understands: {error}", code=EXIT_USAGE)
            except BadCluster as error:
                answer = AdminAnswer(error=str(error), code=EXIT_USAGE)
            except (ClusterError, OSError) as error:
                answer = AdminAnswer(error=str(error), code=EXIT_FAILED)
            try:
                peer.sendall(msgspec.json.encode(answer) + b"\n")
            except OSError:
                log.debug("whoever asked has gone")

    def _do(self, request: AdminRequest) -> dict[str, Any]:
        cluster = self._cluster
        if request.verb == "list":
            return {"nodes": [self._describe(each) for each in cluster.node_ids]}
        if request.verb == "heal":
            cluster.heal()
            return {}
        if request.node is None:
            raise BadCluster(f"{request.verb} needs a node")
        if request.verb == "bounce":
            old, new = cluster.bounce(request.node, request.how)
            return {"node": request.node, "old": old, "new": new}
        before = self._generation(request.node)
        if request.verb == "isolate":
            cluster.isolate(request.node, request.from_)
        elif request.verb in ("kill", "stop", "start", "pause", "resume", "wipe"):
            getattr(cluster, request.verb)(request.node)
        else:
            raise BadCluster(f"nobody knows how to {request.verb} a node")
        after = self._generation(request.node)
        return {"node": request.node, "state": cluster.state(request.node), "old": before, "new": after}

    def _describe(self, node_id: int) -> dict[str, Any]:
        cluster = self._cluster
        place = cluster.layout.place(node_id)
        return {
            "node": node_id,
            "role": place.role,
            "state": cluster.state(node_id),
            "generation": self._generation(node_id),
            "pid": cluster.pid(node_id),
            "listens": place.client_address if place.client_port else None,
        }

    def _generation(self, node_id: int) -> int | None:
        """The generation of a broker; None when it has none, or when no controller can say."""
        cluster = self._cluster
        runs = any(cluster.state(each) == RUNNING for each in cluster.controller_ids)
        if not runs or cluster.layout.place(node_id).role != "broker":
            return None
        try:
            generation = cluster.generation(node_id)
        except ClusterError:
            return None
        return None if generation < 0 else generation


def ask_admin(data: Path, verb: str, about: dict[str, Any]) -> dict[str, Any]:
    """Have the cluster in `data` do something; AdminFailed says why it did not."""
    try:
        folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise AdminFailed(f"there is no cluster in {data}") from error
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(ANSWER_TIMEOUT_S)
            try:
                peer.connect(_address(folder))
            except OSError as error:
                raise AdminFailed(f"the cluster in {data} is not running") from error
            with peer.makefile("rwb") as stream:
                stream.write(msgspec.json.encode({"verb": verb, **about}) + b"\n")
                stream.flush()
                line = stream.readline()
    except OSError as error:
        raise AdminFailed(f"the cluster in {data} did not answer: {error}") from error
    finally:
        os.close(folder)
    if not line:
        raise AdminFailed(f"the cluster in {data} went away")
    answer = msgspec.json.decode(line, type=AdminAnswer)
    if answer.error:
        raise AdminFailed(answer.error, answer.code)
    return answer.outcome


def _address(folder: int) -> str:
    # The path of a socket may be no longer than some hundred bytes; a folder's may be.
    return f"/proc/self/fd/{folder}/{SOCKET_NAME}"

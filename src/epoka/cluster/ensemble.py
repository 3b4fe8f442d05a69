"""The ZooKeeper ensemble of a cluster in zookeeper mode: started with it, and asked what is wrong with it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from epoka.cluster.errors import ClusterError
from epoka.coordination.zookeeper.connect import Connect

if TYPE_CHECKING:
    from epoka.coordination.zookeeper.server import ZooKeeperServer

PROBE_TIMEOUT_S = 2.0
_MAX_ANSWER = 64 * 1024


class Ensemble:
    """Nodes of ZooKeeper that live and end with the cluster; none until `start`."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self.server: ZooKeeperServer | None = None

    def start(self, folder: Path) -> str:
        """Start them with what is in `folder`; returns where they are."""
        from epoka.coordination.zookeeper.server import ZooKeeperServer, ZooKeeperUnavailable

        try:
            self.server = ZooKeeperServer(folder, self._nodes).start()
        except ZooKeeperUnavailable as error:
            self.server = None
            raise ClusterError(str(error)) from error
        return self.server.connect

    def stop(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            server.stop()


def trouble(connect: str, probe: Callable[[str, int], str] | None = None) -> str | None:
    """Why no controller can decide anything, as far as the ensemble is the reason; None if it is not."""
    hosts = Connect.parse(connect).hosts
    states = [(probe or _probe)(*_split(host)) for host in hosts]
    if states.count("serving") > len(hosts) // 2:
        return None
    up = len(hosts) - states.count("down")
    reason = "so it has no majority" if up else "so there is nobody"
    if up > len(hosts) // 2:
        reason = "but they have not agreed on a leader"
    return f"ZooKeeper at {connect}: {up} of {len(hosts)} nodes answer, {reason}, and nothing is decided"


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _probe(host: str, port: int) -> str:
    """`serving`, `waiting` for the others, or `down`."""
    try:
        with socket.create_connection((host, port), PROBE_TIMEOUT_S) as peer:
            peer.settimeout(PROBE_TIMEOUT_S)
            peer.sendall(b"srvr")
            answer = b""
            while len(answer) < _MAX_ANSWER and (part := peer.recv(4096)):
                answer += part
    except OSError:
        return "down"
    # An ensemble of somebody else's may not answer such questions; then having answered at all must do.
    return "waiting" if b"not currently serving" in answer else "serving"

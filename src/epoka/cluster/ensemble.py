"""The ZooKeeper ensemble of a cluster in zookeeper mode: started with it, and asked what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from epoka.cluster.errors import ClusterError
from epoka.coordination.zookeeper import probe
from epoka.coordination.zookeeper.connect import Connect
from epoka.node.keys import split_address

if TYPE_CHECKING:
    from epoka.coordination.zookeeper.server import ZooKeeperServer


class Ensemble:
    """Nodes of ZooKeeper that live and end with the cluster; none until `start`."""

    def __init__(self, nodes: int | None) -> None:
        self._nodes = nodes
        """None for as many as there were."""
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


def trouble(connect: str, ask: Callable[[str, int], str | None] = probe.mode) -> str | None:
    """Why no controller can decide anything, as far as the ensemble is the reason; None if it is not."""
    modes = [ask(*split_address(host)) for host in Connect.parse(connect).hosts]
    majority = len(modes) // 2 + 1
    up = [each for each in modes if each is not None]
    if len(up) - up.count(probe.WAITING) >= majority:
        return None
    reason = "so it has no majority" if up else "so there is nobody"
    if len(up) >= majority:
        reason = "but they have not agreed on a leader"
    return f"ZooKeeper at {connect}: {len(up)} of {len(modes)} nodes answer, {reason}, and nothing is decided"

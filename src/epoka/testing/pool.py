"""The clusters of one test session: one for every way in which tests want them, started when first wanted.

Few are kept at a time. A cluster that a test has left in pieces and that cannot be put together again is
thrown away, and the next test gets a new one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from epoka.client.connection import Connection
from epoka.cluster.cluster import Cluster
from epoka.cluster.errors import ClusterError
from epoka.cluster.nodes import PAUSED, RUNNING
from epoka.testing import places

MOST_CLUSTERS = 2
MEND_S = 60.0
LOOK_AGAIN_S = 0.02

QUICK = {
    "broker.heartbeat.interval.ms": 500,
    "controller.heartbeat.timeout.ms": 3_000,
    "broker.heartbeat.timeout.ms": 6_000,
    "replica.lag.time.max.ms": 5_000,
    "offsets.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
}
"""A dead broker is noticed in seconds, and a first consumer group waits for nobody."""


_KINDS: dict[str, Any] = {"brokers": int, "mode": str, "level": str | None, "processes": bool | None}


class Wish(msgspec.Struct, frozen=True):
    """What cluster a test wants; equal wishes share one."""

    brokers: int = 3
    mode: str = "log"
    level: str | None = None
    processes: bool | None = None
    config: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        brokers: int = 3,
        mode: str = "log",
        level: str | None = None,
        config: Mapping[str, Any] | None = None,
        processes: bool | None = None,
    ) -> Wish:
        """From the arguments of the marker `epoka`; TypeError for what is no number or no name."""
        settings = {**QUICK, **(config or {})}
        wish = cls(brokers, mode, level, processes, tuple(sorted((k, str(v)) for k, v in settings.items())))
        for name, kind in _KINDS.items():
            if not isinstance(value := getattr(wish, name), kind):
                raise TypeError(f"{name} cannot be {value!r}, which is of type {type(value).__name__}")
        return wish


class Pool:
    def __init__(self) -> None:
        self._clusters: dict[Wish, Cluster] = {}
        self._connections: dict[Cluster, dict[int, Connection]] = {}
        self._folders: dict[Cluster, Path] = {}

    def connections(self, cluster: Cluster) -> dict[int, Connection]:
        """Connections to the brokers of a cluster that one test leaves to the next."""
        return self._connections.setdefault(cluster, {})

    def cluster(self, wish: Wish) -> Cluster:
        """The cluster for a wish, whole and running."""
        cluster = self._clusters.pop(wish, None)
        if cluster is None:
            while len(self._clusters) >= MOST_CLUSTERS:
                self._close(self._clusters.pop(next(iter(self._clusters))))
            cluster = self._open(wish)
        # The one that was used last is the last to go.
        self._clusters[wish] = cluster
        return cluster

    def _open(self, wish: Wish) -> Cluster:
        folder = places.new_folder()
        cluster = Cluster(
            brokers=wish.brokers,
            mode=wish.mode,
            level=wish.level,
            processes=wish.processes,
            config=dict(wish.config),
            data=folder / "cluster",
        )
        try:
            cluster.open()
        except BaseException:
            places.remove(folder)
            raise
        self._folders[cluster] = folder
        return cluster

    def mend(self, cluster: Cluster) -> None:
        """Undo what a test has done to a cluster; throw it away when that does not help."""
        try:
            cluster.heal()
            for node_id in cluster.node_ids:
                state = cluster.state(node_id)
                if state == PAUSED:
                    cluster.resume(node_id)
                elif state != RUNNING:
                    cluster.start(node_id)
            deadline = time.monotonic() + MEND_S
            while not _is_whole(cluster):
                if time.monotonic() > deadline:
                    raise ClusterError(f"not whole again after {MEND_S:g} s")
                time.sleep(LOOK_AGAIN_S)
        except ClusterError:
            self._clusters = {wish: each for wish, each in self._clusters.items() if each is not cluster}
            self._close(cluster)

    def close(self) -> None:
        for cluster in self._clusters.values():
            self._close(cluster)
        self._clusters.clear()

    def _close(self, cluster: Cluster) -> None:
        for connection in self._connections.pop(cluster, {}).values():
            connection.close()
        # Nobody keeps what tests have written, so nobody waits for it to be put in order.
        with contextlib.suppress(ClusterError):
            cluster.abandon()
        places.remove(self._folders.pop(cluster))


def _is_whole(cluster: Cluster) -> bool:
    status = cluster.status()
    return (
        all(broker.healthy and broker.generation is not None for broker in status.brokers)
        and not status.offline
    )

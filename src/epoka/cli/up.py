"""`epoka up`: a cluster in the foreground, one process a node, until a signal ends it in order."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from epoka.cli.dashboard import check_installed, started
from epoka.cli.finding import noted
from epoka.cli.output import (
    EXIT_FAILED,
    EXIT_GOOD,
    EXIT_USAGE,
    Failed,
    complain,
    say,
    say_json,
    settings_of,
    usage,
)
from epoka.cluster.admin import AdminDoor
from epoka.cluster.cluster import Cluster
from epoka.cluster.errors import BadCluster, ClusterError
from epoka.cluster.layout import METRICS
from epoka.cluster.nodes import FAILED
from epoka.cluster.ports import HOST

GLANCE_S = 0.5


class _Told(BaseException):
    """A signal came before the cluster was ready."""


class _Stop:
    """Hears the signals: the first asks for an orderly end, the second for the end."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.may_interrupt = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)
        # A terminal was closed; who begins under nohup does not care.
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        # The shell and the kernel both tell of a terminal that is closed: that is no second wish.
        again = self.asked.is_set() and number != signal.SIGHUP
        self.asked.set()
        if self.may_interrupt or again:
            raise _Told


def run_up(
    brokers: int | None,
    mode: str | None,
    level: str | None,
    port: int,
    data: Path | None,
    controllers: int | None,
    zookeepers: int | None,
    metrics: int | None,
    dashboard: int | None,
    allow_faults: bool,
    config: list[str],
    json: bool,
) -> int:
    """Run a cluster until told to stop."""
    settings = settings_of(config)
    if dashboard is not None:
        check_installed()
    elif allow_faults:
        usage("--allow-faults is for the dashboard; ask for one with --dashboard PORT")
    if metrics is not None:
        settings[METRICS] = f"{HOST}:{metrics}"
    stop = _Stop()
    cluster = Cluster(
        brokers=brokers,
        mode=mode,
        level=level,
        processes=True,
        config=settings,
        data=data,
        port=port,
        controllers=controllers,
        zookeepers=zookeepers,
    )
    try:
        try:
            cluster.open()
        except BadCluster as error:
            raise Failed(str(error), EXIT_USAGE) from error
        except ClusterError as error:
            raise Failed(str(error)) from error
        stop.may_interrupt = False
        with noted(cluster.data), contextlib.closing(AdminDoor(cluster)):
            with _page(cluster, dashboard, allow_faults) as url:
                _announce(cluster, settings.get(METRICS), url, json)
                healthy = _watch(cluster, stop)
            return _shut_down(cluster) if healthy else max(_shut_down(cluster), EXIT_FAILED)
    except _Told:
        # Before it was ready, or told twice: nothing is handed over any more, everything just ends.
        stop.may_interrupt = False
        was_ready = cluster.is_open
        cluster.abandon()
        return EXIT_FAILED if was_ready else EXIT_GOOD


@contextlib.contextmanager
def _page(cluster: Cluster, port: int | None, allow_faults: bool) -> Iterator[str | None]:
    """The address of the dashboard, for as long as it serves; None when nobody asked for one."""
    if port is None:
        yield None
        return

    def states() -> dict[int, str]:
        return {broker_id: cluster.state(broker_id) for broker_id in cluster.broker_ids}

    try:
        dashboard = started(cluster.data, port, allow_faults, states)
    except Failed:
        _shut_down(cluster)
        raise
    with dashboard:
        yield dashboard.url


def _announce(cluster: Cluster, metrics: str | None, dashboard: str | None, json: bool) -> None:
    layout = cluster.layout
    pages = [
        f"http://{layout.metrics_listener(place, metrics)}/metrics" for place in layout.places if metrics
    ]
    if json:
        say_json(
            {
                "ready": True,
                "bootstrap": cluster.bootstrap,
                "controller": cluster.layout.controller_address,
                "zookeeper": cluster.layout.zookeeper or None,
                "metrics": pages,
                "data": str(cluster.data),
                "dashboard": dashboard,
            }
        )
    else:
        ensemble = f" zookeeper={cluster.layout.zookeeper}" if cluster.layout.zookeeper else ""
        figures = f" metrics={','.join(pages)}" if pages else ""
        page = f" dashboard={dashboard}" if dashboard else ""
        say(f"ready bootstrap={cluster.bootstrap}{ensemble}{figures}{page}")


def _watch(cluster: Cluster, stop: _Stop) -> bool:
    """Until a signal comes; False when a node has ended by itself in the meantime."""
    reported: set[int] = set()
    while not stop.asked.wait(GLANCE_S):
        for node_id in cluster.node_ids:
            if cluster.state(node_id) != FAILED:
                reported.discard(node_id)
            elif node_id not in reported:
                reported.add(node_id)
                try:
                    cluster.check(node_id)
                except ClusterError as failure:
                    complain(f"{failure}\nstart it again with `epoka node start {node_id}`")
    return not reported


def _shut_down(cluster: Cluster) -> int:
    try:
        cluster.close()
    except ClusterError as error:
        complain(str(error))
        return EXIT_FAILED
    return EXIT_GOOD

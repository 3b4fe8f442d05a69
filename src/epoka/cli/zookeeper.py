"""`epoka zookeeper`: a real ZooKeeper in the foreground, until a signal ends it."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
from pathlib import Path
from types import FrameType

from epoka.cli.output import EXIT_FAILED, EXIT_GOOD, EXIT_USAGE, Failed, complain, say, say_json
from epoka.coordination.zookeeper.server import ZooKeeperServer, ZooKeeperUnavailable

GLANCE_S = 0.5


class _Told(BaseException):
    """A signal came before the servers were ready."""


class _Stop:
    """Hears the signals. While the servers start, one interrupts; afterwards it is only remembered."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.may_interrupt = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)
        # A terminal was closed; who begins under nohup does not care.
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.asked.set()
        if self.may_interrupt:
            raise _Told


def run_zookeeper(nodes: int, data: Path | None, port: int, json: bool) -> int:
    """Run the servers until told to stop."""
    if nodes not in (1, 3):
        raise Failed(f"--nodes is 1 or 3, not {nodes}", EXIT_USAGE)
    if port and not 0 < port <= 65536 - nodes:
        raise Failed(f"there is no port {port} for {nodes} nodes", EXIT_USAGE)
    stop = _Stop()
    with contextlib.ExitStack() as stack:
        folder = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="epoka-zookeeper-")))
        server = ZooKeeperServer(folder, nodes, port=port)
        stack.callback(server.stop)
        try:
            server.start()
            stop.may_interrupt = False
        except ZooKeeperUnavailable as error:
            raise Failed(str(error)) from error
        except _Told:
            return EXIT_GOOD
        if json:
            say_json({"ready": True, "connect": server.connect, "data": str(folder)})
        else:
            say(f"ready connect={server.connect}")
        return _watch(server, stop)


def _watch(server: ZooKeeperServer, stop: _Stop) -> int:
    """Until a signal comes, or no server is left."""
    ended: set[int] = set()
    while not stop.asked.wait(GLANCE_S):
        for node in server.nodes:
            if node not in ended and not server.running(node):
                ended.add(node)
                complain(str(server.failure(node)))
        if len(ended) == len(server.nodes):
            break
    return EXIT_FAILED if ended else EXIT_GOOD

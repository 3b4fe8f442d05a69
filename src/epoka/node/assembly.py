"""Builds cores out of a configuration: opens the disks, fills in the cores' settings, says where others are.

The only place that knows how a broker or a controller is put together. Whatever keeps a node from starting
is told in one sentence that names it; nothing on the disks is overwritten then.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from epoka.broker.config import BrokerConfig
from epoka.broker.config import Listener as BrokerListener
from epoka.broker.core import BrokerCore
from epoka.broker.groups import GroupConfig
from epoka.broker.replica import Replica
from epoka.controller.config import ControllerConfig
from epoka.controller.core import ControllerCore
from epoka.controller.metadata_log import MetadataLogFailed
from epoka.coordination.metadata_log import StoredMetadataLog
from epoka.log.config import NEVER
from epoka.log.directory import META, DirectoryRefused, LogDirectory
from epoka.log.store import FileStore, StorageError
from epoka.model.config_keys import Value
from epoka.model.events import CONTROLLER
from epoka.model.image import ClusterImage
from epoka.model.levels import FeatureLevel
from epoka.model.registrations import Endpoint as RegisteredEndpoint
from epoka.model.topic_configs import TOPIC_KEYS
from epoka.node.chores import Chore, Work
from epoka.node.client import Address, Resolve
from epoka.node.config import NodeConfig
from epoka.node.keys import CONTROL_LISTENER, NODE_KEYS, SSL, Endpoint
from epoka.node.properties import entries
from epoka.node.runtime import StartFailed

if TYPE_CHECKING:
    from epoka.coordination.zookeeper.election import Mandate
    from epoka.node.zookeeper import Ties

log = logging.getLogger(__name__)

FLUSH_CHECK_MS = 1_000
CONTROLLER_FOLDER = "controller"
"""Where in its folder a controller lives; a broker of the same node has the rest."""


class Part(msgspec.Struct, frozen=True):
    """A core and what belongs to it."""

    core: Any
    resolve: Resolve
    """Where the core's `Send` effects find the other nodes."""
    close: Callable[[], None]
    """Puts the disks in order; may raise StorageError."""
    abandon: Callable[[], None]
    """Lets the disks go as they are, as a crash does."""
    chores: tuple[Chore, ...] = ()
    ties: Ties | None = None
    """To the ZooKeeper ensemble, in zookeeper mode; they are started with the core and let go by `close`."""


Build = Callable[[NodeConfig, tuple[Endpoint, ...], int], Part]
"""Builds a part from the configuration, the advertised endpoints and the time."""


def build_broker(config: NodeConfig, endpoints: tuple[Endpoint, ...], now: int) -> Part:
    """A broker on the files of `log.dirs`."""
    if config.zookeeper:
        return _build_tied_broker(config, endpoints, now)
    path = config.log_dirs[0]
    cluster_id = config.string("cluster.id") or read_cluster_id(path)
    cluster_id = cluster_id or read_cluster_id(config.metadata_log_dir / CONTROLLER_FOLDER)
    if cluster_id is None:
        raise StartFailed(
            f"{path} belongs to no cluster yet, and cluster.id does not say which it is to join"
        )
    directory = _open_directory(path, cluster_id, config.node_id, now)
    core = BrokerCore(broker_config(config, cluster_id, endpoints, directory), directory, new_member_id)

    def resolve(to: int) -> Sequence[Address]:
        return config.controller_addresses if to == CONTROLLER else _control_address(core.image, to)

    return Part(
        core,
        resolve,
        close=partial(_shut_down, core, directory),
        abandon=directory.abandon,
        chores=broker_chores(config, core, directory),
    )


def _build_tied_broker(config: NodeConfig, endpoints: tuple[Endpoint, ...], now: int) -> Part:
    """A broker in zookeeper mode: the ensemble knows the cluster, the controller and the generation."""
    path = config.log_dirs[0]
    known = config.string("cluster.id") or read_cluster_id(path)
    with _tying(config):
        from epoka.node.zookeeper import BrokerTies

        ties = BrokerTies(config, known or new_cluster_id(), _registered_endpoints(config, endpoints), path)
    with _letting_go(ties):
        _check_cluster_id(known, ties, config)
        directory = _open_directory(path, ties.cluster_id, config.node_id, now)
        # The directory is locked: whoever used it before is gone.
        ties.end_last_session()
    settings = broker_config(config, ties.cluster_id, endpoints, directory)
    core = BrokerCore(msgspec.structs.replace(settings, zookeeper=True), directory, new_member_id)

    def resolve(to: int) -> Sequence[Address]:
        return ties.controller_addresses if to == CONTROLLER else _control_address(core.image, to)

    def close() -> None:
        # The files first: the next life may begin as soon as the session has ended.
        try:
            _shut_down(core, directory)
        finally:
            ties.close()

    def abandon() -> None:
        ties.abandon()
        directory.abandon()

    return Part(core, resolve, close, abandon, broker_chores(config, core, directory), ties)


def _shut_down(core: BrokerCore, directory: LogDirectory) -> None:
    for replica in core.replicas.by_key.values():
        replica.log.high_watermark = replica.high_watermark
    directory.shutdown(core.lifecycle.broker_epoch)


def build_controller(config: NodeConfig, endpoints: tuple[Endpoint, ...], now: int) -> Part:
    """A controller on the files of `metadata.log.dir`; a new one founds the cluster."""
    if config.zookeeper:
        return _build_tied_controller(config, endpoints)
    path = config.metadata_log_dir / CONTROLLER_FOLDER
    cluster_id = config.string("cluster.id") or read_cluster_id(path) or new_cluster_id()
    directory = _open_directory(path, cluster_id, config.node_id, now)
    try:
        with _starting(path):
            log = StoredMetadataLog(FileStore(path / "metadata"))
    except BaseException:
        directory.abandon()
        raise
    core = ControllerCore(config.node_id, cluster_id, log, controller_config(config), new_id=uuid.uuid4)

    def abandon() -> None:
        log.close()
        directory.abandon()

    def resolve(to: int) -> Sequence[Address]:
        return _control_address(core.image, to)

    return Part(core, resolve, close=abandon, abandon=abandon)


def _build_tied_controller(config: NodeConfig, endpoints: tuple[Endpoint, ...]) -> Part:
    """A candidate in zookeeper mode. It keeps nothing on a disk: everything is in the ensemble."""
    known = config.string("cluster.id")
    control = next(each for each in endpoints if each.name == CONTROL_LISTENER)
    with _tying(config):
        from epoka.coordination.zookeeper.state import ZooKeeperState
        from epoka.node.office import Office
        from epoka.node.zookeeper import ControllerTies

        ties = ControllerTies(config, known or new_cluster_id(), (control.host, control.port))
    with _letting_go(ties):
        _check_cluster_id(known, ties, config)

    def build(mandate: Mandate) -> ControllerCore:
        return ControllerCore(
            config.node_id,
            ties.cluster_id,
            ZooKeeperState(ties.session, mandate),
            controller_config(config),
            new_id=uuid.uuid4,
            controller_epoch=mandate.epoch,
        )

    office = Office(config.node_id, build, entered=ties.entered, left=ties.left)

    def resolve(to: int) -> Sequence[Address]:
        return _control_address(office.image, to)

    return Part(office, resolve, close=ties.close, abandon=ties.abandon, ties=ties)


@contextlib.contextmanager
def _tying(config: NodeConfig) -> Iterator[None]:
    """What zookeeper mode needs is imported in here, and only here."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name != "kazoo":
            raise
        raise StartFailed(str(missing)) from missing
    except Exception as error:
        from epoka.coordination.zookeeper.session import ZooKeeperError

        if not isinstance(error, ZooKeeperError):
            raise
        raise StartFailed(str(error)) from error


@contextlib.contextmanager
def _letting_go(ties: Ties) -> Iterator[None]:
    """Nothing keeps the session when the node cannot start."""
    try:
        yield
    except BaseException:
        ties.session.close()
        raise


def _check_cluster_id(known: str | None, ties: Ties, config: NodeConfig) -> None:
    if known is not None and known != ties.cluster_id:
        raise StartFailed(
            f"node {config.node_id} belongs to cluster {known}, but the ensemble at {ties.session.connect} "
            f"holds cluster {ties.cluster_id}"
        )


def _registered_endpoints(
    config: NodeConfig, endpoints: tuple[Endpoint, ...]
) -> tuple[RegisteredEndpoint, ...]:
    """As the registry has them, the clients' door first."""
    doors = sorted(endpoints, key=lambda each: each.name == CONTROL_LISTENER)
    return tuple(
        RegisteredEndpoint(each.name, each.host, each.port, _security_protocol(config, each))
        for each in doors
    )


def _security_protocol(config: NodeConfig, endpoint: Endpoint) -> int:
    return int(config.protocol(endpoint.name) == SSL)


def _control_address(image: ClusterImage, broker_id: int) -> Sequence[Address]:
    """Where the metadata says that other nodes find a broker."""
    registration = image.broker(broker_id)
    door = None if registration is None else registration.control_endpoint
    return () if door is None else ((door.host, door.port),)


def broker_config(
    config: NodeConfig, cluster_id: str, endpoints: tuple[Endpoint, ...], directory: LogDirectory
) -> BrokerConfig:
    """The settings of a broker core."""
    integer = config.integer
    doors = sorted(endpoints, key=lambda each: each.name == CONTROL_LISTENER)
    return BrokerConfig(
        broker_id=config.node_id,
        cluster_id=cluster_id,
        incarnation_id=uuid.uuid4(),
        listeners=tuple(
            BrokerListener(each.name, each.host, each.port, _security_protocol(config, each))
            for each in doors
        ),
        directory_ids=(directory.directory_id,),
        rack=config.string("broker.rack"),
        previous_broker_epoch=directory.previous_generation,
        last_broker_epoch=directory.last_generation,
        auto_create_topics=config.flag("auto.create.topics.enable"),
        num_partitions=integer("num.partitions"),
        default_replication_factor=integer("default.replication.factor"),
        offsets_topic_partitions=integer("offsets.topic.num.partitions"),
        offsets_topic_replication_factor=integer("offsets.topic.replication.factor"),
        topic_defaults=topic_defaults(config),
        described=described(config),
        configured=config.explicit,
        heartbeat_interval_ms=integer("broker.heartbeat.interval.ms"),
        heartbeat_timeout_ms=integer("broker.heartbeat.timeout.ms"),
        registration_timeout_ms=integer("initial.broker.registration.timeout.ms"),
        controlled_shutdown_timeout_ms=integer("controlled.shutdown.max.wait.ms"),
        request_timeout_ms=integer("request.timeout.ms"),
        replica_lag_time_max_ms=integer("replica.lag.time.max.ms"),
        replica_fetch_wait_max_ms=integer("replica.fetch.wait.max.ms"),
        replica_fetch_max_bytes=integer("replica.fetch.max.bytes"),
        replica_fetch_response_max_bytes=integer("replica.fetch.response.max.bytes"),
        replica_fetch_backoff_ms=integer("replica.fetch.backoff.ms"),
        fetch_max_bytes=integer("fetch.max.bytes"),
        fetch_session_slots=integer("max.incremental.fetch.session.cache.slots"),
        ledger_topic=integer("epoka.ledger.replication.factor") > 0,
        max_produce_bytes=integer("socket.request.max.bytes"),
        groups=GroupConfig(
            min_session_timeout_ms=integer("group.min.session.timeout.ms"),
            max_session_timeout_ms=integer("group.max.session.timeout.ms"),
            max_size=integer("group.max.size"),
            initial_rebalance_delay_ms=integer("group.initial.rebalance.delay.ms"),
            offsets_retention_ms=integer("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=integer("offsets.retention.check.interval.ms"),
            offset_metadata_max_bytes=integer("offset.metadata.max.bytes"),
            partitions=integer("offsets.topic.num.partitions"),
        ),
    )


def controller_config(config: NodeConfig) -> ControllerConfig:
    """The settings of a controller core."""
    return ControllerConfig(
        session_timeout_ms=config.integer("controller.heartbeat.timeout.ms"),
        initial_level=FeatureLevel.parse(config.string("epoka.level") or ""),
        num_partitions=config.integer("num.partitions"),
        default_replication_factor=config.integer("default.replication.factor"),
        topic_defaults=topic_defaults(config),
        ledger_replication_factor=config.integer("epoka.ledger.replication.factor"),
        auto_leader_rebalance=config.flag("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_ms=config.integer("leader.imbalance.check.interval.seconds") * 1000,
        control_request_timeout_ms=config.integer("controller.socket.timeout.ms"),
    )


def topic_defaults(config: NodeConfig) -> dict[str, Value]:
    """What the operator has set for all topics, under the names of the node keys."""
    names = {synonym for key in TOPIC_KEYS.values() for synonym in key.synonyms}
    return {name: config[name] for name in sorted(names & config.explicit)}


def described(config: NodeConfig) -> dict[str, str]:
    """Every setting as text, as DescribeConfigs tells it."""
    texts = {name: NODE_KEYS[name].text(value) for name, value in config.items()}
    return {name: text for name, text in texts.items() if text is not None}


def broker_chores(config: NodeConfig, core: BrokerCore, directory: LogDirectory) -> tuple[Chore, ...]:
    """What a broker does on the side with its logs."""
    written: dict[tuple[str, int], int] = {}
    flushed_at: dict[tuple[str, int], int] = {}

    def checkpoint(now: int) -> Work:
        marks = high_watermarks(core)
        if marks != written:
            directory.checkpoint(marks)
            written.clear()
            written.update(marks)
        yield None

    def retention(now: int) -> Work:
        for replica in list(core.replicas.by_key.values()):
            if is_kept(replica):
                replica.log.apply_retention(now, replica.high_watermark)
            yield None

    def compaction(now: int) -> Work:
        for replica in list(core.replicas.by_key.values()):
            if replica.log.config.compacts and is_kept(replica):
                yield from aside(replica, partial(replica.log.compact, now, replica.high_watermark))

    def aside(replica: Replica, work: Callable[[], object]) -> Work:
        """Work in another thread, which the log allows."""
        try:
            yield work
        except (StorageError, OSError, ValueError):
            # A partition that was deleted meanwhile takes its files away under the other thread.
            if is_kept(replica):
                raise

    def flush(now: int) -> Work:
        for place, log in list(directory.logs.items()):
            if (
                log.config.flush_ms == NEVER
                or log.failure is not None
                or log.recovery_point == log.end_offset
            ):
                flushed_at.pop(place, None)
            elif now - flushed_at.setdefault(place, now) >= log.config.flush_ms:
                log.flush()
                del flushed_at[place]
                yield None

    def flush_sealed(now: int) -> Work:
        for replica in list(core.replicas.by_key.values()):
            log = replica.log
            if log.failure is None and log.recovery_point < log.segment_bases[-1] and is_kept(replica):
                yield from aside(replica, log.flush_sealed)

    def is_kept(replica: Replica) -> bool:
        return directory.log(replica.topic, replica.index) is replica.log

    chores = [
        Chore("checkpoint", config.integer("replica.high.watermark.checkpoint.interval.ms"), checkpoint),
        Chore("retention", config.integer("log.retention.check.interval.ms"), retention),
        Chore("flush", FLUSH_CHECK_MS, flush),
        # Apart from the other: this one may wait for a long compaction in the same thread.
        Chore("flush of sealed segments", FLUSH_CHECK_MS, flush_sealed),
    ]
    if config.flag("log.cleaner.enable"):
        chores.append(Chore("compaction", config.integer("log.cleaner.backoff.ms"), compaction))
    return tuple(chores)


def high_watermarks(core: BrokerCore) -> dict[tuple[str, int], int]:
    """How far every partition of the broker is committed, as far as it knows."""
    return {(each.topic, each.index): each.high_watermark for each in core.replicas.by_key.values()}


def new_cluster_id() -> str:
    """22 letters that no other cluster has."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "_")


def new_member_id(client_id: str) -> str:
    """A group member's id that was never used before. A client id may be as long as a string can be; its
    beginning will do."""
    return f"{client_id[:255]}-{uuid.uuid4()}"


def read_cluster_id(folder: Path) -> str | None:
    """Which cluster a folder belongs to; None when it belongs to none yet."""
    try:
        content = (folder / META).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StartFailed(f"{folder / META} cannot be read: {error}") from error
    return next((value for _, name, value in entries(content) if name == "cluster.id"), None)


def _open_directory(path: Path, cluster_id: str, node_id: int, now: int) -> LogDirectory:
    with _starting(path):
        directory = LogDirectory.open(FileStore(path), cluster_id=cluster_id, node_id=node_id, now=now)
    for (topic, partition), recovery in directory.recoveries.items():
        if recovery.cut is not None:
            log.warning("%s-%d: %s", topic, partition, recovery, extra={"node": node_id})
    return directory


@contextlib.contextmanager
def _starting(path: Path) -> Iterator[None]:
    try:
        yield
    except (DirectoryRefused, StorageError, MetadataLogFailed) as error:
        raise StartFailed(str(error)) from error
    except OSError as error:
        raise StartFailed(f"{path} cannot be used: {error.strerror or error}") from error

"""Builds cores out of a configuration: opens the disks, fills in the cores' settings, says where others are.

The only place that knows how a broker or a controller is put together.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from epoka.broker.config import BrokerConfig, Listener
from epoka.broker.core import BrokerCore
from epoka.broker.groups import GroupConfig
from epoka.controller.config import ControllerConfig
from epoka.controller.core import ControllerCore
from epoka.controller.metadata_log import MetadataLogFailed
from epoka.coordination.metadata_log import StoredMetadataLog
from epoka.log.directory import DirectoryRefused, LogDirectory
from epoka.log.store import FileStore, StorageError
from epoka.model.events import CONTROLLER
from epoka.model.levels import FeatureLevel
from epoka.node.chores import Chore
from epoka.node.client import Address, Resolve
from epoka.node.config import NodeConfig
from epoka.node.keys import CONTROL_LISTENER, Endpoint
from epoka.node.runtime import Ending

DEFAULT_CLUSTER_ID = "epoka"
METADATA_FOLDER = "__cluster_metadata-0"


class Part(msgspec.Struct, frozen=True):
    """A core and what belongs to it."""

    core: Any
    resolve: Resolve
    """Where the core's `Send` effects find the other nodes."""
    close: Callable[[Ending], None]
    """Puts the disks to rest; a clean ending leaves the clean-shutdown marker."""
    chores: tuple[Chore, ...] = ()


Build = Callable[[NodeConfig, tuple[Endpoint, ...], int], Part]
"""Builds a part from the configuration, the advertised endpoints and the time."""


def build_broker(config: NodeConfig, endpoints: tuple[Endpoint, ...], now: int) -> Part:
    if len(config.log_dirs) != 1:
        raise StorageError("log.dirs names more than one directory; a broker keeps its logs in one")
    try:
        directory = LogDirectory.open(
            FileStore(config.log_dirs[0]), cluster_id=_cluster_id(config), node_id=config.node_id, now=now
        )
    except DirectoryRefused as refused:
        raise StorageError(str(refused)) from refused
    core = BrokerCore(broker_config(config, endpoints, directory), directory, _new_member_id)

    def resolve(node_id: int) -> tuple[Address, ...]:
        if node_id == CONTROLLER:
            return config.controller_addresses
        known = core.image.broker(node_id)
        endpoint = None if known is None else known.control_endpoint
        return () if endpoint is None else ((endpoint.host, endpoint.port),)

    def close(ending: Ending) -> None:
        if ending.clean:
            directory.checkpoint(core.replicas.high_watermarks())
            directory.shutdown(core.lifecycle.broker_epoch)
        else:
            directory.abandon()

    return Part(core, resolve, close, _broker_chores(config, core, directory))


def broker_config(
    config: NodeConfig, endpoints: tuple[Endpoint, ...], directory: LogDirectory
) -> BrokerConfig:
    """The broker core's settings. Clients' doors come first, in the order of `listeners`."""
    doors = sorted(endpoints, key=lambda endpoint: endpoint.name == CONTROL_LISTENER)
    number = config.integer
    return BrokerConfig(
        broker_id=config.node_id,
        cluster_id=_cluster_id(config),
        incarnation_id=uuid.uuid4(),
        listeners=tuple(Listener(door.name, door.host, door.port) for door in doors),
        directory_ids=(directory.directory_id,),
        rack=config.string("broker.rack"),
        previous_broker_epoch=directory.previous_generation,
        auto_create_topics=config.flag("auto.create.topics.enable"),
        num_partitions=number("num.partitions"),
        default_replication_factor=number("default.replication.factor"),
        offsets_topic_partitions=number("offsets.topic.num.partitions"),
        offsets_topic_replication_factor=number("offsets.topic.replication.factor"),
        topic_defaults={name: config[name] for name in config.explicit},
        described={name: text for name in config if (text := _text(config, name)) is not None},
        heartbeat_interval_ms=number("broker.heartbeat.interval.ms"),
        heartbeat_timeout_ms=number("broker.heartbeat.timeout.ms"),
        registration_timeout_ms=number("initial.broker.registration.timeout.ms"),
        controlled_shutdown_timeout_ms=number("controlled.shutdown.max.wait.ms"),
        request_timeout_ms=number("request.timeout.ms"),
        replica_lag_time_max_ms=number("replica.lag.time.max.ms"),
        replica_fetch_wait_max_ms=number("replica.fetch.wait.max.ms"),
        replica_fetch_max_bytes=number("replica.fetch.max.bytes"),
        replica_fetch_response_max_bytes=number("replica.fetch.response.max.bytes"),
        replica_fetch_backoff_ms=number("replica.fetch.backoff.ms"),
        fetch_max_bytes=number("fetch.max.bytes"),
        fetch_session_slots=number("max.incremental.fetch.session.cache.slots"),
        groups=GroupConfig(
            min_session_timeout_ms=number("group.min.session.timeout.ms"),
            max_session_timeout_ms=number("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            offsets_retention_ms=number("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
            partitions=number("offsets.topic.num.partitions"),
        ),
    )


def _broker_chores(config: NodeConfig, core: BrokerCore, directory: LogDirectory) -> tuple[Chore, ...]:
    def checkpoint(now: int) -> Iterator[None]:
        directory.checkpoint(core.replicas.high_watermarks())
        yield

    def retain(now: int) -> Iterator[None]:
        for replica in list(core.replicas.by_key.values()):
            replica.log.apply_retention(now, replica.high_watermark)
            yield

    def compact(now: int) -> Iterator[None]:
        for replica in list(core.replicas.by_key.values()):
            if replica.log.config.compacts:
                replica.log.compact(now, replica.high_watermark)
            yield

    return (
        Chore("the checkpoint", config.integer("replica.high.watermark.checkpoint.interval.ms"), checkpoint),
        Chore("retention", config.integer("log.retention.check.interval.ms"), retain),
        Chore("compaction", config.integer("log.cleaner.backoff.ms"), compact),
    )


def build_controller(config: NodeConfig, endpoints: tuple[Endpoint, ...], now: int) -> Part:
    store = FileStore(config.metadata_log_dir).folder(METADATA_FOLDER)
    store.lock()
    try:
        log = StoredMetadataLog(store)
    except MetadataLogFailed as failure:
        store.unlock()
        raise StorageError(str(failure)) from failure
    core = ControllerCore(
        config.node_id, _cluster_id(config), log, controller_config(config), new_id=uuid.uuid4
    )
    return Part(core, lambda node_id: (), lambda ending: store.unlock())


def controller_config(config: NodeConfig) -> ControllerConfig:
    number = config.integer
    return ControllerConfig(
        session_timeout_ms=number("controller.heartbeat.timeout.ms"),
        initial_level=FeatureLevel.parse(config.string("epoka.level") or ""),
        num_partitions=number("num.partitions"),
        default_replication_factor=number("default.replication.factor"),
        topic_defaults={name: text for name in config.explicit if (text := _text(config, name)) is not None},
        auto_leader_rebalance=config.flag("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_ms=number("leader.imbalance.check.interval.seconds") * 1000,
    )


def _cluster_id(config: NodeConfig) -> str:
    return config.string("cluster.id") or DEFAULT_CLUSTER_ID


def _text(config: NodeConfig, name: str) -> str | None:
    from epoka.node.keys import NODE_KEYS

    return NODE_KEYS[name].text(config[name])


def _new_member_id(client_id: str) -> str:
    return f"{client_id}-{uuid.uuid4()}"

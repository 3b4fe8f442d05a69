"""What a broker core has to know about its own settings; the runtime fills it from the property file."""

from __future__ import annotations

import uuid

import msgspec

from epoka.broker.groups import GroupConfig
from epoka.model.config_keys import Value


class Listener(msgspec.Struct, frozen=True):
    """One door of the broker, as it is advertised."""

    name: str
    host: str
    port: int
    security_protocol: int = 0
    """0 in the clear, 1 with TLS, as registrations tell it."""


class BrokerConfig(msgspec.Struct, frozen=True):
    broker_id: int
    cluster_id: str
    incarnation_id: uuid.UUID
    listeners: tuple[Listener, ...]
    """The client's door first; the one called CONTROL is for brokers and controllers alone."""
    directory_ids: tuple[uuid.UUID, ...] = ()
    rack: str | None = None
    previous_broker_epoch: int = -1
    """The generation in the clean-shutdown marker, -1 after an unclean end."""
    last_broker_epoch: int = -1
    """The last generation that the log directories have seen, however its life ended."""

    zookeeper: bool = False
    """The mode: registration and generation from a registry, metadata from control requests."""

    auto_create_topics: bool = True
    num_partitions: int = 1
    default_replication_factor: int = 1
    offsets_topic_partitions: int = 50
    offsets_topic_replication_factor: int = 1
    topic_defaults: dict[str, Value] = {}
    """The node's own settings, typed, under their names: topics inherit from them."""
    described: dict[str, str] = {}
    configured: frozenset[str] = frozenset()
    """Which of them the operator has set; the others are as they are by themselves."""
    """The node's settings as text, for whoever asks with DescribeConfigs."""

    heartbeat_interval_ms: int = 2_000
    heartbeat_timeout_ms: int = 13_500
    """No contact with the controller for this long, and the broker fences itself (KIP-343)."""
    registration_timeout_ms: int = 60_000
    controlled_shutdown_timeout_ms: int = 30_000
    request_timeout_ms: int = 30_000

    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_backoff_ms: int = 200
    fetch_max_bytes: int = 57_671_680
    fetch_session_slots: int = 1_000
    max_produce_bytes: int = 104_857_600
    producer_id_block: int = 1_000

    ledger_topic: bool = False
    """Whether the broker's ledger events go to the topic `__epoka_ledger`."""

    groups: GroupConfig = GroupConfig()

    def client_listener(self) -> Listener:
        return self.listeners[0]

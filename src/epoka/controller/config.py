"""What an operator sets for a controller. Values only; the names on the outside are Kafka's."""

from __future__ import annotations

import msgspec

from epoka.model.config_keys import Value
from epoka.model.levels import HIGHEST, FeatureLevel


class ControllerConfig(msgspec.Struct, frozen=True):
    session_timeout_ms: int = 9_000
    """`controller.heartbeat.timeout.ms`, Kafka's `broker.session.timeout.ms`."""
    initial_level: FeatureLevel = HIGHEST
    """The level of a cluster that is born now; an existing one keeps its own."""
    num_partitions: int = 1
    default_replication_factor: int = 1
    topic_defaults: dict[str, Value] = {}
    """The node's defaults of topic settings, by node key, such as `min.insync.replicas`."""
    max_partitions_per_request: int = 200_000
    """Requests for more are refused before anything is allocated."""
    producer_id_block: int = 1_000
    auto_leader_rebalance: bool = True
    leader_imbalance_check_interval_ms: int = 300_000
    leader_imbalance_max_moves: int = 1_000
    """How many leaderships one round of repair moves at most."""
    snapshot_after_records: int = 20_000
    """A snapshot is taken when at least so many records, and half as many as the image is large, are new."""
    ledger_replication_factor: int = 0
    """Replicas of `__epoka_ledger`, which is made once so many brokers are active; 0 for no topic."""
    max_fetch_wait_ms: int = 60_000
    control_request_timeout_ms: int = 10_000
    """`controller.socket.timeout.ms`: how long a broker may take to answer before it is asked again."""

"""Where everything is: Kafka's layout, and a few nodes of our own."""

from __future__ import annotations

import re
from typing import Final

from epoka.model.image import BROKER_RESOURCE, TOPIC_RESOURCE

BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
SHUTDOWNS: Final = "/brokers/shutdown"
"""Brokers in controlled shutdown, each with the generation that is shutting down."""
TOPIC_DELETIONS: Final = "/admin/delete_topics"
"""Topics whose deletion has begun. Whoever finds one here finishes it."""
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
CONFIG_CHANGES: Final = "/config/changes"
ISR_CHANGES: Final = "/isr_change_notification"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
PRODUCER_IDS: Final = "/latest_producer_id_block"
FEATURES: Final = "/feature"
CLUSTER_ID: Final = "/cluster/id"
WRITES: Final = "/epoka/writes"
"""The number of the mandate's last write: how a controller learns what became of a write cut off."""
GENERATIONS: Final = "/epoka/generations"
"""The generation of each broker that the controller knows: what a new one compares the registry with."""
ISR_GATE: Final = "/epoka/isr_gate"
"""Closed while the controller changes partitions in several steps: no leader writes an ISR meanwhile."""

DEFAULT_BROKER: Final = "<default>"
"""The name under which Kafka keeps the settings of all brokers; a record calls it the empty name."""

PERSISTENT: Final = (
    BROKER_IDS,
    TOPICS,
    SHUTDOWNS,
    TOPIC_DELETIONS,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    ISR_CHANGES,
    "/cluster",
    "/epoka",
    GENERATIONS,
)
"""What must be there before anybody does anything; `Session.ensure` makes it."""


def is_broker_id(name: str) -> bool:
    """Whether a node of this name may be a broker's."""
    return re.fullmatch(r"0|[1-9][0-9]{0,9}", name) is not None and int(name) < 2**31


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def shutdown(broker_id: int) -> str:
    return f"{SHUTDOWNS}/{broker_id}"


def generation(broker_id: int) -> str:
    return f"{GENERATIONS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    return f"{TOPICS}/{name}/partitions/{index}"


def state(name: str, index: int) -> str:
    return f"{TOPICS}/{name}/partitions/{index}/state"


def deletion(name: str) -> str:
    return f"{TOPIC_DELETIONS}/{name}"


def config(resource_type: int, name: str) -> str:
    """The node of a resource's settings; ValueError for a resource that Kafka keeps no settings of."""
    if resource_type == TOPIC_RESOURCE:
        return f"{TOPIC_CONFIGS}/{name}"
    if resource_type == BROKER_RESOURCE:
        return f"{BROKER_CONFIGS}/{name or DEFAULT_BROKER}"
    raise ValueError(f"there are no settings of resource type {resource_type}")


def config_entity(resource_type: int, name: str) -> str:
    """How a notification names a resource."""
    return config(resource_type, name).removeprefix("/config/")

"""What a cluster looks like at one moment, as values for people and JSON. Decides only what is healthy."""

from __future__ import annotations

import msgspec

from epoka.model.image import ClusterImage
from epoka.model.registrations import BrokerRegistration


class BrokerStatus(msgspec.Struct, frozen=True):
    """One broker, as the controller sees it; `None` where the answer does not say."""

    id: int
    generation: int | None = None
    incarnation: str | None = None
    fenced: bool | None = None
    stopping: bool | None = None
    endpoints: tuple[str, ...] = ()
    rack: str | None = None
    node: str | None = None
    """`running`, `paused` or `stopped`, for whoever runs the node."""
    pid: int | None = None
    leads: int = 0
    hosts: int = 0

    @property
    def healthy(self) -> bool:
        return not self.fenced and not self.stopping and self.node in (None, "running")


class ClusterStatus(msgspec.Struct, frozen=True):
    cluster_id: str | None
    mode: str | None
    level: str | None
    controller: int
    brokers: tuple[BrokerStatus, ...]
    topics: int
    partitions: int
    under_replicated: int
    """Partitions whose ISR is smaller than their assignment."""
    offline: int
    """Partitions without a leader."""
    healthy: bool
    problem: str | None = None
    """Why nothing can be decided, whatever the rest looks like; None when that is not so."""


def cluster_status(
    image: ClusterImage,
    *,
    cluster_id: str | None,
    mode: str | None,
    controller: int,
    expected: tuple[int, ...] = (),
    nodes: dict[int, tuple[str, int | None]] | None = None,
    problem: str | None = None,
) -> ClusterStatus:
    """The status that a metadata image shows; `nodes` has state and pid of the nodes that the caller runs."""
    brokers = [_broker(image, known, (nodes or {}).get(known.id)) for known in image.brokers.values()]
    for broker_id in expected:
        if image.broker(broker_id) is None:
            state, pid = (nodes or {}).get(broker_id, (None, None))
            brokers.append(BrokerStatus(broker_id, node=state, pid=pid))
    table = image.partitions
    rows = table.rows()
    under_replicated = int((table.isr_length[rows] < table.replicas_length[rows]).sum())
    offline = int((table.leader[rows] == -1).sum())
    registered = all(broker.generation is not None for broker in brokers)
    good = registered and all(broker.healthy for broker in brokers) and not under_replicated and not offline
    return ClusterStatus(
        cluster_id=cluster_id,
        mode=mode,
        level=image.level.label,
        controller=controller,
        brokers=tuple(sorted(brokers, key=lambda broker: broker.id)),
        topics=image.topic_count,
        partitions=image.partition_count,
        under_replicated=under_replicated,
        offline=offline,
        healthy=good and problem is None,
        problem=problem,
    )


def _broker(
    image: ClusterImage, known: BrokerRegistration, node: tuple[str, int | None] | None
) -> BrokerStatus:
    return BrokerStatus(
        id=known.id,
        generation=known.epoch,
        incarnation=str(known.incarnation),
        fenced=known.fenced,
        stopping=known.in_controlled_shutdown,
        endpoints=tuple(f"{each.name}://{each.host}:{each.port}" for each in known.endpoints),
        rack=known.rack,
        node=None if node is None else node[0],
        pid=None if node is None else node[1],
        leads=len(image.partitions.rows_led_by(known.id)),
        hosts=len(image.partitions.rows_hosted_by(known.id)),
    )

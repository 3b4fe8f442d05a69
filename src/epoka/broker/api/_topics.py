"""Small questions about topics that several APIs ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.offsets_topic import TOPIC as OFFSETS_TOPIC
from epoka.broker.replica import Replica
from epoka.model.events import Peer
from epoka.model.ledger_outbox import TOPIC as LEDGER_TOPIC
from epoka.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

INTERNAL = frozenset({OFFSETS_TOPIC, LEDGER_TOPIC})
UNKNOWN_OPERATIONS = -(2**31)
"""What Kafka writes where nobody asked for the authorised operations."""


def led(core: BrokerCore, topic: str, index: int, epoch: int = -1) -> tuple[Replica | None, ErrorCode]:
    """The replica if this broker may answer for it as leader, and the error if it may not."""
    replica = core.replicas.by_name.get((topic, index))
    if replica is None:
        return None, core.replicas.missing(topic, index)
    return replica, core.replicas.leading(replica, epoch)


def may_write(topic: str, peer: Peer) -> bool:
    """Clients may read internal topics, but only brokers write them."""
    return peer.control or topic not in INTERNAL

"""Where the replicas of new partitions go.

Replicas of one partition spread over as many racks as there are, leaders rotate over the brokers, and which
broker stands second shifts from round to round, so that what a dead leader leaves spreads over all others.
Stopping brokers get nothing; fenced ones only what the active ones can't hold. Nothing is random: the same
cluster gives the same placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from epoka.controller.state import ControllerState
from epoka.model.registrations import BrokerRegistration


def place(
    state: ControllerState, partitions: int, replication_factor: int, *, start: int
) -> list[tuple[int, ...]] | str:
    """An assignment for each new partition, or why there is none. `start` rotates from topic to topic."""
    usable = [broker for broker in state.image.brokers.values() if not state.stopping(broker.id)]
    active = [broker for broker in usable if not broker.fenced]
    fenced = [broker for broker in usable if broker.fenced]
    if replication_factor > len(usable):
        return (
            f"replication factor {replication_factor} is larger than the number of brokers "
            f"that can take replicas, {len(usable)}"
        )
    if not active:
        return "no broker is active"
    active_stripe, fenced_stripe = _stripe(active), _stripe(fenced)
    racks: dict[int, str | None] = {broker.id: broker.rack for broker in usable}
    return [
        _choose(_order(active_stripe, turn), _order(fenced_stripe, turn), racks, replication_factor)
        for turn in range(start, start + partitions)
    ]


def _stripe(brokers: Sequence[BrokerRegistration]) -> list[int]:
    """Brokers so that neighbours are in different racks as far as possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.id)):
        by_rack.setdefault(broker.rack or "", []).append(broker.id)
    rounds = zip_longest(*by_rack.values())
    return [broker_id for each in rounds for broker_id in each if broker_id is not None]


def _order(stripe: list[int], partition: int) -> list[int]:
    """All brokers of the stripe: the leader's turn first, the rest shifted by how often the turn came
    round."""
    count = len(stripe)
    if count < 2:
        return list(stripe)
    turn, head = divmod(partition, count)
    shift = turn % (count - 1)
    rest = [stripe[(head + 1 + (shift + step) % (count - 1)) % count] for step in range(count - 1)]
    return [stripe[head], *rest]


def _choose(
    active: list[int], fenced: list[int], racks: dict[int, str | None], wanted: int
) -> tuple[int, ...]:
    """The head, then one of each further rack, then whoever comes next; fenced brokers only at the very
    end."""
    chosen = [active[0]]
    used_racks = {racks[active[0]]}
    for broker_id in active[1:]:
        if racks[broker_id] not in used_racks:
            used_racks.add(racks[broker_id])
            chosen.append(broker_id)
    for broker_id in active + fenced:
        if broker_id not in chosen:
            chosen.append(broker_id)
    return tuple(chosen[:wanted])

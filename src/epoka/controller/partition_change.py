"""How one partition changes: from its state and what is wanted to the record that says so.

Every change of a partition goes through here, so these hold everywhere: the leader is in the ISR or there
is none; an ISR never becomes empty, the last member stays and the partition has no leader; a reassignment
that is complete is ended by the same record; the leader epoch rises when a leader is set and whenever a
replica leaves the assignment, so that a leader which no longer counts the replica can be told from one that
still does. Where proposals name no partition epoch, it rises with everything that the controller changes by
itself (`renews`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from uuid import UUID

import msgspec

from epoka.model.ids import NO_BROKER
from epoka.model.image import LEADER_UNCHANGED, RECOVERY_UNCHANGED
from epoka.model.partitions import RECOVERING, PartitionState
from epoka.wire.messages.metadata_records import PartitionChangeRecord

MayLead = Callable[[int], bool]


class Election(Enum):
    """How hard a leader is looked for."""

    KEEP = "keep"
    """The present leader stays if it may; otherwise the first of the ISR, in the order of the assignment."""
    PREFERRED = "preferred"
    """The head of the assignment first, if it is in the ISR; otherwise as above."""
    UNCLEAN = "unclean"
    """As KEEP, and when the ISR offers nobody, any replica: acknowledged records may be lost."""


class Elected(msgspec.Struct, frozen=True):
    leader: int
    isr: Sequence[int]
    unclean: bool = False


def elect(
    leader: int, replicas: Sequence[int], isr: Sequence[int], may_lead: MayLead, election: Election
) -> Elected:
    """The leader for that assignment and ISR; NO_BROKER when nobody may lead."""
    if election is Election.PREFERRED and replicas[0] in isr and may_lead(replicas[0]):
        return Elected(replicas[0], isr)
    if leader in isr and may_lead(leader):
        return Elected(leader, isr)
    for candidate in replicas:
        if candidate in isr and may_lead(candidate):
            return Elected(candidate, isr)
    if election is Election.UNCLEAN:
        for candidate in replicas:
            if may_lead(candidate):
                return Elected(candidate, (candidate,), unclean=True)
    return Elected(NO_BROKER, isr)


def change(
    topic_id: UUID,
    index: int,
    state: PartitionState,
    may_lead: MayLead,
    *,
    election: Election = Election.KEEP,
    isr: Sequence[int] | None = None,
    replicas: Sequence[int] | None = None,
    adding: Sequence[int] | None = None,
    removing: Sequence[int] | None = None,
    recovery: int | None = None,
    renews: bool = False,
) -> PartitionChangeRecord | None:
    """The record that leads from `state` to what is wanted, or None when that is where it already is."""
    isr = state.isr if isr is None else isr
    replicas = state.replicas if replicas is None else replicas
    adding = state.adding if adding is None else adding
    removing = state.removing if removing is None else removing
    recovery = state.recovery if recovery is None else recovery
    if adding or removing:
        kept = [member for member in isr if member not in removing]
        if kept and all(member in kept for member in adding):
            replicas = [replica for replica in replicas if replica not in removing]
            isr, adding, removing = kept, (), ()
    elected = elect(state.leader, replicas, isr, may_lead, election)
    isr = elected.isr
    if not isr:
        isr = state.isr
    if elected.unclean:
        recovery = RECOVERING
    moved = tuple(replicas) != state.replicas or tuple(adding) != state.adding
    moved |= tuple(removing) != state.removing
    renewed = any(replica not in replicas for replica in state.replicas) or (
        renews and (moved or tuple(isr) != state.isr)
    )
    record = PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=_changed(isr, state.isr),
        leader=elected.leader if renewed or elected.leader != state.leader else LEADER_UNCHANGED,
        replicas=_changed(replicas, state.replicas),
        removing_replicas=_changed(removing, state.removing),
        adding_replicas=_changed(adding, state.adding),
        leader_recovery_state=recovery if recovery != state.recovery else RECOVERY_UNCHANGED,
    )
    unchanged = (
        record.isr is None
        and record.leader == LEADER_UNCHANGED
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.leader_recovery_state == RECOVERY_UNCHANGED
    )
    return None if unchanged else record


def _changed(new: Sequence[int], old: Sequence[int]) -> tuple[int, ...] | None:
    new = tuple(new)
    return None if new == old else new

"""Leaderships go back to the preferred replicas by themselves, a bounded number at a time."""

from __future__ import annotations

from epoka.controller.decision import Decision
from epoka.controller.partition_change import Election, change
from epoka.controller.state import ControllerState
from epoka.model.records import MetadataRecord


def repair(state: ControllerState) -> tuple[Decision, bool]:
    """Moves for one round, and whether a further round has something to do at once."""
    image, limit = state.image, state.config.leader_imbalance_max_moves
    rows = image.partitions.rows()
    leaders = image.partitions.leader[rows]
    rows = rows[(leaders >= 0) & (leaders != image.partitions.preferred_leaders(rows))]
    may_lead = state.may_lead()
    records: list[MetadataRecord] = []
    more = False
    for ref in image.refs(rows):
        partition = image.state(ref)
        record = change(ref.topic.id, ref.index, partition, may_lead, election=Election.PREFERRED)
        if record is not None and record.leader == partition.replicas[0]:
            if len(records) == limit:
                more = True
                break
            records.append(record)
    return Decision(None, records, rule="leader.eligible", because="leader imbalance"), more

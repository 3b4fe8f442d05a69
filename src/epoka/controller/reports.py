"""What the ledger is told of a change: read off the record and the image before and after it.

Because it is read off the records, no handler can change the cluster without the ledger hearing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from epoka.controller.decision import Decision
from epoka.model.image import ClusterImage, changed
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FeatureLevel
from epoka.model.partitions import PartitionState
from epoka.model.records import MetadataRecord
from epoka.wire.messages import metadata_records as m

CAUSES: Final = ("registered", "unregistered", "fenced", "unfenced", "stopping", "level")
"""Kinds of events that lead to the partition changes in the same batch."""


class Before:
    """What a record is about to change."""

    __slots__ = ("deleted_topic", "level", "partition")

    def __init__(self, image: ClusterImage, record: MetadataRecord) -> None:
        self.partition: PartitionState | None = None
        self.deleted_topic = ""
        self.level: FeatureLevel = image.level
        if isinstance(record, m.PartitionChangeRecord):
            self.partition = image.partition(record.topic_id, record.partition_id)
        elif isinstance(record, m.RemoveTopicRecord):
            topic = image.topic(record.topic_id)
            self.deleted_topic = topic.name if topic else ""


def tell(
    image: ClusterImage, record: MetadataRecord, before: Before, decision: Decision
) -> LedgerEvent | None:
    """The event for a record that the image has just taken in; None for records nobody asks about."""
    teller = _TELL.get(type(record))
    return teller(image, record, before, decision) if teller else None


def _registered(
    image: ClusterImage, record: m.RegisterBrokerRecord, before: Before, decision: Decision
) -> LedgerEvent:
    return LedgerEvent(
        kind="registered",
        rule=decision.rule,
        broker=record.broker_id,
        broker_epoch=record.broker_epoch,
        given=str(record.incarnation_id),
        detail=decision.because,
    )


def _unregistered(
    image: ClusterImage, record: m.UnregisterBrokerRecord, before: Before, decision: Decision
) -> LedgerEvent:
    return LedgerEvent(
        kind="unregistered",
        rule=decision.rule,
        broker=record.broker_id,
        broker_epoch=record.broker_epoch,
        detail=decision.because,
    )


def _standing(
    image: ClusterImage, record: m.BrokerRegistrationChangeRecord, before: Before, decision: Decision
) -> LedgerEvent:
    kind = "fenced" if record.fenced > 0 else "unfenced" if record.fenced < 0 else "stopping"
    return LedgerEvent(
        kind=kind,
        rule=decision.rule,
        broker=record.broker_id,
        broker_epoch=record.broker_epoch,
        detail=decision.because,
    )


def _topic(image: ClusterImage, record: m.TopicRecord, before: Before, decision: Decision) -> LedgerEvent:
    return LedgerEvent(
        kind="topic-created", topic=record.name, given=str(record.topic_id), detail=decision.because
    )


def _topic_gone(
    image: ClusterImage, record: m.RemoveTopicRecord, before: Before, decision: Decision
) -> LedgerEvent:
    return LedgerEvent(
        kind="topic-deleted", topic=before.deleted_topic, given=str(record.topic_id), detail=decision.because
    )


def _new_partition(
    image: ClusterImage, record: m.PartitionRecord, before: Before, decision: Decision
) -> LedgerEvent:
    topic = image.topic(record.topic_id)
    return LedgerEvent(
        kind="leader",
        rule="leader.eligible",
        topic=topic.name if topic else "",
        partition=record.partition_id,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        isr=tuple(record.isr),
        detail=decision.because,
    )


def _partition(
    image: ClusterImage, record: m.PartitionChangeRecord, before: Before, decision: Decision
) -> LedgerEvent | None:
    topic, old = image.topic(record.topic_id), before.partition
    if topic is None or old is None:
        return None
    new = changed(old, record)
    if new.leader_epoch != old.leader_epoch:
        kind = "leader"
    elif new.isr != old.isr:
        kind = "isr"
    elif (new.replicas, new.adding, new.removing) != (old.replicas, old.adding, old.removing):
        kind = "reassignment"
    else:
        # Only the partition epoch moves on; the refusal that it comes with is told by itself.
        return None
    return LedgerEvent(
        kind=kind,
        rule=decision.rule,
        verdict="accepted" if decision.rule else "",
        topic=topic.name,
        partition=record.partition_id,
        leader=new.leader,
        leader_epoch_before=old.leader_epoch,
        leader_epoch=new.leader_epoch,
        partition_epoch_before=old.partition_epoch,
        partition_epoch=new.partition_epoch,
        isr_before=old.isr,
        isr=new.isr,
        detail=decision.because,
    )


def _level(
    image: ClusterImage, record: m.FeatureLevelRecord, before: Before, decision: Decision
) -> LedgerEvent:
    return LedgerEvent(
        kind="level", given=str(image.level), expected=str(before.level), detail=decision.because
    )


def _config(image: ClusterImage, record: m.ConfigRecord, before: Before, decision: Decision) -> LedgerEvent:
    value = "(taken back)" if record.value is None else record.value
    topic = record.resource_name if record.resource_type == 2 else ""
    broker = int(record.resource_name) if record.resource_type == 4 and record.resource_name else -1
    return LedgerEvent(kind="config", topic=topic, broker=broker, given=f"{record.name}={value}")


_TELL: Final[dict[type, Callable[[ClusterImage, Any, Before, Decision], LedgerEvent | None]]] = {
    m.RegisterBrokerRecord: _registered,
    m.UnregisterBrokerRecord: _unregistered,
    m.BrokerRegistrationChangeRecord: _standing,
    m.TopicRecord: _topic,
    m.RemoveTopicRecord: _topic_gone,
    m.PartitionRecord: _new_partition,
    m.PartitionChangeRecord: _partition,
    m.FeatureLevelRecord: _level,
    m.ConfigRecord: _config,
}

"""A partition of `__consumer_offsets` read back into groups.

The last record of a key counts, and a tombstone removes what came before it. Offsets without a group record
belong to a consumer that uses Kafka for its offsets alone. Records this coordinator cannot read are passed
over and counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from epoka.broker.groups.group import Group
from epoka.broker.groups.offsets import CommittedOffset, TopicPartition
from epoka.broker.groups.records import GroupRecord, OffsetRecord, read, rebuild

LoggedEntry = tuple[bytes | None, bytes | None, int, int]
"""Key, value, offset and timestamp of a record."""


def groups_in(partition: int, records: Iterable[LoggedEntry], now: int) -> tuple[list[Group], int]:
    """The groups of a partition, and how many of its records could not be read."""
    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    described: dict[str, GroupRecord] = {}
    unread = 0
    for key, value, _, _ in records:
        match read(key, value):
            case OffsetRecord(group_id, topic_partition, offset):
                if offset is None:
                    offsets.get(group_id, {}).pop(topic_partition, None)
                else:
                    offsets.setdefault(group_id, {})[topic_partition] = offset
            case GroupRecord(group_id, None):
                described.pop(group_id, None)
            case GroupRecord(group_id) as record:
                described[group_id] = record
            case None:
                unread += 1
    groups = {group_id: rebuild(record, partition) for group_id, record in described.items()}
    for group_id, committed in offsets.items():
        if not committed:
            continue
        group = groups.setdefault(group_id, Group(group_id, partition, now))
        for topic_partition, offset in committed.items():
            group.offsets.load(topic_partition, offset)
    return list(groups.values()), unread

"""Which offsets a read covers and how they are cut into tasks. Arithmetic only: nothing here asks a cluster.

The rules are those of Spark's Kafka connector, so that the same options give the same tasks and triggers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from epoka.client.fetching import Range

TopicPartition = tuple[str, int]
Offsets = dict[TopicPartition, int]


def cut(
    ranges: Iterable[Range], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[Range]:
    """The ranges that tasks read: none is empty or larger than `max_records`, about `min_partitions` in all.

    Small ranges stay whole and leave the reckoning to the large ones.
    """
    found = [each for each in ranges if each.end > each.first]
    if max_records is not None:
        found = [part for each in found for part in _parts(each, -(-_size(each) // max_records))]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    total = sum(map(_size, found))
    kept = [each for each in found if _share(_size(each), total, min_partitions) == 1]
    whole = {(each.topic, each.partition) for each in kept}
    left = max(min_partitions - len(kept), 1)
    total -= sum(map(_size, kept))
    cut_up: list[Range] = []
    for each in found:
        parts = 1 if (each.topic, each.partition) in whole else _share(_size(each), total, left)
        cut_up += _parts(each, parts)
    return cut_up


def _size(each: Range) -> int:
    return each.end - each.first


def _share(size: int, total: int, parts: int) -> int:
    return max(math.floor(size / total * parts + 0.5), 1)


def _parts(each: Range, count: int) -> list[Range]:
    found = []
    first, left = each.first, _size(each)
    for index in range(count):
        size = left // (count - index)
        if size:
            found.append(Range(each.topic, each.partition, first, first + size, each.topic_id))
        first += size
        left -= size
    return found


def limited(start: Mapping[TopicPartition, int], end: Offsets, most: int) -> Offsets:
    """Ends that take in about `most` offsets, shared by how much each partition has waiting.

    A partition whose share is less than one gets one all the same, or it might wait for ever.
    """
    waiting = {key: end[key] - start[key] for key in end if end[key] > start.get(key, end[key])}
    total = sum(waiting.values())
    if total < 1:
        return end
    found = dict(end)
    for key, size in waiting.items():
        share = most * (size / total)
        found[key] = min(end[key], start[key] + (math.ceil(share) if share < 1 else math.floor(share)))
    return found

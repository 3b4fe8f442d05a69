"""What the filters of a query say of topic, partition, offset and time, as bounds of what is fetched.

Decides which filters hold exactly for every row that is read, so that Spark need not ask them again: those
on topic, partition and offset. A lower bound of time only prunes: records before the first that is young
enough are all too old, those behind it may be of any age. An upper bound of time prunes nothing, since a
late record may be old.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import datasource as ds

from epoka.spark.offsets import Subject
from epoka.spark.options import TopicPartition

Ranges = dict[TopicPartition, tuple[int, int]]
NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")


class Bounds:
    def __init__(self) -> None:
        self._tests: list[Callable[[TopicPartition], bool]] = []
        self._first = 0
        self._end = math.inf
        self._since_ms: int | None = None

    def take(self, filter_: Any) -> bool:
        """Take a filter in; whether what is read satisfies it without being asked again."""
        attribute = getattr(filter_, "attribute", None)
        if attribute is None or len(attribute) != 1:
            return False
        (name,) = attribute
        if isinstance(filter_, ds.IsNotNull):
            return name in NEVER_NULL
        if name in ("topic", "partition"):
            test = _test(filter_)
            if test is None:
                return False
            at = 0 if name == "topic" else 1
            self._tests.append(lambda key: test(key[at]))
            return True
        if name == "offset":
            return self._take_offset(filter_)
        if name == "timestamp" and isinstance(filter_, ds.EqualTo | ds.GreaterThan | ds.GreaterThanOrEqual):
            since = _milliseconds(filter_.value)
            if since is not None:
                self._since_ms = max(since, self._since_ms or 0)
        return False

    def _take_offset(self, filter_: Any) -> bool:
        if isinstance(filter_, ds.In):
            self._only({int(each) for each in filter_.value if each is not None})
            return False
        match filter_:
            case ds.EqualTo():
                self._at_least(filter_.value)
                self._below(filter_.value + 1)
            case ds.GreaterThan():
                self._at_least(filter_.value + 1)
            case ds.GreaterThanOrEqual():
                self._at_least(filter_.value)
            case ds.LessThan():
                self._below(filter_.value)
            case ds.LessThanOrEqual():
                self._below(filter_.value + 1)
            case _:
                return False
        return True

    def _at_least(self, offset: int) -> None:
        self._first = max(self._first, offset)

    def _below(self, offset: int) -> None:
        self._end = min(self._end, offset)

    def _only(self, offsets: set[int]) -> None:
        # The gaps between them are read and thrown away by Spark.
        self._at_least(min(offsets, default=0))
        self._below(max(offsets, default=-1) + 1)

    def partitions(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return [key for key in partitions if all(test(key) for test in self._tests)]

    def cut(self, subject: Subject, ranges: Ranges) -> Ranges:
        since: Mapping[TopicPartition, Any] = {}
        if self._since_ms is not None and ranges:
            since = subject.client.offsets(dict.fromkeys(ranges, self._since_ms))
        found: Ranges = {}
        for key, (first, end) in ranges.items():
            first, end = max(first, self._first), int(min(end, self._end))
            if key in since:
                first = max(first, since[key].offset) if since[key].offset >= 0 else end
            if first < end:
                found[key] = (first, end)
        return found


def _test(filter_: Any) -> Callable[[Any], bool] | None:
    match filter_:
        case ds.EqualTo():
            return lambda given: bool(given == filter_.value)
        case ds.In():
            return lambda given: given in filter_.value
        case ds.GreaterThan():
            return lambda given: bool(given > filter_.value)
        case ds.GreaterThanOrEqual():
            return lambda given: bool(given >= filter_.value)
        case ds.LessThan():
            return lambda given: bool(given < filter_.value)
        case ds.LessThanOrEqual():
            return lambda given: bool(given <= filter_.value)
        case ds.StringStartsWith():
            return lambda given: str(given).startswith(filter_.value)
    return None


def _milliseconds(value: Any) -> int | None:
    """A time rounded down: a bound that is a little early is still a bound."""
    if not isinstance(value, datetime):
        return None
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return max(0, math.floor(aware.timestamp() * 1000) - 1)

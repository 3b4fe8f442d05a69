"""Topics as a stream: where a query stands, how far the next trigger reads, and what was lost on the way.

An offset is Spark's Kafka offset, `{"topic": {"0": 17}}`, and three things more under names no topic can
have:

- `@ids`: the id of each topic, so that a topic that was deleted and made anew is noticed;
- `@epochs`: the leader epoch of each partition, so that a log that an unclean election cut back is noticed;
- `@from`: where the batch that ends here begins, for partitions where that is not the end of the last.

The first batch says so for all its partitions. Spark asks for the initial offset again when a query is
restarted before its first batch is done; without `@from`, everything between the two answers would be lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from epoka.client.cluster import ClusterClient, FoundOffset, TopicView
from epoka.client.errors import ClientError, TopicGone
from epoka.client.fetching import Range
from epoka.client.sampling import bytes_per_offset
from epoka.spark.offsets import Subject
from epoka.spark.options import ReadOptions, TopicPartition
from epoka.spark.planning import Offsets, cut, limited
from epoka.spark.source import RangePartition, read_range

log = logging.getLogger(__name__)

IDS, EPOCHS, FROM = "@ids", "@epochs", "@from"


class Position(msgspec.Struct, frozen=True):
    """Where a stream stands, as it is kept in Spark's offset log."""

    offsets: Offsets
    ids: dict[str, str] = {}
    epochs: Offsets = {}
    began: Offsets = {}

    def to_json(self) -> dict[str, Any]:
        # Spark compares offsets as texts: the same position must always read the same.
        told: dict[str, Any] = _nested(self.offsets)
        told[IDS] = dict(sorted(self.ids.items()))
        told[EPOCHS] = _nested(self.epochs)
        if self.began:
            told[FROM] = _nested(self.began)
        return told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Position:
        return cls(
            _flat({name: each for name, each in told.items() if not name.startswith("@")}),
            dict(told.get(IDS, {})),
            _flat(told.get(EPOCHS, {})),
            _flat(told.get(FROM, {})),
        )


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _flat(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        (topic, int(part)): int(offset) for topic, each in nested.items() for part, offset in each.items()
    }


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._client: ClusterClient | None = None
        self._initial: dict[str, Any] | None = None
        self._target: Offsets | None = None
        """Where Trigger.AvailableNow ends."""
        self._last_trigger_s: float | None = None
        self._views: dict[str, TopicView] = {}
        self._views_at_s = 0.0

    # Where the stream stands.

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            subject = self._subject()
            views = subject.topics()
            partitions = subject.partitions(views)
            offsets = subject.begin(partitions)
            if self._options.starting.offsets is not None:
                offsets = self._within(subject, offsets)
            latest = subject.latest(partitions)
            self._initial = Position(
                offsets,
                _ids(views, offsets),
                {key: latest[key].leader_epoch for key in partitions},
            ).to_json()
        return self._initial

    def _within(self, subject: Subject, offsets: Offsets) -> Offsets:
        """Offsets that the user gave, checked against what the logs hold."""
        earliest, latest = subject.earliest(offsets), subject.latest(offsets)
        found = dict(offsets)
        for key, offset in offsets.items():
            if not earliest[key] <= offset <= latest[key].offset:
                first, end = earliest[key], latest[key].offset
                subject.losses.report(
                    f"{_name(key)} holds offsets {first} to {end}, startingOffsets={offset}"
                )
                found[key] = first
        return found

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        subject = self._subject()
        first_batch = self._initial is not None and start == self._initial
        begin = Position.from_json(start)
        views, latest = self._ends(subject)
        known = self._known(subject, begin, views, latest)
        ends = self._no_further_than_target(known, latest)
        if not isinstance(limit, ReadAllAvailable):
            if self._too_early(known, ends):
                ends = dict(known)
            else:
                ends = self._limited(subject, known, ends)
        if ends == begin.offsets and known == begin.offsets and not first_batch:
            return start
        moved = {key: offset for key, offset in known.items() if begin.offsets.get(key) != offset}
        return Position(
            ends,
            _ids(views, ends),
            {key: latest[key].leader_epoch for key in ends},
            known if first_batch else moved,
        ).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        subject = self._subject()
        try:
            views = self._views or self._topics(subject)
            latest = subject.latest(subject.partitions(views, missing_is_wrong=False))
        except ClientError as error:
            log.warning("nobody says where the topics end: %s", error)
            return None
        return _nested({key: each.offset for key, each in latest.items()})

    def prepareForTriggerAvailableNow(self) -> None:
        subject = self._subject()
        # What is missing never was, and initialOffset says so; or it is gone, and that is for latestOffset.
        views = subject.topics(missing_is_wrong=False)
        latest = subject.latest(subject.partitions(views, missing_is_wrong=False))
        self._target = {key: each.offset for key, each in latest.items()}

    # Tasks.

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        begin, until = Position.from_json(start), Position.from_json(end)
        offsets = begin.offsets | until.began
        ranges = [
            Range(*key, offsets[key], last, until.ids.get(key[0], ""))
            for key, last in sorted(until.offsets.items())
        ]
        tasks = cut(
            ranges,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [RangePartition(each) for each in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Tell the cluster how far the query is, for whoever watches its lag; no query fails for that."""
        if not self._options.commit_group:
            return
        try:
            self._subject().client.commit(self._options.commit_group, Position.from_json(end).offsets)
        except ClientError as error:
            log.warning("the group %s was not told its offsets: %s", self._options.commit_group, error)

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get a copy of the reader; connections stay where they are.
        return self.__dict__ | {"_client": None}

    # Inside.

    def _subject(self) -> Subject:
        if self._client is None:
            self._client = ClusterClient(self._options.client, patience_ms=self._options.offset_patience_ms)
        return Subject(self._options, self._client)

    def _topics(self, subject: Subject) -> dict[str, TopicView]:
        ttl_s = self._options.metadata_ttl_ms / 1000
        if not self._views or ttl_s <= 0 or time.monotonic() - self._views_at_s > ttl_s:
            self._views = subject.topics(missing_is_wrong=False)
            self._views_at_s = time.monotonic()
        return self._views

    def _ends(self, subject: Subject) -> tuple[dict[str, TopicView], dict[TopicPartition, FoundOffset]]:
        """The topics, and where their partitions end."""
        views = self._topics(subject)
        try:
            return views, subject.latest(subject.partitions(views, missing_is_wrong=False))
        except TopicGone:
            # It was deleted after the topics were looked at. Now they are looked at anew.
            self._views = {}
            views = self._topics(subject)
            return views, subject.latest(subject.partitions(views, missing_is_wrong=False))

    def _known(
        self,
        subject: Subject,
        begin: Position,
        views: Mapping[str, TopicView],
        latest: Mapping[TopicPartition, FoundOffset],
    ) -> Offsets:
        """Where the next batch begins: where the last one ended, unless something happened in between."""
        losses = subject.losses
        gone = sorted(begin.offsets.keys() - latest.keys())
        if gone:
            losses.report(f"{', '.join(map(_name, gone))} are gone")
        known: Offsets = {}
        fresh = []
        for key in latest:
            topic = views[key[0]]
            if key not in begin.offsets:
                fresh.append(key)
            elif topic.id_text != begin.ids.get(key[0], topic.id_text):
                was = begin.ids[key[0]]
                losses.report(f"{key[0]} was deleted and made anew: its id was {was}, it is {topic.id_text}")
                fresh.append(key)
            else:
                known[key] = self._not_cut_back(subject, key, begin, topic, latest[key])
        # Partitions that were not there before are read from offset 0; a later beginning is a loss.
        earliest = subject.earliest(fresh) if fresh else {}
        for key, offset in earliest.items():
            if offset > 0:
                losses.report(f"{_name(key)} is new and begins at offset {offset}, not at 0")
        return known | earliest

    def _not_cut_back(
        self, subject: Subject, key: TopicPartition, begin: Position, topic: TopicView, latest: FoundOffset
    ) -> int:
        """The offset that was reached, or the one to which the log was cut back since."""
        offset, epoch = begin.offsets[key], begin.epochs.get(key, -1)
        # Metadata may be older than what the leader says of itself, and is kept where the user said so.
        if max(topic.partitions[key[1]].leader_epoch, latest.leader_epoch) > epoch >= 0:
            _, end = subject.client.end_of_epoch(*key, epoch)
            if 0 <= end < offset:
                subject.losses.report(
                    f"{_name(key)} was cut back to offset {end}, {offset} was reached before: "
                    f"a replica became leader that had not everything of leader epoch {epoch}"
                )
                return end
        if latest.offset < offset:
            subject.losses.report(f"{_name(key)} ends at offset {latest.offset}, {offset} was reached before")
            return latest.offset
        return offset

    def _no_further_than_target(
        self, known: Offsets, latest: Mapping[TopicPartition, FoundOffset]
    ) -> Offsets:
        ends = {key: each.offset for key, each in latest.items()}
        if self._target is None:
            return ends
        # Partitions that came later are not read at all: the query has to come to an end.
        return {key: min(ends[key], max(self._target.get(key, known[key]), known[key])) for key in ends}

    def _too_early(self, known: Offsets, ends: Offsets) -> bool:
        """Whether to wait for more, because there is less than minOffsetsPerTrigger and time is left."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None:
            return False
        now_s = time.monotonic()
        waited_s = None if self._last_trigger_s is None else now_s - self._last_trigger_s
        time_left = waited_s is not None and waited_s < self._options.max_trigger_delay_ms / 1000
        if time_left and sum(ends[key] - known[key] for key in ends) < least:
            return True
        self._last_trigger_s = now_s
        return False

    def _limited(self, subject: Subject, known: Offsets, ends: Offsets) -> Offsets:
        options = self._options
        if options.max_offsets_per_trigger is not None:
            ends = limited(known, ends, options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            waiting = {key: end - known[key] for key, end in ends.items() if end > known[key]}
            sizes = {key: bytes_per_offset(subject.client, *key, known[key]) for key in waiting}
            total = sum(size * waiting[key] for key, size in sizes.items())
            if total > options.max_bytes_per_trigger:
                share = options.max_bytes_per_trigger / total
                ends = ends | {key: known[key] + max(1, int(share * size)) for key, size in waiting.items()}
        return ends


def _ids(views: Mapping[str, TopicView], offsets: Mapping[TopicPartition, int]) -> dict[str, str]:
    return {topic: views[topic].id_text for topic, _ in offsets if topic in views}


def _name(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"

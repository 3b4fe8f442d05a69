"""Which partitions a read means and at which offsets it begins and ends, asked of the cluster.

Decides what is data loss: partitions that are gone, offsets that went backwards, a topic that was made anew,
a log that was cut back. Loss fails the query, or is warned of where the user said so; it is never passed
over in silence.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from epoka.client.cluster import EARLIEST, LATEST, ClusterClient, FoundOffset, TopicView
from epoka.spark.options import BadOption, ReadOptions, TopicPartition, Where

log = logging.getLogger(__name__)


class DataLoss(Exception):
    """Records that were to be read are gone. `failOnDataLoss=false` makes a warning of it."""


class Losses:
    """What to do about lost data, as the user said."""

    def __init__(self, fatal: bool) -> None:
        self.fatal = fatal

    def report(self, text: str) -> None:
        if self.fatal:
            raise DataLoss(
                f"{text}. Some records were deleted or never written before they could be read. "
                "If the query may go on without them, set failOnDataLoss to false."
            )
        log.warning("%s; going on without it because failOnDataLoss is false", text)


class Subject:
    """What a read is about: the partitions it means, in one cluster."""

    def __init__(self, options: ReadOptions, client: ClusterClient) -> None:
        self.options = options
        self.client = client
        self.losses = Losses(options.fail_on_data_loss)

    def topics(self, *, missing_is_wrong: bool = True) -> dict[str, TopicView]:
        """The topics that are meant, as they are now."""
        options = self.options
        if options.strategy == "subscribePattern":
            return self.client.topics_like(options.pattern)
        names = options.topics or tuple(topic for topic, _ in options.assigned)
        found = self.client.topics(names)
        missing = sorted({*names} - found.keys())
        if missing and missing_is_wrong:
            raise BadOption(f"{options.strategy} names topics that do not exist: {', '.join(missing)}")
        return found

    def partitions(
        self, views: Mapping[str, TopicView], *, missing_is_wrong: bool = True
    ) -> list[TopicPartition]:
        """The partitions that are meant, in order."""
        if self.options.strategy != "assign":
            return sorted((name, partition) for name, view in views.items() for partition in view.partitions)
        found = []
        for topic, partition in sorted(self.options.assigned):
            if topic in views and partition in views[topic].partitions:
                found.append((topic, partition))
            elif missing_is_wrong:
                raise BadOption(f"assign names {topic}-{partition}, which does not exist")
        return found

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = self.client.offsets(dict.fromkeys(partitions, EARLIEST))
        return {key: each.offset for key, each in found.items()}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, FoundOffset]:
        return self.client.offsets(dict.fromkeys(partitions, LATEST))

    def begin(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return self._resolve(self.options.starting, partitions, starting=True)

    def end(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return self._resolve(self.options.ending, partitions, starting=False)

    def _resolve(
        self, where: Where, partitions: list[TopicPartition], *, starting: bool
    ) -> dict[TopicPartition, int]:
        if where.offset is not None:
            found = self.client.offsets(dict.fromkeys(partitions, where.offset))
            return {key: each.offset for key, each in found.items()}
        if where.timestamp is not None:
            return self._at_times(dict.fromkeys(partitions, where.timestamp), where, starting=starting)
        if where.timestamps is not None:
            _check_names_all(where.timestamps, partitions, where.option)
            return self._at_times(where.timestamps, where, starting=starting)
        assert where.offsets is not None
        _check_names_all(where.offsets, partitions, where.option)
        ends = self.client.offsets({key: each for key, each in where.offsets.items() if each < 0})
        return {key: ends[key].offset if each < 0 else each for key, each in where.offsets.items()}

    def _at_times(
        self, times: dict[TopicPartition, int], where: Where, *, starting: bool
    ) -> dict[TopicPartition, int]:
        found = {key: each.offset for key, each in self.client.offsets(times).items()}
        unmatched = [key for key, offset in found.items() if offset < 0]
        if unmatched and starting and not self.options.no_match_is_latest:
            topic, partition = unmatched[0]
            raise BadOption(
                f"{where.option}: {topic}-{partition} has no record at or after {times[unmatched[0]]}. "
                "startingOffsetsByTimestampStrategy=latest would begin such partitions at their end."
            )
        latest = self.latest(unmatched)
        return found | {key: each.offset for key, each in latest.items()}


def _check_names_all(
    named: Mapping[TopicPartition, int], partitions: list[TopicPartition], option: str
) -> None:
    missing = sorted({*partitions} - named.keys())
    unknown = sorted(named.keys() - {*partitions})
    if not missing and not unknown:
        return
    wrong = []
    if missing:
        wrong.append(f"says nothing of {_names(missing)}")
    if unknown:
        wrong.append(f"names {_names(unknown)}, which the query does not read")
    raise BadOption(
        f"{option} {' and '.join(wrong)}; it has to name every partition that is read and no other. "
        "Offset -1 is latest, -2 earliest."
    )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)

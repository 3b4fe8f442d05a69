"""Spark's protocol with a streaming source, broken off after each of its steps: no row lost, none twice.

Spark itself is left out, so that every step can be hit: what it keeps in its checkpoint is kept here as JSON,
and a restart does what Spark does, down to asking for the initial offset again.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from epoka.cluster.cluster import Cluster
from epoka.spark.options import read_options
from epoka.spark.stream import TopicStreamReader
from tests.client.topics import Topics
from tests.spark.reading import options_for

STEPS = ["initial", "latest", "logged", "planned", "half read", "read", "written", "committed"]


class BrokenOff(Exception):
    pass


class Checkpoint:
    """What outlives a driver: the offset log, the commit log, and a table with a part a batch."""

    def __init__(self) -> None:
        self.offsets: dict[int, str] = {}
        self.commits: set[int] = set()
        self.table: dict[int, list[bytes]] = {}

    def rows(self) -> list[bytes]:
        return sorted(value for part in self.table.values() for value in part)


class Driver:
    """One life of a query."""

    def __init__(
        self,
        cluster: Cluster,
        checkpoint: Checkpoint,
        break_off: tuple[int, str] | None,
        between: Callable[[], None],
        **options: str,
    ) -> None:
        """`between` happens when the query has asked where it begins and not yet how far it may go."""
        self._kept = checkpoint
        self._break_off = break_off
        self._between = between
        self._reader = TopicStreamReader(read_options(options_for(cluster, **options), streaming=True))
        self._number = 0

    def _reach(self, step: str) -> None:
        if self._break_off == (self._number, step):
            raise BrokenOff(step)

    def run(self, batches: int) -> None:
        """Go on until so many batches are committed."""
        try:
            while len(self._kept.commits) < batches:
                self._batch()
        finally:
            self._reader.stop()

    def _batch(self) -> None:
        kept, reader = self._kept, self._reader
        number = self._number = len(kept.commits)
        start = json.loads(kept.offsets[number - 1]) if number else reader.initialOffset()
        if not number:
            self._between()
        self._reach("initial")
        if number not in kept.offsets:
            end = reader.latestOffset(start, ReadMaxRows(7))
            self._reach("latest")
            kept.offsets[number] = json.dumps(end)
        self._reach("logged")
        end = json.loads(kept.offsets[number])
        tasks = reader.partitions(start, end)
        self._reach("planned")
        rows: list[bytes] = []
        for task in tasks:
            for batch in reader.read(task):
                rows += batch.column("value").to_pylist()
                self._reach("half read")
        self._reach("read")
        kept.table[number] = rows
        self._reach("written")
        reader.commit(end)
        kept.commits.add(number)
        self._reach("committed")


@pytest.mark.parametrize("starting", ["earliest", "latest"])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("step", STEPS)
def test_a_query_that_dies_after_any_step_loses_and_doubles_nothing(
    spark_cluster: Cluster, topics: Topics, starting: str, number: int, step: str
) -> None:
    name = topics.create(2)
    topics.fill(name, [b"old%d" % n for n in range(3)])
    kept = Checkpoint()
    options = {"subscribe": name, "startingOffsets": starting, "maxOffsetsPerTrigger": "7"}

    def life(break_off: tuple[int, str] | None, batches: int, between: Callable[[], None]) -> None:
        Driver(spark_cluster, kept, break_off, between, **options).run(batches)

    def write(word: bytes) -> None:
        topics.fill(name, [word + b"%d" % n for n in range(4)], partition=1)

    if number:
        life(None, 1, lambda: write(b"first"))
        write(b"second")
    with pytest.raises(BrokenOff):
        life((number, step), number + 1, lambda: None if number else write(b"first"))
    # With `latest` nothing is promised before the first batch is in the offset log.
    promised = starting == "earliest" or bool(kept.offsets)
    write(b"meanwhile")
    life(None, 4, lambda: None)
    words = [b"first", *([b"second"] if number else []), b"meanwhile"] if promised else []
    expected = [word + b"%d" % n for word in words for n in range(4)]
    expected += [b"old%d" % n for n in range(3)] if starting == "earliest" else []
    assert kept.rows() == sorted(expected)

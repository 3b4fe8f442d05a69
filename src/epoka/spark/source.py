"""`format("epoka")`: topics of any Kafka cluster as Spark tables and streams, without a jar.

Decides nothing that `options`, `offsets` and `planning` do not decide; it is where Spark comes in. Everything
heavy is imported inside the methods that need it, because Spark starts a process to plan each query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from epoka.client.cluster import ClusterClient
from epoka.client.errors import OffsetOutOfRange, TopicGone
from epoka.client.fetching import Range, RangeReader
from epoka.spark.offsets import Losses, Subject
from epoka.spark.options import ReadOptions, TopicPartition, read_options, write_options
from epoka.spark.planning import cut

if TYPE_CHECKING:
    from epoka.spark.pushdown import Bounds

log = logging.getLogger(__name__)

NAME = "epoka"
_SQL_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


class EpokaSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        # Options are the same for batches and streams as far as columns go; a stream's are checked later.
        from epoka.spark.options import columns_of

        columns = columns_of({name.lower(): value for name, value in self.options.items()})
        return ", ".join(f"{name} {_SQL_TYPES[name]}" for name in columns)

    def reader(self, schema: Any) -> TopicReader:
        options = read_options(self.options, streaming=False)
        _check_schema(schema, options)
        return PushdownTopicReader(options) if options.pushdown else TopicReader(options)

    def streamReader(self, schema: Any) -> Any:
        from epoka.spark.stream import TopicStreamReader

        options = read_options(self.options, streaming=True)
        _check_schema(schema, options)
        return TopicStreamReader(options)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        from epoka.spark.sink import TopicWriter, check_mode

        check_mode(overwrite)
        return TopicWriter(schema, write_options(self.options))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        from epoka.spark.sink import TopicStreamWriter

        return TopicStreamWriter(schema, write_options(self.options))


def _check_schema(schema: Any, options: ReadOptions) -> None:
    names = tuple(schema.fieldNames())
    types = [field.dataType.simpleString() for field in schema]
    if names != options.columns or types != [_SQL_TYPES[name] for name in names]:
        raise ValueError(f"the schema of a topic is fixed and cannot be given: {schema.simpleString()}")


class RangePartition(InputPartition):
    """One task: one range of one partition."""

    def __init__(self, wanted: Range) -> None:
        self.wanted = wanted

    def __repr__(self) -> str:
        return f"{self.wanted.name} {self.wanted.first}..{self.wanted.end}"


class TopicReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds: Bounds | None = None

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with ClusterClient(options.client, patience_ms=options.offset_patience_ms) as client:
            subject = Subject(options, client)
            views = subject.topics()
            partitions = subject.partitions(views)
            if self._bounds is not None:
                asked = self._bounds.partitions(partitions)
                ranges = self._bounds.cut(subject, self._ranges(subject, partitions, asked))
            else:
                ranges = self._ranges(subject, partitions, partitions)
            ids = {name: view.id_text for name, view in views.items()}
        wanted = [
            Range(topic, part, first, end, ids[topic]) for (topic, part), (first, end) in ranges.items()
        ]
        tasks = cut(
            wanted,
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )
        return [RangePartition(each) for each in tasks]

    def _ranges(
        self, subject: Subject, partitions: list[TopicPartition], asked: list[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]:
        begin, end = subject.begin(partitions), subject.end(partitions)
        if not asked:
            return {}
        earliest = subject.earliest(asked)
        latest = subject.latest(asked)
        found = {}
        for key in asked:
            name = f"{key[0]}-{key[1]}"
            first, stop, last = begin[key], end[key], latest[key].offset
            if first < earliest[key]:
                subject.losses.report(f"{name} begins at offset {earliest[key]}, asked for {first}")
                first = earliest[key]
            if stop > last:
                subject.losses.report(f"{name} ends at offset {last}, asked for {stop}")
                stop = last
            if first > stop:
                if self._options.starting.offsets is not None and self._options.ending.offsets is not None:
                    subject.losses.report(f"{name} would begin at offset {first} and end before, at {stop}")
                # A start by time may well lie behind an end by time: then there is nothing between them.
                first = stop
            found[key] = (first, stop)
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._options, partition)


class PushdownTopicReader(TopicReader):
    """Reads no more than the filters on topic, partition, offset and time let through.

    A class of its own, because Spark refuses a source with `pushFilters` where pushing is switched off.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        from epoka.spark.pushdown import Bounds

        self._bounds = Bounds()
        for each in filters:
            if not self._bounds.take(each):
                yield each


def read_range(options: ReadOptions, partition: InputPartition) -> Iterator[Any]:
    """The Arrow batches of one task; what is lost fails it or is passed over as the user said."""
    from epoka.spark.arrow import BatchMaker, fields_of

    if not isinstance(partition, RangePartition):
        return
    wanted = partition.wanted
    losses = Losses(options.fail_on_data_loss)
    maker = BatchMaker(options.columns, wanted.topic, wanted.partition)
    with ClusterClient(options.client, patience_ms=options.offset_patience_ms) as client:
        while wanted.first < wanted.end:
            reader = RangeReader(
                client, wanted, fields=fields_of(options.columns), patience_ms=options.poll_timeout_ms
            )
            try:
                for columns in reader.columns():
                    yield from maker.batches(columns)
                return
            except TopicGone as error:
                losses.report(str(error))
                return
            except OffsetOutOfRange as error:
                losses.report(str(error))
                # Never past the planned end: what came after belongs to the next batch.
                first = min(max(error.first, reader.position), wanted.end)
                if error.end <= reader.position:
                    return
                wanted = Range(wanted.topic, wanted.partition, first, wanted.end, wanted.topic_id)

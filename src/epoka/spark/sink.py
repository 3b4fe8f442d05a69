"""`write.format("epoka")` and `writeStream.format("epoka")`: rows to topics.

Columns are those of Spark's Kafka connector: `value` is needed, `key`, `topic`, `headers` and `partition`
may be there, others are passed over. A task returns when every row is acknowledged: at least once, as the
connector.

A stream's batches are also recognised when they come again. A producer id is made of the query, the task and
the number of the batch in the task, and its epoch is Spark's batch id: a task that is run again sends the
same ids and sequences, and a broker keeps each once. Each id is used for no more batches than a broker
remembers. Before a duplicate is believed its rows are compared with those that are there, because a query
that is not deterministic may give other rows the second time; those are written. Rows that are cut into other
batches than before do not follow what a broker knows of their id: they are written without one, at least
once. A task of an older batch that still runs is refused by its epoch.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from epoka.client.batching import Identity, Rows, batch_of, partition_numbers, sizes_of
from epoka.client.cluster import LATEST, ClusterClient, TopicPartition
from epoka.client.columns import BytesColumn, HeaderColumns, Longs
from epoka.client.errors import ClientError, TopicGone
from epoka.client.fetching import Range, RangeReader
from epoka.client.producing import Acknowledged, BatchWriter, Outgoing, new_identity
from epoka.spark.options import BadOption, WriteOptions
from epoka.wire.compression import codec_named
from epoka.wire.error_codes import ErrorCode

log = logging.getLogger(__name__)

REMEMBERED = 5
"""Batches of one producer that a broker knows again."""
EPOCHS = 1 << 15
CHUNK_BYTES = 8 << 20
"""Rows are gathered up to this size, so that many partitions still get large batches."""

_TEXT = ("string", "binary")
_TYPES = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


class Written(WriterCommitMessage):
    """What one task has written."""

    def __init__(self, acknowledged: list[Acknowledged]) -> None:
        self.acknowledged = acknowledged


def check_mode(overwrite: bool) -> None:
    if overwrite:
        raise BadOption("mode overwrite: a topic can be written to, not over; use append")


def check_columns(schema: Any, options: WriteOptions) -> list[str]:
    """The columns that are written, or BadOption."""
    types = {field.name.lower(): field.dataType.simpleString() for field in schema}
    if "value" not in types:
        raise BadOption(f"there is no column value among {', '.join(types) or 'none'}")
    if not options.topic and "topic" not in types:
        raise BadOption("neither the option topic nor a column topic says where rows go")
    for name, allowed in _TYPES.items():
        if name in types and types[name] not in allowed:
            raise BadOption(f"the column {name} is {' or '.join(allowed)}, not {types[name]}")
    return [name for name in _TYPES if name in types]


class _Writing:
    """What batches and streams have in common."""

    def __init__(self, schema: Any, options: WriteOptions) -> None:
        self._options = options
        self._columns = check_columns(schema, options)
        self._places = {field.name.lower(): at for at, field in enumerate(schema)}

    def run(self, iterator: Iterator[pa.RecordBatch], names: Names) -> Written:
        with ClusterClient(self._options.client) as client:
            task = _Task(client, self._options, names)
            gathered: list[pa.RecordBatch] = []
            size = 0
            for batch in iterator:
                gathered.append(self._needed(batch))
                size += gathered[-1].nbytes
                if size >= CHUNK_BYTES:
                    task.write(_together(gathered))
                    gathered, size = [], 0
            if gathered:
                task.write(_together(gathered))
            return Written(task.finish())

    def _needed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [batch.column(self._places[name]) for name in self._columns], names=self._columns
        )


class TopicWriter(DataSourceArrowWriter):
    def __init__(self, schema: Any, options: WriteOptions) -> None:
        self._writing = _Writing(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._writing.run(iterator, Names())

    def commit(self, messages: list[Any]) -> None:
        _tell(messages)

    def abort(self, messages: list[Any]) -> None:
        log.warning("a write was broken off; rows that were acknowledged stay written")


class TopicStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, schema: Any, options: WriteOptions) -> None:
        self._writing = _Writing(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._writing.run(iterator, _names_of_task())

    def commit(self, messages: list[Any], batchId: int) -> None:
        _tell(messages)

    def abort(self, messages: list[Any], batchId: int) -> None:
        log.warning("batch %d was broken off; rows that were acknowledged stay written", batchId)


class Names(msgspec.Struct, frozen=True):
    """Who writes: the same again when Spark runs a task of a stream again."""

    query: str = ""
    batch: int = -1
    task: int = -1

    @property
    def lasting(self) -> bool:
        return bool(self.query) and self.batch >= 0

    def identity(self, number: int) -> Identity:
        """The identity for the `number`th group of batches of this task."""
        about = f"{self.query}/{self.task}/{number}/{self.batch // EPOCHS}"
        digest = hashlib.blake2b(about.encode(), digest_size=8).digest()
        # Ids that clusters give out count up from zero and never come up here.
        return Identity(int.from_bytes(digest, "big") >> 2 | 1 << 62, self.batch % EPOCHS)


def _names_of_task() -> Names:
    context = TaskContext.get()
    if context is None:
        return Names()
    query = context.getLocalProperty("sql.streaming.queryId") or ""
    batch = context.getLocalProperty("streaming.sql.batchId")
    return Names(query, int(batch) if batch else -1, context.partitionId())


class _Task:
    """One task's rows on their way into partitions."""

    def __init__(self, client: ClusterClient, options: WriteOptions, names: Names) -> None:
        self._client = client
        self._options = options
        self._names = names
        self._codec = codec_named(options.client.compression)
        self._idempotent = options.idempotent and options.client.acks == -1
        self._lasting = self._idempotent and names.lasting
        self._writer = BatchWriter(client, on_written=self._written, on_refused=self._refused)
        self._sequences: dict[TopicPartition, tuple[int, int]] = {}
        """For each partition: batches so far, and the next sequence of the identity in use."""
        self._ends: dict[TopicPartition, int] = {}
        """Where partitions ended before this task wrote; only known where a batch may come again."""
        self._again: list[tuple[Outgoing, Rows, Longs]] = []
        self._unchecked: dict[int, tuple[Rows, Longs]] = {}
        self._chunks = 0
        self._own: Identity | None = None

    def write(self, rows: pa.Table) -> None:
        content = _rows(rows)
        sizes = sizes_of(content)
        parts = [
            ((topic, partition), part)
            for topic, chosen in self._by_topic(rows)
            for partition, part in self._by_partition(topic, rows, content, chosen)
        ]
        if self._lasting:
            self._look_at_ends(key for key, _ in parts)
        for key, part in parts:
            self._write_part(key, content, part, sizes)
        self._chunks += 1
        self._settle()

    def finish(self) -> list[Acknowledged]:
        self._writer.flush()
        self._settle()
        return self._writer.acknowledged()

    def _by_topic(self, rows: pa.Table) -> Iterator[tuple[str, Longs]]:
        if self._options.topic:
            yield self._options.topic, np.arange(rows.num_rows)
            return
        named = rows.column("topic").combine_chunks().dictionary_encode()
        if named.null_count:
            raise BadOption("the column topic is null in some rows, and the option topic is not set")
        codes = named.indices.to_numpy(zero_copy_only=False)
        for code, topic in enumerate(named.dictionary.to_pylist()):
            yield topic, np.flatnonzero(codes == code)

    def _by_partition(
        self, topic: str, rows: pa.Table, content: Rows, chosen: Longs
    ) -> Iterator[tuple[int, Longs]]:
        count = len(self._topic(topic))
        # Rows without a key stay together, and each chunk goes on to the next partition.
        spread = (max(self._names.task, 0) + self._chunks) % count
        if content.keys is None:
            numbers = np.full(len(chosen), spread)
        else:
            hashed = partition_numbers(content.keys)[chosen]
            numbers = np.where(hashed < 0, spread, hashed % count)
        if "partition" in rows.column_names:
            asked = rows.column("partition").combine_chunks()
            given = pc.fill_null(asked, -1).to_numpy(zero_copy_only=False)[chosen]
            if (given >= count).any() or (asked.null_count == 0 and (given < 0).any()):
                wrong = given[(given >= count) | (given < 0)][0]
                raise BadOption(f"the column partition says {wrong}, {topic} has {count} partitions")
            numbers = np.where(given < 0, numbers, given)
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(ordered)]):
            yield int(ordered[start]), chosen[order[start:end]]

    def _topic(self, topic: str) -> list[int]:
        try:
            return sorted(self._client.topic(topic).partitions)
        except TopicGone:
            raise BadOption(f"rows are to be written to {topic}, which does not exist") from None

    def _look_at_ends(self, keys: Iterable[TopicPartition]) -> None:
        """Where the partitions end that were not written to yet, before anything is on its way to them."""
        unknown = {key: LATEST for key in keys if key not in self._ends}
        if unknown:
            self._writer.flush()
            for key, found in self._client.offsets(unknown).items():
                self._ends[key] = found.offset

    def _write_part(self, key: TopicPartition, rows: Rows, chosen: Longs, sizes: Longs) -> None:
        ends = np.cumsum(sizes[chosen])
        limit = self._options.client.batch_bytes
        start = before = 0
        while start < len(chosen):
            end = max(int(np.searchsorted(ends, before + limit, "right")), start + 1)
            self._send(key, rows, chosen[start:end], int(ends[end - 1]) - before)
            start, before = end, int(ends[end - 1])

    def _send(self, key: TopicPartition, rows: Rows, chosen: Longs, most_bytes: int) -> None:
        identity, sequence = self._next_identity(key, len(chosen))
        batch = batch_of(
            rows,
            chosen,
            timestamp_ms=int(time.time() * 1000),
            codec=self._codec,
            identity=identity,
            base_sequence=sequence,
            most_bytes=most_bytes,
        )
        outgoing = Outgoing(*key, batch, len(chosen))
        if self._lasting:
            self._unchecked[id(outgoing)] = (rows, chosen)
        self._writer.add(outgoing)
        self._writer.nudge()

    def _next_identity(self, key: TopicPartition, count: int) -> tuple[Identity | None, int]:
        if not self._idempotent:
            return None, -1
        sent, sequence = self._sequences.get(key, (0, 0))
        if not self._lasting:
            if self._own is None:
                self._own = new_identity(self._client)
            self._sequences[key] = (sent + 1, sequence + count)
            return self._own, sequence
        if sent % REMEMBERED == 0:
            sequence = 0
        self._sequences[key] = (sent + 1, sequence + count)
        return self._names.identity(sent // REMEMBERED), sequence

    def _written(self, outgoing: Outgoing) -> None:
        rows = self._unchecked.pop(id(outgoing), None)
        if rows is not None and outgoing.base_offset < self._ends[outgoing.topic, outgoing.partition]:
            self._again.append((outgoing, *rows))

    def _refused(self, outgoing: Outgoing, code: ErrorCode) -> bytearray | None:
        """A batch whose sequence does not follow, made anew without identity.

        An earlier attempt has cut its rows otherwise. Batches that come after it under the same identity go
        the same way: each is the next one, one that is there already, or refused and made anew.
        """
        if code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or id(outgoing) not in self._unchecked:
            return None
        log.warning(
            "%s: rows do not follow those of an earlier attempt; some may be there twice", outgoing.name
        )
        return self._without_identity(*self._unchecked.pop(id(outgoing)))

    def _settle(self) -> None:
        """Compare duplicates with what is there, and write those that are something else.

        Done as they come up, because they keep their rows in memory. Reading needs the connections that
        batches are sent on, so nothing is under way until all are compared.
        """
        if not self._again:
            return
        self._writer.flush()
        again, self._again = self._again, []
        for outgoing, rows, chosen in [each for each in again if not self._is_there(*each)]:
            log.warning(
                "%s: the query gave other rows than the time before; they are written too", outgoing.name
            )
            batch = self._without_identity(rows, chosen)
            self._writer.add(Outgoing(outgoing.topic, outgoing.partition, batch, len(chosen)))
        self._writer.flush()

    def _is_there(self, outgoing: Outgoing, rows: Rows, chosen: Longs) -> bool:
        """Whether a batch that an earlier attempt wrote has the same rows; believed if nobody can say."""
        first = outgoing.base_offset
        there = RangeReader(
            self._client, Range(outgoing.topic, outgoing.partition, first, first + outgoing.count)
        )
        try:
            found = [
                (each.key, each.value, [*each.headers])
                for chunk in there.columns()
                for each in chunk.records()
            ]
        except ClientError as error:
            log.warning("%s from offset %d cannot be compared: %s", outgoing.name, first, error)
            return True
        return found == [_record(rows, row) for row in chosen.tolist()]

    def _without_identity(self, rows: Rows, chosen: Longs) -> bytearray:
        return batch_of(rows, chosen, timestamp_ms=int(time.time() * 1000), codec=self._codec)


def _record(rows: Rows, row: int) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    found: list[tuple[str, bytes | None]] = []
    if rows.headers is not None:
        for at in range(rows.headers.ends[row], rows.headers.ends[row + 1]):
            found.append(((rows.headers.names[at] or b"").decode(), rows.headers.values[at]))
    return None if rows.keys is None else rows.keys[row], rows.values[row], found


def _together(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches)


def _rows(table: pa.Table) -> Rows:
    names = table.column_names
    return Rows(
        _strings(table.column("value").combine_chunks()),
        _strings(table.column("key").combine_chunks()) if "key" in names else None,
        _headers(table.column("headers").combine_chunks()) if "headers" in names else None,
    )


def _strings(array: Any) -> BytesColumn:
    """The buffers of an Arrow array of strings or bytes; without a copy, unless its offsets have 64 bits."""
    if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        array = array.cast(pa.binary())
    rows = len(array)
    _, ends, content = array.buffers()
    valid = None
    if array.null_count:
        valid = pc.is_valid(array).cast(pa.uint8()).to_numpy(zero_copy_only=False)
    if not rows:
        return BytesColumn(np.zeros(1, np.int32), np.zeros(0, np.uint8))
    return BytesColumn(
        np.frombuffer(ends, np.int32)[array.offset : array.offset + rows + 1],
        np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8),
        valid,
    )


def _headers(array: Any) -> HeaderColumns:
    # Null and an empty list are the same to a record; nulls would leave holes between the lists.
    flat = array.flatten()
    counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    ends = np.zeros(len(array) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    names = pc.fill_null(pc.struct_field(flat, 0), "")
    return HeaderColumns(ends, _strings(names), _strings(pc.struct_field(flat, 1)))


def _tell(messages: list[Any]) -> None:
    count = sum(each.count for message in messages if message for each in message.acknowledged)
    log.info("%d rows are acknowledged", count)

"""Columns as Arrow batches of Spark's Kafka schema. Nothing is copied that Arrow can look at where it lies.

Spark compares the schema of the first batch with its own, field by field, so all batches are built with one
schema object. Topic and partition are the same for a whole range: their arrays are made once and sliced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from epoka.client import columns as decoded
from epoka.client.columns import BytesColumn, Columns

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"
_CONSTANT_ROWS = 1 << 14

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _HEADER)),
}
_FIELDS = {"key": decoded.KEY, "value": decoded.VALUE, "headers": decoded.HEADERS}


def schema_of(names: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(name, _TYPES[name]) for name in names])


def fields_of(names: Sequence[str]) -> int:
    """What a decoder has to copy for these columns."""
    return sum(_FIELDS.get(name, 0) for name in names)


class BatchMaker:
    """Arrow batches with the given columns, of records of one partition."""

    def __init__(self, names: Sequence[str], topic: str, partition: int) -> None:
        self._names = tuple(names)
        self._schema = schema_of(names)
        self._constants: dict[str, Any] = {}
        self._constant_rows = 0
        self._topic = topic
        self._partition = partition

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """The rows in batches that Spark takes in best, about a megabyte each."""
        whole = pa.RecordBatch.from_arrays(
            [self._column(name, columns) for name in self._names], schema=self._schema
        )
        parts = max(1, round(whole.nbytes / decoded.CHUNK_BYTES))
        rows = -(-len(columns) // parts)
        for start in range(0, len(columns), rows):
            yield whole.slice(start, rows)

    def _column(self, name: str, columns: Columns) -> Any:
        rows = len(columns)
        match name:
            case "key":
                return _strings(columns.keys, pa.binary())
            case "value":
                return _strings(columns.values, pa.binary())
            case "offset":
                return pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(columns.offsets)])
            case "timestamp":
                return pa.Array.from_buffers(
                    _TYPES["timestamp"], rows, [None, pa.py_buffer(columns.timestamps_us)]
                )
            case "timestampType":
                return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(columns.timestamp_types)])
            case "headers":
                return _headers(columns)
        return self._constant(name, rows)

    def _constant(self, name: str, rows: int) -> Any:
        if rows > self._constant_rows:
            self._constant_rows = max(rows, _CONSTANT_ROWS)
            self._constants = {
                "topic": pa.repeat(pa.scalar(self._topic, pa.string()), self._constant_rows),
                "partition": pa.repeat(pa.scalar(self._partition, pa.int32()), self._constant_rows),
            }
        return self._constants[name].slice(0, rows)


def _strings(column: BytesColumn | None, kind: Any) -> Any:
    assert column is not None
    return pa.Array.from_buffers(
        kind,
        len(column.ends) - 1,
        [_bits(column.valid), pa.py_buffer(column.ends), pa.py_buffer(column.content)],
    )


def _bits(valid: Any) -> Any:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _headers(columns: Columns) -> Any:
    """A record without headers has null, as Spark's own source gives it."""
    found = columns.headers
    assert found is not None
    names = _strings(found.names, pa.string())
    try:
        # The kernel copies bytes; whether a name is text is only known here.
        names.validate(full=True)
    except pa.ArrowInvalid:
        names = pa.array(found.texts(), pa.string())
    values = _strings(found.values, pa.binary())
    pairs = pa.StructArray.from_arrays([names, values], fields=list(_HEADER))
    counts = np.diff(found.ends)
    valid = None if counts.all() else (counts > 0).astype(np.uint8)
    return pa.Array.from_buffers(
        _TYPES["headers"], len(counts), [_bits(valid), pa.py_buffer(found.ends)], children=[pairs]
    )

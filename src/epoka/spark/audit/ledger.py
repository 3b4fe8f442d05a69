"""Bronze and silver: ledger entries as they are, and as typed rows.

Entries come from the files of nodes and of the simulator, or from the topic `__epoka_ledger`. A line that
cannot be read is a row of the kind UNREADABLE, and a kind that nobody knows here is a row like any other: a
newer version may write it. Both are counted, neither is dropped. What was sent twice is told by node and
event id and kept once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from epoka.model.ledger import LedgerEvent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNREADABLE = "(unreadable)"
TOPIC = "__epoka_ledger"
KINDS = frozenset(
    [
        "active",
        "config",
        "control-refused",
        "ended",
        "fault",
        "fenced",
        "fenced-by-controller",
        "isr",
        "isr-proposed",
        "leader",
        "ledger-dropped",
        "level",
        "paused",
        "reassignment",
        "recovered",
        "registered",
        "self-fenced",
        "self-unfenced",
        "stale",
        "stopping",
        "storage-failed",
        "topic-created",
        "topic-deleted",
        "unfenced",
        "unfenced-by-controller",
        "unregistered",
        "unwritable",
        "verdict",
    ]
)
"""The kinds that this version writes; others are of another version."""

BRONZE = "run string, origin string, position bigint, value string"
_FIELDS = {
    "kind": ("string", ""),
    "time_ms": ("bigint", -1),
    "node": ("int", -1),
    "generation": ("bigint", -1),
    "event_id": ("bigint", -1),
    "cause": ("bigint", -1),
    "rule": ("string", ""),
    "verdict": ("string", ""),
    "error": ("string", ""),
    "given": ("string", ""),
    "expected": ("string", ""),
    "broker": ("int", -1),
    "broker_epoch": ("bigint", -1),
    "topic": ("string", ""),
    "partition": ("int", -1),
    "leader": ("int", -1),
    "leader_epoch_before": ("int", -1),
    "leader_epoch": ("int", -1),
    "partition_epoch_before": ("int", -1),
    "partition_epoch": ("int", -1),
    "isr_before": ("array<int>", None),
    "isr": ("array<int>", None),
    "detail": ("string", ""),
}
SILVER = ", ".join(["run string", *(f"{name} {kind}" for name, (kind, _) in _FIELDS.items())])
IDENTITY = ("run", "node", "event_id")
ORDER = ("time_ms", "event_id", "node")
"""The order of events in one run: by time, and within a millisecond by the ids that a node counts up."""

assert {*_FIELDS} == {field.name for field in msgspec.structs.fields(LedgerEvent)}


def bronze_from_files(spark: SparkSession, runs: dict[str, Iterable[Path]]) -> DataFrame:
    """The lines of ledger files, by run; of a file and the older one beside it, both."""
    from pyspark.sql import functions as F

    frame = None
    for run, paths in runs.items():
        files = sorted({str(path.absolute()) for path in paths})
        lines = spark.read.text(files).select(
            F.lit(run).alias("run"),
            F.col("_metadata.file_path").alias("origin"),
            F.monotonically_increasing_id().alias("position"),
            "value",
        )
        frame = lines if frame is None else frame.unionByName(lines)
    if frame is None:
        return spark.createDataFrame([], BRONZE)
    return frame.where("trim(value) <> ''")


def bronze_from_topic(frame: DataFrame, run: str) -> DataFrame:
    """The values of the ledger's topic, read by `format("epoka")` as a batch or as a stream."""
    from pyspark.sql import functions as F

    return frame.select(
        F.lit(run).alias("run"),
        F.concat_ws("-", "topic", "partition").alias("origin"),
        F.col("offset").alias("position"),
        F.col("value").cast("string").alias("value"),
    )


def silver_from_bronze(bronze: DataFrame) -> DataFrame:
    """One typed row for every entry, each event once."""
    return _each_once(bronze.select("run", "value").mapInArrow(_decode_batches, SILVER))


def silver_by_sql(bronze: DataFrame) -> DataFrame:
    """The same without Python workers: several times slower, and a declarative pipeline allows no other."""
    from pyspark.sql import functions as F

    fields = ", ".join(f"{name} {kind}" for name, (kind, _) in _FIELDS.items())
    event = F.from_json("value", fields)
    columns = []
    for name, (kind, usual) in _FIELDS.items():
        default = F.array().cast(kind) if usual is None else F.lit(usual).cast(kind)
        columns.append(F.coalesce(F.col(f"event.{name}"), default).alias(name))
    typed = bronze.select("run", "value", event.alias("event")).select("run", "value", *columns)
    unreadable = F.col("kind") == ""
    return _each_once(
        typed.withColumn("detail", F.when(unreadable, F.col("value")).otherwise(F.col("detail")))
        .withColumn("kind", F.when(unreadable, F.lit(UNREADABLE)).otherwise(F.col("kind")))
        .select("run", *_FIELDS)
    )


def _each_once(typed: DataFrame) -> DataFrame:
    known = typed.where("event_id >= 0").dropDuplicates([*IDENTITY])
    return known.unionByName(typed.where("event_id < 0"))


def _decode_batches(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield decode(batch.column("run"), batch.column("value"))


def decode(runs: Any, values: Any) -> Any:
    """JSON texts as a typed Arrow batch, row for row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = _parse_together(values)
    if table is None:
        table = _parse_one_by_one(values)
    arrays = [runs]
    for name, (kind, usual) in _FIELDS.items():
        column = table.column(name)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if usual is None:
            column = pc.if_else(pc.is_valid(column), column, pa.scalar([], _arrow_type(kind)))
        else:
            column = pc.fill_null(column, usual)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=["run", *_FIELDS])


def _parse_together(values: Any) -> Any:
    """All texts at once by Arrow's own reader; None if one of them is not what it should be."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json as pj

    if not len(values) or values.null_count:
        return None
    text = pc.binary_join(pa.array([values.to_pylist()], pa.list_(pa.string())), "\n")[0].as_buffer()
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=max(1 << 20, text.size + 1)),
            parse_options=pj.ParseOptions(explicit_schema=_schema(), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == len(values) else None


def _parse_one_by_one(values: Any) -> Any:
    import pyarrow as pa

    decoder = msgspec.json.Decoder(LedgerEvent)
    rows = []
    for value in values.to_pylist():
        try:
            event = decoder.decode(value or "")
        except msgspec.DecodeError as error:
            event = LedgerEvent(kind=UNREADABLE, detail=f"{error}: {value}")
        rows.append(msgspec.structs.asdict(event))
    return pa.Table.from_pylist(rows, schema=_schema())


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([pa.field(name, _arrow_type(kind)) for name, (kind, _) in _FIELDS.items()])


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    return {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "array<int>": pa.list_(pa.field("element", pa.int32())),
    }[kind]

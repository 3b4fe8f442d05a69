"""The table of a fleet: one row a seed. Its columns for Spark, and rows as Arrow batches.

Spark compares the schema of the first batch with its own, field by field, so all batches are built with one
schema object.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from epoka.spark.fleet.seeds import SeedRow

BATCH_ROWS: Final = 500
COLUMNS: Final = {
    "seed": "bigint",
    "scenario": "string",
    "mode": "string",
    "level": "string",
    "profile": "string",
    "without": "string",
    "outcome": "string",
    "what": "string",
    "story": "string",
    "event": "bigint",
    "events": "bigint",
    "simulated_ms": "bigint",
    "acknowledged": "bigint",
    "exceptions": "bigint",
    "downgraded": "bigint",
    "steps": "bigint",
    "faults": "map<string,bigint>",
    "trace": "string",
    "digest": "bigint",
    "wall_ms": "double",
    "ledger": "array<string>",
    "schedule": "string",
}
DDL: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())


@cache
def arrow_schema() -> Any:
    import pyarrow as pa

    kinds = {
        "bigint": pa.int64(),
        "double": pa.float64(),
        "string": pa.string(),
        "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
        "array<string>": pa.list_(pa.field("element", pa.string())),
    }
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in COLUMNS.items()])


def batches(rows: Iterator[SeedRow]) -> Iterator[Any]:
    """Rows as Arrow batches, each as soon as it is full."""
    waiting: list[dict[str, Any]] = []
    for row in rows:
        told = msgspec.structs.asdict(row)
        told["faults"] = None if row.faults is None else list(row.faults.items())
        waiting.append(told)
        if len(waiting) >= BATCH_ROWS:
            yield _batch(waiting)
            waiting = []
    if waiting:
        yield _batch(waiting)


def _batch(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(rows, arrow_schema())

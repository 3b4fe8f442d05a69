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
TOTALS: Final = {
    "seeds": "bigint",
    "ok": "bigint",
    "violation": "bigint",
    "crashed": "bigint",
    "hung": "bigint",
    "events": "bigint",
    "simulated_ms": "bigint",
    "acknowledged": "bigint",
    "exceptions": "bigint",
    "downgraded": "bigint",
    "wall_ms": "double",
    "faults": "map<string,bigint>",
    "digest_xor": "bigint",
    "digest_sum": "bigint",
    "failing": "array<string>",
}
"""What `totals=true` gives: one row a task, with the rows of failing seeds as JSON."""
_SUMMED: Final = ("events", "simulated_ms", "acknowledged", "exceptions", "downgraded", "wall_ms")


def columns_of(totals: bool) -> dict[str, str]:
    return TOTALS if totals else COLUMNS


@cache
def arrow_schema(totals: bool = False) -> Any:
    import pyarrow as pa

    kinds = {
        "bigint": pa.int64(),
        "double": pa.float64(),
        "string": pa.string(),
        "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
        "array<string>": pa.list_(pa.field("element", pa.string())),
    }
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in columns_of(totals).items()])


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


def total(rows: Iterator[SeedRow]) -> Iterator[Any]:
    """All rows of a task as one: what anybody would add up anyway, where it costs nothing."""
    sums: dict[str, Any] = dict.fromkeys(TOTALS, 0) | {"wall_ms": 0.0}
    faults: dict[str, int] = {}
    failing: list[str] = []
    for row in rows:
        sums["seeds"] += 1
        sums[row.outcome] += 1
        for name in _SUMMED:
            sums[name] += getattr(row, name) or 0
        for kind, times in (row.faults or {}).items():
            faults[kind] = faults.get(kind, 0) + times
        sums["digest_xor"] ^= row.digest
        sums["digest_sum"] = (sums["digest_sum"] + row.digest + _HALF) % (2 * _HALF) - _HALF
        if row.outcome != "ok":
            failing.append(msgspec.json.encode(msgspec.structs.replace(row, ledger=None)).decode())
    yield _batch([sums | {"faults": list(faults.items()), "failing": failing}], totals=True)


_HALF: Final = 1 << 63


def _batch(rows: list[dict[str, Any]], *, totals: bool = False) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(rows, arrow_schema(totals))

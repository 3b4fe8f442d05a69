"""Topics into a table: every record once, as Parquet or Delta, in as many steps as it takes.

A batch that comes again is the same batch of the table (`storage`), so a crash anywhere loses and doubles
nothing. The next call goes on where the last one ended.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from epoka.spark.storage import storage as tables_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Copied(msgspec.Struct, frozen=True):
    folder: str
    rows: int
    """Records that this call has copied."""
    batches: int
    offsets: dict[str, dict[str, int]]
    """How far each partition is copied."""


def copy_topics(
    spark: SparkSession,
    options: dict[str, str],
    target: Path,
    *,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    storage: str = "parquet",
) -> Copied:
    """Copy what is there now; `progress` is told offsets that are done and that there are."""
    frame = spark.readStream.format("epoka").options(**{"startingOffsets": "earliest", **options}).load()
    keep = tables_storage(storage)
    rows = 0
    batches = 0

    def write(batch: Any, number: int) -> None:
        nonlocal rows, batches
        rows += keep.append(batch, target / "data", number)
        batches += 1

    query = (
        frame.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(target / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        while not query.awaitTermination(0.2):
            _tell(query.lastProgress, progress)
    finally:
        query.stop()
    _tell(query.lastProgress, progress)
    return Copied(str(target), rows, batches, reached(query.lastProgress))


def follow_topics(
    spark: SparkSession, options: dict[str, str], target: Path, *, trigger: str, storage: str = "parquet"
) -> Any:
    """A stream that copies what there is and what comes, until it is stopped."""
    frame = spark.readStream.format("epoka").options(**{"startingOffsets": "earliest", **options}).load()
    keep = tables_storage(storage)

    def write(batch: Any, number: int) -> None:
        keep.append(batch, target / "data", number)

    return (
        frame.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(target / "checkpoint"))
        .trigger(processingTime=trigger)
        .start()
    )


def reached(told: Any) -> dict[str, dict[str, int]]:
    """How far a query is in each partition, by its last progress."""
    if not told:
        return {}
    return _offsets(told["sources"][0]["endOffset"])


def _offsets(text: Any) -> dict[str, dict[str, int]]:
    found = msgspec.json.decode(text) if isinstance(text, str) else text or {}
    return {topic: dict(parts) for topic, parts in found.items() if not topic.startswith("@")}


def _tell(told: Any, progress: Callable[[int, int], None]) -> None:
    if told:
        done = sum(offset for parts in reached(told).values() for offset in parts.values())
        latest = _offsets(told["sources"][0].get("latestOffset"))
        progress(done, max(done, sum(offset for parts in latest.values() for offset in parts.values())))

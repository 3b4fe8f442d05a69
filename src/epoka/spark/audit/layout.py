"""Silver as the fast path wants it: every partition's events whole in one file, in order.

Tasks get names of files and scan them where they are; no row goes from Java to Python. It pays when several
checks run over one history, since making the layout costs as much as a few plain queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epoka.spark.audit.ledger import ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION = ("run", "topic", "partition")


def write_sorted(events: DataFrame, target: Path, *, files: int) -> None:
    """Write events so that each partition is whole in one of the files, and in order."""
    order = [name for name in (*PARTITION, *ORDER) if name in events.columns]
    (
        events.repartition(files, *PARTITION)
        .sortWithinPartitions(*order)
        .write.mode("overwrite")
        .parquet(str(target))
    )


def over_files(spark: SparkSession, layout: Path, step: Callable[[Path], Any], schema: str) -> DataFrame:
    """The rows that `step` finds in each file, as an Arrow table."""
    files = sorted(str(each) for each in layout.glob("*.parquet"))
    names = spark.createDataFrame([(each,) for each in files], "file string").repartition(max(len(files), 1))

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for name in batch.column("file").to_pylist():
                yield from step(Path(name)).to_batches()

    return names.mapInArrow(work, schema)


def count_breaks(spark: SparkSession, layout: Path) -> tuple[int, int]:
    """How often a leader epoch fell, and the sum of the epochs it fell to."""
    found = over_files(spark, layout, _breaks_in, "breaks bigint, epochs bigint")
    (row,) = found.groupBy().sum("breaks", "epochs").collect()
    return int(row[0] or 0), int(row[1] or 0)


def _breaks_in(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(
        path, columns=[*PARTITION, "leader_epoch"], use_threads=False, read_dictionary=["run", "topic"]
    ).unify_dictionaries()
    epochs = table.column("leader_epoch").to_numpy()
    fell = np.zeros(len(epochs), bool)
    fell[1:] = epochs[1:] < epochs[:-1]
    for name in PARTITION:
        column = table.column(name).combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.indices
        numbers = column.to_numpy(zero_copy_only=False)
        fell[1:] &= numbers[1:] == numbers[:-1]
    return pa.table({"breaks": [int(fell.sum())], "epochs": [int(epochs[fell].sum())]})

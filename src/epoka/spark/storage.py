"""Tables in folders, each batch in them exactly once: as Parquet, or on request as Delta.

Parquet: a batch is a folder under its number, written over when the batch comes again. Delta: Spark's tasks
write the files, and one commit makes them part of the table together with the batch's number; a batch whose
number is in the log already is left as it is. A table is read by what its folder holds, so readers need not
be told.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "delta")
DELTA_LOG = "_delta_log"


class BadFormat(Exception):
    """No such table can be written; the text says why."""


class Storage(Protocol):
    def has(self, table: Path, number: int) -> bool:
        """Whether a batch is part of the table and will not change any more."""

    def append(self, frame: DataFrame, table: Path, number: int) -> int:
        """Make a batch part of a table, once however often it comes; how many rows were written."""

    def replace(self, frame: DataFrame, table: Path) -> None:
        """Let a table hold these rows and no others."""


def storage(name: str) -> Storage:
    """The storage of one of the FORMATS."""
    if name == "parquet":
        return ParquetStorage()
    if name == "delta":
        try:
            import deltalake  # noqa: F401
        except ImportError as error:
            raise BadFormat("Delta tables need `pip install deltalake`") from error
        return DeltaStorage()
    raise BadFormat(f"a table is {' or '.join(FORMATS)}, not {name!r}")


def read(spark: SparkSession, table: Path, schema: str | None = None, before: int | None = None) -> DataFrame:
    """A table; with `before`, without the batch of that number and later ones.

    Without a schema the table must exist; with one it may not.
    """
    files = _files(table, before)
    reader = spark.read if schema is None else spark.read.schema(schema)
    if not files:
        if schema is None:
            raise FileNotFoundError(f"there is no table in {table}")
        return spark.createDataFrame([], schema)
    return reader.parquet(*files)


def read_arrow(table: Path, columns: list[str] | None = None) -> Any:
    """A small table, without Spark."""
    import pyarrow.parquet as pq

    if (table / DELTA_LOG).is_dir():
        from deltalake import DeltaTable

        return DeltaTable(table).to_pyarrow_table(columns=columns)
    return pq.read_table(table, columns=columns)


def _files(table: Path, before: int | None) -> list[str]:
    if (table / DELTA_LOG).is_dir():
        from deltalake import DeltaTable

        return sorted(DeltaTable(table).file_uris())
    parts = {each: each.name.removeprefix("batch_id=") for each in table.glob("batch_id=*")}
    if not parts:
        return [str(table)] if (table / "_SUCCESS").exists() else []
    chosen = [
        each
        for each, number in parts.items()
        if before is None or not number.isdigit() or int(number) < before
    ]
    return sorted(map(str, chosen))


class ParquetStorage:
    def has(self, table: Path, number: int) -> bool:
        # What was written last may be half of a batch: it is written again rather than believed.
        return False

    def append(self, frame: DataFrame, table: Path, number: int) -> int:
        if (table / DELTA_LOG).is_dir():
            raise BadFormat(f"{table} is a Delta table; go on with it as such, or write elsewhere")
        part = table / f"batch_id={number}"
        frame.write.mode("overwrite").parquet(str(part))
        return sum(map(_rows, part.glob("*.parquet")))

    def replace(self, frame: DataFrame, table: Path) -> None:
        # Spark writes over what it finds, a log of Delta's included.
        frame.write.mode("overwrite").parquet(str(table))


class DeltaStorage:
    def has(self, table: Path, number: int) -> bool:
        from deltalake import DeltaTable

        if not (table / DELTA_LOG).is_dir():
            return False
        last = DeltaTable(table).transaction_version(table.name)
        return last is not None and last >= number

    def append(self, frame: DataFrame, table: Path, number: int) -> int:
        from deltalake import Transaction

        if self.has(table, number):
            return 0
        if any(table.glob("batch_id=*")):
            raise BadFormat(f"{table} is a Parquet table; go on with it as such, or write elsewhere")
        return self._commit(frame, table, "append", [Transaction(table.name, number)])

    def replace(self, frame: DataFrame, table: Path) -> None:
        if table.exists() and not (table / DELTA_LOG).is_dir():
            shutil.rmtree(table)
        self._commit(frame, table, "overwrite", [])

    def _commit(self, frame: DataFrame, table: Path, mode: Any, transactions: list[Any]) -> int:
        import pyarrow.parquet as pq
        from deltalake import CommitProperties, DeltaTable, Schema
        from deltalake.transaction import AddAction, create_table_with_add_actions

        # Files that no commit names are not part of the table, whatever became of the job that wrote them.
        folder = f"part-{uuid.uuid4()}"
        frame.write.parquet(str(table / folder))
        files = sorted((table / folder).glob("*.parquet"))
        schema = Schema.from_arrow(pq.read_schema(files[0]))
        rows = [_rows(each) for each in files]
        added: list[Any] = [
            AddAction(
                path=f"{folder}/{each.name}",
                size=each.stat().st_size,
                partition_values={},
                modification_time=int(each.stat().st_mtime * 1000),
                data_change=True,
                stats=f'{{"numRecords": {count}}}',
            )
            for each, count in zip(files, rows)
        ]
        properties = CommitProperties(app_transactions=transactions)
        if (table / DELTA_LOG).is_dir():
            DeltaTable(table).create_write_transaction(
                added, mode=mode, schema=schema, partition_by=[], commit_properties=properties
            )
        else:
            create_table_with_add_actions(
                str(table), schema, added, mode="error", partition_by=[], commit_properties=properties
            )
        return sum(rows)


def _rows(file: Path) -> int:
    import pyarrow.parquet as pq

    count: int = pq.read_metadata(file).num_rows
    return count

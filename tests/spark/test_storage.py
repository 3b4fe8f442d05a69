"""Tables hold every batch once, however often it comes, as Parquet and as Delta."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epoka.spark import storage
from epoka.spark.storage import BadFormat, read, read_arrow


def frame(spark: Any, *numbers: int) -> Any:
    return spark.createDataFrame([(n, [n, n + 1]) for n in numbers], "n bigint, pair array<int>").coalesce(1)


def numbers(table: Path) -> list[int]:
    return sorted(row["n"] for row in read_arrow(table).to_pylist())


@pytest.mark.parametrize("kind", storage.FORMATS)
def test_a_batch_that_comes_again_is_there_once(spark: Any, tmp_path: Path, kind: str) -> None:
    keep, table = storage.storage(kind), tmp_path / "table"
    assert keep.append(frame(spark, 1, 2), table, 0) == 2
    assert keep.append(frame(spark, 3), table, 1) == 1
    keep.append(frame(spark, 3), table, 1)
    keep.append(frame(spark, 1, 2), table, 0)
    assert sorted(row.n for row in read(spark, table).collect()) == [1, 2, 3]
    assert numbers(table) == [1, 2, 3]
    other = tmp_path / "other"
    keep.replace(frame(spark, 1, 2), other)
    keep.replace(frame(spark, 5), other)
    assert read_arrow(other).select(["n", "pair"]).to_pylist() == [{"n": 5, "pair": [5, 6]}]
    assert [tuple(row) for row in read(spark, other).collect()] == [(5, [5, 6])]


def test_files_that_no_commit_names_are_not_in_a_delta_table(spark: Any, tmp_path: Path) -> None:
    keep, table = storage.storage("delta"), tmp_path / "table"
    keep.append(frame(spark, 1), table, 0)
    frame(spark, 7).write.parquet(str(table / "part-of-a-driver-that-died"))
    assert numbers(table) == [1]
    assert read(spark, table).count() == 1
    from deltalake import DeltaTable

    assert DeltaTable(table).transaction_version("table") == 0


def test_what_was_not_finished_is_not_read_before_its_batch(spark: Any, tmp_path: Path) -> None:
    keep, table = storage.storage("parquet"), tmp_path / "table"
    for number in range(3):
        keep.append(frame(spark, number), table, number)
    assert sorted(row.n for row in read(spark, table, before=2).collect()) == [0, 1]
    assert read(spark, tmp_path / "nowhere", "n bigint").count() == 0
    with pytest.raises(FileNotFoundError, match="there is no table in"):
        read(spark, tmp_path / "nowhere")


def test_a_table_stays_what_it_was_begun_as(spark: Any, tmp_path: Path) -> None:
    storage.storage("parquet").append(frame(spark, 1), tmp_path / "parquet", 0)
    storage.storage("delta").append(frame(spark, 1), tmp_path / "delta", 0)
    with pytest.raises(BadFormat, match="is a Parquet table"):
        storage.storage("delta").append(frame(spark, 2), tmp_path / "parquet", 1)
    with pytest.raises(BadFormat, match="is a Delta table"):
        storage.storage("parquet").append(frame(spark, 2), tmp_path / "delta", 1)
    with pytest.raises(BadFormat, match="a table is parquet or delta, not 'orc'"):
        storage.storage("orc")

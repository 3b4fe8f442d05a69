"""What `test_kills` has another process do: copy a topic into a table, and stand still where it is to die."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from epoka.spark.session import build_session
from tests.spark.children import cluster_conf


def main(master: str, bootstrap: str, topic: str, folder: str, stop_at: str) -> None:
    local = master.startswith("local[")
    spark = build_session(
        "test" if local else "cluster", master=master, conf=None if local else cluster_conf()
    )
    home = Path(folder)
    killed = home / "executor-killed"

    def reach(step: str) -> None:
        if step == stop_at:
            (home / step).touch()
            threading.Event().wait()

    def without_an_executor(batches: Iterator[Any]) -> Iterator[Any]:
        """The first task that comes here takes its executor with it."""
        import psutil

        try:
            os.close(os.open(killed, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            yield from batches
            return
        executor = next(each for each in psutil.Process().parents() if "java" in each.name())
        executor.send_signal(signal.SIGKILL)
        yield from batches

    def write(batch: Any, number: int) -> None:
        reach(f"planned-{number}")
        rows = batch.selectExpr("partition", "offset", "cast(value as string) value")
        if not local:
            rows = rows.mapInArrow(without_an_executor, rows.schema)
        rows.write.mode("overwrite").parquet(str(home / "table" / f"batch_id={number}"))
        reach(f"written-{number}")

    stream = spark.readStream.format("epoka").options(
        **{"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    )
    query = (
        stream.load().writeStream.foreachBatch(write).option("checkpointLocation", str(home / "checkpoint"))
    )
    if stop_at == "end":
        query = query.trigger(availableNow=True)
    query.start().awaitTermination()
    reach("end")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A worker, a broker, the driver or an executor dies in the middle of a batch: every row is there once."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from epoka.cluster.cluster import Cluster
from tests.client.topics import Topics
from tests.spark.children import child
from tests.spark.test_spark_streams import streaming, table
from tests.waiting import wait_until


def copying(frame: Any, folder: Path, before: Callable[[], None]) -> Any:
    """A query into a table that does something once, when its second batch is planned and not yet read."""
    flag = folder / "done"

    def write(batch: Any, number: int) -> None:
        if number == 1 and not flag.exists():
            flag.touch()
            before()
        rows = batch.selectExpr("partition", "offset", "cast(value as string) value")
        rows.write.mode("overwrite").parquet(str(folder / "table" / f"batch_id={number}"))

    query = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    return query.trigger(availableNow=True)


def ended(query: Any) -> Any:
    """The query when it has ended; once more where Spark did not wait long enough for a process to start."""
    while True:
        started = query.start()
        wait_until(lambda: not started.isActive, "the query to end", within_s=100)  # noqa: B023
        if "failed to connect back" not in str(started.exception()):
            return started


def leader_of(cluster: Cluster, topic: str) -> int:
    state = cluster.image().partition(topic, 0)
    assert state is not None
    return state.leader


def readers(spark: Any, port: int) -> list[psutil.Process]:
    """The processes in which Python tasks of this session talk to a broker."""
    java = psutil.Process(spark.sparkContext._gateway.proc.pid)
    found = []
    for each in java.children(recursive=True):
        # Workers come and go while one looks.
        with contextlib.suppress(psutil.Error):
            parent = each.parent()
            if parent is None or "epoka.spark.daemon" not in parent.cmdline():
                continue
            if any(link.raddr and link.raddr.port == port for link in each.net_connections()):
                found.append(each)
    return found


def test_a_python_worker_that_is_killed_while_it_reads_loses_and_doubles_nothing(
    spark: Any, spark_cluster: Cluster, topics: Topics, tmp_path: Path
) -> None:
    name = topics.create(replicas=1)
    topics.fill(name, [f"{n:03d}" for n in range(60)])
    leader = leader_of(spark_cluster, name)
    port = spark_cluster.layout.place(leader).client_port
    killed: list[int] = []
    threads: list[threading.Thread] = []

    def kill_the_reader() -> None:
        try:
            found = wait_until(lambda: readers(spark, port), "a worker that waits for the broker")
            for each in found:
                each.send_signal(signal.SIGKILL)
                killed.append(each.pid)
        finally:
            spark_cluster.resume(leader)

    def stand_still() -> None:
        # The leader says nothing, so the reader is caught in the middle of its batch.
        spark_cluster.pause(leader)
        threads.append(threading.Thread(target=kill_the_reader))
        threads[0].start()

    frame = streaming(
        spark, spark_cluster, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="20"
    )
    query = copying(frame, tmp_path, stand_still)
    started = ended(query)
    threads[0].join()
    assert killed
    assert started.exception() is not None, "a local master tries a task once"
    assert ended(query).exception() is None
    assert table(spark, tmp_path) == [f"{n:03d}" for n in range(60)]


def test_a_broker_that_is_killed_in_the_middle_of_a_batch_is_ridden_out(
    spark: Any, spark_cluster: Cluster, topics: Topics, tmp_path: Path
) -> None:
    name = topics.create(replicas=3)
    topics.fill(name, [f"{n:03d}" for n in range(60)], acks="all")
    threads: list[threading.Thread] = []

    def kill_the_leader() -> None:
        leader = leader_of(spark_cluster, name)
        spark_cluster.kill(leader)
        threads.append(threading.Thread(target=spark_cluster.start, args=(leader,)))
        threads[0].start()

    frame = streaming(
        spark, spark_cluster, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="20"
    )
    assert ended(copying(frame, tmp_path, kill_the_leader)).exception() is None
    threads[0].join()
    assert table(spark, tmp_path) == [f"{n:03d}" for n in range(60)]


@pytest.mark.timeout(900)
def test_a_driver_killed_twice_and_an_executor_killed_once_leave_every_row_once(
    spark: Any, spark_cluster: Cluster, topics: Topics, tmp_path: Path
) -> None:
    name = topics.create(2)
    topics.fill(name, ["before the query"] * 5)
    log = tmp_path / "child.log"

    def until(step: str, process: subprocess.Popen[bytes]) -> None:
        def reached() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            return (tmp_path / step).exists()

        wait_until(reached, step, within_s=280)

    def words(master: str, stop_at: str) -> tuple[str, ...]:
        return master, spark_cluster.bootstrap, name, str(tmp_path), stop_at

    # The first batch begins at `latest`, is planned, and never gets any further.
    with child("tests.spark.kills_job", log, *words("local[2]", "planned-0")) as process:
        until("planned-0", process)
        topics.fill(name, [f"a{n}" for n in range(50)])
        topics.fill(name, [f"b{n}" for n in range(50)], partition=1)
    # The second one is in the table and not in the checkpoint.
    with child("tests.spark.kills_job", log, *words("local[2]", "written-1")) as process:
        until("written-1", process)
        topics.fill(name, [f"c{n}" for n in range(50)])
    # Executors of their own, one of which dies in its first task.
    with child("tests.spark.kills_job", log, *words("local-cluster[2,1,1024]", "end")) as process:
        until("end", process)
    assert (tmp_path / "executor-killed").exists()
    assert table(spark, tmp_path) == sorted(f"{letter}{n}" for letter in "abc" for n in range(50))

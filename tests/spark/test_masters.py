"""The same rows whoever does the work: executors in processes of their own, and a standalone master with
workers."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epoka.cluster.cluster import Cluster
from epoka.spark.audit.run import audit_files
from epoka.spark.fleet.run import simulate
from tests.client.topics import Topics
from tests.spark import histories
from tests.spark.children import ROOT, environment
from tests.spark.masters_job import FLEET_SEEDS, digest
from tests.spark.test_audit import harmed
from tests.spark.test_audit_runs import rows
from tests.waiting import wait_until


@contextlib.contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A Spark master with two workers, from the pip package."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", "--port", str(port), "--webui-port", "0"]]
    for number in range(2):
        work = folder / f"worker-{number}"
        commands.append(
            [
                f"{deploy}.worker.Worker",
                master,
                "-c",
                "1",
                "-m",
                "1g",
                "-d",
                str(work),
                "--webui-port",
                "0",
            ]
        )
    running: list[subprocess.Popen[bytes]] = []
    log = folder / "spark.log"
    try:
        with log.open("wb") as out:
            for command in commands:
                words = [str(program), *command, "--host", "127.0.0.1"]
                running.append(subprocess.Popen(words, stdout=out, stderr=out, env=environment()))
            wait_until(lambda: log.read_text().count("Registering worker") >= 2, "two workers", within_s=90)
        yield master
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.wait(30)


@pytest.fixture(scope="module")
def audited(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, int]:
    """A ledger with harm done to it, its tables as made in this process, and the number of violations."""
    folder = tmp_path_factory.mktemp("audited")
    events = harmed(histories.sound(11).events, random.Random(11))
    ledger = histories.write(folder / "told.jsonl", events)
    return ledger, folder, sum(audit_files(spark, [ledger], folder).violations.values())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["local-cluster", "standalone"])
def test_other_masters_give_the_same_rows(
    spark: Any,
    spark_cluster: Cluster,
    topics: Topics,
    audited: tuple[Path, Path, int],
    tmp_path: Path,
    kind: str,
) -> None:
    ledger, tables, violations = audited
    source, target = topics.create(2), topics.create(3)
    for partition in range(2):
        keys = [b"%d" % number for number in range(500)]
        values = [b"v%d-%d" % (partition, number) for number in range(500)]
        topics.fill(source, values, partition=partition, keys=keys)
    frame = spark.read.format("epoka").option("kafka.bootstrap.servers", spark_cluster.bootstrap)
    expected = frame.option("subscribe", source).load()
    with contextlib.ExitStack() as stack:
        master = (
            "local-cluster[2,1,1024]"
            if kind == "local-cluster"
            else stack.enter_context(standalone(tmp_path))
        )
        job = [
            sys.executable,
            "-m",
            "tests.spark.masters_job",
            master,
            spark_cluster.bootstrap,
            source,
            target,
        ]
        told = subprocess.run(
            [*job, str(ledger), str(tmp_path / "made")],
            capture_output=True,
            text=True,
            timeout=580,
            env=environment(),
            cwd=ROOT,
        )
    assert told.returncode == 0, told.stderr[-3000:]
    found = json.loads(told.stdout.strip().splitlines()[-1])
    assert found["read"] == digest(expected)
    assert found["fleet"] == simulate(spark, {"seeds": FLEET_SEEDS, "seedsPerTask": "5"}).digest
    assert found["violations"] == violations > 0
    assert rows(tmp_path / "made") == rows(tables)
    assert found["written"] == [1000, expected.selectExpr("bit_xor(xxhash64(value))").collect()[0][0]]

"""Drivers of their own: processes that tests start, and end with everything that they have started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
BRIEFLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""Java's options for a process that lives a minute: a compiler that takes longer never pays."""


def cluster_conf() -> dict[str, str]:
    """For a driver whose executors are processes of their own, with this Python's modules."""
    return {
        "spark.executorEnv.PYTHONPATH": ":".join(filter(None, sys.path)),
        "spark.driver.extraJavaOptions": BRIEFLY,
        "spark.executor.extraJavaOptions": BRIEFLY,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }


def environment() -> dict[str, str]:
    """Without the variables of this process's own session, which are not for another one."""
    mine = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    kept = {name: value for name, value in os.environ.items() if name not in mine}
    return kept | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": BRIEFLY,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
    }


@contextlib.contextmanager
def child(module: str, log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A module run in a process of its own; at the end it is killed with everything it has started."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdout=out,
            stderr=out,
            env=environment(),
            cwd=ROOT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)

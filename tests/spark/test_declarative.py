"""The audit as a declarative pipeline, run as its page says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epoka.client.cluster import LATEST, ClusterClient
from epoka.client.settings import ClientSettings
from epoka.cluster.cluster import Cluster
from epoka.spark.audit import ledger, tables
from tests.spark import histories
from tests.spark.children import ROOT, environment
from tests.waiting import wait_until

EXAMPLE = ROOT / "examples" / "audit_pipeline"


def test_sql_makes_the_same_silver(spark: Any) -> None:
    values = [msgspec.json.encode(event).decode() for event in histories.sound(3).events]
    values += [values[5], "no event", '{"kind": "of tomorrow", "event_id": 7777, "colour": "red"}']
    bronze = spark.createDataFrame([("r", value) for value in values], "run string, value string")
    by_sql, by_workers = (make(bronze) for make in (ledger.silver_by_sql, ledger.silver_from_bronze))
    assert by_sql.columns == by_workers.columns
    found, wanted = (
        sorted(repr(row) for row in each.where(f"kind != '{ledger.UNREADABLE}'").collect())
        for each in (by_sql, by_workers)
    )
    assert found == wanted and len(found) == len(values) - 2
    # What cannot be read is kept as it came; the workers say beside it why.
    (unread,), (explained,) = (
        each.where(f"kind = '{ledger.UNREADABLE}'").collect() for each in (by_sql, by_workers)
    )
    assert unread.detail == "no event" and explained.detail.endswith(": no event")


def run(example: Path, bootstrap: str) -> None:
    told = subprocess.run(
        [str(Path(sys.executable).with_name("spark-pipelines")), "run", "--spec", "spark-pipeline.yml"],
        capture_output=True,
        text=True,
        timeout=540,
        cwd=example,
        env=environment()
        | {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(example),
            "EPOKA_BOOTSTRAP": bootstrap,
        },
        check=False,
    )
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-4000:]


@pytest.mark.timeout(600)
def test_the_pipeline_makes_every_table_of_a_live_cluster(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="the extra `pipelines` is not installed")
    example = tmp_path / "audit"
    shutil.copytree(EXAMPLE, example)
    for name in ("spark-pipeline.yml", "spark-defaults.conf"):
        text = (example / name).read_text()
        assert "/tmp/epoka-audit/" in text
        (example / name).write_text(text.replace("/tmp/epoka-audit/", f"{tmp_path}/"))

    def rows(name: str) -> list[Any]:
        return list(spark.read.parquet(str(tmp_path / "warehouse" / name)).collect())

    with Cluster(brokers=3) as cluster:
        wait_until(lambda: cluster.image().topic(ledger.TOPIC) is not None, "the ledger's topic")
        with ClusterClient(ClientSettings(bootstrap=(_address(cluster),))) as client:
            place = ledger.TOPIC, 0
            before = client.offsets({place: LATEST})[place].offset
            old, new = cluster.bounce(1, "fast")
            # At least the registration and the end of the fence.
            wait_until(
                lambda: client.offsets({place: LATEST})[place].offset >= before + 2, "the bounce in the topic"
            )
        run(example, cluster.bootstrap)

    assert {old, new} <= {row.generation for row in rows("generations") if row.broker == 1}
    assert rows("violations") == []
    bronze = rows("bronze")
    assert len(rows("silver")) == len({(row.origin, row.position) for row in bronze}) == len(bronze)
    for name in tables.NAMES:
        rows(name)


def _address(cluster: Cluster) -> tuple[str, int]:
    host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
    return host, int(port)

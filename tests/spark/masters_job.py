"""What `test_masters` has another process do on another Spark master: read, write, stream, simulate, audit;
tells digests as JSON and leaves the audit's tables in its folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import functions as F

from epoka.spark.audit.run import audit_files
from epoka.spark.fleet.run import simulate
from epoka.spark.session import build_session
from tests.spark.children import cluster_conf

FLEET_SEEDS = "0:12"


def digest(frame: object) -> list[object]:
    columns = ("topic", "partition", "offset", "value", "key")
    (row,) = frame.agg(F.count("*"), F.expr(f"bit_xor(xxhash64({', '.join(columns)}))")).collect()  # type: ignore[attr-defined]
    return [row[0], row[1]]


def main(master: str, bootstrap: str, source: str, target: str, ledger: str, folder: str) -> None:
    spark = build_session("cluster", master=master, conf=cluster_conf())
    at = {"kafka.bootstrap.servers": bootstrap}
    frame = spark.read.format("epoka").options(**at, subscribe=source, minPartitions="4").load()
    told = {"read": digest(frame)}
    stream = (
        spark.readStream.format("epoka").options(**at, subscribe=source, startingOffsets="earliest").load()
    )
    query = stream.select("key", "value").writeStream.format("epoka").options(**at, topic=target)
    started = query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    started.awaitTermination()
    written = spark.read.format("epoka").options(**at, subscribe=target).load()
    told["written"] = [written.count(), written.selectExpr("bit_xor(xxhash64(value))").collect()[0][0]]
    told["fleet"] = simulate(spark, {"seeds": FLEET_SEEDS}).digest
    told["violations"] = sum(audit_files(spark, [Path(ledger)], Path(folder)).violations.values())
    told["executors"] = spark.range(8, numPartitions=8).selectExpr("count(*)").collect()[0][0]
    print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

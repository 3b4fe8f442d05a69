"""Spark's own Kafka connector reads a topic of ours, and sees the same rows as `format("epoka")`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from epoka.cluster.cluster import Cluster
from tests.client.topics import Topics
from tests.spark.children import child
from tests.spark.maven import Unreachable, connector_jars

START_MS = 1_600_000_000_000


@pytest.mark.timeout(300)
def test_the_connector_and_we_give_the_same_rows(
    spark: Any, spark_cluster: Cluster, topics: Topics, tmp_path: Path
) -> None:
    try:
        jars = connector_jars(spark.version)
    except Unreachable as error:
        pytest.skip(f"Maven Central is not reachable from here: {error}")
    name = topics.create(3, replicas=3)
    for at, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        topics.fill(
            name,
            [None if n % 7 == 0 else f"{codec}-{n}" * 5 for n in range(40)],
            partition=at % 3,
            keys=[None if n % 5 == 0 else b"%d" % n for n in range(40)],
            timestamps=[START_MS + 1000 * (40 * at + n) for n in range(40)],
            headers=[("codec", codec.encode()), ("nothing", None)] if at % 2 else [],
            compression_type=codec,
        )
    topics.delete_before(name, 0, 5)
    reads = {
        "everything": {"subscribe": name, "includeHeaders": "true"},
        "some": {
            "assign": json.dumps({name: [0, 1]}),
            "startingOffsets": json.dumps({name: {"0": 10, "1": -2}}),
            "endingOffsets": json.dumps({name: {"0": 30, "1": -1}}),
            "minPartitions": "5",
        },
        "late": {"subscribe": name, "startingTimestamp": str(START_MS + 1000 * 60)},
    }
    words = [",".join(map(str, jars)), spark_cluster.bootstrap, str(tmp_path), json.dumps(reads)]
    with child("tests.spark.connector_job", tmp_path / "child.log", *words) as process:
        failed = process.wait(200)
    told = (tmp_path / "child.log").read_text()
    unlinked = re.search(r"java\.lang\.(NoSuch\w+|NoClassDefFound|AbstractMethod)Error: .*", told)
    if failed and unlinked:
        pytest.skip(f"{jars[0].name} is not made for Spark {spark.version}: {unlinked.group()}")
    assert not failed, told[-3000:]
    for read, options in reads.items():
        theirs = spark.read.parquet(str(tmp_path / read))
        reader = spark.read.format("epoka").option("kafka.bootstrap.servers", spark_cluster.bootstrap)
        ours = reader.options(**options).load()
        assert ours.schema == theirs.schema, read
        place = ("topic", "partition", "offset")
        found, expected = ours.orderBy(*place).collect(), theirs.orderBy(*place).collect()
        assert found == expected, read
        assert expected

"""What `test_kafka_connector` has another process do: read a topic by Spark's own Kafka connector."""

from __future__ import annotations

import json
import sys

from epoka.spark.session import build_session


def main(jars: str, bootstrap: str, folder: str, reads: str) -> None:
    spark = build_session("test", conf={"spark.jars": jars})
    for name, options in json.loads(reads).items():
        frame = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": bootstrap, **options}).load()
        frame.write.parquet(f"{folder}/{name}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

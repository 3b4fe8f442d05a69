"""Reads without Spark: the same planner and the same tasks, driven by hand."""

from __future__ import annotations

from typing import Any

from epoka.cluster.cluster import Cluster
from epoka.spark.options import read_options
from epoka.spark.source import RangePartition, TopicReader, read_range


def options_for(cluster: Cluster, **options: str) -> dict[str, str]:
    """Options with the cluster's address; a name's dots are written as two underscores."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap} | named


def plan(cluster: Cluster, **options: str) -> list[tuple[str, int, int]]:
    """The tasks of a batch read: partition, first offset, end."""
    reader = TopicReader(read_options(options_for(cluster, **options), streaming=False))
    return [
        (f"{each.wanted.topic}-{each.wanted.partition}", each.wanted.first, each.wanted.end)
        for each in reader.partitions()
        if isinstance(each, RangePartition)
    ]


def rows(cluster: Cluster, **options: str) -> list[dict[str, Any]]:
    """Every row of a batch read, in the order of its tasks."""
    chosen = read_options(options_for(cluster, **options), streaming=False)
    reader = TopicReader(chosen)
    found: list[dict[str, Any]] = []
    for task in reader.partitions():
        for batch in read_range(chosen, task):
            found += batch.to_pylist()
    return found

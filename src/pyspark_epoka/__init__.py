"""Where Spark looks for data sources: every package called `pyspark_*` with a `DefaultSource`."""

from epoka.spark.source import EpokaSource as DefaultSource

__all__ = ["DefaultSource"]

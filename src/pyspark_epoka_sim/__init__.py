"""Where Spark looks for `format("epoka-sim")`: it takes one source from each package called `pyspark_*`."""

from epoka.spark.fleet.source import SimulationSource as DefaultSource

__all__ = ["DefaultSource"]

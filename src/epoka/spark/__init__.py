"""The data pipeline on Spark: topics as tables and streams, the audit of a cluster's history, fleets.

    spark = epoka.spark.build_session("local")
    spark.read.format("epoka").option("kafka.bootstrap.servers", ...).option("subscribe", "orders").load()

Spark finds the formats by itself through the packages `pyspark_epoka` and `pyspark_epoka_sim`; `register` is
for sessions that do not.
Nothing here is imported before it is needed: the planner's worker processes import this package for every
query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epoka.spark.session import build_session as build_session

__all__ = ["build_session", "register"]


def register(spark: Any) -> None:
    """Make `format("epoka")` and `format("epoka-sim")` known to a session that did not find them itself."""
    from epoka.spark.fleet.source import SimulationSource
    from epoka.spark.source import EpokaSource

    spark.dataSource.register(EpokaSource)
    spark.dataSource.register(SimulationSource)


def __getattr__(name: str) -> Any:
    if name == "build_session":
        from epoka.spark.session import build_session

        return build_session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

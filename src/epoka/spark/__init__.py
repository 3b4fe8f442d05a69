"""The data pipeline on Spark: topics as tables and streams, the audit of a cluster's history.

    spark = epoka.spark.build_session("local")
    spark.read.format("epoka").option("kafka.bootstrap.servers", ...).option("subscribe", "orders").load()

Spark finds the format by itself through the package `pyspark_epoka`; `register` is for sessions that do not.
Nothing here is imported before it is needed: the planner's worker processes import this package for every
query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epoka.spark.session import build_session as build_session

__all__ = ["build_session", "register"]


def register(spark: Any) -> None:
    """Make `format("epoka")` known to a session that did not find it by itself."""
    from epoka.spark.source import EpokaSource

    spark.dataSource.register(EpokaSource)


def __getattr__(name: str) -> Any:
    if name == "build_session":
        from epoka.spark.session import build_session

        return build_session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""A real cluster in a pytest fixture, to be bounced, paused and cut apart under the application that is
tested.

    def test_orders_survive_a_bounce(epoka_cluster):
        topic = epoka_cluster.topic("orders", partitions=3)
        producer = epoka_cluster.producer({"acks": "all"})
        ...
        epoka_cluster.bounce(epoka_cluster.leader(topic), how="unclean")

pytest finds the plugin by itself. This module is imported by every run of pytest in the environment, so it
imports nothing; `TestedCluster` is what the fixture gives.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from epoka.testing.tested_cluster import TestedCluster as TestedCluster

__all__ = ["TestedCluster"]


def __getattr__(name: str) -> Any:
    if name == "TestedCluster":
        from epoka.testing.tested_cluster import TestedCluster

        return TestedCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

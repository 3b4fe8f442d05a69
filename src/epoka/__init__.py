"""Epoka: a Kafka-compatible log cluster that no stale broker can fool."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from epoka.cluster.cluster import Cluster as Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> Any:
    # A command that only prints its help must not pay for a whole cluster.
    if name == "Cluster":
        from epoka.cluster.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The figures of zookeeper mode: one update for every broker, and the heartbeats of a thousand."""

from __future__ import annotations

from benchmarks import many_heartbeats, shared_update
from benchmarks.figures import Figure


def run() -> list[Figure]:
    return [*shared_update.run(), *many_heartbeats.run()]

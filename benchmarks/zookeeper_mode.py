"""The figures of zookeeper mode: one update for every broker, a thousand heartbeats, failover and bounces."""

from __future__ import annotations

import sys

from benchmarks import many_heartbeats, shared_update
from benchmarks.figures import Figure
from tests.zookeeper_missing import MISSING


def run() -> list[Figure]:
    return [*shared_update.run(), *many_heartbeats.run(), *_on_an_ensemble()]


def _on_an_ensemble() -> list[Figure]:
    if MISSING is not None:
        print(f"not measured: failover and bounces. {MISSING}", file=sys.stderr)
        return []
    from benchmarks import zookeeper_failover

    return zookeeper_failover.run()

"""What tests that need a real ZooKeeper lack on this machine, if anything."""

from __future__ import annotations

import importlib.util

from epoka.coordination.zookeeper.server import ZooKeeperUnavailable, find_jars, find_java


def missing() -> str | None:
    """In a line; None when ZooKeeper can be run."""
    if importlib.util.find_spec("kazoo") is None:
        return "kazoo is missing: pip install 'epoka[zookeeper]'"
    try:
        find_java()
        find_jars()
    except ZooKeeperUnavailable as unavailable:
        return str(unavailable)
    return None


MISSING = missing()

"""What can go wrong with a whole cluster. Every text is one that a person can act on.

ClusterError
  NodeFailed      a node ended, or did not do in time what it was told to; carries its log's last lines
  PortTaken       a port that was asked for belongs to somebody else
  BadCluster      the cluster was asked for, or its data directory holds, something that cannot be
"""

from __future__ import annotations


class ClusterError(Exception):
    """A cluster could not do what it was asked to."""


class BadCluster(ClusterError):
    """No such cluster can be: a bad number of brokers, a bad key, a folder that belongs to something else."""


class PortTaken(ClusterError):
    """A port that was asked for is in use."""


class NodeFailed(ClusterError):
    """A node of the cluster has failed."""

    def __init__(self, what: str, log_tail: str = "") -> None:
        self.what = what
        self.log_tail = log_tail
        super().__init__(f"{what}; the end of its log:\n{log_tail}" if log_tail else what)

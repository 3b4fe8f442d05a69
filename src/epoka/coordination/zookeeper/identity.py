"""The cluster's id: whoever comes first sets it, and nobody changes it."""

from __future__ import annotations

from epoka.coordination.zookeeper import paths
from epoka.coordination.zookeeper.operations import NODE_EXISTS, Refused
from epoka.coordination.zookeeper.session import Interrupted, Session, ZooKeeperError
from epoka.coordination.zookeeper.znodes import BadZnode, decode_cluster_id, encode_cluster_id


def settle_cluster_id(session: Session, proposed: str) -> str:
    """The id of the cluster in this ensemble; the proposed one if it had none."""
    while (node := session.get(paths.CLUSTER_ID)) is None:
        try:
            session.create(paths.CLUSTER_ID, encode_cluster_id(proposed))
        except Interrupted:
            continue
        except Refused as refused:
            if refused.reason != NODE_EXISTS:
                raise ZooKeeperError(str(refused)) from refused
    try:
        return decode_cluster_id(paths.CLUSTER_ID, node.data)
    except BadZnode as bad:
        raise ZooKeeperError(f"the cluster's id is unknown: {bad}") from bad

"""ISR changes below level `heartbeats`: the leader itself writes them, and tells the controller.

The write depends on the version of the partition's node that the leader knows from its last LeaderAndIsr
or its own last write, and on the gate, which the controller closes while it changes partitions in more
than one step. From `heartbeats` on nobody calls this: leaders ask the controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from epoka.coordination.zookeeper import paths
from epoka.coordination.zookeeper.operations import Check, Create, Operation, Refused, SetData
from epoka.coordination.zookeeper.session import Interrupted, Session
from epoka.coordination.zookeeper.znodes import StateZnode, encode_isr_change, encode_state

GATE_OPEN: Final = b"open"
GATE_CLOSED: Final = b"closed"


class Written(msgspec.Struct, frozen=True):
    zk_version: int
    """What the next write of this leader must expect."""


class Moved(msgspec.Struct, frozen=True):
    """The controller was faster, or the partition is gone: wait for the next LeaderAndIsr."""

    reason: str


class Later(msgspec.Struct, frozen=True):
    """Nothing was written because the controller is about to write much: try again in a moment."""

    reason: str


def write_isr(
    session: Session,
    topic: str,
    partition: int,
    expected_zk_version: int,
    *,
    leader: int,
    leader_epoch: int,
    isr: Sequence[int],
    controller_epoch: int,
    recovery: int = 0,
) -> Written | Moved | Later:
    """Set the ISR if nobody has changed the partition, and leave a note for the controller, in one step.

    `Interrupted` when ZooKeeper does not answer for a whole session: whether it was written is open then.
    """
    gate = session.get(paths.ISR_GATE)
    if gate is None or gate.data != GATE_OPEN:
        return Later("the controller writes many partitions" if gate else "no controller was ever elected")
    path = paths.state(topic, partition)
    data = encode_state(StateZnode(leader, leader_epoch, tuple(isr), controller_epoch, recovery))
    note = encode_isr_change([(topic, partition)])
    step: list[Operation] = [
        Check(paths.ISR_GATE, gate.stat.version),
        SetData(path, data, expected_zk_version),
        Create(f"{paths.ISR_CHANGES}/isr_change_", note, sequence=True),
    ]
    while True:
        refused: Refused | None = None
        try:
            session.multi(step)
            return Written(expected_zk_version + 1)
        except Refused as refusal:
            refused = refusal
        except Interrupted:
            session.sync(path)
        # A step that was cut off may have been carried out: then the node says what we wrote.
        node = session.get(path)
        if node is not None and (node.stat.version, node.data) == (expected_zk_version + 1, data):
            return Written(expected_zk_version + 1)
        if refused is not None:
            return Later(str(refused)) if refused.operation.path == paths.ISR_GATE else Moved(str(refused))

"""The ledger's event schema: what nodes and the simulator write down, and what people and Spark read.

One flat row for every verdict and every change of state. Unknown fields of newer versions are kept by
readers; nothing here decides anything.
"""

from __future__ import annotations

import msgspec


class LedgerEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that happened. Fields that do not apply keep their default and are not written."""

    kind: str
    """What happened: `verdict`, `registered`, `fenced`, `unfenced`, `stopping`, `isr`, `leader`, ..."""
    time_ms: int = -1
    node: int = -1
    """The node that writes the event down."""
    generation: int = -1
    """The generation of that node's life."""
    event_id: int = -1
    cause: int = -1
    """The `event_id` of the event that led to this one."""
    rule: str = ""
    verdict: str = ""
    """`accepted`, `refused` or `ignored`."""
    error: str = ""
    given: str = ""
    expected: str = ""
    broker: int = -1
    """The broker the event is about."""
    broker_epoch: int = -1
    topic: str = ""
    partition: int = -1
    leader: int = -1
    leader_epoch_before: int = -1
    leader_epoch: int = -1
    partition_epoch_before: int = -1
    partition_epoch: int = -1
    isr_before: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    detail: str = ""

"""Machines and the processes that live on them.

A machine keeps its disk, its clock and its address; a process is one life of a core on it. A process that is
paused takes in nothing and lets its alarms pass; what came meanwhile waits in its inbox, in order.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from epoka.log.store import MemoryStore
from epoka.model.events import Exit
from epoka.sim.clock import Clock

if TYPE_CHECKING:
    from epoka.sim.network import Call, Connection

DOUBLES = 50
"""Added to a broker's id: the address of another process that claims the same id."""


class Machine:
    """A place with a disk, whether anything runs there or not."""

    __slots__ = ("address", "clock", "node_id", "process", "silent", "slow_disk_ms", "store")

    def __init__(self, address: int, node_id: int) -> None:
        self.address = address
        self.node_id = node_id
        self.store = MemoryStore()
        self.clock = Clock()
        self.process: Process | None = None
        self.silent = False
        """Without power: whoever asks hears nothing at all, not even a refusal."""
        self.slow_disk_ms = 0
        """How long the process stands still after everything that writes."""


class Process:
    """One life of a core."""

    __slots__ = (
        "address",
        "alarm",
        "alive",
        "askers",
        "busy_until",
        "clock",
        "core",
        "exit",
        "inbox",
        "incoming",
        "is_broker",
        "life",
        "machine",
        "next_token",
        "node_id",
        "outgoing",
        "paused",
        "resumed_ms",
        "seen",
    )

    def __init__(self, machine: Machine, core: Any, life: int, *, is_broker: bool) -> None:
        self.machine = machine
        self.address = machine.address
        self.node_id = machine.node_id
        self.clock = machine.clock
        self.core = core
        self.life = life
        """A number that no other process has."""
        self.is_broker = is_broker
        self.alive = True
        self.paused = False
        self.resumed_ms = 0
        self.busy_until = 0
        self.exit: Exit | None = None
        self.inbox: deque[Any] = deque()
        self.next_token = 1
        self.askers: dict[int, Call] = {}
        """What the core has been asked and has not answered."""
        self.outgoing: dict[tuple[int, int], Connection] = {}
        self.incoming: dict[Connection, None] = {}
        self.alarm = 0
        """When the next wake-up is set, in the world's time; 0 for none."""
        self.seen: Any = None
        """What a checker remembers of this process."""

    def __repr__(self) -> str:
        kind = "broker" if self.is_broker else "controller"
        return f"{kind} {self.node_id} (life {self.life})"

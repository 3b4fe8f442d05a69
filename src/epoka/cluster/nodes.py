"""What a cluster asks of whatever runs its nodes; `processes.py` and `inprocess.py` are the two answers."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from epoka.cluster.faults import Faulty
from epoka.cluster.layout import NodePlace

RUNNING = "running"
PAUSED = "paused"
STOPPED = "stopped"
FAILED = "failed"

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
LOG_TAIL_LINES = 12


class Nodes(Protocol):
    """Starts and ends nodes and does to them what a test wants. Node ids are those of the layout."""

    def begin(self, place: NodePlace) -> None:
        """Let a node start, in its own time."""

    def wait_listening(self, node_id: int) -> None:
        """Until the node listens; NodeFailed when it ends or takes too long."""

    def ask_to_stop(self, node_id: int) -> None:
        """Ask for a controlled shutdown."""

    def wait_stopped(self, node_id: int, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Until the node has ended in order; NodeFailed when it failed instead or takes too long."""

    def kill(self, node_id: int) -> None:
        """End a node at once; it learns nothing of it. No effect on one that does not run."""

    def pause(self, node_id: int) -> None:
        """Stop a node's time. The world goes on around it."""

    def resume(self, node_id: int) -> None:
        """Let a paused node go on."""

    def state(self, node_id: int) -> str:
        """RUNNING, PAUSED, STOPPED (told to) or FAILED (by itself)."""

    def pid(self, node_id: int) -> int | None:
        """The process of a node that runs."""

    def check(self, node_id: int) -> None:
        """NodeFailed when the node has ended by itself."""

    def set_faults(self, faults: Faulty) -> None:
        """From now on the network has these faults, for nodes that start later too."""

    def held(self, hold_id: int) -> int:
        """How many messages a hold has stopped."""

    def flush_ledgers(self) -> None:
        """Have every node write down what it has reported."""

    def close(self) -> None:
        """End everything that still runs."""


def log_tail(path: Path) -> str:
    """The last lines of a node's log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16384))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])

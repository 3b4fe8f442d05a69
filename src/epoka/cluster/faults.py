"""The faults of a network between nodes: who is cut off from whom, and which messages are held back.

Stands at the gate of a switchboard. A cut is a delay without end, as it is for TCP: what is sent across it
stays where it is and goes on when the cut is healed, unless its sender has given up by then. Clients are not
affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from epoka.model.events import CONTROLLER
from epoka.wire import codec


class Hold(msgspec.Struct, frozen=True):
    """Messages to hold back: of one API (or its response), to one node or to any."""

    id: int
    api: str
    to: int | None = None
    let_go: int = 0
    """How many of what each node has held back, from the first one on, were let go."""

    def matches(self, receiver: int, name: str) -> bool:
        # An API's bare name means its requests; answers are named whole.
        return (self.to is None or self.to == receiver) and name in (self.api, f"{self.api}Request")


class Faulty(msgspec.Struct, frozen=True):
    """Every fault of one network, as a value that can be sent to a node."""

    cuts: tuple[tuple[int, int], ...] = ()
    """Pairs of nodes, smaller id first."""
    holds: tuple[Hold, ...] = ()


def pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


class FaultyGate:
    """A gate that lets through what no fault stops, in order, and remembers the rest."""

    def __init__(self, controller_id: int, faults: Faulty | None = None) -> None:
        self._controller_id = controller_id
        self.find_controller: Callable[[], int | None] = lambda: None
        """Who the controller is where that changes."""
        self.faults = faults or Faulty()
        self._stopped: list[tuple[int, int, str, Callable[[], None]]] = []
        self.held: dict[int, int] = {}
        """How many messages each hold has stopped so far."""
        self._let_go: dict[int, int] = {}

    def __call__(self, sender: int, receiver: int, message: Any, go: Callable[[], None]) -> None:
        sender, receiver = self._node(sender), self._node(receiver)
        name = codec.class_of(message).__name__
        if self._stops(sender, receiver, name, count=True):
            self._stopped.append((sender, receiver, name, go))
        else:
            go()

    def set(self, faults: Faulty) -> None:
        """Replace every fault; what nothing stops any more goes on."""
        self.faults = faults
        waiting, self._stopped = self._stopped, []
        freed = []
        may_go = {hold.id: hold.let_go - self._let_go.get(hold.id, 0) for hold in faults.holds}
        for sender, receiver, name, go in waiting:
            cut = pair(sender, receiver) in faults.cuts
            if cut or (
                self._stops(sender, receiver, name, count=False) and not self._frees(name, receiver, may_go)
            ):
                self._stopped.append((sender, receiver, name, go))
            else:
                freed.append(go)
        # What was not there to be let go now is not let go later.
        self._let_go = {hold.id: hold.let_go for hold in faults.holds}
        for go in freed:
            go()

    def _stops(self, sender: int, receiver: int, name: str, *, count: bool) -> bool:
        stopped = pair(sender, receiver) in self.faults.cuts
        for hold in self.faults.holds:
            if hold.matches(receiver, name):
                stopped = True
                if count:
                    self.held[hold.id] = self.held.get(hold.id, 0) + 1
        return stopped

    def _frees(self, name: str, receiver: int, may_go: dict[int, int]) -> bool:
        """Whether every hold that stops a message lets one more go."""
        holds = [hold.id for hold in self.faults.holds if hold.matches(receiver, name)]
        if not holds or any(may_go[each] <= 0 for each in holds):
            return False
        for each in holds:
            may_go[each] -= 1
        return True

    def _node(self, address: int) -> int:
        if address != CONTROLLER:
            return address
        found = self.find_controller()
        return self._controller_id if found is None else found


def with_cuts(faults: Faulty, node: int, others: Iterable[int]) -> Faulty:
    """The same faults and `node` cut off from `others`."""
    cuts = {*faults.cuts, *(pair(node, other) for other in others if other != node)}
    return Faulty(tuple(sorted(cuts)), faults.holds)


def with_hold(faults: Faulty, hold: Hold) -> Faulty:
    return Faulty(faults.cuts, (*faults.holds, hold))


def letting_go(faults: Faulty, hold_id: int, count: int) -> Faulty:
    """The same faults, and the first `count` that the hold has stopped at each node go on."""
    return Faulty(
        faults.cuts,
        tuple(
            msgspec.structs.replace(each, let_go=each.let_go + count) if each.id == hold_id else each
            for each in faults.holds
        ),
    )


def without_hold(faults: Faulty, hold_id: int) -> Faulty:
    return Faulty(faults.cuts, tuple(each for each in faults.holds if each.id != hold_id))

"""What a core has to do later: a heap of times and the calls that are due then.

A core reads no clock, so it says when it wants to be woken, and the runtime or the simulator does it. Calls
that are due at the same time run in the order in which they were set.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

import msgspec

ROOM = 1_024

Call = Callable[[int], None]


class Deadline(msgspec.Struct, eq=False):
    """One call at one time, until it is cancelled."""

    at: int
    call: Call | None

    def cancel(self) -> None:
        self.call = None


class Deadlines:
    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Deadline]] = []
        """For whoever only wants to see what is first."""
        self._sequence = 0
        self._room = ROOM
        """A heap that is larger is cleared of what was cancelled: clients say how far ahead they wait, and
        what is done at once would stay for as long."""

    def at(self, when: int, call: Call) -> Deadline:
        deadline = Deadline(when, call)
        self._sequence += 1
        heap = self.heap
        heappush(heap, (when, self._sequence, deadline))
        if len(heap) > self._room:
            heap[:] = [each for each in heap if each[2].call is not None]
            heapify(heap)
            self._room = 2 * len(heap) + ROOM
        return deadline

    @property
    def next(self) -> int | None:
        heap = self.heap
        while heap and heap[0][2].call is None:
            heappop(heap)
        return heap[0][0] if heap else None

    def run(self, now: int) -> None:
        """Run what is due; a call that sets a deadline for this very moment waits for the next wake-up."""
        due: list[Deadline] = []
        heap = self.heap
        while heap and (heap[0][0] <= now or heap[0][2].call is None):
            due.append(heappop(heap)[2])
        for deadline in due:
            call, deadline.call = deadline.call, None
            if call is not None:
                call(now)

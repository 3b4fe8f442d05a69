"""What is due when: one time per timer, moved as often as anyone likes.

A heartbeat moves its member's timer further into the future, thousands of times a second. So a timer that
moves back keeps its old place in the heap and is put in order only when that place comes up. Timers that are
due together fire in the order in which they were filed.
"""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import NamedTuple


class TimerKind(IntEnum):
    SESSION = 0
    """A member has not been heard of."""
    PENDING = 1
    """A member was given an id and never came back with it."""
    JOIN = 2
    """The members have had their time to join."""
    SYNC = 3
    """The members have had their time to ask for their assignments."""
    RETENTION = 4
    """Old offsets are looked through."""


class Timer(NamedTuple):
    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class Timers:
    def __init__(self) -> None:
        self._due: dict[Timer, int] = {}
        self._queued: dict[Timer, int] = {}
        self._heap: list[tuple[int, int, Timer]] = []
        self._serial = 0

    def set(self, timer: Timer, when: int) -> None:
        self._due[timer] = when
        queued = self._queued.get(timer)
        if queued is None or when < queued:
            self._push(timer, when)

    def cancel(self, timer: Timer) -> None:
        self._due.pop(timer, None)

    def is_set(self, timer: Timer) -> bool:
        return timer in self._due

    def __len__(self) -> int:
        return len(self._due)

    @property
    def deadline(self) -> int | None:
        self._settle()
        return self._heap[0][0] if self._heap else None

    def take(self, now: int) -> Timer | None:
        """The next timer that is due; it is no longer set."""
        self._settle()
        if not self._heap or self._heap[0][0] > now:
            return None
        timer = heapq.heappop(self._heap)[2]
        del self._queued[timer]
        del self._due[timer]
        return timer

    def _push(self, timer: Timer, when: int) -> None:
        if len(self._heap) > 64 + 4 * len(self._due):
            self._drop_the_cancelled()
        self._serial += 1
        self._queued[timer] = when
        heapq.heappush(self._heap, (when, self._serial, timer))

    def _drop_the_cancelled(self) -> None:
        self._heap = [
            entry for entry in self._heap if entry[2] in self._due and self._queued.get(entry[2]) == entry[0]
        ]
        heapq.heapify(self._heap)
        self._queued = {timer: when for when, _, timer in self._heap}

    def _settle(self) -> None:
        """Bring the earliest timer that is really set to the top of the heap."""
        heap = self._heap
        while heap:
            when, _, timer = heap[0]
            if self._queued.get(timer) != when:
                heapq.heappop(heap)
                continue
            due = self._due.get(timer)
            if due is None:
                heapq.heappop(heap)
                del self._queued[timer]
            elif due > when:
                self._serial += 1
                self._queued[timer] = due
                heapq.heapreplace(heap, (due, self._serial, timer))
            else:
                return

"""The clocks of the machines, each a straight line over the world's own time.

A node's runtime asks the wall clock once and then adds what has passed, so within a life a clock drifts and
never jumps back; between two lives it may be anywhere. All arithmetic is in whole numbers: the same on every
machine.
"""

from __future__ import annotations


class Clock:
    """What one machine calls now, as a function of the world's time."""

    __slots__ = ("_local", "_permille", "_world", "ahead_ms")

    def __init__(self) -> None:
        self._world = 0
        self._local = 0
        self._permille = 1000
        self.ahead_ms: int | None = 0
        """How far it is ahead of the world's time; None while it drifts."""

    def local(self, world_ms: int) -> int:
        if self.ahead_ms is not None:
            return world_ms + self.ahead_ms
        return self._local + (world_ms - self._world) * self._permille // 1000

    def world(self, local_ms: int) -> int:
        """The first moment of the world at which this clock shows `local_ms` or more."""
        if self.ahead_ms is not None:
            return local_ms - self.ahead_ms
        return self._world - ((self._local - local_ms) * 1000 // self._permille)

    def drift(self, permille: int, world_ms: int) -> None:
        """From now on the clock makes `permille` milliseconds of every second's thousand."""
        self._local, self._world, self._permille = self.local(world_ms), world_ms, permille
        self._note()

    def jump(self, ms: int, world_ms: int) -> None:
        self._local, self._world = self.local(world_ms) + ms, world_ms
        self._note()

    def _note(self) -> None:
        self.ahead_ms = self._local - self._world if self._permille == 1000 else None

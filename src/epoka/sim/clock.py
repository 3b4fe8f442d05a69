"""The clocks of the machines, each a straight line over the world's own time.

A node's runtime asks the wall clock once and then adds what has passed, so within a life a clock drifts and
never jumps back; between two lives it may be anywhere. All arithmetic is in whole numbers: the same on every
machine.
"""

from __future__ import annotations


class Clock:
    """What one machine calls now, as a function of the world's time."""

    __slots__ = ("_local", "_permille", "_world")

    def __init__(self) -> None:
        self._world = 0
        self._local = 0
        self._permille = 1000

    def local(self, world_ms: int) -> int:
        if self._permille == 1000:
            return self._local + world_ms - self._world
        return self._local + (world_ms - self._world) * self._permille // 1000

    def world(self, local_ms: int) -> int:
        """The first moment of the world at which this clock shows `local_ms` or more."""
        if self._permille == 1000:
            return self._world + local_ms - self._local
        return self._world - ((self._local - local_ms) * 1000 // self._permille)

    def drift(self, permille: int, world_ms: int) -> None:
        """From now on the clock makes `permille` milliseconds of every second's thousand."""
        self._local, self._world, self._permille = self.local(world_ms), world_ms, permille

    def jump(self, ms: int, world_ms: int) -> None:
        self._local, self._world = self.local(world_ms) + ms, world_ms

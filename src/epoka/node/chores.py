"""Work that a node does on the side: checkpoints, retention, compaction, flushing.

A log belongs to the event loop and to nobody else, so chores run there too, in slices between which
requests are served. A chore is a generator: every `yield` is a place where it may be put off. A failing disk
becomes an event for the core; any other exception is our bug.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from epoka.log.store import StorageError

log = logging.getLogger(__name__)

SLICE_S = 0.005
"""How long a chore works before requests have their turn."""
PAUSE_S = 0.001


class Chore(msgspec.Struct, frozen=True):
    """Something to do every `interval_ms`; `work` gets the time and yields wherever it can wait."""

    name: str
    interval_ms: int
    work: Callable[[int], Iterator[None]]


class Chores:
    """Runs the chores of one core, each in its own rhythm, never two slices at once."""

    def __init__(
        self,
        chores: Sequence[Chore],
        *,
        now: Callable[[], int],
        storage_failed: Callable[[str], None],
        broken: Callable[[Exception], None],
    ) -> None:
        self._chores = tuple(chores)
        self._now = now
        self._storage_failed = storage_failed
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._closed = False

    def start(self) -> None:
        for chore in self._chores:
            self._later(chore)

    def close(self) -> None:
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _later(self, chore: Chore) -> None:
        if not self._closed:
            self._timers[chore.name] = self._loop.call_later(chore.interval_ms / 1000, self._begin, chore)

    def _begin(self, chore: Chore) -> None:
        self._go_on(chore, iter(chore.work(self._now())))

    def _go_on(self, chore: Chore, work: Iterator[None]) -> None:
        until = time.monotonic() + SLICE_S
        try:
            for _ in work:
                if time.monotonic() >= until:
                    self._timers[chore.name] = self._loop.call_later(PAUSE_S, self._go_on, chore, work)
                    return
        except StorageError as error:
            log.error("%s failed: %s", chore.name, error)
            self._storage_failed(str(error))
        except Exception as error:
            self._broken(error)
            return
        self._later(chore)

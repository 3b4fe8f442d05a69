"""Work that a node does on the side: checkpoints, retention, compaction, flushing.

Chores run on the event loop, where the logs belong, in slices between which requests are served. A chore is a
generator: every `yield` is a place where it may be put off. What a log allows in another thread is yielded as
a call and runs there; the chore goes on behind it. A failing disk becomes an event for the core; any other
exception is our bug.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from epoka.log.store import StorageError

log = logging.getLogger(__name__)

SLICE_S = 0.005
"""How long a chore works before requests have their turn."""
PAUSE_S = 0.001


Step = Callable[[], object] | None
"""None: requests may have their turn. A call: it runs in another thread before the chore goes on."""
Work = Generator[Step, None, None]


class Chore(msgspec.Struct, frozen=True):
    """Something to do every `interval_ms`; `work` gets the time and yields wherever it can wait."""

    name: str
    interval_ms: int
    work: Callable[[int], Work]


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
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False

    def start(self) -> None:
        for chore in self._chores:
            self._later(chore)

    def close(self) -> None:
        """No chore goes on after this; what runs in the other thread is waited for."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def _later(self, chore: Chore) -> None:
        if not self._closed:
            self._timers[chore.name] = self._loop.call_later(chore.interval_ms / 1000, self._begin, chore)

    def _begin(self, chore: Chore) -> None:
        self._go_on(chore, chore.work(self._now()), None)

    def _go_on(self, chore: Chore, work: Work, failure: BaseException | None) -> None:
        if self._closed:
            work.close()
            return
        until = time.monotonic() + SLICE_S
        try:
            while True:
                step = next(work) if failure is None else work.throw(failure)
                failure = None
                if step is not None:
                    self._in_the_thread(chore, work, step)
                    return
                if time.monotonic() >= until:
                    self._timers[chore.name] = self._loop.call_later(PAUSE_S, self._go_on, chore, work, None)
                    return
        except StopIteration:
            self._later(chore)
        except StorageError as error:
            log.error("%s failed: %s", chore.name, error)
            self._storage_failed(str(error))
            self._later(chore)
        except Exception as error:
            self._broken(error)

    def _in_the_thread(self, chore: Chore, work: Work, call: Callable[[], object]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chores")
        done = self._loop.run_in_executor(self._thread, call)
        done.add_done_callback(lambda future: self._after_the_thread(chore, work, future))

    def _after_the_thread(self, chore: Chore, work: Work, future: asyncio.Future[object]) -> None:
        if not future.cancelled():
            self._go_on(chore, work, future.exception())

"""Many seeds on all cores of a machine: work goes out in small pieces, sums and failures come back.

What comes back does not depend on how many processes worked: results are in the order of seeds, and each is
a function of its seed and the options alone.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from epoka.sim.runner import Options, Result, run

PIECE = 20
PIECES_OF_ONE_PROCESS = 25
"""Its dead worlds take half a megabyte a schedule."""

Work = tuple[range, Options]
Worked = tuple[list[Result], float]


class Tally(msgspec.Struct):
    """The sum of many results."""

    schedules: int = 0
    events: int = 0
    simulated_ms: int = 0
    acked: int = 0
    exceptions: int = 0
    downgraded: int = 0
    faults: dict[str, int] = {}
    failures: list[Result] = []
    cpu_s: float = 0.0

    def add(self, results: Sequence[Result], cpu_s: float) -> None:
        self.cpu_s += cpu_s
        for result in results:
            self.schedules += 1
            self.events += result.events
            self.simulated_ms += result.simulated_ms
            self.acked += result.acked
            self.exceptions += result.exceptions
            self.downgraded += result.downgraded
            for kind, count in result.faults.items():
                self.faults[kind] = self.faults.get(kind, 0) + count
            if not result.ok:
                self.failures.append(result)
        self.faults = dict(sorted(self.faults.items()))


def campaign(
    seeds: range,
    options: Options,
    *,
    processes: int | None = None,
    progress: Callable[[int, Tally], None] | None = None,
    stop_after: int | None = None,
) -> Tally:
    """Run all seeds and add up; with `stop_after`, end once so many have failed."""
    pieces = cut(seeds, options)
    workers = min(processes or os.cpu_count() or 1, len(pieces))
    tally = Tally()
    for results, cpu_s in spread(pieces, workers) if workers > 1 else map(_work_here, pieces):
        tally.add(results, cpu_s)
        if progress is not None:
            progress(len(results), tally)
        if stop_after is not None and len(tally.failures) >= stop_after:
            break
    return tally


def first_failure(seeds: range, options: Options, *, processes: int | None = None) -> Result | None:
    """The failing seed that comes first; later ones are not waited for."""
    tally = campaign(seeds, options, processes=processes, stop_after=1)
    return min(tally.failures, key=lambda result: result.seed) if tally.failures else None


def cut(seeds: range, options: Options) -> list[Work]:
    return [(seeds[at : at + PIECE], options) for at in range(0, len(seeds), PIECE)]


def spread(pieces: Sequence[Work], workers: int) -> Iterator[Worked]:
    """The results of every piece, in order, from other processes, and the processor time that they took."""
    # Children forked from here would share the threads and locks of this process; the server that forks them
    # has nothing but this module. No child looks for dead worlds: it ends after a while, and they with it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(workers, _begin, maxtasksperchild=PIECES_OF_ONE_PROCESS) as pool:
        yield from pool.imap(_work, pieces)


def _begin() -> None:
    gc.disable()
    # Ctrl-C reaches every process of a terminal; whoever waits for the results says so.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(piece: Work) -> Worked:
    seeds, options = piece
    began = time.process_time()
    results = [run(seed, options) for seed in seeds]
    return results, time.process_time() - began


def _work_here(piece: Work) -> Worked:
    began = time.process_time()
    with _collecting_once():
        results, _ = _work(piece)
    return results, time.process_time() - began


@contextmanager
def _collecting_once() -> Iterator[None]:
    """The collector looks for dead worlds at the end of a piece, not a dozen times in every run, and looks at
    nothing that was there before: what this process holds besides may be many times as much."""
    was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        if not was_frozen:
            gc.unfreeze()
        if was_enabled:
            gc.enable()

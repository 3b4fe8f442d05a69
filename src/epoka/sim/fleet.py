"""Many seeds on all cores of a machine: work goes out in small pieces, sums and failures come back.

What comes back does not depend on how many processes worked: results are in the order of seeds, and each is
a function of its seed and the options alone.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from epoka.sim.runner import Options, Result, run

PIECE = 20


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

    def add(self, result: Result) -> None:
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


def campaign(
    seeds: range,
    options: Options,
    *,
    processes: int | None = None,
    progress: Callable[[int, Tally], None] | None = None,
    stop_after: int | None = None,
) -> Tally:
    """Run all seeds and add up; with `stop_after`, end once so many have failed."""
    tally = Tally(faults={}, failures=[])
    pieces = [(seeds[at : at + PIECE], options) for at in range(0, len(seeds), PIECE)]
    workers = min(processes or os.cpu_count() or 1, len(pieces))
    for results, cpu_s in _spread(pieces, workers):
        tally.cpu_s += cpu_s
        for result in results:
            tally.add(result)
        if progress is not None:
            progress(len(results), tally)
        if stop_after is not None and len(tally.failures) >= stop_after:
            break
    tally.faults = dict(sorted(tally.faults.items()))
    return tally


def first_failure(seeds: range, options: Options, *, processes: int | None = None) -> Result | None:
    """The failing seed that comes first; later ones are not waited for."""
    tally = campaign(seeds, options, processes=processes, stop_after=1)
    return min(tally.failures, key=lambda result: result.seed) if tally.failures else None


def _spread(pieces: list[tuple[range, Options]], workers: int) -> Iterator[tuple[list[Result], float]]:
    if workers <= 1:
        yield from map(_work, pieces)
        return
    # Forked children would share whatever threads and locks their parent has; spawned ones share nothing.
    with multiprocessing.get_context("spawn").Pool(workers, gc.freeze) as pool:
        yield from pool.imap(_work, pieces)


def _work(piece: tuple[range, Options]) -> tuple[list[Result], float]:
    seeds, options = piece
    began = time.process_time()
    with _collecting_once():
        results = [run(seed, options) for seed in seeds]
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

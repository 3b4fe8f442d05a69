"""What a task does with its seeds: run each, and give a row for each, whatever becomes of it.

Seeds run in a child of the worker, which waits for the worker's next task when it is done. A seed that
raises, runs in circles, eats all memory or takes the process with it is a row like any other; the rest goes
on in another child, which knows nothing of the first. Two timers hold the child to its time, both its own, so
that no child outlives a worker that was killed: processor time, which Python notices and can tell where it
was, and time on the wall, on which the kernel ends it.

A row's digest says what a run came to and nothing of when, where or how fast. Digests of many rows are added
up (`run.digest_of`), so neither order nor partitioning shows in the sum.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, NoReturn

import msgspec

from epoka.model.events import Event
from epoka.sim.process import Process
from epoka.sim.runner import Run
from epoka.sim.shrink import shrink
from epoka.spark.fleet.options import Asked, Limits

OK, VIOLATION, CRASHED, HUNG = "ok", "violation", "crashed", "hung"
HARD: Final = 10
"""How many times its processor time a seed may take on the wall."""
LEDGER_LINES: Final = 20_000
"""The last so many are kept, should a run in circles have written more."""
USED_UP: Final = "its processor time is used up"
_STORY: Final = 8_000
_TOO_LONG: Final = 99
_LENGTH: Final = 4


class SeedRow(msgspec.Struct, frozen=True):
    """One seed. What a seed that was lost cannot tell is None."""

    seed: int
    scenario: str
    mode: str
    level: str | None
    profile: str
    without: str
    outcome: str
    what: str | None = None
    """The checker that objected, or what ended the run."""
    story: str | None = None
    event: int | None = None
    """At which event."""
    events: int | None = None
    simulated_ms: int | None = None
    acknowledged: int | None = None
    exceptions: int | None = None
    downgraded: int | None = None
    steps: int | None = None
    faults: dict[str, int] | None = None
    trace: str | None = None
    digest: int = 0
    wall_ms: float = 0.0
    ledger: list[str] | None = None
    """Of failing seeds."""
    schedule: str | None = None
    """Of failing seeds that were made small."""


class OutOfBounds(BaseException):
    """A seed has used up its time or its events. No core may mistake it for a failure of its own."""


class BoundedRun(Run):
    """A run that ends when it has taken too many events, at the same one on every machine."""

    most = 0

    def _set_up(self) -> None:
        super()._set_up()
        world, watch, most = self.world, self.world.watch, self.most
        assert watch is not None

        def counted(process: Process, event: Event) -> None:
            if world.events > most:
                raise OutOfBounds(f"more than {most:,} events")
            watch(process, event)

        world.watch = counted


Begin = Callable[[int, Asked, Limits], Run]


def begin(seed: int, asked: Asked, limits: Limits) -> Run:
    run = BoundedRun(seed, asked.options, asked.plan, ledger=True)
    run.most = limits.events
    return run


_BEGIN: Final = begin


def run_seed(seed: int, asked: Asked, limits: Limits, begin: Begin = begin) -> SeedRow:
    """The row of one seed, run here and now: nothing but the limit of events holds it back."""
    began = time.perf_counter()
    if asked.story:
        return _finished(_of_story(seed, asked), began)
    run: Run | None = None
    try:
        run = begin(seed, asked, limits)
        result = run.go()
    except OutOfBounds as bound:
        return _finished(lost(seed, asked, HUNG, str(bound), _story(bound), _ledger(run, limits)), began)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        return _finished(lost(seed, asked, CRASHED, what, _story(error), _ledger(run, limits)), began)
    wrong = result.violations[0] if result.violations else None
    row = SeedRow(
        **_identity(seed, asked) | {"level": str(run.plan.level)},
        outcome=OK if wrong is None else VIOLATION,
        what=None if wrong is None else wrong.checker,
        story=None if wrong is None else wrong.story[:_STORY],
        event=None if wrong is None else wrong.event,
        events=result.events,
        simulated_ms=result.simulated_ms,
        acknowledged=result.acked,
        exceptions=result.exceptions,
        downgraded=result.downgraded,
        steps=result.steps,
        faults=result.faults,
        trace=result.trace,
        ledger=None if wrong is None else _ledger(run, limits),
    )
    return _finished(row, began)


def _of_story(seed: int, asked: Asked) -> SeedRow:
    from epoka.sim.scenarios import SCENARIOS
    from epoka.sim.scenarios import run as play

    try:
        outcome = play(SCENARIOS[asked.scenario], without_rule=bool(asked.without))
    except Exception as error:
        return lost(seed, asked, CRASHED, f"{type(error).__name__}: {error}", _story(error))
    harm = outcome.harm
    return SeedRow(
        **_identity(seed, asked) | {"level": outcome.level},
        outcome=OK if harm is None else VIOLATION,
        what=None if harm is None else harm.checker,
        story=None if harm is None else harm.story[:_STORY],
        trace=outcome.trace,
    )


def lost(
    seed: int, asked: Asked, outcome: str, what: str, story: str = "", ledger: list[str] | None = None
) -> SeedRow:
    """A seed that did not come to an end."""
    return SeedRow(
        **_identity(seed, asked), outcome=outcome, what=what[:_STORY], story=story or None, ledger=ledger
    )


def _identity(seed: int, asked: Asked) -> dict[str, Any]:
    options = asked.options
    return {
        "seed": seed,
        "scenario": asked.scenario,
        "mode": options.mode,
        "level": None if options.level is None else str(options.level),
        "profile": "" if asked.scenario else options.profile,
        "without": asked.without,
    }


def _story(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_STORY:]


def _ledger(run: Run | None, limits: Limits) -> list[str] | None:
    world = getattr(run, "world", None)
    if world is None or not limits.ledger:
        return None
    encoder = msgspec.json.Encoder()
    return [encoder.encode(event).decode() for event in world.ledger[-LEDGER_LINES:]]


def _finished(row: SeedRow, began: float) -> SeedRow:
    wall_ms = round(1000 * (time.perf_counter() - began), 3)
    return msgspec.structs.replace(row, digest=digest(row), wall_ms=wall_ms)


def digest(row: SeedRow) -> int:
    """64 bits with a sign. Of a seed that was lost only that it was: where it stood is up to the machine."""
    told: list[Any] = [row.seed, row.scenario, row.mode, row.profile, row.without, row.outcome]
    if row.outcome in (OK, VIOLATION):
        told += [row.level, row.what, row.story, row.event, row.events, row.simulated_ms, row.acknowledged]
        told += [row.exceptions, row.downgraded, row.steps, row.trace]
        told += [sorted(row.faults.items()) if row.faults else []]
    content = msgspec.json.encode(told)
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big", signed=True)


# In a child.

_ROW, _BEFORE_SHRINKING, _DONE = b"r", b"s", b"d"
_kept: list[_Child] = []
"""The child that waits for this worker's next task: a fork costs more than a small task."""


def run_seeds(seeds: range, asked: Asked, limits: Limits, begin: Begin = begin) -> Iterator[SeedRow]:
    """The rows of the seeds, in their order; a seed that ends the child it runs in is a row too."""
    while seeds:
        first, kept = seeds.start, bool(_kept) and begin is _BEGIN
        child = _kept.pop() if kept else _Child(begin)
        small: SeedRow | None = None
        try:
            child.ask(Task(seeds.start, seeds.stop, asked, limits))
            for kind, row in child.rows():
                if kind == _BEFORE_SHRINKING:
                    small = row
                    continue
                small = None
                seeds = seeds[1:]
                yield row
        finally:
            status = child.let_go(keep=begin is _BEGIN)
        if status is None or (kept and small is None and first == seeds.start):
            # Of a child that was kept nobody knows whether it died of this seed: another one will tell.
            continue
        died = lost(seeds.start, asked, *_death(status, limits))
        row = small or _finished(died, child.since)
        seeds = seeds[1:]
        yield row


def _death(status: int, limits: Limits) -> tuple[str, str]:
    code = os.waitstatus_to_exitcode(status)
    if code == _TOO_LONG:
        return HUNG, USED_UP
    if code == -signal.SIGALRM:
        return HUNG, f"longer than {HARD * limits.seconds:g} s, and no line of Python was reached"
    return CRASHED, f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


class Task(msgspec.Struct, frozen=True):
    """What a child is asked to run."""

    first: int
    end: int
    asked: Asked
    limits: Limits


class _Child:
    """A process that runs seeds and tells of each through a pipe, task after task."""

    def __init__(self, begin: Begin) -> None:
        tasks, asking = os.pipe()
        reading, telling = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(tasks, telling, begin)
        os.close(tasks)
        os.close(telling)
        self._tasks = os.fdopen(asking, "wb")
        self._rows = os.fdopen(reading, "rb")
        self._dead = False
        self._done = False
        self._ended = False
        self.since = time.perf_counter()
        """When the seed that it runs was begun, more or less."""

    def ask(self, task: Task) -> None:
        self._done = False
        self.since = time.perf_counter()
        # One that died while nobody looked is met at the first row, which never comes.
        with contextlib.suppress(BrokenPipeError):
            _tell(self._tasks, b"t", task)

    def rows(self) -> Iterator[tuple[bytes, SeedRow]]:
        """What the child tells, until it is done or dead."""
        while (message := _told(self._rows)) is not None:
            kind, content = message
            if kind == _DONE:
                self._done, self._ended = True, bool(content)
                return
            yield kind, msgspec.msgpack.decode(content, type=SeedRow)
            self.since = time.perf_counter()
        self._dead = True

    def let_go(self, *, keep: bool) -> int | None:
        """Keep it for the next task if it may be kept, or see that it is gone; how it died, if it did."""
        if keep and self._done and not self._ended:
            _kept.append(self)
            return None
        self._rows.close()
        with contextlib.suppress(BrokenPipeError):
            self._tasks.close()
        if not self._dead:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        return status if self._dead else None


def _be_child(tasks: int, telling: int, begin: Begin) -> NoReturn:
    """Never returns: what is on the stack belongs to the parent, and so do its files."""
    try:
        low, high = sorted((tasks, telling))
        os.closerange(3, low)
        os.closerange(low + 1, high)
        os.closerange(high + 1, 1 << 16)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, _time_is_up)
        with os.fdopen(tasks, "rb") as asked, os.fdopen(telling, "wb") as pipe:
            while (message := _told(asked)) is not None:
                ended = _do(msgspec.msgpack.decode(message[1], type=Task), pipe, begin)
                _tell(pipe, _DONE, ended)
                if ended:
                    break
    except OutOfBounds:
        os._exit(_TOO_LONG)
    except BrokenPipeError:
        # Nobody reads any more: the task was given up.
        pass
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(1)


def _do(task: Task, pipe: BinaryIO, begin: Begin) -> str:
    """Tell of every seed; why not of the rest, if this process should run no other."""
    asked, limits = task.asked, task.limits
    for seed in range(task.first, task.end):
        with _Clock(limits.seconds):
            row = run_seed(seed, asked, limits, begin)
        if row.outcome == VIOLATION and limits.shrink_seconds is not None and not asked.story:
            _tell(pipe, _BEFORE_SHRINKING, row)
            with _Clock(limits.shrink_seconds + limits.seconds):
                row = _made_small(row, asked, limits.shrink_seconds)
        _tell(pipe, _ROW, row)
        if row.outcome not in (OK, VIOLATION):
            # Whatever it has left behind in this process is not for the next seed.
            return row.outcome
    return ""


def _tell(pipe: BinaryIO, kind: bytes, what: Any) -> None:
    content = msgspec.msgpack.encode(what) if what else b""
    pipe.write(kind + len(content).to_bytes(_LENGTH, "big") + content)
    pipe.flush()


def _told(pipe: BinaryIO) -> tuple[bytes, bytes] | None:
    """The next message; None when whoever wrote is gone."""
    head = pipe.read(1 + _LENGTH)
    size = int.from_bytes(head[1:], "big")
    content = pipe.read(size)
    return (head[:1], content) if len(head) == 1 + _LENGTH and len(content) == size else None


def _made_small(row: SeedRow, asked: Asked, seconds: float) -> SeedRow:
    try:
        small = shrink(row.seed, asked.options, seconds=seconds, plan=asked.plan)
    except (Exception, OutOfBounds):
        return row
    if small is None:
        return row
    return msgspec.structs.replace(row, schedule=msgspec.json.encode(small.schedule).decode())


class _Clock:
    """Two timers: processor time, again and again should the first not get through, and time on the wall."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, HARD * self._seconds)
        signal.setitimer(signal.ITIMER_PROF, self._seconds, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _time_is_up(_number: int, _frame: object) -> None:
    raise OutOfBounds(USED_UP)


_settled = False


def settle() -> None:
    """Once in a worker: what is imported by now is not looked at again after every task."""
    global _settled
    if not _settled:
        _settled = True
        gc.collect()
        gc.freeze()

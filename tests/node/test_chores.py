"""Work on the side: in its rhythm, in slices, and what happens when it fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

from epoka.log.store import StorageError
from epoka.node import chores as chores_module
from epoka.node.chores import Chore, Chores, Work

Kit = SimpleNamespace


class Yard:
    """Chores and what becomes of them."""

    def __init__(self, *works: Callable[[int], Work]) -> None:
        self.failures: list[str] = []
        self.broken: list[Exception] = []
        self.chores = Chores(
            [Chore(f"chore {number}", 1, work) for number, work in enumerate(works)],
            now=lambda: 42,
            storage_failed=self.failures.append,
            broken=self.broken.append,
        )
        self.chores.start()


async def test_a_chore_is_done_again_and_again_with_the_time(kit: Kit) -> None:
    times: list[int] = []

    def work(now: int) -> Work:
        times.append(now)
        yield None

    yard = Yard(work)
    await kit.eventually(lambda: len(times) >= 3)
    yard.chores.close()
    assert set(times) == {42}


async def test_a_long_chore_lets_others_have_their_turn(kit: Kit) -> None:
    steps: list[str] = []

    def long(now: int) -> Work:
        for _ in range(4):
            until = time.monotonic() + chores_module.SLICE_S
            while time.monotonic() < until:
                pass
            steps.append("long")
            yield None
        steps.append("end")

    def short(now: int) -> Work:
        steps.append("short")
        yield None

    yard = Yard(long, short)
    await kit.eventually(lambda: "end" in steps)
    yard.chores.close()
    assert "short" in steps[steps.index("long") : steps.index("end")]


async def test_what_a_chore_yields_as_a_call_runs_in_another_thread_and_the_chore_goes_on_behind_it(
    kit: Kit,
) -> None:
    seen: list[tuple[str, bool]] = []
    here = threading.get_ident()

    def work(now: int) -> Work:
        yield lambda: seen.append(("call", threading.get_ident() == here))
        seen.append(("behind", threading.get_ident() == here))

    yard = Yard(work)
    await kit.eventually(lambda: len(seen) >= 2)
    yard.chores.close()
    assert seen[:2] == [("call", False), ("behind", True)]


async def test_a_chore_may_catch_what_its_call_raised(kit: Kit) -> None:
    caught: list[str] = []

    def fail() -> None:
        raise StorageError("gone")

    def work(now: int) -> Work:
        try:
            yield fail
        except StorageError as error:
            caught.append(str(error))

    yard = Yard(work)
    await kit.eventually(lambda: caught)
    yard.chores.close()
    assert (caught[0], yard.failures, yard.broken) == ("gone", [], [])


async def test_a_failing_disk_is_told_and_the_chore_is_tried_again(kit: Kit) -> None:
    def fail() -> None:
        raise StorageError("torn")

    def on_the_loop(now: int) -> Work:
        raise StorageError("full")
        yield None

    def in_the_thread(now: int) -> Work:
        yield fail

    yard = Yard(on_the_loop, in_the_thread)
    await kit.eventually(lambda: yard.failures.count("full") >= 2 and yard.failures.count("torn") >= 2)
    yard.chores.close()
    assert yard.broken == []


async def test_any_other_failure_is_a_defect_and_the_chore_is_not_tried_again(kit: Kit) -> None:
    rounds: list[int] = []

    def work(now: int) -> Work:
        rounds.append(now)
        yield lambda: 1 // 0

    yard = Yard(work)
    await kit.eventually(lambda: yard.broken)
    assert isinstance(yard.broken[0], ZeroDivisionError)
    assert (len(rounds), yard.failures) == (1, [])
    yard.chores.close()


async def test_closing_waits_for_the_other_thread_and_nothing_goes_on(kit: Kit) -> None:
    began, finish = threading.Event(), threading.Event()
    steps: list[str] = []

    def call() -> None:
        began.set()
        finish.wait(10)
        steps.append("call")

    def work(now: int) -> Work:
        yield call
        steps.append("behind")

    yard = Yard(work)
    await kit.eventually(began.is_set)
    threading.Timer(0.01, finish.set).start()
    yard.chores.close()
    assert steps == ["call"]
    await kit.eventually(lambda: True)
    assert steps == ["call"]

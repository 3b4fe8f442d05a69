"""The thread on which a node waits for ZooKeeper."""

from __future__ import annotations

import threading

import pytest

from tests.waiting import wait_until
from tests.zookeeper_missing import MISSING

if MISSING is not None:
    pytest.skip(MISSING, allow_module_level=True)

from epoka.coordination.zookeeper.session import Interrupted
from epoka.node.desk import Desk


def test_jobs_are_done_in_their_order_and_the_same_one_waits_once() -> None:
    desk, done, may_go = Desk("d"), [], threading.Event()
    desk.ask("first", lambda: (may_go.wait(10), done.append("first")))  # type: ignore[func-returns-value]
    desk.start(lambda error: None)
    wait_until(lambda: not desk._jobs, "the first job to be at work")
    for key in ("look", "look", "write", "look", "first"):
        desk.ask(key, lambda key=key: done.append(key))  # type: ignore[misc]
    may_go.set()
    wait_until(lambda: len(done) == 4, "all jobs to be done")
    assert done == ["first", "look", "write", "first"]
    desk.close()


def test_a_job_that_zookeeper_let_down_does_not_end_the_desk() -> None:
    desk, done = Desk("d"), threading.Event()

    def let_down() -> None:
        raise Interrupted("no answer")

    desk.start(lambda error: None)
    desk.ask("one", let_down)
    desk.ask("two", done.set)
    assert done.wait(10)
    desk.close()


def test_a_defect_is_told() -> None:
    desk, told = Desk("d"), []
    desk.start(told.append)
    desk.ask("one", lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    wait_until(lambda: told, "the defect to be told")
    assert isinstance(told[0], ZeroDivisionError)


def test_after_the_end_nothing_is_done_and_nobody_waits() -> None:
    desk, paused = Desk("d"), threading.Event()

    def pause() -> None:
        paused.set()
        desk.pause(60)

    desk.start(lambda error: None)
    desk.ask("pause", pause)
    assert paused.wait(10)
    desk.ask("never", lambda: pytest.fail("done after the end"))
    desk.close()
    desk._thread.join(10)
    assert not desk._thread.is_alive()

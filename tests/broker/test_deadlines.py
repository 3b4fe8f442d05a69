"""Calls that are due later."""

from epoka.broker.deadlines import Deadlines


def test_due_calls_run_in_the_order_of_their_time_then_of_their_setting():
    deadlines, ran = Deadlines(), []
    deadlines.at(20, lambda now: ran.append("late"))
    deadlines.at(10, lambda now: ran.append("first"))
    deadlines.at(10, lambda now: ran.append("second"))
    deadlines.run(15)
    assert ran == ["first", "second"]
    assert deadlines.next == 20


def test_a_cancelled_call_neither_runs_nor_wakes():
    deadlines, ran = Deadlines(), []
    deadlines.at(10, lambda now: ran.append("no")).cancel()
    assert deadlines.next is None
    deadlines.run(10)
    assert ran == []


def test_a_call_that_sets_a_deadline_for_now_waits_for_the_next_wake_up():
    deadlines, ran = Deadlines(), []

    def again(now: int) -> None:
        ran.append(now)
        deadlines.at(now, again)

    deadlines.at(10, again)
    deadlines.run(10)
    assert ran == [10]
    assert deadlines.next == 10


def test_a_call_may_cancel_another_that_is_due_with_it():
    deadlines, ran = Deadlines(), []
    second = deadlines.at(10, lambda now: ran.append("second"))
    deadlines.at(5, lambda now: second.cancel())
    deadlines.run(10)
    assert ran == []


def test_what_was_cancelled_is_not_kept_until_its_time():
    """A producer that would wait for weeks is answered within a millisecond, and asks again."""
    deadlines, ran = Deadlines(), []
    for each in range(0, 6_000, 2):
        deadlines.at(each, lambda now, each=each: ran.append(each))
    for _ in range(20_000):
        deadlines.at(2**31, lambda now: ran.append(now)).cancel()
    assert len(deadlines.heap) < 10_000
    deadlines.run(2**31)
    assert ran == list(range(0, 6_000, 2))

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epoka.broker.groups.timers import Timer, TimerKind, Timers

A = Timer(TimerKind.SESSION, "g", "a")
B = Timer(TimerKind.SESSION, "g", "b")


def test_timers_fire_in_the_order_of_their_times() -> None:
    timers = Timers()
    timers.set(A, 20)
    timers.set(B, 10)
    assert timers.deadline == 10
    assert [timers.take(30), timers.take(30), timers.take(30)] == [B, A, None]


def test_a_timer_that_is_not_due_does_not_fire() -> None:
    timers = Timers()
    timers.set(A, 20)
    assert timers.take(19) is None
    assert timers.take(20) == A


def test_a_timer_that_was_moved_back_fires_once_and_late() -> None:
    timers = Timers()
    timers.set(A, 10)
    timers.set(A, 20)
    assert timers.deadline == 20
    assert timers.take(19) is None
    assert (timers.take(20), timers.take(99)) == (A, None)


def test_a_timer_that_was_moved_forward_fires_once_and_early() -> None:
    timers = Timers()
    timers.set(A, 20)
    timers.set(A, 10)
    assert timers.deadline == 10
    assert (timers.take(10), timers.take(99)) == (A, None)


def test_a_cancelled_timer_does_not_fire() -> None:
    timers = Timers()
    timers.set(A, 10)
    timers.cancel(A)
    timers.cancel(B)
    assert timers.deadline is None
    assert timers.take(99) is None


def test_cancelled_timers_do_not_pile_up() -> None:
    timers = Timers()
    for number in range(10_000):
        timer = Timer(TimerKind.PENDING, "g", str(number))
        timers.set(timer, 1_000_000)
        timers.cancel(timer)
    assert len(timers._heap) < 100


@given(
    st.lists(
        st.tuples(st.sampled_from("sct"), st.integers(0, 5), st.integers(0, 30)),
        max_size=60,
    )
)
def test_timers_behave_like_a_plain_table_of_times(steps: list[tuple[str, int, int]]) -> None:
    timers, table = Timers(), dict[Timer, int]()
    for step, member, when in steps:
        timer = Timer(TimerKind.SESSION, "g", str(member))
        if step == "s":
            timers.set(timer, when)
            table[timer] = when
        elif step == "c":
            timers.cancel(timer)
            table.pop(timer, None)
        else:
            fired = timers.take(when)
            earliest = min(table.values(), default=None)
            if fired is None:
                assert earliest is None or earliest > when
            else:
                assert table.pop(fired) == earliest
                assert earliest is not None and earliest <= when
        assert timers.deadline == min(table.values(), default=None)
        assert len(timers) == len(table)

"""Who has been silent for longest, after any history of contact."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epoka.controller.sessions import Sessions

BROKERS = st.integers(1, 4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("heard"), BROKERS, st.integers(1, 2)),
        st.tuples(st.just("attend"), BROKERS, st.integers(1, 2)),
        st.tuples(st.just("drop"), BROKERS, st.just(0)),
        st.tuples(st.just("forgive"), st.integers(0, 50), st.just(0)),
        st.tuples(st.just("wait"), st.integers(0, 20), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS, st.booleans())
def test_the_longest_silent_comes_first_and_those_without_heartbeats_never(steps, look_often):
    sessions, now = Sessions(), 0
    known: dict[int, tuple[int, int, bool]] = {}
    for step, number, epoch in steps:
        if step == "heard":
            sessions.heard(number, epoch, now)
            old_epoch, contact_ms, _ = known.get(number, (0, 0, False))
            known[number] = (epoch, max(contact_ms, now) if old_epoch == epoch else now, True)
        elif step == "attend":
            sessions.attend(number, epoch, now)
            if known.get(number, (0,))[0] != epoch:
                known[number] = (epoch, now, False)
        elif step == "drop":
            sessions.drop(number)
            known.pop(number, None)
        elif step == "forgive":
            sessions.forgive(number)
            known = {each: (e, contact_ms + number, b) for each, (e, contact_ms, b) in known.items()}
        else:
            now += number
        expected = sorted((contact_ms, each) for each, (_, contact_ms, beats) in known.items() if beats)
        if look_often:
            assert list(sessions.by_silence()) == expected
    assert list(sessions.by_silence()) == expected if steps else not list(sessions.by_silence())

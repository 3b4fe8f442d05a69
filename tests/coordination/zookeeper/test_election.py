"""Controllers: one at a time, and only the one in office changes anything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from epoka.coordination.zookeeper import paths
from epoka.coordination.zookeeper.connect import Credentials
from epoka.coordination.zookeeper.election import Deposed, Election, Held, Mandate
from epoka.coordination.zookeeper.operations import Create, Refused, SetData
from epoka.coordination.zookeeper.server import ZooKeeperServer
from epoka.coordination.zookeeper.session import AccessDenied, Session, ZooKeeperError
from epoka.coordination.zookeeper.znodes import ControllerZnode
from tests.coordination.zookeeper.people import NOW_MS, Controller, Open, cut, elect, expire, topic, tree
from tests.waiting import wait_until


def candidate(session: Session, controller_id: int) -> Election:
    return Election(session, ControllerZnode(controller_id, f"host-{controller_id}", 9090 + controller_id))


def test_the_first_takes_the_office_and_raises_the_epoch(open_session: Open) -> None:
    session = open_session()
    mandate = candidate(session, 7).stand(NOW_MS)
    assert mandate == Mandate(epoch=1, zk_version=1, session=session.id)
    node = session.get(paths.CONTROLLER)
    assert node is not None and node.stat.owner == session.id
    assert json.loads(node.data) == {
        "version": 1,
        "brokerid": 7,
        "timestamp": str(NOW_MS),
        "host": "host-7",
        "port": 9097,
    }
    epoch = session.get(paths.CONTROLLER_EPOCH)
    assert epoch is not None and (epoch.data, epoch.stat.version) == (b"1", 1)


def test_the_others_learn_who_it_is(open_session: Open) -> None:
    first, second = open_session(), open_session()
    candidate(first, 1).stand(NOW_MS)
    held = candidate(second, 2).stand(NOW_MS)
    assert held == Held(first.id, ControllerZnode(1, "host-1", 9091))
    assert candidate(second, 2).holder() == held


def test_whoever_stands_again_in_its_own_office_begins_a_new_mandate(open_session: Open) -> None:
    session = open_session()
    first = elect(session)
    cut(session)
    second = elect(session)
    assert second == Mandate(first.epoch + 1, first.zk_version + 1, session.id)
    with pytest.raises(Refused):
        session.multi([first.guard, Create("/late", b"")])
    session.multi([second.guard, Create("/in-time", b"")])


def test_an_election_whose_answer_was_lost_is_held_again(
    open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session()
    multi = session.multi

    def multi_and_lose_the_answer(operations: list[object]) -> None:
        multi(operations)  # type: ignore[arg-type]
        monkeypatch.setattr(session, "multi", multi)
        cut(session)
        session._wait("/", session._client.handler.async_result(), 0)

    monkeypatch.setattr(session, "multi", multi_and_lose_the_answer)
    assert elect(session) == Mandate(2, 2, session.id)


def test_a_mandate_is_never_of_another_session_than_the_office(
    open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session()
    multi = session.multi

    def multi_in_the_next_session(operations: list[object]) -> None:
        monkeypatch.setattr(session, "multi", multi)
        expire(session)
        multi(operations)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "multi", multi_in_the_next_session)
    mandate = elect(session)
    holder = candidate(session, 100).holder()
    assert holder is not None and mandate.session == holder.session == session.id


def test_a_vacancy_is_told_and_the_next_epoch_is_higher(open_session: Open) -> None:
    first, second = open_session(), open_session()
    mandate = elect(first)
    standby = candidate(second, 2)
    calls: list[int] = []
    standby.watch(lambda: calls.append(1))
    wait_until(lambda: calls, "the first call")
    calls.clear()
    candidate(first, 1).resign(mandate)
    wait_until(lambda: calls and standby.holder() is None, "the vacancy")
    assert standby.stand(NOW_MS) == Mandate(2, 2, second.id)


def test_resigning_an_office_that_is_somebody_elses_by_now_changes_nothing(open_session: Open) -> None:
    first, second = open_session(), open_session()
    old = elect(first, 1)
    expire(first)
    elect(second, 2)
    candidate(first, 1).resign(old)
    # Not even if the session were still the same.
    candidate(first, 1).resign(Mandate(old.epoch, old.zk_version, first.id))
    holder = candidate(first, 1).holder()
    assert holder is not None and holder.session == second.id


def test_among_many_candidates_exactly_one_is_elected(open_session: Open) -> None:
    sessions = [open_session() for _ in range(3)]
    for round_number in range(1, 6):
        start = threading.Barrier(len(sessions))
        outcomes: dict[int, Mandate | Held] = {}

        def stand(
            number: int,
            start: threading.Barrier = start,
            outcomes: dict[int, Mandate | Held] = outcomes,
        ) -> None:
            start.wait()
            outcomes[number] = candidate(sessions[number], number).stand(NOW_MS)

        threads = [threading.Thread(target=stand, args=(number,)) for number in range(len(sessions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [number for number, outcome in outcomes.items() if isinstance(outcome, Mandate)]
        assert len(winners) == 1, outcomes
        mandate = outcomes[winners[0]]
        assert isinstance(mandate, Mandate) and mandate.epoch == round_number
        losers = [outcome for outcome in outcomes.values() if isinstance(outcome, Held)]
        assert {loser.session for loser in losers} == {sessions[winners[0]].id}
        candidate(sessions[winners[0]], winners[0]).resign(mandate)


def test_a_deposed_controller_changes_nothing(open_session: Open) -> None:
    old, new = Controller(open_session(), 1), open_session()
    old.append(*topic("kept", 1))
    # It is paused for longer than its session lasts, and does not know it when it goes on.
    outsider = open_session()
    outsider.multi([SetData(paths.CONTROLLER_EPOCH, b"2", old.state.mandate.zk_version)])
    before = tree(new)
    with pytest.raises(Deposed, match="controller epoch 1 is over: another controller has been elected"):
        old.append(*topic("lost", 2))
    with pytest.raises(Deposed):
        old.append()
    assert tree(new) == before


def test_a_controller_whose_session_ended_changes_nothing_even_if_nobody_followed(open_session: Open) -> None:
    controller = Controller(open_session())
    expire(controller.session)
    before = tree(controller.session)
    with pytest.raises(Deposed, match="the session of controller epoch 1 has ended"):
        controller.append(*topic("lost", 1))
    assert tree(controller.session) == before


def test_every_step_of_a_mandate_can_be_guarded(open_session: Open) -> None:
    session = open_session()
    mandate = elect(session)
    session.multi([mandate.guard, Create("/a")])
    session.multi([SetData(paths.CONTROLLER_EPOCH, b"2")])
    with pytest.raises(Refused) as raised:
        session.multi([mandate.guard, Create("/b")])
    assert raised.value.operation == mandate.guard
    assert session.get("/b") is None


def test_a_corrupt_epoch_stops_elections_and_is_named(open_session: Open) -> None:
    session = open_session()
    session.create(paths.CONTROLLER_EPOCH, b"seven")
    with pytest.raises(ZooKeeperError, match="no controller can be elected: /controller_epoch: b'seven'"):
        elect(session)
    node = session.get(paths.CONTROLLER_EPOCH)
    assert node is not None and node.data == b"seven"
    assert session.get(paths.CONTROLLER) is None


def test_a_candidate_that_may_not_raise_the_epoch_is_told_so(open_session: Open) -> None:
    ours = open_session(credentials=Credentials(username="epoka", password="secret"))
    mandate = elect(ours)
    candidate(ours, 100).resign(mandate)
    with pytest.raises(AccessDenied, match=r"/controller.*: access is denied"):
        elect(open_session())


def test_an_office_that_says_nothing_readable_is_still_taken(open_session: Open) -> None:
    session = open_session()
    session.create(paths.CONTROLLER, b"?", ephemeral=True)
    held = candidate(open_session(), 2).stand(NOW_MS)
    assert isinstance(held, Held)
    assert (held.session, held.controller) == (session.id, None)
    assert "/controller: it cannot be read" in held.reason


CANDIDATE = """
import sys, threading
from epoka.coordination.zookeeper.election import Election, Mandate
from epoka.coordination.zookeeper.session import Session
from epoka.coordination.zookeeper.znodes import ControllerZnode

session = Session(sys.argv[1], session_timeout_ms=2_000).open()
election = Election(session, ControllerZnode(int(sys.argv[2])))
changed = threading.Event()
election.watch(changed.set)
while True:
    changed.wait()
    changed.clear()
    outcome = election.stand(0)
    if isinstance(outcome, Mandate):
        print(outcome.epoch, flush=True)
        threading.Event().wait()
"""


def test_candidates_follow_one_another_while_winners_and_a_node_of_the_ensemble_are_killed(
    ensemble: ZooKeeperServer, open_session: Open
) -> None:
    connect = f"{ensemble.connect}/election"
    watcher = open_session(connect, session_timeout_ms=20_000)
    processes = {
        number: subprocess.Popen(
            [sys.executable, "-c", CANDIDATE, connect, str(number)], stdout=subprocess.PIPE, text=True
        )
        for number in (1, 2, 3)
    }
    look = candidate(watcher, 99)

    def winner(other_than: set[int]) -> int:
        def find() -> int | None:
            held = look.holder()
            return held.controller.id if held and held.controller else None

        return wait_until(lambda: (found := find()) not in (None, *other_than) and found, "a controller")

    killed: set[int] = set()
    try:
        last_epoch = 0
        for turn in (1, 2, 3):
            number = winner(killed)
            stdout = processes[number].stdout
            assert stdout is not None
            epoch = int(stdout.readline())
            assert epoch > last_epoch
            last_epoch = epoch
            if turn == 2:
                # The leader of the ensemble goes at the same time as the controller.
                ensemble.kill(next(node for node in ensemble.nodes if ensemble.mode(node) == "leader"))
            os.kill(processes[number].pid, signal.SIGKILL)
            killed.add(number)
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for node in ensemble.nodes:
            if not ensemble.running(node):
                ensemble.restart(node)

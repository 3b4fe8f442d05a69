"""A checker that has never objected is no evidence: here each one is shown what it must object to.

What clients notice while they run is in `test_client_checkers.py`, what a healed cluster must have become in
`test_liveness.py`, and that a run asks its checkers in `test_planted_runs.py`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import msgspec
import pytest

from epoka.model.events import Peer, Reply, Request, Respond
from epoka.model.image import register_broker_record
from epoka.sim import client
from epoka.sim.checkers import Violated
from epoka.sim.history import History
from epoka.sim.oracle import Batch, Oracle
from epoka.sim.process import DOUBLES, Machine
from epoka.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from epoka.wire.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionChangeRecord,
)
from tests.sim.watched import Watched


def _isr(watched: Watched, *isr: int, leader: int = -2) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=watched.topic.id, isr=isr, leader=leader)


def test_a_healthy_cluster_is_left_in_peace(watched: Watched) -> None:
    for node in (1, 2, 3, 100):
        watched.look(node)
    watched.checkers.logs_agree()
    assert watched.checkers.converged() is None
    assert watched.checkers.violations == []


def test_a_leader_that_lacks_something_is_noticed(watched: Watched) -> None:
    """It has everything when the controller chooses it, and no more when it begins to lead."""
    world = watched.world
    world.crash(1)
    world.run_until(lambda: world.partition("t").leader == 2)
    assert not world.leads(2, "t") and not watched.checkers.violations
    watched.replica(2).log.truncate_to(1)
    with pytest.raises(Violated):
        world.run_until(lambda: world.leads(2, "t"))
    assert watched.objection() == "1: the leader has everything"


def test_a_leader_that_is_chosen_although_it_lacks_something_is_noticed(watched: Watched) -> None:
    watched.replica(2).log.truncate_to(1)
    with pytest.raises(Violated):
        watched.decree(_isr(watched, 2, 3, leader=2))
    assert watched.objection() == "2: ISR members have everything"


def test_an_isr_member_that_lacks_something_is_noticed(watched: Watched) -> None:
    watched.replica(3).log.truncate_to(0)
    with pytest.raises(Violated):
        watched.look(3)
    assert watched.objection() == "2: ISR members have everything"


@pytest.mark.parametrize(("left", "violated"), [(2, False), (1, True), (None, True)])
def test_of_a_replica_that_was_not_taken_up_the_disk_counts(
    watched: Watched, left: int | None, violated: bool
) -> None:
    """As when a disk is full before the broker has been told what it holds."""
    replicas = watched.world.broker(3).replicas
    del replicas.by_name["t", 0]
    if left is None:
        del replicas.logs.logs["t", 0]
    else:
        replicas.logs.logs["t", 0].truncate_to(left)
    with pytest.raises(Violated) if violated else nullcontext():
        watched.checkers.candidates(
            watched.key, watched.world.partition("t"), watched.checkers.oracle.committed(watched.key)
        )
    assert [each.checker for each in watched.checkers.violations] == [
        "2: ISR members have everything"
    ] * violated


def test_a_quorum_without_an_isr_member_is_noticed(watched: Watched) -> None:
    replica = watched.replica(1)
    replica.leadership.isr = (1, 2)
    with pytest.raises(Violated):
        watched.checkers.quorum(watched.process(1), watched.key, replica)
    assert watched.objection() == "3: the quorum covers the ISR"


def test_a_commit_with_fewer_in_sync_than_the_topic_asks_for_is_noticed(watched: Watched) -> None:
    replica = watched.replica(1)
    watched.checkers.enough(watched.process(1), watched.key, replica)
    replica.leadership.isr = (1,)
    with pytest.raises(Violated):
        watched.checkers.enough(watched.process(1), watched.key, replica)
    assert watched.objection() == "19: enough are in sync"


def test_what_a_leader_commits_in_the_moment_it_begins_to_lead_is_taken_note_of(watched: Watched) -> None:
    """It was alone then, and its topic content with that: no later event moves the high watermark."""
    world, replica = watched.world, watched.replica(1)
    before = watched.checkers.oracle.committed(watched.key).end
    seen = watched.process(1).seen.partitions[watched.key]
    seen.leadership, seen.high_watermark = None, -1
    watched.checkers.leaders.clear()
    replica.min_isr, replica.leadership.isr = 1, (1,)
    client.producing(world, 1, "t", b"alone", acks=1)
    world.watch, watching = None, world.watch
    world.run(3)
    world.watch = watching
    replica.raise_high_watermark(replica.log.end_offset)
    with pytest.raises(Violated):
        watched.look(1)
    assert watched.objection() == "19: enough are in sync"
    assert watched.checkers.oracle.committed(watched.key).end == before + 1


def test_two_histories_of_one_offset_are_noticed(watched: Watched) -> None:
    committed = watched.checkers.oracle.committed(watched.key)
    committed.batches[0] = Batch(0, 1, 0, 12345)
    with pytest.raises(Violated):
        watched.checkers.logs_agree()
    assert watched.objection() == "6: nothing committed is lost"


def test_two_leaders_that_commit_different_records_at_one_offset_are_noticed(watched: Watched) -> None:
    world, former = watched.world, watched.replica(1)
    world.isolate(1)
    world.run_until(lambda: world.leads(2, "t") and world.partition("t").leader == 2)
    client.write(world, 2, "t", b"X")
    lifecycle = world.broker(1).lifecycle
    lifecycle.self_fenced, lifecycle.last_contact_ms = False, world.broker(1).now
    client.producing(world, 1, "t", b"Y", acks=1)
    world.run(3)
    former.raise_high_watermark(former.log.end_offset)
    with pytest.raises(Violated):
        watched.look(1)
    assert watched.objection() == "4: logs match"


def test_a_leader_that_commits_what_contradicts_the_committed_is_noticed(watched: Watched) -> None:
    """Somebody has committed one record where this leader has two in one batch."""
    committed = watched.checkers.oracle.committed(watched.key)
    committed.add([Batch(2, 3, watched.replica(1).leader_epoch, 12345)])
    with pytest.raises(Violated):
        client.write(watched.world, 1, "t", b"three", b"four")
    assert watched.objection() == "4: logs match"


def test_what_contradicts_the_committed_is_told() -> None:
    committed = Oracle().committed((Watched, 0))  # type: ignore[arg-type]
    assert committed.add([Batch(0, 1, 0, 7)]) is None
    assert committed.add([Batch(0, 1, 0, 7)]) is None
    assert "committed before" in (committed.add([Batch(0, 1, 0, 8)]) or "")
    assert "does not continue" in (committed.add([Batch(5, 6, 0, 8)]) or "")


def test_a_high_watermark_that_falls_is_noticed(watched: Watched) -> None:
    watched.replica(1).high_watermark -= 1
    with pytest.raises(Violated):
        watched.look(1)
    assert watched.objection() == "8: the high watermark goes up"


def test_two_leaders_in_one_epoch_are_noticed(watched: Watched) -> None:
    replica = watched.replica(2)
    replica.leadership = watched.replica(1).leadership
    watched.checkers.leaders[watched.key, replica.leader_epoch] = (99, "somebody else")
    with pytest.raises(Violated):
        watched.look(2)
    assert watched.objection() == "8: one leader an epoch"


def test_a_leader_epoch_that_falls_is_noticed(watched: Watched) -> None:
    watched.look(2)
    watched.replica(2).leader_epoch -= 1
    with pytest.raises(Violated):
        watched.look(2)
    assert watched.objection() == "8: epochs go up"


@pytest.mark.parametrize("falling", ["leader_epoch", "partition_epoch"])
def test_an_epoch_of_the_controller_that_falls_is_noticed(watched: Watched, falling: str) -> None:
    """The other one rises, as it would."""
    state, image = watched.world.partition("t"), watched.world.controller.image
    epochs = {"leader_epoch": state.leader_epoch + 1, "partition_epoch": state.partition_epoch + 1}
    epochs[falling] -= 2
    image.tell_partition(watched.topic.id, 0, msgspec.structs.replace(state, **epochs))
    with pytest.raises(Violated):
        watched.decree(NoOpRecord())
    assert watched.objection() == "8: epochs go up"


def test_a_generation_that_falls_is_noticed(watched: Watched) -> None:
    broker = watched.world.controller.image.broker(3)
    assert broker is not None
    earlier = msgspec.structs.replace(broker, epoch=broker.epoch - 1)
    with pytest.raises(Violated):
        watched.decree(register_broker_record(earlier))
    assert watched.objection() == "8: epochs go up"


def test_a_fenced_isr_member_is_noticed(watched: Watched) -> None:
    epoch = watched.world.generation(3)
    with pytest.raises(Violated):
        watched.decree(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=epoch, fenced=1))
    assert watched.objection() == "9: only the active are in sync"


def test_a_fenced_leader_is_noticed(watched: Watched) -> None:
    epoch = watched.world.generation(1)
    with pytest.raises(Violated):
        watched.decree(
            _isr(watched, 1), BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=1)
        )
    assert watched.objection() == "9: only the active lead"


def test_a_stopping_broker_that_joins_again_is_noticed(watched: Watched) -> None:
    watched.decree(_isr(watched, 1, 2))
    watched.checkers.stopping[3, watched.world.generation(3)] = None
    with pytest.raises(Violated):
        watched.decree(_isr(watched, 1, 2, 3))
    assert watched.objection() == "9: the stopping stay out"


@pytest.mark.parametrize(
    ("isr", "leader", "objection"),
    [
        ((), -2, "10: the ISR is never empty"),
        ((2, 3), -2, "10: the leader is in the ISR"),
        ((1, 7), -2, "10: the ISR is of replicas"),
    ],
)
def test_a_nonsensical_isr_is_noticed(
    watched: Watched, isr: tuple[int, ...], leader: int, objection: str
) -> None:
    with pytest.raises(Violated):
        watched.decree(_isr(watched, *isr, leader=leader))
    assert watched.objection() == objection


def test_a_produce_taken_out_of_contact_is_noticed(watched: Watched) -> None:
    core = watched.world.broker(1)
    core.lifecycle.last_contact_ms = core.now - 5_000
    request = Request(1, 9, client.produce_request("t", 0, client.batch([b"x"])), Peer())
    with pytest.raises(Violated):
        watched.checkers.appended(watched.process(1), watched.replica(1), request)
    assert watched.objection() == "11: the isolated take nothing"


def test_a_core_that_raised_is_noticed(watched: Watched) -> None:
    watched.world.broken.append("a defect")
    with pytest.raises(Violated):
        watched.look(1)
    assert watched.objection() == "a core broke"


def test_a_silent_broker_that_is_counted_on_is_noticed(watched: Watched) -> None:
    session = watched.world.controller.state.sessions.get(2)
    assert session is not None
    session.contact_ms -= 60_000
    with pytest.raises(Violated):
        watched.look(100)
    assert watched.objection() == "14: the silent are fenced"


def test_an_id_taken_from_the_living_is_noticed(watched: Watched) -> None:
    with pytest.raises(Violated):
        watched.checkers.living_id_taken(watched.world.controller.image, 1, watched.world.generation(1))
    assert watched.objection() == "15: an id has one life"


def test_an_id_may_be_taken_from_a_broker_that_asks_to_be_fenced(watched: Watched) -> None:
    watched.world.broker(1).replicas.offline_reason = "the disk has failed"
    watched.checkers.living_id_taken(watched.world.controller.image, 1, watched.world.generation(1))
    assert watched.checkers.violations == []


def test_a_stranger_is_noticed(watched: Watched) -> None:
    watched.checkers.expected = {1, 2}
    with pytest.raises(Violated):
        watched.checkers.state_changed(watched.world.controller.image)
    assert watched.objection() == "16: strangers stay out"


def test_a_stale_control_request_that_was_obeyed_is_noticed() -> None:
    watched = Watched("zookeeper")
    request = Request(77, 5, LeaderAndIsrRequest(controller_epoch=1, max_broker_epoch=3), Peer(control=True))
    watched.world.effects = [Respond(77, LeaderAndIsrResponse())]
    with pytest.raises(Violated):
        watched.look(1, request)
    assert watched.objection() == "17: nothing stale is obeyed"


def test_a_stale_control_request_that_was_refused_is_not() -> None:
    watched = Watched("zookeeper")
    request = Request(77, 5, LeaderAndIsrRequest(controller_epoch=1, max_broker_epoch=3), Peer(control=True))
    watched.world.effects = [Respond(77, LeaderAndIsrResponse(error_code=77))]
    watched.look(1, request)
    assert watched.checkers.violations == []


def _told_of_a_failed_disk(watched: Watched) -> None:
    """The controller takes broker 3 out of the ISR for what it was answered."""
    image = watched.world.controller.image
    image.apply(_isr(watched, 1, 2), image.offset + 1)
    watched.look(100, Reply(1, None))


def test_a_broker_that_is_taken_out_for_a_disk_that_is_well_is_noticed(watched: Watched) -> None:
    with pytest.raises(Violated):
        _told_of_a_failed_disk(watched)
    assert watched.objection() == "18: a good disk counts"


def test_a_broker_that_is_taken_out_for_a_disk_that_has_failed_is_not(watched: Watched) -> None:
    watched.world.broker(3).replicas.offline_reason = "the disk is full"
    _told_of_a_failed_disk(watched)
    assert watched.checkers.violations == []


def test_the_last_replica_standing_is_an_exception_that_is_counted(watched: Watched) -> None:
    watched.decree(_isr(watched, 1))
    watched.checkers.oracle.lost_data(1, [watched.key])
    watched.replica(1).log.truncate_to(1)
    watched.look(1)
    assert watched.checkers.oracle.exceptions == 1
    assert watched.checkers.oracle.committed(watched.key).end == 1


def _double_of_the_last_member(watched: Watched) -> None:
    """Broker 1 is the last in the ISR and out of contact; another process on an empty disk gets its id."""
    world = watched.world
    world.crash(2)
    world.crash(3)
    world.run_until(lambda: world.partition("t").isr == (1,))
    world.isolate(1, from_=[-1])
    world.run_until(lambda: world.partition("t").leader == -1)
    world.machines[1 + DOUBLES] = Machine(1 + DOUBLES, 1)
    world.start_broker(1, 1 + DOUBLES)
    world.run_until(lambda: world.partition("t").leader == 1)
    world.run(10)


def test_a_double_of_the_last_replica_standing_is_the_same_exception(watched: Watched) -> None:
    _double_of_the_last_member(watched)
    assert watched.checkers.oracle.exceptions == 1
    assert watched.checkers.oracle.committed(watched.key).end == 0


def test_a_double_that_lacks_what_is_committed_later_is_noticed(watched: Watched) -> None:
    _double_of_the_last_member(watched)
    committed = watched.checkers.oracle.committed(watched.key)
    committed.add([Batch(0, 1, 9, 1)])
    with pytest.raises(Violated):
        watched.checkers.candidates(watched.key, watched.world.partition("t"), committed)
    assert watched.objection() == "2: ISR members have everything"


@pytest.mark.parametrize(("left", "exceptions", "end"), [(0, 1, 0), (1, 1, 1), (2, 0, 2)])
def test_what_an_earlier_leader_commits_late_is_excused_if_the_last_replica_had_lost_it(
    watched: Watched, left: int, exceptions: int, end: int
) -> None:
    oracle, key = Oracle(), watched.key
    watched.replica(2).log.truncate_to(left)
    oracle.taken_over(key, 3, watched.replica(2).log)
    oracle.commits_late(key, watched.replica(1).log, 2)
    committed = oracle.committed(key)
    assert (oracle.exceptions, committed.end) == (exceptions, end)
    assert committed.excused_from == (left if exceptions else None)


def test_a_replica_that_was_taken_into_the_isr_again_has_no_excuse(watched: Watched) -> None:
    watched.decree(_isr(watched, 1))
    watched.checkers.oracle.lost_data(2, [watched.key])
    watched.decree(_isr(watched, 1, 2))
    assert not watched.checkers.oracle.lost


# What clients see.

KEY: Any = ("topic", 0)


def _history(*values: bytes, idempotent: bool = True) -> History:
    history = History()
    for offset, value in enumerate(values):
        history.acknowledged(history.sends(value, KEY, 1, -1, idempotent), offset)
    return history


def test_a_clean_history_has_no_anomalies() -> None:
    history = _history(b"a", b"b")
    assert history.reads(KEY, 0, b"a") is None and history.reads(KEY, 1, b"b") is None
    assert history.anomalies() == []


@pytest.mark.parametrize(
    ("reads", "anomaly"),
    [
        ([(0, b"a"), (0, b"b")], "inconsistent-offsets"),
        ([(0, b"z")], "phantom-read"),
        ([(0, b"b")], "duplicate"),
    ],
)
def test_a_reader_s_anomaly_is_named(reads: list[tuple[int, bytes]], anomaly: str) -> None:
    history = _history(b"a", b"b")
    told = [history.reads(KEY, *each) for each in reads]
    assert (told[-1] or "").startswith(anomaly)


def test_an_aborted_read_is_named() -> None:
    history = History()
    history.sends(b"a", KEY, 1, -1, False).failed = True
    assert (history.reads(KEY, 0, b"a") or "").startswith("aborted-read")


@pytest.mark.parametrize(("seen", "anomaly"), [((1,), "lost-write"), ((), "unseen")])
def test_what_was_acknowledged_and_is_not_read_is_named(seen: tuple[int, ...], anomaly: str) -> None:
    history = _history(b"a", b"b")
    for offset in seen:
        history.reads(KEY, offset, b"b")
    assert history.anomalies()[0].startswith(anomaly)


def test_a_value_at_two_offsets_and_an_order_turned_round_are_named() -> None:
    history = History()
    first, second = (history.sends(value, KEY, 1, -1, True) for value in (b"a", b"b"))
    for offset, sent in enumerate((second, first, second)):
        history.reads(KEY, offset, sent.value)
    told = " ".join(history.anomalies())
    assert "duplicate" in told and "nonmonotonic-send" in told


def test_the_exception_forgives_what_it_took_and_no_more() -> None:
    history = _history(b"a", b"b")
    history.excuse(KEY, 1)
    assert [each.split(":")[0] for each in history.anomalies()] == ["unseen"]
    history.reads(KEY, 0, b"a")
    assert history.anomalies() == []


def test_a_violation_says_where_it_was(watched: Watched) -> None:
    watched.replica(1).high_watermark -= 1
    with pytest.raises(Violated):
        watched.look(1)
    (violation,) = watched.checkers.violations
    assert violation.event == watched.world.events and violation.time_ms == watched.world.now
    assert msgspec.json.decode(msgspec.json.encode(violation), type=type(violation)) == violation

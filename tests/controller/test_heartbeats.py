"""BrokerHeartbeat and sessions: the transition table row by row, the boundaries, controlled shutdown."""

from __future__ import annotations

import pytest

from epoka.fencing import Rules
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from tests.controller.office import TIMEOUT_MS, Office


def fenced(office: Office, broker_id: int) -> bool:
    broker = office.image.broker(broker_id)
    assert broker is not None
    return broker.fenced


def stopping(office: Office, broker_id: int) -> bool:
    broker = office.image.broker(broker_id)
    assert broker is not None
    return broker.in_controlled_shutdown


@pytest.mark.parametrize("difference", [-1, 1, None], ids=["one less", "one more", "-1"])
def test_another_generation_is_stale(difference: int | None) -> None:
    office = Office()
    office.join(1)
    epoch = -1 if difference is None else office.epoch(1) + difference
    assert office.heartbeat(1, broker_epoch=epoch).error_code == ErrorCode.STALE_BROKER_EPOCH
    (event,) = office.events("verdict")
    assert (event.rule, event.given, event.expected) == (
        "heartbeat.generation",
        str(epoch),
        str(office.epoch(1)),
    )


def test_an_unregistered_broker_is_stale() -> None:
    assert Office().heartbeat(1, broker_epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_stale_heartbeat_does_not_prolong_the_session() -> None:
    office = Office()
    office.join(1)
    office.now += TIMEOUT_MS
    office.heartbeat(1, broker_epoch=0)
    office.now += 1
    office.wake()
    assert fenced(office, 1)


@pytest.mark.parametrize(("behind", "unfenced"), [(1, False), (0, True), (-1, True)])
def test_a_broker_is_unfenced_when_it_has_read_its_own_registration(behind: int, unfenced: bool) -> None:
    office = Office()
    office.register(1)
    response = office.heartbeat(1, current_metadata_offset=office.epoch(1) - behind)
    assert (response.is_caught_up, response.is_fenced) == (unfenced, not unfenced)
    assert fenced(office, 1) is not unfenced


def test_a_fenced_broker_that_wants_to_stay_fenced_does() -> None:
    office = Office()
    office.register(1)
    response = office.heartbeat(1, want_fence=True)
    assert response.is_caught_up and response.is_fenced and fenced(office, 1)


@pytest.mark.parametrize("want_fence", [False, True])
def test_a_fenced_broker_that_wants_to_shut_down_may(want_fence: bool) -> None:
    office = Office()
    office.register(1)
    response = office.heartbeat(1, want_fence=want_fence, want_shut_down=True)
    assert response.should_shut_down and response.is_fenced and fenced(office, 1)


def test_an_unfenced_broker_that_wants_to_be_fenced_is() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    response = office.heartbeat(1, want_fence=True)
    assert response.is_fenced and not response.should_shut_down
    assert office.partition("t").isr == (2,)


def test_an_unfenced_broker_that_wants_both_goes_at_once() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    response = office.heartbeat(1, want_fence=True, want_shut_down=True)
    assert response.should_shut_down and fenced(office, 1) and office.partition("t").leader == 2


def test_a_broker_that_leads_nothing_goes_at_once() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [2, 1])
    response = office.stop(1)
    assert response.should_shut_down and fenced(office, 1)
    assert office.partition("t").isr == (2,)


def test_a_broker_that_leads_begins_a_controlled_shutdown() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    response = office.stop(1)
    assert not response.should_shut_down and not response.is_fenced
    assert stopping(office, 1) and not fenced(office, 1)
    state = office.partition("t")
    assert (state.leader, state.isr) == (2, (2,))


@pytest.mark.parametrize(("behind", "released"), [(1, False), (0, True)])
def test_it_ends_when_every_active_broker_has_read_far_enough(behind: int, released: bool) -> None:
    office = Office()
    office.join(1, 2, 3)
    office.create("t", [1, 2])
    office.stop(1)
    target = office.image.offset
    office.heartbeat(2, current_metadata_offset=target)
    office.heartbeat(3, current_metadata_offset=target - behind)
    assert office.stop(1).should_shut_down is released
    assert fenced(office, 1) is released


def test_the_target_does_not_move_with_the_log() -> None:
    """KAFKA-14292: a busy log must not put off the end of a shutdown for ever."""
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    office.stop(1)
    target = office.image.offset
    for number in range(3):
        office.create(f"more-{number}", [2])
        office.stop(1)
    office.heartbeat(2, current_metadata_offset=target)
    assert office.stop(1).should_shut_down


def test_fenced_and_stopping_brokers_hold_up_nobody() -> None:
    office = Office()
    office.join(1, 2, 3)
    office.create("one", [1, 2])
    office.create("two", [2, 1])
    office.stop(1)
    office.stop(2)
    office.fence(3)
    assert office.stop(1).should_shut_down
    assert office.stop(2).should_shut_down


def test_a_stopping_broker_that_still_leads_is_not_released() -> None:
    """Before KIP-841 it could come back into an ISR and into a leadership while it was stopping."""
    office = Office(FeatureLevel.HEARTBEATS)
    office.join(1, 2, 3)
    office.create("t", [1, 2])
    office.stop(1)
    assert office.propose("t", [2, 1], version=1).error_code == ErrorCode.NONE
    office.fence(2)
    assert office.partition("t").leader == 1
    office.heartbeat(3)
    assert not office.stop(1).should_shut_down
    assert office.partition("t").leader == -1
    assert office.stop(1).should_shut_down


def test_the_last_isr_member_takes_its_partition_offline_when_it_stops() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1])
    office.stop(1)
    state = office.partition("t")
    assert (state.leader, state.isr, state.leader_epoch) == (-1, (1,), 1)


def test_a_controller_restart_in_the_middle_of_a_shutdown_forgets_nothing() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    office.stop(1)
    office.restart()
    assert stopping(office, 1)
    assert office.propose("t", [2, 1]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert not office.stop(1).should_shut_down, "broker 2 has not told this controller what it has read"
    office.heartbeat(2)
    assert office.stop(1).should_shut_down


def test_below_eligible_isr_a_shutdown_is_not_persisted() -> None:
    office = Office(FeatureLevel.SHARED_UPDATES)
    office.join(1, 2)
    office.create("t", [1, 2])
    assert not office.stop(1).should_shut_down
    assert not stopping(office, 1) and office.partition("t").leader == 2
    office.restart()
    assert office.propose("t", [2, 1], version=1).error_code == ErrorCode.NONE, "what KIP-841 is about"


@pytest.mark.parametrize("level", [each for each in FeatureLevel if each >= FeatureLevel.HEARTBEATS])
@pytest.mark.parametrize("before", ["leads", "follows", "is fenced"])
def test_a_broker_that_was_let_go_comes_back_in_its_next_life_only(level: FeatureLevel, before: str) -> None:
    """A heartbeat from before its shutdown may arrive when it has long ended."""
    office = Office(level)
    office.join(1, 2)
    office.create("t", [1] if before == "leads" else [2, 1], unclean_leader_election_enable="true")
    if before == "is fenced":
        office.fence(1)
    while not office.stop(1).should_shut_down:
        office.heartbeat(2)
    office.fence(2)
    leader, end = office.partition("t").leader, office.image.offset
    assert office.heartbeat(1).is_fenced and fenced(office, 1), "the late one"
    office.restart()
    assert office.heartbeat(1).is_fenced and fenced(office, 1), "another, at the next controller"
    assert office.stop(1).should_shut_down, "it never heard that it may go"
    assert (office.partition("t").leader, office.image.offset) == (leader, end)
    office.join(1, life=2)
    assert not stopping(office, 1) and office.partition("t").leader == 1


@pytest.mark.parametrize(("silence_ms", "gone"), [(-1, False), (0, False), (1, True)])
def test_silence_of_exactly_the_timeout_is_borne(silence_ms: int, gone: bool) -> None:
    office = Office()
    office.join(1)
    office.now += TIMEOUT_MS + silence_ms
    office.wake()
    assert fenced(office, 1) is gone


def test_the_deadline_is_when_the_next_session_ends() -> None:
    office = Office()
    office.join(1)
    assert office.core.deadline == office.now + TIMEOUT_MS + 1
    office.now += 500
    office.heartbeat(1)
    assert office.core.deadline == office.now + TIMEOUT_MS + 1


def test_one_broker_is_fenced_at_a_time() -> None:
    """KAFKA-13173: each election must see what the one before did."""
    office = Office()
    office.join(1, 2, 3)
    office.create("t", [1, 2, 3])
    office.now += TIMEOUT_MS + 1
    office.heartbeat(3)
    office.wake()
    assert [fenced(office, broker_id) for broker_id in (1, 2, 3)] == [True, False, False]
    assert office.core.deadline is not None and office.core.deadline <= office.now
    office.wake()
    assert [fenced(office, broker_id) for broker_id in (1, 2, 3)] == [True, True, False]
    assert office.partition("t").isr == (3,)


def test_the_longest_silent_broker_goes_first() -> None:
    office = Office()
    office.join(1)
    office.now += 1
    office.join(2)
    office.heartbeat(1)
    office.now += 1
    office.heartbeat(1)
    office.now += TIMEOUT_MS + 1
    office.wake()
    assert fenced(office, 2) and not fenced(office, 1)


def test_all_brokers_silent_leave_the_last_as_isr_without_leader() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    office.pass_time(TIMEOUT_MS + 1)
    state = office.partition("t")
    assert (state.leader, state.isr) == (-1, (2,))


def test_a_broker_that_comes_back_leads_what_has_no_leader_and_nothing_else() -> None:
    office = Office()
    office.join(1, 2)
    office.create("alone", [1])
    office.create("shared", [1, 2])
    office.fence(1)
    assert office.partition("alone").leader == -1
    office.heartbeat(1)
    assert (office.partition("alone").leader, office.partition("alone").leader_epoch) == (1, 2)
    assert office.partition("shared").leader == 2


def test_a_controller_that_starts_gives_every_unfenced_broker_a_fresh_session() -> None:
    office = Office()
    office.join(1, 2)
    office.fence(2)
    office.now += TIMEOUT_MS
    office.restart()
    office.pass_time(TIMEOUT_MS)
    assert not fenced(office, 1)
    office.pass_time(1)
    assert fenced(office, 1)


def test_fencing_tells_the_ledger_who_and_why() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    office.ledger.clear()
    office.now += 1
    office.heartbeat(2)
    office.pass_time(TIMEOUT_MS)
    verdict, gone, change = office.ledger[:3]
    assert (gone.kind, gone.broker, gone.rule) == ("fenced", 1, "heartbeat.session")
    assert (verdict.kind, verdict.event_id) == ("verdict", gone.cause)
    assert (verdict.given, verdict.expected) == (f"{TIMEOUT_MS + 1} ms of silence", f"<= {TIMEOUT_MS} ms")
    assert (change.kind, change.topic, change.leader, change.cause) == ("leader", "t", 2, gone.event_id)


def test_with_the_session_rule_off_nobody_is_fenced_and_nobody_is_woken() -> None:
    office = Office(rules=Rules.without("heartbeat.session"))
    office.join(1)
    office.now += 10 * TIMEOUT_MS
    office.wake()
    assert not fenced(office, 1) and office.core.deadline is None


def test_with_the_generation_rule_off_an_old_life_speaks_for_the_new_one() -> None:
    office = Office(rules=Rules.without("heartbeat.generation"))
    office.register(1)
    assert office.heartbeat(1, broker_epoch=-7).error_code == ErrorCode.NONE


def test_a_controller_that_was_paused_itself_reads_its_heartbeats_before_it_fences() -> None:
    office = Office()
    office.join(1, 2)
    office.now += 3 * TIMEOUT_MS
    office.wake()
    assert not fenced(office, 1) and not fenced(office, 2)
    assert office.events("paused")[0].detail == f"woken {2 * TIMEOUT_MS - 1} ms late"
    office.heartbeat(1)
    office.pass_time(TIMEOUT_MS // 4)
    assert fenced(office, 2) and not fenced(office, 1), "whoever stays silent is gone"


@pytest.mark.parametrize(("late_ms", "gone"), [(TIMEOUT_MS // 4, True), (TIMEOUT_MS // 4 + 1, False)])
def test_a_wake_that_is_a_little_late_is_no_excuse(late_ms: int, gone: bool) -> None:
    office = Office()
    office.join(1)
    office.now += TIMEOUT_MS + 1 + late_ms
    office.wake()
    assert fenced(office, 1) is gone


def test_a_broker_without_a_disk_is_fenced_and_stays_so() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    broker = office.image.broker(1)
    assert broker is not None
    assert office.heartbeat(1, offline_log_dirs=broker.log_dirs).is_fenced
    assert office.partition("t").isr == (2,)
    assert office.heartbeat(1, offline_log_dirs=broker.log_dirs).is_fenced
    assert not office.heartbeat(1).is_fenced


@pytest.mark.parametrize("level", [FeatureLevel.SHARED_UPDATES, FeatureLevel.ELIGIBLE_ISR])
def test_the_beginning_of_a_shutdown_is_told_once(level: FeatureLevel) -> None:
    office = Office(level)
    office.join(1, 2)
    office.create("t", [1, 2])
    office.stop(1)
    office.stop(1)
    assert [(event.broker, event.rule) for event in office.events("stopping")] == [(1, "shutdown.generation")]

"""BrokerRegistration: the order of its checks, what a new life changes, what the same life keeps."""

from __future__ import annotations

from uuid import UUID

import pytest

from epoka.fencing import Rules
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.broker_registration import SupportedFeature
from epoka.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.controller.office import TIMEOUT_MS, Office

OTHER_CLUSTER = {"cluster_id": "another-cluster"}
ANOTHER_LIFE = {"incarnation_id": UUID(int=99)}
NO_LOG_DIRS: dict[str, object] = {"log_dirs": ()}
OLD_CODE = {"features": (SupportedFeature(FEATURE_NAME, 0, 1),)}
ANOTHER_DISK = (UUID(int=1 << 64),)


def test_the_epoch_is_the_offset_of_the_registration_record() -> None:
    office = Office()
    response = office.register(1)
    assert response.broker_epoch == office.image.offset == 1
    assert office.epoch(1) == 1


def test_a_new_broker_is_fenced() -> None:
    office = Office()
    office.register(1)
    broker = office.image.broker(1)
    assert broker is not None and broker.fenced and not broker.in_controlled_shutdown


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        (OTHER_CLUSTER | ANOTHER_LIFE | NO_LOG_DIRS | OLD_CODE, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (ANOTHER_LIFE | NO_LOG_DIRS | OLD_CODE, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        ({"is_migrating_zk_broker": True} | NO_LOG_DIRS | OLD_CODE, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (NO_LOG_DIRS | OLD_CODE, ErrorCode.INVALID_REGISTRATION),
        (OLD_CODE, ErrorCode.UNSUPPORTED_VERSION),
        ({}, ErrorCode.NONE),
    ],
)
def test_the_first_check_that_fails_is_the_answer(wrong: dict[str, object], answer: ErrorCode) -> None:
    office = Office()
    office.join(1)
    before = office.image.state_hash()
    assert office.register(1, **wrong).error_code == answer
    assert office.image.state_hash() == before


@pytest.mark.parametrize(
    "log_dirs",
    [(), (UUID(int=0),), (UUID(int=99),), (UUID(int=500), UUID(int=500)), (UUID(int=1 << 64 | 0xFFFF),)],
    ids=["none", "lost", "reserved", "twice", "of another broker"],
)
def test_bad_log_directories_are_refused(log_dirs: tuple[UUID, ...]) -> None:
    office = Office()
    office.join(1)
    assert office.register(2, log_dirs=log_dirs).error_code == ErrorCode.INVALID_REGISTRATION
    assert office.image.broker(2) is None


def test_the_first_log_directory_id_that_is_not_reserved_is_accepted() -> None:
    assert Office().register(2, log_dirs=(UUID(int=100),)).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("low", "high"), [(0, 4), (6, 9)])
def test_a_broker_that_does_not_know_the_level_is_refused(low: int, high: int) -> None:
    features = (SupportedFeature(FEATURE_NAME, low, high),)
    assert Office().register(1, features=features).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_broker_that_names_no_levels_is_refused() -> None:
    assert Office().register(1, features=()).error_code == ErrorCode.INVALID_REGISTRATION


def test_a_negative_broker_id_is_refused() -> None:
    assert Office().register(-1).error_code == ErrorCode.INVALID_REGISTRATION


@pytest.mark.parametrize(
    ("silence_ms", "answer"),
    [
        (TIMEOUT_MS - 1, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        (TIMEOUT_MS, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        (TIMEOUT_MS + 1, ErrorCode.NONE),
    ],
)
def test_another_life_on_another_disk_must_wait_for_the_end_of_the_session(
    silence_ms: int, answer: ErrorCode
) -> None:
    office = Office()
    office.join(1)
    office.now += silence_ms
    assert office.register(1, life=2, log_dirs=ANOTHER_DISK).error_code == answer


def test_another_life_on_the_same_disk_need_not_wait() -> None:
    office = Office()
    office.join(1)
    before = office.epoch(1)
    assert office.register(1, life=2).error_code == ErrorCode.NONE
    assert office.epoch(1) > before


def test_a_registration_of_an_earlier_life_on_the_same_disk_takes_nobodys_place() -> None:
    office = Office()
    office.join(1)
    late = office.registration(1, life=2)
    office.join(1, life=3)
    before = office.epoch(1)
    assert office.ask(late, 4).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert office.epoch(1) == before


def test_another_life_of_a_fenced_broker_need_not_wait() -> None:
    office = Office()
    office.register(1)
    office.heartbeat(1, want_fence=True)
    assert office.register(1, life=2).error_code == ErrorCode.NONE


def test_after_a_granted_shutdown_the_next_life_need_not_wait() -> None:
    office = Office()
    office.join(1, 2)
    assert office.stop(1).should_shut_down
    assert office.register(1, life=2).error_code == ErrorCode.NONE


def test_a_refused_duplicate_is_in_the_ledger() -> None:
    office = Office()
    office.join(1)
    office.register(1, life=2, log_dirs=ANOTHER_DISK)
    (event,) = office.events("verdict")
    assert (event.rule, event.verdict, event.broker) == ("registration.incarnation", "refused", 1)
    assert event.given == str(UUID(int=1 << 32 | 2)) and event.expected == str(UUID(int=1 << 32 | 1))
    assert event.error == "DUPLICATE_BROKER_REGISTRATION"


def test_without_the_rule_a_duplicate_takes_over() -> None:
    office = Office(rules=Rules.without("registration.incarnation"))
    office.join(1)
    assert office.register(1, life=2).error_code == ErrorCode.NONE


def test_the_same_life_keeps_generation_and_standing() -> None:
    office = Office()
    office.join(1)
    epoch, offset = office.epoch(1), office.image.offset
    assert office.register(1).broker_epoch == epoch
    broker = office.image.broker(1)
    assert broker is not None and not broker.fenced and office.image.offset == offset


def test_the_same_life_may_change_its_rack() -> None:
    office = Office()
    office.join(1)
    epoch = office.epoch(1)
    assert office.register(1, rack="r9").broker_epoch == epoch
    broker = office.image.broker(1)
    assert broker is not None and broker.rack == "r9" and not broker.fenced


def test_a_new_life_gets_a_higher_generation_and_loses_the_stopping_flag() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    office.stop(1)
    stopping = office.image.broker(1)
    assert stopping is not None and stopping.in_controlled_shutdown
    office.now += TIMEOUT_MS + 1
    response = office.register(1, life=2)
    broker = office.image.broker(1)
    assert broker is not None and response.broker_epoch == broker.epoch == office.image.offset
    assert broker.epoch > stopping.epoch and broker.fenced and not broker.in_controlled_shutdown


def test_a_new_life_leaves_every_isr_it_can_leave_and_what_it_led_gets_a_new_leader_epoch() -> None:
    """The sweep has not run yet, so nobody else would have done it (hole 3)."""
    office = Office()
    office.join(1, 2)
    office.create("led", [1, 2])
    office.create("followed", [2, 1])
    office.create("alone", [1])
    office.now += TIMEOUT_MS + 1
    office.register(1, life=2)
    led, followed, alone = (office.partition(name) for name in ("led", "followed", "alone"))
    assert (led.leader, led.isr, led.leader_epoch) == (2, (2,), 1)
    assert (followed.leader, followed.isr, followed.leader_epoch) == (2, (2,), 0)
    assert (alone.leader, alone.isr, alone.leader_epoch) == (-1, (1,), 1)


def test_the_changes_of_a_bounce_name_the_registration_as_their_cause() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    office.now += TIMEOUT_MS + 1
    office.ledger.clear()
    office.register(1, life=2)
    registered, change = office.ledger
    assert (registered.kind, registered.rule) == ("registered", "registry.bounce")
    assert (change.kind, change.cause, change.isr_before, change.isr) == (
        "leader",
        registered.event_id,
        (1, 2),
        (2,),
    )


def test_unregistering_takes_the_broker_out_of_everything() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    assert office.ask(UnregisterBrokerRequest(broker_id=1)).error_code == ErrorCode.NONE
    assert office.image.broker(1) is None
    assert office.partition("t").isr == (2,)
    assert office.heartbeat(1, broker_epoch=1).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_who_was_taken_into_an_isr_while_unregistered_leaves_it_with_its_next_life() -> None:
    office = Office(FeatureLevel.HEARTBEATS)
    office.join(1, 2)
    office.create("t", [1, 2])
    office.ask(UnregisterBrokerRequest(broker_id=2))
    assert office.propose("t", [1, 2], version=1).error_code == 0, "nothing forbids it at this level"
    assert office.register(2, life=2).error_code == 0
    assert office.partition("t").isr == (1,)
    assert office.epoch(2) == office.image.offset


def test_unregistering_an_unknown_broker_is_an_error() -> None:
    response = Office().ask(UnregisterBrokerRequest(broker_id=7))
    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("beyond", "error"), [(0, ErrorCode.NONE), (1, ErrorCode.INVALID_REGISTRATION)])
def test_a_disk_that_has_lived_by_another_log_is_refused(known: bool, beyond: int, error: ErrorCode) -> None:
    office = Office()
    office.join(*((1, 2) if known else (2,)))
    highest, end = office.epoch(1) if known else office.image.offset, office.image.offset
    office.now += TIMEOUT_MS + 1
    response = office.register(1, life=2, last_broker_epoch=highest + beyond)
    assert response.error_code == error
    assert (office.image.offset == end) is (error != ErrorCode.NONE), "nor does the log grow by it"

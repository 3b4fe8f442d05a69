"""Every fencing rule at its boundary: equal, one less, one more, -1, nothing known."""

from __future__ import annotations

from uuid import UUID

import pytest

from epoka import fencing
from epoka.fencing import RULES, Rules, Verdict
from epoka.wire.error_codes import ErrorCode

STALE = ErrorCode.STALE_BROKER_EPOCH
ACCEPTED = ErrorCode.NONE
ONE, TWO = UUID(int=1), UUID(int=2)


def outcome(verdict: Verdict) -> ErrorCode:
    assert verdict.accepted == (verdict.error == ErrorCode.NONE)
    if verdict.refused:
        assert verdict.given and verdict.expected and verdict.reason
    return verdict.error


@pytest.mark.parametrize(
    ("given", "own", "expected"),
    [(7, 7, ACCEPTED), (6, 7, STALE), (8, 7, ACCEPTED), (-1, 7, ACCEPTED), (0, -1, ACCEPTED), (-2, 7, STALE)],
)
@pytest.mark.parametrize("rule", [fencing.control.generation, fencing.control.max_generation])
def test_a_control_request_of_an_earlier_life_is_stale(
    rule: object, given: int, own: int, expected: ErrorCode
) -> None:
    assert callable(rule)
    assert outcome(rule(given, own)) == expected


@pytest.mark.parametrize(
    ("given", "known", "expected"),
    [
        (3, 3, ACCEPTED),
        (2, 3, ErrorCode.STALE_CONTROLLER_EPOCH),
        (4, 3, ACCEPTED),
        (-1, 3, ErrorCode.STALE_CONTROLLER_EPOCH),
    ],
)
def test_a_replaced_controller_is_stale(given: int, known: int, expected: ErrorCode) -> None:
    assert outcome(fencing.control.controller(given, known)) == expected


@pytest.mark.parametrize(("given", "newest", "accepted"), [(7, 7, True), (8, 7, True), (6, 7, False)])
def test_a_connection_that_the_controller_has_left_is_not_obeyed(
    given: int, newest: int, accepted: bool
) -> None:
    assert fencing.control.connection(given, newest).accepted is accepted


@pytest.mark.parametrize(
    ("given", "registered", "expected"),
    [
        (7, 7, ACCEPTED),
        (6, 7, STALE),
        (8, 7, STALE),
        (-1, 7, ACCEPTED),
        (7, None, STALE),
        (-1, None, ACCEPTED),
    ],
)
def test_a_shutdown_asked_for_by_another_life(
    given: int, registered: int | None, expected: ErrorCode
) -> None:
    assert outcome(fencing.shutdown.generation(given, registered)) == expected


@pytest.mark.parametrize(
    ("given", "registered", "expected"),
    [(7, 7, ACCEPTED), (6, 7, STALE), (8, 7, STALE), (-1, 7, STALE), (7, None, STALE), (-1, None, STALE)],
)
def test_a_requester_must_be_of_the_registered_generation(
    given: int, registered: int | None, expected: ErrorCode
) -> None:
    assert outcome(fencing.registration.requester(given, registered)) == expected
    assert outcome(fencing.heartbeat.generation(given, registered)) == expected


INVALID = ErrorCode.INVALID_INCARNATION_ID


@pytest.mark.parametrize(
    ("given", "registered", "expected"),
    [(7, 7, ACCEPTED), (6, 7, INVALID), (8, 7, ACCEPTED), (-1, 7, INVALID), (7, None, ACCEPTED)],
)
def test_where_zookeeper_gives_generations_a_higher_heartbeat_is_adopted(
    given: int, registered: int | None, expected: ErrorCode
) -> None:
    assert outcome(fencing.heartbeat.generation(given, registered, adopts_higher=True)) == expected


@pytest.mark.parametrize(
    ("known", "seen", "bounced"), [(7, 7, False), (7, 8, True), (7, 6, False), (-1, 7, False)]
)
def test_a_bounce_is_a_higher_generation_of_a_known_broker(known: int, seen: int, bounced: bool) -> None:
    verdict = fencing.registry.bounce(known, seen)
    assert verdict.accepted and fencing.registry.is_bounce(verdict) is bounced


@pytest.mark.parametrize(("silence_ms", "accepted"), [(999, True), (1000, True), (1001, False), (-1, True)])
def test_silence_is_borne_up_to_the_timeout(silence_ms: int, accepted: bool) -> None:
    assert fencing.heartbeat.session(5000, 5000 + silence_ms, 1000).accepted is accepted
    assert fencing.heartbeat.contact(5000, 5000 + silence_ms, 1000).accepted is accepted


def test_the_cluster_id_must_be_the_same() -> None:
    assert outcome(fencing.registration.cluster("a", "a")) == ACCEPTED
    assert outcome(fencing.registration.cluster("b", "a")) == ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.parametrize(
    ("given", "registered", "session_valid", "expected"),
    [
        (ONE, ONE, True, ACCEPTED),
        (TWO, ONE, True, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        (TWO, ONE, False, ACCEPTED),
        (ONE, None, False, ACCEPTED),
    ],
)
def test_two_processes_with_one_broker_id(
    given: UUID, registered: UUID | None, session_valid: bool, expected: ErrorCode
) -> None:
    verdict = fencing.registration.incarnation(given, registered, session_valid=session_valid)
    assert outcome(verdict) == expected


def test_a_process_that_holds_the_disk_of_the_one_before_has_outlived_it() -> None:
    verdict = fencing.registration.incarnation(TWO, ONE, session_valid=True, has_its_disk=True)
    assert outcome(verdict) == ACCEPTED


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "expected"),
    [
        (5, 9, ACCEPTED),
        (6, 9, ErrorCode.NOT_CONTROLLER),
        (5, 10, ErrorCode.NOT_CONTROLLER),
        (4, 8, ACCEPTED),
        (-1, -1, ACCEPTED),
        (4, 10, ErrorCode.NOT_CONTROLLER),
    ],
)
def test_a_leader_that_knows_more_than_the_controller(
    leader_epoch: int, partition_epoch: int, expected: ErrorCode
) -> None:
    assert outcome(fencing.isr.ahead(leader_epoch, 5, partition_epoch, 9)) == expected


@pytest.mark.parametrize(("given", "refused"), [(5, False), (4, True), (6, False), (-1, True)])
def test_epochs_of_a_proposal_that_are_behind(given: int, refused: bool) -> None:
    leader, partition = fencing.isr.leader_epoch(given, 5), fencing.isr.partition_epoch(given, 5)
    assert outcome(leader) == (ErrorCode.FENCED_LEADER_EPOCH if refused else ACCEPTED)
    assert outcome(partition) == (ErrorCode.INVALID_UPDATE_VERSION if refused else ACCEPTED)


@pytest.mark.parametrize(("requester", "accepted"), [(1, True), (2, False), (-1, False)])
def test_only_the_leader_proposes(requester: int, accepted: bool) -> None:
    assert fencing.isr.leader(requester, 1).accepted is accepted


@pytest.mark.parametrize(
    ("registered", "stopping", "fenced", "given"),
    [
        (True, False, False, ""),
        (False, True, True, "broker 3 not registered"),
        (True, True, True, "broker 3 stopping"),
        (True, False, True, "broker 3 fenced"),
    ],
)
def test_the_first_reason_against_a_member_is_named(
    registered: bool, stopping: bool, fenced: bool, given: str
) -> None:
    verdict = fencing.isr.eligible(3, registered=registered, fenced=fenced, stopping=stopping)
    assert (verdict.accepted, verdict.given) == (not given, given)
    assert fencing.leader.eligible(
        3, registered=registered, fenced=fenced, stopping=stopping
    ).accepted is not bool(given)


@pytest.mark.parametrize(
    ("given", "being_added", "expected"),
    [
        (7, True, ACCEPTED),
        (7, False, ACCEPTED),
        (6, True, ErrorCode.INELIGIBLE_REPLICA),
        (6, False, ErrorCode.INELIGIBLE_REPLICA),
        (8, True, ErrorCode.INELIGIBLE_REPLICA),
        (-1, True, ErrorCode.INELIGIBLE_REPLICA),
        (-1, False, ACCEPTED),
    ],
)
def test_the_generation_of_a_member(given: int, being_added: bool, expected: ErrorCode) -> None:
    assert outcome(fencing.isr.generation(3, given, 7, being_added=being_added)) == expected


@pytest.mark.parametrize(
    ("fetched", "metadata", "accepted"),
    [
        (7, 7, True),
        (6, 7, False),
        (8, 7, False),
        (-1, 7, True),
        (None, 7, False),
        (7, None, False),
        (None, None, False),
    ],
)
def test_fetch_and_metadata_must_speak_of_the_same_life(
    fetched: int | None, metadata: int | None, accepted: bool
) -> None:
    assert fencing.isr.fetched_generation(3, fetched, metadata).accepted is accepted


@pytest.mark.parametrize(
    ("given", "metadata", "accepted"),
    [(7, 7, True), (6, 7, False), (8, 7, True), (-1, 7, True), (6, None, True)],
)
def test_a_fetch_of_an_earlier_life(given: int, metadata: int | None, accepted: bool) -> None:
    verdict = fencing.fetch.generation(given, metadata)
    assert outcome(verdict) == (ACCEPTED if accepted else ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (5, ACCEPTED),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, ACCEPTED),
    ],
)
def test_the_leader_epoch_of_a_fetch(given: int, expected: ErrorCode) -> None:
    assert outcome(fencing.fetch.leader_epoch(given, 5)) == expected


@pytest.mark.parametrize(("asked", "current", "accepted"), [(7, 7, True), (7, 8, False), (7, None, False)])
def test_an_answer_of_another_life_is_ignored(asked: int, current: int | None, accepted: bool) -> None:
    assert fencing.reply.generation(asked, current).accepted is accepted


def test_a_rule_that_is_switched_off_accepts_and_the_others_stay() -> None:
    rules = Rules.without("control.generation")
    verdict = rules.ask(fencing.control.generation, 6, 7)
    assert verdict.accepted and verdict.rule == "control.generation"
    assert rules.ask(fencing.control.max_generation, 6, 7).refused


def test_a_rule_that_does_not_exist_can_not_be_switched_off() -> None:
    with pytest.raises(ValueError, match=r"isr\.elligible"):
        Rules.without("isr.elligible")


def test_every_rule_of_the_design_is_in_the_table_and_explains_itself() -> None:
    assert {
        "control.generation",
        "control.max-generation",
        "control.controller",
        "control.connection",
        "shutdown.generation",
        "registry.bounce",
        "heartbeat.generation",
        "heartbeat.contact",
        "isr.eligible",
        "isr.generation",
        "fetch.generation",
        "leader.eligible",
        "reply.generation",
    } <= set(RULES)
    for name, rule in RULES.items():
        assert rule.name == name and rule.asked_by and rule.refuses_when

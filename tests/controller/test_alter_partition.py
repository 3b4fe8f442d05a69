"""AlterPartition: every check in its order, every error by version, every boundary (KIP-841, KIP-903)."""

from __future__ import annotations

from uuid import UUID

import msgspec
import pytest

from epoka.fencing import Rules
from epoka.model.events import Peer
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.alter_partition import AlterPartitionRequest
from epoka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.controller.office import Office

VERSIONS = [0, 1, 2, 3]


@pytest.fixture
def office() -> Office:
    """Topic "t" on 1, 2, 3, led by 1; broker 3 has left the ISR and come back, so it can be added."""
    office = Office()
    office.join(1, 2, 3)
    office.create("t", [1, 2, 3])
    office.fence(3)
    office.heartbeat(3)
    assert office.partition("t").isr == (1, 2)
    return office


def at_level(level: FeatureLevel) -> Office:
    office = Office(level)
    office.join(1, 2, 3)
    office.create("t", [1, 2, 3])
    office.fence(3)
    office.heartbeat(3)
    return office


# Accepted.


def test_a_good_proposal_is_taken_and_the_answer_shows_the_new_state(office: Office) -> None:
    before = office.partition("t")
    answer = office.propose("t", [1, 2, 3])
    assert answer.error_code == ErrorCode.NONE
    assert (answer.leader_id, answer.isr) == (1, (1, 2, 3))
    assert answer.partition_epoch == before.partition_epoch + 1
    assert answer.leader_epoch == before.leader_epoch, "an expansion never raises the leader epoch"
    state = office.partition("t")
    assert (state.isr, state.partition_epoch) == (answer.isr, answer.partition_epoch)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_shrink_is_taken_in_every_version(office: Office, version: int) -> None:
    answer = office.propose("t", [1], version=version)
    assert (answer.error_code, answer.isr) == (ErrorCode.NONE, (1,))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_below_fetch_epochs_an_expansion_is_taken_without_generations(version: int) -> None:
    answer = at_level(FeatureLevel.ELIGIBLE_ISR).propose("t", [1, 2, 3], version=version)
    assert answer.error_code == ErrorCode.NONE


def test_a_proposal_of_what_already_is_changes_nothing(office: Office) -> None:
    offset = office.image.offset
    answer = office.propose("t", [1, 2])
    assert (answer.error_code, answer.isr) == (ErrorCode.NONE, (1, 2))
    assert office.image.offset == offset


def test_the_change_is_in_the_ledger(office: Office) -> None:
    office.ledger.clear()
    office.propose("t", [1, 2, 3])
    (event,) = office.ledger
    assert (event.kind, event.rule, event.verdict) == ("isr", "isr.generation", "accepted")
    assert (event.isr_before, event.isr) == ((1, 2), (1, 2, 3))


def test_a_proposal_that_was_applied_can_not_be_applied_again(office: Office) -> None:
    proposal = office.proposal("t", [1, 2, 3])
    office.ask(proposal, 3)
    (topic,) = office.ask(proposal, 3).topics
    assert topic.partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION


# The door and the requester, before anything else is looked at.


def test_a_client_is_refused(office: Office) -> None:
    answer = office.ask(office.proposal("t", [1]), 3, Peer(control=False, host="10.0.0.9"))
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED and answer.topics == ()
    assert office.partition("t").isr == (1, 2)
    assert office.events("verdict")[-1].rule == "control.listener"


@pytest.mark.parametrize("difference", [-1, 1, None], ids=["one less", "one more", "-1"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_requester_of_another_generation_is_stale(
    office: Office, version: int, difference: int | None
) -> None:
    epoch = -1 if difference is None else office.epoch(1) + difference
    proposal = office.proposal("t", [1], version=version, broker_epoch=epoch, leader_epoch=99)
    answer = office.ask(proposal, version)
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH and answer.topics == ()
    assert office.events("verdict")[-1].rule == "requester.generation"


def test_an_unregistered_requester_is_stale(office: Office) -> None:
    answer = office.ask(AlterPartitionRequest(broker_id=9, broker_epoch=-1), 3)
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, ErrorCode.UNKNOWN_TOPIC_ID),
        (3, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
@pytest.mark.parametrize("topic_id", [UUID(int=0), UUID(int=77)], ids=["zero id", "unknown id"])
def test_an_unknown_topic(office: Office, version: int, error: ErrorCode, topic_id: UUID) -> None:
    proposal = office.proposal("t", [1], version=version)
    topic = msgspec.structs.replace(proposal.topics[0], topic_name="nobody", topic_id=topic_id)
    answer = office.ask(msgspec.structs.replace(proposal, topics=(topic,)), version)
    assert [each.error_code for each in answer.topics[0].partitions] == [error]


# The partition: each check alone, and the first of several.


def test_an_unknown_partition(office: Office) -> None:
    proposal = office.proposal("t", [1])
    partition = msgspec.structs.replace(proposal.topics[0].partitions[0], partition_index=1)
    topic = msgspec.structs.replace(proposal.topics[0], partitions=(partition,))
    answer = office.ask(msgspec.structs.replace(proposal, topics=(topic,)), 3)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def bumped(office: Office) -> Office:
    """Leader epoch 1 or more and a partition epoch well above zero, so that there is something below them."""
    office.propose("t", [1, 2, 3])
    office.fence(1)
    office.heartbeat(1)
    assert office.partition("t").leader == 2 and office.partition("t").leader_epoch == 1
    return office


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "error"),
    [
        (0, 0, ErrorCode.NONE),
        (1, 0, ErrorCode.NOT_CONTROLLER),
        (0, 1, ErrorCode.NOT_CONTROLLER),
        (-1, 1, ErrorCode.NOT_CONTROLLER),
        (-1, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (-1, -1, ErrorCode.FENCED_LEADER_EPOCH),
        (0, -1, ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_epochs_one_off(office: Office, leader_epoch: int, partition_epoch: int, error: ErrorCode) -> None:
    state = bumped(office).partition("t")
    answer = office.propose(
        "t",
        [2],
        leader_epoch=state.leader_epoch + leader_epoch,
        partition_epoch=state.partition_epoch + partition_epoch,
    )
    assert answer.error_code == error


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(-1, None), (None, -1)])
def test_an_epoch_of_minus_one_is_below_every_epoch(
    office: Office, leader_epoch: int | None, partition_epoch: int | None
) -> None:
    answer = office.propose("t", [1], leader_epoch=leader_epoch, partition_epoch=partition_epoch)
    assert answer.error_code == (
        ErrorCode.FENCED_LEADER_EPOCH if leader_epoch == -1 else ErrorCode.INVALID_UPDATE_VERSION
    )


def test_only_the_leader_may_propose(office: Office) -> None:
    assert office.propose("t", [1, 2], leader=2).error_code == ErrorCode.INVALID_REQUEST
    assert office.events("verdict")[-1].rule == "isr.leader"


def test_a_requester_that_does_not_lead_is_told_so_before_an_old_partition_epoch_is(office: Office) -> None:
    answer = office.propose("t", [1, 2], leader=2, partition_epoch=0)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_an_old_partition_epoch_is_told_before_a_bad_isr(office: Office) -> None:
    answer = office.propose("t", [], partition_epoch=0)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    "isr",
    [[-1, 1], [1, 1], [1, 4], [], [2, 3]],
    ids=["negative", "twice", "no replica", "empty", "no leader"],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_an_isr(office: Office, version: int, isr: list[int]) -> None:
    answer = office.propose("t", isr, version=version)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def recovering() -> Office:
    """Broker 2 was elected without being in the ISR, so "t" is recovering."""
    office = Office()
    office.join(1, 2, 3)
    office.create("t", [1, 2, 3], unclean_leader_election_enable="true")
    office.propose("t", [1])
    office.fence(1)
    state = office.partition("t")
    assert (state.leader, state.isr, state.recovery) == (2, (2,), 1)
    return office


def test_a_recovering_leader_has_no_isr_but_itself() -> None:
    office = recovering()
    assert office.propose("t", [2, 3], recovery=1).error_code == ErrorCode.INVALID_REQUEST
    assert office.propose("t", [2], recovery=0).error_code == ErrorCode.NONE
    assert office.partition("t").recovery == 0


def test_a_recovered_partition_does_not_go_back(office: Office) -> None:
    assert office.propose("t", [1], recovery=1).error_code == ErrorCode.INVALID_REQUEST


def test_a_recovery_state_that_does_not_exist(office: Office) -> None:
    assert office.propose("t", [1], recovery=2).error_code == ErrorCode.INVALID_REQUEST


def test_a_bad_recovery_is_told_before_an_ineligible_member() -> None:
    office = recovering()
    office.fence(3)
    assert office.propose("t", [2, 3], recovery=1).error_code == ErrorCode.INVALID_REQUEST


# The members.

INELIGIBLE = [
    (0, ErrorCode.OPERATION_NOT_ATTEMPTED),
    (1, ErrorCode.OPERATION_NOT_ATTEMPTED),
    (2, ErrorCode.INELIGIBLE_REPLICA),
    (3, ErrorCode.INELIGIBLE_REPLICA),
]


@pytest.mark.parametrize(("version", "error"), INELIGIBLE)
def test_a_fenced_member_is_refused(office: Office, version: int, error: ErrorCode) -> None:
    office.fence(3)
    assert office.propose("t", [1, 2, 3], version=version).error_code == error
    event = office.events("verdict")[-1]
    assert (event.rule, event.error, event.given) == ("isr.eligible", error.name, "broker 3 fenced")
    assert office.partition("t").isr == (1, 2)


@pytest.mark.parametrize(("version", "error"), INELIGIBLE)
def test_a_copy_of_what_was_refused_is_not_taken_when_the_member_is_back(
    office: Office, version: int, error: ErrorCode
) -> None:
    """The leader has taken the proposal back and acknowledges without that member."""
    before = office.partition("t").partition_epoch
    office.fence(3)
    told = len(office.events("isr")) + len(office.events("reassignment"))
    assert office.propose("t", [1, 2, 3], version=version).error_code == error
    assert len(office.events("isr")) + len(office.events("reassignment")) == told
    office.heartbeat(3)
    late = office.propose("t", [1, 2, 3], version=version, partition_epoch=before)
    assert late.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert office.partition("t").isr == (1, 2)
    assert office.propose("t", [1, 2, 3]).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("version", "error"), INELIGIBLE)
def test_a_stopping_member_is_refused(office: Office, version: int, error: ErrorCode) -> None:
    office.create("led-by-3", [3, 1])
    office.stop(3)
    assert office.propose("t", [1, 2, 3], version=version).error_code == error
    assert office.events("verdict")[-1].given == "broker 3 stopping"


@pytest.mark.parametrize(("version", "error"), INELIGIBLE)
def test_an_unregistered_member_is_refused(office: Office, version: int, error: ErrorCode) -> None:
    from epoka.wire.messages.unregister_broker import UnregisterBrokerRequest

    office.ask(UnregisterBrokerRequest(broker_id=3))
    assert office.propose("t", [1, 2, 3], version=version).error_code == error
    assert office.events("verdict")[-1].given == "broker 3 not registered"


def test_a_leader_that_is_stopping_can_not_even_shrink(office: Office) -> None:
    """It has lost its leadership, so what it still proposes is fenced before its state is looked at."""
    before = office.partition("t")
    office.stop(1)
    answer = office.propose("t", [1], leader=1, leader_epoch=before.leader_epoch)
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    ("difference", "error"),
    [(-1, ErrorCode.INELIGIBLE_REPLICA), (0, ErrorCode.NONE), (1, ErrorCode.INELIGIBLE_REPLICA)],
)
def test_the_generation_of_a_member_must_be_the_registered_one(
    office: Office, difference: int, error: ErrorCode
) -> None:
    answer = office.propose("t", [1, 2, 3], epochs={3: office.epoch(3) + difference})
    assert answer.error_code == error


def test_minus_one_is_refused_for_a_member_that_is_being_added(office: Office) -> None:
    assert office.propose("t", [1, 2, 3], epochs={3: -1}).error_code == ErrorCode.INELIGIBLE_REPLICA
    event = office.events("verdict")[-1]
    assert (event.rule, event.given, event.expected) == (
        "isr.generation",
        "broker 3 epoch -1",
        f"epoch {office.epoch(3)}",
    )


def test_minus_one_is_accepted_for_a_member_that_is_already_in(office: Office) -> None:
    assert office.propose("t", [1, 2, 3], epochs={2: -1}).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (0, ErrorCode.OPERATION_NOT_ATTEMPTED),
        (1, ErrorCode.OPERATION_NOT_ATTEMPTED),
        (2, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_an_old_version_does_not_evade_the_generation(office: Office, version: int, error: ErrorCode) -> None:
    assert office.propose("t", [1, 2, 3], version=version).error_code == error


def test_fenced_is_told_before_another_generation(office: Office) -> None:
    office.fence(3)
    office.propose("t", [1, 2, 3], epochs={3: 0})
    assert office.events("verdict")[-1].rule == "isr.eligible"


def bounce_then_late_proposal(office: Office) -> ErrorCode:
    """KIP-903: broker 3 catches up, dies, comes back empty; then the proposal of its leader arrives."""
    late = office.proposal("t", [1, 2, 3], version=3 if office.image.level >= 5 else 2)
    office.fence(3)
    office.join(3, life=2)
    (topic,) = office.ask(late, 3 if office.image.level >= 5 else 2).topics
    return ErrorCode(topic.partitions[0].error_code)


def test_a_proposal_made_for_an_earlier_life_of_a_member_is_refused(office: Office) -> None:
    assert bounce_then_late_proposal(office) == ErrorCode.INELIGIBLE_REPLICA
    assert office.partition("t").isr == (1, 2)


def test_at_eligible_isr_the_same_proposal_brings_an_empty_replica_into_the_isr() -> None:
    office = at_level(FeatureLevel.ELIGIBLE_ISR)
    assert bounce_then_late_proposal(office) == ErrorCode.NONE
    assert office.partition("t").isr == (1, 2, 3)


def test_without_the_generation_rule_the_empty_replica_gets_in() -> None:
    office = Office(rules=Rules.without("isr.generation"))
    office.join(1, 2, 3)
    office.create("t", [1, 2, 3])
    office.fence(3)
    office.heartbeat(3)
    assert bounce_then_late_proposal(office) == ErrorCode.NONE


def test_without_the_eligibility_rule_a_fenced_replica_gets_in() -> None:
    office = Office(rules=Rules.without("isr.eligible"))
    office.join(1, 2)
    office.create("t", [1, 2])
    office.fence(2)
    assert office.propose("t", [1, 2]).error_code == ErrorCode.NONE


@pytest.mark.parametrize("level", [FeatureLevel.HEARTBEATS, FeatureLevel.SHARED_UPDATES])
def test_below_eligible_isr_a_fenced_replica_gets_in(level: FeatureLevel) -> None:
    office = at_level(level)
    office.fence(3)
    assert office.propose("t", [1, 2, 3], version=1).error_code == ErrorCode.NONE


# Siblings and reassignments.


def test_one_refused_partition_does_not_touch_its_sibling() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2], [1, 2])
    good, bad = office.proposal("t", [1], index=0), office.proposal("t", [], index=1)
    partitions = good.topics[0].partitions + bad.topics[0].partitions
    topic = msgspec.structs.replace(good.topics[0], partitions=partitions)
    answer = office.ask(msgspec.structs.replace(good, topics=(topic,)), 3)
    errors = [each.error_code for each in answer.topics[0].partitions]
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert office.partition("t", 0).isr == (1,) and office.partition("t", 1).isr == (1, 2)


def test_a_partition_named_twice_is_changed_once(office: Office) -> None:
    proposal = office.proposal("t", [1])
    topic = msgspec.structs.replace(proposal.topics[0], partitions=proposal.topics[0].partitions * 2)
    answer = office.ask(msgspec.structs.replace(proposal, topics=(topic,)), 3)
    errors = [each.error_code for each in answer.topics[0].partitions]
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.FENCED_LEADER_EPOCH),
        (2, ErrorCode.NEW_LEADER_ELECTED),
        (3, ErrorCode.NEW_LEADER_ELECTED),
    ],
)
def test_a_proposal_that_ends_the_leaders_own_term_is_written_and_says_so(
    version: int, error: ErrorCode
) -> None:
    office = Office(FeatureLevel.ELIGIBLE_ISR)
    office.join(1, 2, 3)
    office.create("t", [1])
    move = ReassignableTopic("t", (ReassignablePartition(0, (2, 3)),))
    office.ask(AlterPartitionReassignmentsRequest(topics=(move,)))
    before = office.partition("t")
    assert (before.replicas, before.adding, before.removing) == ((2, 3, 1), (2, 3), (1,))
    answer = office.propose("t", [1, 2, 3], version=version)
    assert answer.error_code == error
    assert (answer.leader_id, answer.isr, answer.partition_epoch) == (0, (), 0)
    state = office.partition("t")
    assert (state.replicas, state.isr, state.leader) == ((2, 3), (2, 3), 2)
    assert (state.adding, state.removing) == ((), ())
    assert state.leader_epoch == before.leader_epoch + 1

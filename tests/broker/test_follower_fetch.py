"""What a leader believes of a follower's fetch (KIP-903, KAFKA-15221): generation first, then offset."""

import pytest

from epoka.broker.leadership import Follower
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.fetch import FetchPartitionResponse, ReplicaState
from tests.broker.client import create_topic, fetch_request, write
from tests.broker.world import CONTROLLER, World

FOLLOWER = 2


@pytest.fixture
def world() -> World:
    """Broker 1 leads; broker 2 is cut off from it, so that only the fetches of the test reach the leader."""
    world = World(2)
    create_topic(world, "t", assignment=(1, FOLLOWER))
    world.run_until(lambda: follower(world).broker_epoch is not None)
    world.isolate(1, FOLLOWER)
    write(world, 1, "t", b"a")
    world.run_until(lambda: world.partition("t").isr == (1,))
    world.run_until(lambda: leader(world).isr == (1,))
    return world


def leader(world: World):
    return world.broker(1).replicas.by_name["t", 0].leadership


def follower(world: World) -> Follower:
    return leader(world).followers[FOLLOWER]


def generation(world: World) -> int:
    return world.broker(1).image.broker(FOLLOWER).epoch


def fetch(
    world: World, epoch: int, offset: int = 1, replica_id: int = FOLLOWER, **about
) -> FetchPartitionResponse:
    request = fetch_request(
        world, "t", offset, replica_state=ReplicaState(replica_id=replica_id, replica_epoch=epoch), **about
    )
    return world.call(1, request, 15, control=True).responses[0].partitions[0]


@pytest.mark.parametrize(
    ("difference", "error"),
    [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.NONE), (1, ErrorCode.NONE)],
)
def test_a_generation_below_the_one_in_the_metadata_is_refused(world, difference, error):
    assert fetch(world, generation(world) + difference).error_code == error


def test_an_unknown_generation_passes_as_a_fetch(world):
    assert fetch(world, -1).error_code == ErrorCode.NONE
    assert follower(world).broker_epoch == -1


def test_a_refused_fetch_changes_nothing_and_is_in_the_ledger(world):
    before = (follower(world).broker_epoch, follower(world).end_offset, follower(world).last_fetch_ms)
    fetch(world, generation(world) - 1)
    assert (follower(world).broker_epoch, follower(world).end_offset, follower(world).last_fetch_ms) == before
    (event,) = [event for event in world.ledger if event.rule == "fetch.generation"]
    assert (event.verdict, event.given) == ("refused", str(generation(world) - 1))
    assert event.expected == f">= {generation(world)}"


def test_generation_and_offset_are_taken_together(world):
    fetch(world, generation(world), 1)
    assert (follower(world).broker_epoch, follower(world).end_offset) == (generation(world), 1)


def test_an_old_fetch_is_not_refused_while_the_broker_is_fenced(world):
    """Then eligibility keeps it out anyway, and the fetch may be the one that brings it up to date."""
    old = generation(world)
    world.isolate(FOLLOWER, CONTROLLER)
    world.run_until(lambda: world.broker(1).image.broker(FOLLOWER).fenced)
    assert fetch(world, old - 1).error_code == ErrorCode.NONE
    assert leader(world).pending is None


@pytest.mark.parametrize(("difference", "asked"), [(0, True), (1, False)])
def test_only_a_fetch_of_the_generation_in_the_metadata_leads_to_a_proposal(world, difference, asked):
    world.hold("AlterPartitionRequest")
    fetch(world, generation(world) + difference)
    assert (leader(world).pending is not None) is asked


def test_the_proposal_names_the_generation_of_the_fetch(world):
    world.hold("AlterPartitionRequest")
    fetch(world, generation(world))
    assert leader(world).pending.isr == (1, FOLLOWER)
    assert leader(world).pending.epochs == (world.broker(1).lifecycle.broker_epoch, generation(world))


def test_a_new_leadership_forgets_the_generations_it_has_seen(world):
    world.heal()
    world.run_until(lambda: sorted(world.partition("t").isr) == [1, FOLLOWER])
    world.stop(1)
    world.start_broker(1)
    world.run_until(lambda: sorted(world.partition("t").isr) == [1, FOLLOWER])
    world.crash(FOLLOWER)
    world.run_until(lambda: world.partition("t").leader == 1)
    world.run_until(lambda: leader(world) is not None)
    assert follower(world).broker_epoch is None


@pytest.mark.parametrize(
    ("leader_epoch", "error"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_broker_outside_the_assignment(world, leader_epoch, error):
    assert fetch(world, 1, replica_id=9, leader_epoch=leader_epoch).error_code == error


@pytest.mark.parametrize("level", [FeatureLevel.HEARTBEATS, FeatureLevel.ELIGIBLE_ISR])
def test_below_its_level_followers_name_no_generation(level):
    world = World(2, level=level)
    create_topic(world, "t", assignment=(1, FOLLOWER))
    write(world, 1, "t", b"a")
    assert follower(world).broker_epoch == -1
    assert world.partition("t").isr == (1, FOLLOWER)


def test_a_follower_whose_log_diverged_is_told_and_not_believed(world):
    before = follower(world).end_offset
    answer = fetch(world, generation(world), 5, last_fetched_epoch=0)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
    assert follower(world).end_offset == before

"""The leader's ISR machine, row by row of the rules it lives by."""

import pytest

from epoka.broker.leadership import Follower, Leadership, Outcome
from epoka.wire.error_codes import ErrorCode

LAG = 30_000
OWN_EPOCH = 70


def anybody(follower: Follower) -> bool:
    return True


def nobody(follower: Follower) -> bool:
    return False


def leadership(isr=(1, 2, 3), replicas=(1, 2, 3), start_offset=0, now=1_000, partition_epoch=5) -> Leadership:
    return Leadership(
        broker_id=1,
        leader_epoch=4,
        partition_epoch=partition_epoch,
        replicas=replicas,
        isr=isr,
        start_offset=start_offset,
        now=now,
    )


def mark(of: Leadership, end: int, min_isr: int = 1, now: int = 1_000, eligible=anybody) -> int | None:
    return of.high_watermark(end, min_isr, now, LAG, eligible)


def joined(
    of: Leadership, broker_id: int, offset: int, high_watermark: int = 10, eligible=anybody, start: int = 2
) -> bool:
    of.followers[broker_id].fetched(80 + broker_id, offset, 10, 1_000, start)
    return of.propose_join(of.followers[broker_id], high_watermark, 2, eligible, OWN_EPOCH)


class TestHighWatermark:
    def test_is_the_least_end_over_the_isr(self):
        of = leadership()
        of.followers[2].fetched(82, 7, 10, 1_000)
        of.followers[3].fetched(83, 9, 10, 1_000)
        assert mark(of, 10) == 7

    def test_stands_still_until_every_member_has_fetched(self):
        of = leadership()
        of.followers[2].fetched(82, 10, 10, 1_000)
        assert mark(of, 10) == -1

    def test_is_held_by_a_member_that_is_being_added(self):
        of = leadership(isr=(1, 2))
        of.followers[2].fetched(82, 10, 10, 1_000)
        assert joined(of, 3, 10)
        of.followers[3].end_offset = 6
        assert of.maximal_isr == (1, 2, 3)
        assert mark(of, 10, now=1_000 + 2 * LAG) == 6

    def test_counts_the_unshrunk_set_while_a_shrink_is_pending(self):
        of = leadership(isr=(1, 2), replicas=(1, 2))
        of.followers[2].fetched(82, 3, 10, 1_000)
        assert of.propose_shrink(10, 1_001 + 2 * LAG, LAG, OWN_EPOCH)
        assert mark(of, 10, now=1_001 + 2 * LAG) == 3

    def test_is_held_by_a_caught_up_replica_that_may_join(self):
        of = leadership(isr=(1, 2))
        of.followers[2].fetched(82, 10, 10, 1_000)
        of.followers[3].fetched(83, 8, 8, 1_000)
        assert mark(of, 10) == 8
        assert mark(of, 10, eligible=nobody) == 10

    @pytest.mark.parametrize(("isr", "expected"), [((1,), None), ((1, 2), 10)])
    def test_is_frozen_below_min_isr(self, isr, expected):
        of = leadership(isr=isr)
        for follower in of.followers.values():
            follower.fetched(80, 10, 10, 1_000)
        assert mark(of, 10, min_isr=2) == expected

    def test_min_isr_above_the_replication_factor_means_all_replicas(self):
        of = leadership(isr=(1,), replicas=(1,))
        assert mark(of, 10, min_isr=3) == 10


class TestLowWatermark:
    def test_is_the_least_start_over_the_leader_and_the_isr(self):
        of = leadership(isr=(1, 2))
        assert of.low_watermark(5) == -1
        of.followers[2].fetched(82, 10, 10, 1_000, 4)
        of.followers[3].fetched(83, 6, 10, 1_000, 2)
        assert (of.low_watermark(5), of.low_watermark(3)) == (4, 3)

    def test_is_held_by_a_member_that_is_being_added(self):
        of = leadership(isr=(1, 2))
        of.followers[2].fetched(82, 10, 10, 1_000, 4)
        assert joined(of, 3, 10, start=2)
        assert of.low_watermark(5) == 2


class TestExpansion:
    @pytest.mark.parametrize(("offset", "may"), [(9, False), (10, True), (11, True)])
    def test_needs_the_high_watermark(self, offset, may):
        assert joined(leadership(isr=(1, 2)), 3, offset, high_watermark=10) is may

    @pytest.mark.parametrize(("offset", "may"), [(19, False), (20, True)])
    def test_needs_the_start_of_this_leader_epoch(self, offset, may):
        assert joined(leadership(isr=(1, 2), start_offset=20), 3, offset, high_watermark=10) is may

    @pytest.mark.parametrize(("start", "may"), [(-1, False), (1, False), (2, True), (3, True)])
    def test_needs_the_start_of_the_log(self, start, may):
        assert joined(leadership(isr=(1, 2)), 3, 10, start=start) is may

    def test_an_ineligible_follower_is_not_proposed(self):
        of = leadership(isr=(1, 2))
        assert not joined(of, 3, 10, eligible=nobody)
        assert of.pending is None

    def test_carries_the_generation_of_the_fetch_and_our_own(self):
        of = leadership(isr=(1, 2))
        assert joined(of, 3, 10)
        assert of.pending is not None
        assert of.pending.isr == (1, 2, 3)
        assert of.pending.epochs == (OWN_EPOCH, -1, 83), (
            "a member that never fetched here has no known generation"
        )

    def test_only_one_change_is_in_flight(self):
        of = leadership(isr=(1,))
        assert joined(of, 2, 10)
        assert not joined(of, 3, 10)
        assert not of.propose_shrink(10, 10**9, LAG, OWN_EPOCH)


class TestShrink:
    @pytest.mark.parametrize(("silence_ms", "shrinks"), [(LAG, False), (LAG + 1, True)])
    def test_after_more_than_the_allowed_lag(self, silence_ms, shrinks):
        of = leadership(isr=(1, 2), replicas=(1, 2), now=1_000)
        assert of.propose_shrink(10, 1_000 + silence_ms, LAG, OWN_EPOCH) is shrinks

    def test_a_follower_at_the_end_is_in_sync_however_long_it_is_silent(self):
        of = leadership(isr=(1, 2), replicas=(1, 2))
        of.followers[2].fetched(82, 10, 10, 1_000)
        assert not of.propose_shrink(10, 10**9, LAG, OWN_EPOCH)

    def test_the_leader_never_drops_itself(self):
        of = leadership()
        assert of.propose_shrink(10, 10**9, LAG, OWN_EPOCH)
        assert of.pending is not None and of.pending.isr == (1,)

    def test_reaching_the_end_of_the_previous_fetch_counts_as_caught_up_then(self):
        follower = Follower(2, 0)
        follower.fetched(82, 5, 10, 1_000)
        follower.fetched(82, 10, 20, 2_000)
        assert follower.last_caught_up_ms == 1_000
        follower.fetched(82, 20, 20, 3_000)
        assert follower.last_caught_up_ms == 3_000


class TestAnswers:
    def pending(self) -> tuple[Leadership, object]:
        of = leadership(isr=(1, 2))
        assert joined(of, 3, 10)
        return of, of.pending

    def test_success_commits_what_the_controller_returned(self):
        of, proposal = self.pending()
        assert of.settle(proposal, ErrorCode.NONE, 4, 6, (1, 2, 3)) == Outcome(committed=True)
        assert (of.isr, of.partition_epoch, of.pending) == ((1, 2, 3), 6, None)

    @pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(3, 6), (5, 6), (4, 4)])
    def test_success_of_another_epoch_is_ignored(self, leader_epoch, partition_epoch):
        of, proposal = self.pending()
        assert of.settle(proposal, ErrorCode.NONE, leader_epoch, partition_epoch, (1, 2, 3)) == Outcome()
        assert of.pending is proposal

    def test_success_at_the_same_partition_epoch_is_taken(self):
        of, proposal = self.pending()
        assert of.settle(proposal, ErrorCode.NONE, 4, 5, (1, 2)) == Outcome(committed=True)

    @pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
    def test_an_ineligible_member_reverts_to_the_committed_isr(self, error):
        of, proposal = self.pending()
        assert of.settle(proposal, error, -1, -1, ()) == Outcome(reverted=True)
        assert (of.isr, of.pending, of.maximal_isr) == ((1, 2), None, (1, 2))

    @pytest.mark.parametrize(
        "error",
        [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.INVALID_UPDATE_VERSION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NEW_LEADER_ELECTED,
        ],
    )
    def test_being_behind_stays_pending_until_metadata_comes(self, error):
        of, proposal = self.pending()
        assert of.settle(proposal, error, -1, -1, ()) == Outcome()
        assert of.pending is proposal
        assert of.adopt(6, (1, 2, 3), (1, 2), 2_000)
        assert of.pending is None

    @pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NETWORK_EXCEPTION])
    def test_anything_else_is_tried_again(self, error):
        of, proposal = self.pending()
        assert of.settle(proposal, error, -1, -1, ()) == Outcome(retry=True)
        assert of.pending is proposal

    def test_an_answer_to_a_proposal_that_is_over_changes_nothing(self):
        of, proposal = self.pending()
        of.adopt(6, (1, 2, 3), (1, 2), 2_000)
        assert of.settle(proposal, ErrorCode.NONE, 4, 7, (1, 2, 3)) == Outcome()
        assert of.isr == (1, 2)


@pytest.mark.parametrize(("partition_epoch", "taken"), [(4, False), (5, False), (6, True)])
def test_only_newer_metadata_is_adopted(partition_epoch, taken):
    of = leadership()
    assert of.adopt(partition_epoch, (1, 2, 3), (1,), 2_000) is taken
    assert of.isr == ((1,) if taken else (1, 2, 3))


def test_replicas_are_adopted_though_an_answer_has_told_of_their_partition_epoch():
    """An answer says nothing of replicas; metadata of the same partition epoch does."""
    of = leadership()
    assert of.propose_shrink(10, 60_000, 500, 81)
    assert of.pending is not None
    assert of.settle(of.pending, ErrorCode.NONE, 4, 6, (1, 2)).committed
    assert of.adopt(6, (1, 2, 3, 4), (1, 2), 2_000)
    assert (of.replicas, of.isr, sorted(of.followers)) == ((1, 2, 3, 4), (1, 2), [2, 3, 4])
    assert not of.adopt(6, (1, 2, 3, 4), (1, 2), 2_000)


def test_what_was_proposed_behind_that_answer_stays_pending_unless_it_names_no_replica():
    of = leadership(isr=(1, 2))
    of.followers[3].fetched(83, 10, 10, 1_500, 0)
    assert of.propose_join(of.followers[3], 10, 0, lambda follower: True, 81)
    proposal = of.pending
    assert of.adopt(5, (1, 2, 3, 4), (1, 2), 2_000)
    assert of.pending is proposal
    assert of.adopt(5, (1, 2, 4), (1, 2), 2_000)
    assert of.pending is None


def test_a_reassignment_keeps_what_is_known_of_the_staying_followers():
    of = leadership()
    of.followers[2].fetched(82, 7, 10, 1_500)
    of.adopt(6, (1, 2, 4), (1, 2), 2_000)
    assert of.followers[2].end_offset == 7
    assert of.followers[4].end_offset == -1
    assert 3 not in of.followers

"""The leader's side of one partition: who follows it how closely, which ISR is committed, which is asked for.

Rules here: a follower joins only past the high watermark and the start of this leader epoch, and only while
it is eligible (`isr.eligible`, `isr.fetched-generation`); its generation is learnt from its own fetches and
never from metadata (KIP-903); a fetch of a dead generation changes nothing (`fetch.generation`); one change
is in flight at a time; the high watermark is the minimum over the *maximal* ISR and stands still while the
committed ISR is below min.insync.replicas (KAFKA-15583). Nothing here writes to the log.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from epoka.wire.error_codes import ErrorCode


class Follower:
    """What the leader knows of one remote replica in this leader epoch."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "end_offset",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "log_start_offset",
    )

    def __init__(self, broker_id: int, last_caught_up_ms: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch: int | None = None
        """None until the first fetch in this leadership."""
        self.end_offset = -1
        self.log_start_offset = -1
        self.last_caught_up_ms = last_caught_up_ms
        self.last_fetch_ms = 0
        self.last_fetch_leader_end = 0

    def fetched(
        self, broker_epoch: int, offset: int, leader_end: int, now: int, log_start_offset: int = -1
    ) -> None:
        """Take in one accepted fetch: offsets and generation change together, so nobody can mix two lives."""
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now)
        elif offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.broker_epoch = broker_epoch
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = now

    def caught_up(self, leader_end: int, now: int, lag_time_max_ms: int) -> bool:
        return self.end_offset == leader_end or now - self.last_caught_up_ms <= lag_time_max_ms


class Proposal(msgspec.Struct, frozen=True):
    """One ISR change that waits for the controller's word."""

    isr: tuple[int, ...]
    epochs: tuple[int, ...]
    """The generation of each member of `isr` as the leader knows it, -1 where it never fetched."""
    leader_epoch: int
    partition_epoch: int
    adds: int | None
    """The one member that joins; None for a shrink."""


class Outcome(msgspec.Struct, frozen=True):
    """What an answer of the controller means for the leader."""

    retry: bool = False
    committed: bool = False
    reverted: bool = False


Eligible = Callable[[Follower], bool]


class Leadership:
    def __init__(
        self,
        *,
        broker_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        start_offset: int,
        now: int,
    ) -> None:
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.isr = isr
        self.start_offset = start_offset
        """The end of the log when this leader epoch began."""
        self.pending: Proposal | None = None
        self.followers = {
            replica: Follower(replica, now if replica in isr else 0)
            for replica in replicas
            if replica != broker_id
        }

    def adopt(self, partition_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...], now: int) -> bool:
        """Newer metadata of the same leader epoch settles whatever was pending; older is ignored. What an
        answer has told already comes with the replicas, of which answers say nothing."""
        if partition_epoch < self.partition_epoch:
            return False
        if partition_epoch > self.partition_epoch:
            self.partition_epoch = partition_epoch
            self.isr = isr
            self.pending = None
        elif replicas == self.replicas:
            return False
        elif self.pending is not None and not set(self.pending.isr).issubset(replicas):
            # The controller takes nobody who is no replica.
            self.pending = None
        if replicas != self.replicas:
            self.replicas = replicas
            known = self.followers
            self.followers = {
                replica: known.get(replica) or Follower(replica, now if replica in isr else 0)
                for replica in replicas
                if replica != self.broker_id
            }
        return True

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR and whoever may already be in it as far as the controller is concerned."""
        if self.pending is not None and self.pending.adds is not None:
            return (*self.isr, self.pending.adds)
        return self.isr

    def high_watermark(
        self, leader_end: int, min_isr: int, now: int, lag_time_max_ms: int, eligible: Eligible
    ) -> int | None:
        """The highest offset that may be called committed now, or None while the ISR is too small for any."""
        if len(self.isr) < min(min_isr, len(self.replicas)):
            return None
        mark = leader_end
        maximal = self.maximal_isr
        for follower in self.followers.values():
            if follower.end_offset >= mark:
                continue
            if follower.broker_id in maximal or (
                follower.end_offset >= 0
                and now - follower.last_caught_up_ms <= lag_time_max_ms
                and eligible(follower)
            ):
                mark = follower.end_offset
        return mark

    def low_watermark(self, leader_start: int) -> int:
        """Where the logs of the maximal ISR start at the lowest; -1 until each member has told."""
        maximal = self.maximal_isr
        starts = [each.log_start_offset for each in self.followers.values() if each.broker_id in maximal]
        return min([leader_start, *starts])

    def propose_join(
        self, follower: Follower, high_watermark: int, log_start: int, eligible: Eligible, own_epoch: int
    ) -> bool:
        """Begin to add a follower that has caught up, with what was deleted too; False when nothing is to be
        asked."""
        if self.pending is not None or follower.broker_id in self.isr:
            return False
        if follower.end_offset < max(high_watermark, self.start_offset) or not eligible(follower):
            return False
        if follower.log_start_offset < log_start:
            return False
        self._propose((*self.isr, follower.broker_id), follower.broker_id, own_epoch)
        return True

    def propose_shrink(self, leader_end: int, now: int, lag_time_max_ms: int, own_epoch: int) -> bool:
        """Begin to drop members that have fallen behind; False when nobody has."""
        if self.pending is not None or len(self.isr) < 2:
            return False
        staying = tuple(
            member
            for member in self.isr
            if member == self.broker_id
            or (
                member in self.followers
                and self.followers[member].caught_up(leader_end, now, lag_time_max_ms)
            )
        )
        if staying == self.isr:
            return False
        self._propose(staying, None, own_epoch)
        return True

    def told_lag(self, now: int) -> str:
        """Who is to leave by the pending proposal, and since when it has not caught up."""
        assert self.pending is not None
        leaving = [self.followers.get(member) for member in self.isr if member not in self.pending.isr]
        return ", ".join(
            f"broker {each.broker_id} has not caught up for {now - each.last_caught_up_ms} ms"
            for each in leaving
            if each is not None
        )

    def _propose(self, isr: tuple[int, ...], adds: int | None, own_epoch: int) -> None:
        self.pending = Proposal(
            isr=isr,
            epochs=tuple(self._known_epoch(member, own_epoch) for member in isr),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            adds=adds,
        )

    def _known_epoch(self, member: int, own_epoch: int) -> int:
        if member == self.broker_id:
            return own_epoch
        follower = self.followers.get(member)
        return -1 if follower is None or follower.broker_epoch is None else follower.broker_epoch

    def settle(
        self,
        proposal: Proposal,
        error: ErrorCode,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[int, ...],
    ) -> Outcome:
        """Take in the controller's answer to a proposal (the table of answers in `docs/isr.md`)."""
        if self.pending is not proposal:
            return Outcome()
        if error == ErrorCode.NONE:
            if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
                return Outcome()
            self.isr = isr
            self.partition_epoch = partition_epoch
            self.pending = None
            return Outcome(committed=True)
        if error in REVERTING:
            self.pending = None
            return Outcome(reverted=True)
        if error in WAITING_FOR_METADATA:
            return Outcome()
        return Outcome(retry=True)


REVERTING = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The controller says that nothing was applied, and its refusal has moved the partition epoch on: no copy of
the proposal will be."""

WAITING_FOR_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""We are behind: the change may or may not be in, so it stays pending until metadata says."""

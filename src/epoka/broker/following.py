"""The follower's side: fetch from each leader what this broker replicates, append it, cut what diverges.

Every answer is tied to what it was asked with: the leader epoch, the end of the log and the epoch of its last
record. One that no longer fits is dropped (KAFKA-18991). The end alone would not do: a log that was cut and
has grown again may end where it ended before. Truncation goes by leader epoch, never by high watermark. Each
fetch carries this broker's generation from level `fetch-epochs` on (KIP-903).

A leader is asked on one lane by long poll. Partitions that come up meanwhile are fetched on a second lane,
with short waits, until the first lane's poll returns and takes them in.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from epoka.broker.replica import Replica
from epoka.log.partition_log import Refused
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import fetch as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

POLL_LANE = 2
NEWCOMER_LANE = 3
NEWCOMER_WAIT_MS = 50
NEWCOMER_PAUSE_MS = 20
REFUSED_PAUSE_MS = 10
NO_ID = uuid.UUID(int=0)

Key = tuple[uuid.UUID, int]


class Asked:
    """What a partition was asked for: the answer counts only while this is still true."""

    __slots__ = ("last_epoch", "leader_epoch", "offset", "replica")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.leader_epoch = replica.leader_epoch
        self.offset = replica.log.end_offset
        self.last_epoch = replica.last_record_epoch

    def holds(self) -> bool:
        replica = self.replica
        return (
            replica.log.end_offset == self.offset
            and replica.leader_epoch == self.leader_epoch
            and replica.last_record_epoch == self.last_epoch
        )


class Fetcher:
    """Everything that is fetched from one leader."""

    def __init__(self, core: BrokerCore, leader_id: int) -> None:
        self.core = core
        self.leader_id = leader_id
        self.ready: dict[Key, Replica] = {}
        self.members: dict[Key, Replica] = {}
        self.lanes_busy: set[int] = set()
        self.pausing = False
        self._refusals: dict[Key, int] = {}
        """How often in a row the leader has refused a partition."""

    def add(self, replica: Replica, now: int) -> None:
        self.members[replica.key] = replica
        self.ready[replica.key] = replica
        self.run(now)

    def remove(self, replica: Replica) -> None:
        self.members.pop(replica.key, None)
        self.ready.pop(replica.key, None)
        self._refusals.pop(replica.key, None)

    def run(self, now: int) -> None:
        if not self.ready:
            return
        if POLL_LANE not in self.lanes_busy:
            self._fetch(POLL_LANE, self.core.config.replica_fetch_wait_max_ms)
        elif NEWCOMER_LANE not in self.lanes_busy and not self.pausing:
            self._fetch(NEWCOMER_LANE, NEWCOMER_WAIT_MS)

    def _fetch(self, lane: int, wait_ms: int) -> None:
        core = self.core
        config = core.config
        asked = {key: Asked(replica) for key, replica in self.ready.items()}
        self.ready.clear()
        level = core.image.level
        with_epoch = level >= FeatureLevel.FETCH_EPOCHS
        # Below this level ids do not reach brokers in zookeeper mode.
        by_name = config.zookeeper and level < FeatureLevel.ELIGIBLE_ISR
        names: dict[str, uuid.UUID] | None = None
        ids: dict[uuid.UUID, str] = {}
        if by_name:
            names = {question.replica.topic: topic_id for (topic_id, _), question in asked.items()}
            ids = {topic_id: name for name, topic_id in names.items()}
        topics: dict[uuid.UUID, list[wire.FetchPartition]] = {}
        for (topic_id, index), question in asked.items():
            topics.setdefault(topic_id, []).append(
                wire.FetchPartition(
                    partition=index,
                    current_leader_epoch=question.leader_epoch,
                    fetch_offset=question.offset,
                    last_fetched_epoch=question.last_epoch,
                    log_start_offset=question.replica.log.log_start_offset,
                    partition_max_bytes=config.replica_fetch_max_bytes,
                )
            )
        request = wire.FetchRequest(
            replica_id=-1 if with_epoch else config.broker_id,
            replica_state=wire.ReplicaState(
                replica_id=config.broker_id, replica_epoch=core.lifecycle.broker_epoch
            )
            if with_epoch
            else wire.ReplicaState(),
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_epoch=-1,
            topics=tuple(
                wire.FetchTopic(
                    topic=ids[topic_id] if by_name else "",
                    topic_id=NO_ID if by_name else topic_id,
                    partitions=tuple(partitions),
                )
                for topic_id, partitions in topics.items()
            ),
        )
        self.lanes_busy.add(lane)
        core.send(
            self.leader_id,
            request,
            12 if by_name else 15 if with_epoch else 14,
            lambda reply, now: self._answered(lane, asked, names, reply, now),
            lane=lane,
            timeout_ms=wait_ms + config.request_timeout_ms // 3,
        )

    def _answered(
        self,
        lane: int,
        asked: dict[Key, Asked],
        names: dict[str, uuid.UUID] | None,
        reply: wire.FetchResponse | None,
        now: int,
    ) -> None:
        self.lanes_busy.discard(lane)
        late: list[Key] = []
        fed: dict[Key, None] = {}
        if reply is None or reply.error_code:
            late = list(asked)
            self._ask_again(late, self.core.config.replica_fetch_backoff_ms, now)
        else:
            answered: set[Key] = set()
            for topic in reply.responses:
                topic_id = topic.topic_id if names is None else names.get(topic.topic, NO_ID)
                for answer in topic.partitions:
                    key = (topic_id, answer.partition_index)
                    question = asked.get(key)
                    if question is None:
                        continue
                    answered.add(key)
                    if answer.records:
                        fed[key] = None
                    if not self._take(question, answer, now):
                        late.append(key)
            if len(answered) < len(asked):
                late.extend(key for key in asked if key not in answered)
            if late:
                self._refused(late, now)
        held = set(late)
        # A leader fills its answer in the order of the request, and only what comes first may be larger than
        # the limits. Whoever got something goes behind the others, so that each has its turn.
        for key in (*(key for key in asked if key not in fed), *fed):
            member = self.members.get(key)
            if member is not None and not (held and key in held):
                self.ready[key] = member
                if self._refusals:
                    self._refusals.pop(key, None)
        if lane == NEWCOMER_LANE and POLL_LANE in self.lanes_busy:
            self.pausing = True
            self.core.deadlines.at(now + NEWCOMER_PAUSE_MS, self._pause_over)
        else:
            self.run(now)

    def _refused(self, keys: list[Key], now: int) -> None:
        """Ask again, each time later. At first it is soon: a leader may hear of its election after others."""
        pauses: dict[int, list[Key]] = {}
        for key in keys:
            refusals = self._refusals[key] = self._refusals.get(key, 0) + 1
            pause_ms = min(
                REFUSED_PAUSE_MS << min(refusals - 1, 16), self.core.config.replica_fetch_backoff_ms
            )
            pauses.setdefault(pause_ms, []).append(key)
        for pause_ms, late in pauses.items():
            self._ask_again(late, pause_ms, now)

    def _ask_again(self, keys: list[Key], pause_ms: int, now: int) -> None:
        self.core.deadlines.at(now + pause_ms, lambda now: self._resume(keys, now))

    def _pause_over(self, now: int) -> None:
        self.pausing = False
        self.run(now)

    def _resume(self, keys: list[Key], now: int) -> None:
        for key in keys:
            if key in self.members:
                self.ready[key] = self.members[key]
        self.run(now)

    def _take(self, question: Asked, answer: wire.FetchPartitionResponse, now: int) -> bool:
        """Apply one partition's answer; False when the partition has to wait before it is asked again."""
        replica = question.replica
        log = replica.log
        if self.members.get(replica.key) is not replica or not question.holds():
            return True
        if answer.error_code:
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return self._out_of_range(replica, answer)
            return False
        if answer.diverging_epoch.epoch >= 0:
            _, own_end = log.end_offset_for_epoch(answer.diverging_epoch.epoch)
            log.truncate_to(
                min(answer.diverging_epoch.end_offset, own_end if own_end >= 0 else log.log_start_offset)
            )
            replica.high_watermark = min(replica.high_watermark, log.end_offset)
            return True
        if answer.records:
            appended = log.append_as_follower(answer.records)
            if isinstance(appended, Refused):
                self.core.replicas.append_refused(replica, appended, now)
                return False
        replica.high_watermark = max(replica.high_watermark, min(answer.high_watermark, log.end_offset))
        if answer.log_start_offset > log.log_start_offset:
            log.delete_records_before(min(answer.log_start_offset, replica.high_watermark))
        return True

    def _out_of_range(self, replica: Replica, answer: wire.FetchPartitionResponse) -> bool:
        """The leader has nothing at our end: it kept less of the past, or (unclean election) less at all."""
        log = replica.log
        leader_start, leader_end = answer.log_start_offset, answer.high_watermark
        if leader_start > log.end_offset:
            log.truncate_fully(leader_start)
            replica.high_watermark = leader_start
        elif 0 <= leader_end < log.end_offset:
            log.truncate_to(leader_end)
            replica.high_watermark = min(replica.high_watermark, log.end_offset)
        elif log.epochs.last_epoch > replica.leader_epoch:
            # No checksum covers the epoch of a batch: one that has not begun yet is a flipped bit.
            log.truncate_to(log.epochs.last_start)
            replica.high_watermark = min(replica.high_watermark, log.end_offset)
        else:
            return False
        return True


class Following:
    def __init__(self, core: BrokerCore) -> None:
        self.core = core
        self._fetchers: dict[int, Fetcher] = {}

    def follow(self, replica: Replica, leader_id: int, now: int) -> None:
        self.leave(replica)
        if leader_id < 0:
            return
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = Fetcher(self.core, leader_id)
        fetcher.add(replica, now)

    def follows(self, replica: Replica) -> bool:
        return any(replica.key in fetcher.members for fetcher in self._fetchers.values())

    def leave(self, replica: Replica) -> None:
        for fetcher in self._fetchers.values():
            fetcher.remove(replica)

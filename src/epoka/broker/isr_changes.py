"""AlterPartition, batched: one request in flight a broker, one proposal a partition, answers by partition.

A proposal stays queued until the controller has answered for it. Errors of the whole request keep everything
and try again with whatever generation the broker has by then.

Zookeeper mode has two older ways. Below level `heartbeats` the leader writes the ISR itself, if nobody else
has changed the partition since. Below `eligible-isr` it asks with IsrChange, whose answer names no partition
epoch: the change counts when UpdateMetadata tells of it.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from epoka.broker.leadership import Proposal
from epoka.broker.replica import Replica
from epoka.model.events import CONTROLLER, IsrWritten, WriteIsr
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import alter_partition as wire
from epoka.wire.messages import isr_change

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

RETRY_MS = 50
UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
UNKNOWN_RETRY_MS = 500
MOST_PARTITIONS = 5_000
RECOVERED = 0

Key = tuple[uuid.UUID, int]


class IsrChanges:
    def __init__(self, core: BrokerCore) -> None:
        self.core = core
        self._queue: dict[Key, tuple[Replica, Proposal]] = {}
        self._in_flight = False
        self._pausing = False
        self._writing: dict[int, tuple[Replica, Proposal]] = {}
        self._next_write = 1

    def forget(self, replica: Replica) -> None:
        """The partition is about to get another key."""
        self._queue.pop(replica.key, None)

    def submit(self, replica: Replica) -> None:
        leadership = replica.leadership
        if leadership is None or leadership.pending is None:
            return
        self._queue[replica.key] = (replica, leadership.pending)
        self._send()

    def version(self) -> int:
        level = self.core.image.level
        if level >= FeatureLevel.FETCH_EPOCHS:
            return 3
        return 2 if level >= FeatureLevel.ELIGIBLE_ISR else 1

    def _send(self) -> None:
        if self._in_flight or self._pausing or self.core.lifecycle.broker_epoch < 0:
            return
        # What metadata has settled meanwhile is not asked for again.
        self._queue = {
            key: (replica, proposal)
            for key, (replica, proposal) in self._queue.items()
            if replica.leadership is not None and replica.leadership.pending is proposal
        }
        if not self._queue:
            return
        batch = dict(list(self._queue.items())[:MOST_PARTITIONS])
        if self.core.config.zookeeper and self.core.image.level < FeatureLevel.HEARTBEATS:
            self._write(batch)
            return
        if self.core.config.zookeeper and self.core.image.level < FeatureLevel.ELIGIBLE_ISR:
            self._ask_by_name(batch)
            return
        version = self.version()
        topics: dict[uuid.UUID, list[wire.AlterPartitionPartition]] = {}
        names: dict[uuid.UUID, str] = {}
        for (topic_id, index), (replica, proposal) in batch.items():
            names[topic_id] = replica.topic
            topics.setdefault(topic_id, []).append(
                wire.AlterPartitionPartition(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr=() if version >= 3 else proposal.isr,
                    new_isr_with_epochs=tuple(
                        wire.AlterPartitionBrokerState(broker_id=member, broker_epoch=epoch)
                        for member, epoch in zip(proposal.isr, proposal.epochs, strict=True)
                    )
                    if version >= 3
                    else (),
                    leader_recovery_state=RECOVERED,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        request = wire.AlterPartitionRequest(
            broker_id=self.core.config.broker_id,
            broker_epoch=self.core.lifecycle.broker_epoch,
            topics=tuple(
                wire.AlterPartitionTopic(
                    topic_name=names[topic_id], topic_id=topic_id, partitions=tuple(partitions)
                )
                for topic_id, partitions in topics.items()
            ),
        )
        self._in_flight = True
        self.core.send(
            CONTROLLER, request, version, lambda reply, now: self._answered(batch, version, reply, now)
        )

    def _answered(
        self,
        batch: dict[Key, tuple[Replica, Proposal]],
        version: int,
        reply: wire.AlterPartitionResponse | None,
        now: int,
    ) -> None:
        self._in_flight = False
        if reply is None or reply.error_code != ErrorCode.NONE:
            self._pause(now)
            return
        ids = {replica.topic: topic_id for (topic_id, _), (replica, _) in batch.items()}
        again: list[Replica] = []
        for topic in reply.topics:
            topic_id = topic.topic_id if version >= 2 else ids.get(topic.topic_name, uuid.UUID(int=0))
            for partition in topic.partitions:
                key = (topic_id, partition.partition_index)
                replica, proposal = batch.get(key, (None, None))
                if replica is None or proposal is None:
                    continue
                if self._queue.get(key, (None, None))[1] is proposal:
                    del self._queue[key]
                if self._settle(replica, proposal, partition, now):
                    again.append(replica)
        for replica in again:
            self.submit(replica)
        self._send()

    def _settle(
        self, replica: Replica, proposal: Proposal, answer: wire.AlterPartitionPartitionResponse, now: int
    ) -> bool:
        leadership = replica.leadership
        if leadership is None:
            return False
        outcome = leadership.settle(
            proposal,
            ErrorCode.of(answer.error_code),
            answer.leader_epoch,
            answer.partition_epoch,
            tuple(answer.isr),
        )
        if outcome.committed:
            replica.partition_epoch = leadership.partition_epoch
            self.core.replicas.advance_high_watermark(replica, now)
        self._ask_somebody_who_knows(replica, answer.error_code, now)
        return outcome.retry

    def _ask_somebody_who_knows(self, replica: Replica, error: int, now: int) -> None:
        """A partition that a controller does not know may be gone, and we shall hear so; or that controller
        was replaced before it was made, and the present one has nothing new to tell us."""
        if error in UNKNOWN:
            self.core.deadlines.at(now + UNKNOWN_RETRY_MS, lambda _: self.submit(replica))

    # Below `heartbeats`: the leader writes.

    def _write(self, batch: dict[Key, tuple[Replica, Proposal]]) -> None:
        under_way = {id(proposal) for _, proposal in self._writing.values()}
        for replica, proposal in batch.values():
            if id(proposal) in under_way:
                continue
            token = self._next_write
            self._next_write += 1
            self._writing[token] = (replica, proposal)
            self.core.emit(
                WriteIsr(
                    token,
                    replica.topic,
                    replica.index,
                    proposal.partition_epoch,
                    self.core.config.broker_id,
                    proposal.leader_epoch,
                    proposal.isr,
                    self.core.controller_epoch,
                )
            )

    def written(self, event: IsrWritten, now: int) -> None:
        replica, proposal = self._writing.pop(event.token, (None, None))
        if replica is None or proposal is None:
            return
        if event.partition_epoch is None and not event.moved:
            self._pause(now)
            return
        self._done(replica, proposal)
        leadership = replica.leadership
        if leadership is None:
            return
        # Whoever was faster is told of by the next UpdateMetadata.
        error = ErrorCode.INVALID_UPDATE_VERSION if event.partition_epoch is None else ErrorCode.NONE
        epoch = -1 if event.partition_epoch is None else event.partition_epoch
        if leadership.settle(proposal, error, proposal.leader_epoch, epoch, proposal.isr).committed:
            replica.partition_epoch = leadership.partition_epoch
            self.core.replicas.advance_high_watermark(replica, now)

    def _done(self, replica: Replica, proposal: Proposal) -> None:
        if self._queue.get(replica.key, (None, None))[1] is proposal:
            del self._queue[replica.key]

    # Below `eligible-isr`: the leader asks, and hears of it by UpdateMetadata.

    def _ask_by_name(self, batch: dict[Key, tuple[Replica, Proposal]]) -> None:
        topics: dict[str, list[tuple[Replica, Proposal]]] = {}
        for replica, proposal in batch.values():
            topics.setdefault(replica.topic, []).append((replica, proposal))
        request = isr_change.IsrChangeRequest(
            broker_id=self.core.config.broker_id,
            incarnation_id=self.core.lifecycle.broker_epoch,
            topics=tuple(
                isr_change.IsrChangeTopic(
                    topic_name=name,
                    partitions=tuple(
                        isr_change.IsrChangePartition(
                            leader_epoch=proposal.leader_epoch,
                            partition_index=replica.index,
                            isr_nodes=proposal.isr,
                        )
                        for replica, proposal in asked
                    ),
                )
                for name, asked in topics.items()
            ),
        )
        self._in_flight = True
        order = [each for asked in topics.values() for each in asked]
        self.core.send(CONTROLLER, request, 0, lambda reply, now: self._told(order, reply, now))

    def _told(
        self, order: list[tuple[Replica, Proposal]], reply: isr_change.IsrChangeResponse | None, now: int
    ) -> None:
        self._in_flight = False
        if reply is None or reply.top_level_error_code != ErrorCode.NONE or len(reply.results) != len(order):
            self._pause(now)
            return
        for (replica, proposal), result in zip(order, reply.results, strict=True):
            self._done(replica, proposal)
            leadership = replica.leadership
            if leadership is not None and result.error_code != ErrorCode.NONE:
                # Waits for metadata, or takes the proposal back.
                leadership.settle(proposal, ErrorCode.of(result.error_code), -1, -1, ())
                self._ask_somebody_who_knows(replica, result.error_code, now)
        self._send()

    def _pause(self, now: int) -> None:
        self._pausing = True

        def resume(now: int) -> None:
            self._pausing = False
            self._send()

        self.core.deadlines.at(now + RETRY_MS, resume)

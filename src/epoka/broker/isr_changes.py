"""AlterPartition, batched: one request in flight a broker, one proposal a partition, answers by partition.

A proposal stays queued until the controller has answered for it. Errors of the whole request keep everything
and try again with whatever generation the broker has by then.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from epoka.broker.leadership import Proposal
from epoka.broker.replica import Replica
from epoka.model.events import CONTROLLER
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import alter_partition as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

RETRY_MS = 50
MOST_PARTITIONS = 5_000
RECOVERED = 0

Key = tuple[uuid.UUID, int]


class IsrChanges:
    def __init__(self, core: BrokerCore) -> None:
        self.core = core
        self._queue: dict[Key, tuple[Replica, Proposal]] = {}
        self._in_flight = False
        self._pausing = False

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
        if self._in_flight or self._pausing or not self._queue or self.core.lifecycle.broker_epoch < 0:
            return
        version = self.version()
        batch = dict(list(self._queue.items())[:MOST_PARTITIONS])
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
        return outcome.retry

    def _pause(self, now: int) -> None:
        self._pausing = True

        def resume(now: int) -> None:
            self._pausing = False
            self._send()

        self.core.deadlines.at(now + RETRY_MS, resume)

"""The partitions that this broker holds, and how metadata turns them into leaders and followers.

A partition is led here only in the leader epoch the image gives; newer metadata wins, older is ignored. What
a fenced, stopping or stale broker may not do is asked of `fencing/`; what was refused goes to the ledger.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from epoka.broker.leadership import Follower, Leadership
from epoka.broker.replica import Replica
from epoka.fencing import fetch as fetch_rules
from epoka.fencing import isr as isr_rules
from epoka.log.partition_log import LogConfig, PartitionLog, Refused
from epoka.log.store import StorageError
from epoka.model import topic_configs
from epoka.model.ids import derived_topic_id
from epoka.model.image import BROKER_RESOURCE, TOPIC_RESOURCE, Delta, Topic
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FeatureLevel
from epoka.model.partitions import PartitionState
from epoka.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

Key = tuple[uuid.UUID, int]

NO_ERROR, NOT_LEADING = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


class Logs(Protocol):
    """The port to the logs on this broker's disk: an append is an answer and not a wish, so it is called."""

    @property
    def logs(self) -> Mapping[tuple[str, int], PartitionLog]:
        """Every partition that has a log here."""

    def create(self, topic: str, partition: int, topic_id: uuid.UUID, config: LogConfig) -> PartitionLog:
        """The log of a partition, made if it is new."""

    def delete(self, topic: str, partition: int) -> None:
        """Take a partition's log away."""

    def adopt(self, topic: str, partition: int, topic_id: uuid.UUID) -> None:
        """The log belongs to a topic whose real id has only become known now."""

    def remember(self, generation: int) -> None:
        """Keep the generation of this life for the next one."""


class Replicas:
    def __init__(self, core: BrokerCore, logs: Logs) -> None:
        self.core = core
        self.logs = logs
        self.by_key: dict[Key, Replica] = {}
        self.by_name: dict[tuple[str, int], Replica] = {}
        self.offline_reason: str | None = None

    def start(self, now: int) -> None:
        self._check_lag_later(now)

    # Questions of the APIs.

    def leading(self, replica: Replica | None, epoch: int = -1) -> ErrorCode:
        """May this broker answer for the partition as its leader, given the epoch the client knows?"""
        if replica is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if epoch >= 0 and epoch != replica.leader_epoch:
            verdict = self.core.rules.ask(fetch_rules.leader_epoch, epoch, replica.leader_epoch)
            if verdict.refused:
                return verdict.error
        return NOT_LEADING if replica.leadership is None else NO_ERROR

    def missing(self, topic: str | uuid.UUID, index: int) -> ErrorCode:
        """Why there is no replica here: somebody else holds the partition, or nobody has heard of it."""
        if self.core.image.partition(topic, index) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(topic, uuid.UUID):
            return ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # Metadata.

    def apply(self, delta: Delta, now: int) -> None:
        image = self.core.image
        # In zookeeper mode StopReplica says what to delete.
        if not self.core.config.zookeeper:
            self.forget(delta.deleted_topics)
        for resource_type, name in delta.changed_configs:
            if resource_type == TOPIC_RESOURCE:
                self._reconfigure((name,), now)
            elif name in ("", str(self.core.config.broker_id)):
                self._reconfigure(self._topics(), now)
        for topic_id, index in delta.changed_partitions:
            state = image.partition(topic_id, index)
            named = image.topic(topic_id)
            if state is not None and named is not None:
                try:
                    self._follow_metadata(named.name, topic_id, index, state, now)
                except StorageError as error:
                    # What else has changed needs no disk, and has to be followed all the more.
                    self.storage_failed(str(error), now)
        if delta.changed_brokers:
            for replica in self.by_key.values():
                if replica.leadership is not None and replica.leadership.followers:
                    self.advance_high_watermark(replica, now)

    def replace_all(self, now: int) -> None:
        """A whole new image: drop what it does not know; the caller applies its partitions after this."""
        self._remove_all(
            each for each in self.by_key.values() if self.core.image.topic(each.topic_id) is None
        )
        # It names the settings that are, and not those that were taken back.
        self._reconfigure(self._topics(), now)

    def forget_strays(self) -> None:
        """Logs of topics that were deleted while this broker was away, or made anew under the same name."""
        for (topic, index), log in list(self.logs.logs.items()):
            state = None if log.topic_id is None else self.core.image.partition(log.topic_id, index)
            if state is None or self.core.config.broker_id not in state.replicas:
                self.logs.delete(topic, index)

    def _follow_metadata(
        self, topic: str, topic_id: uuid.UUID, index: int, state: PartitionState, now: int
    ) -> None:
        own_id = self.core.config.broker_id
        key = (topic_id, index)
        replica = self.by_key.get(key)
        if own_id not in state.replicas:
            if replica is not None:
                self._remove(replica)
            return
        if replica is None:
            if self.offline_reason is not None:
                return
            replica = self._open(topic, topic_id, index)
        if state.partition_epoch < replica.partition_epoch:
            return
        if state.leader == own_id:
            self._lead(replica, state, now)
        else:
            self._obey(replica, state, now)
        replica.partition_epoch = max(replica.partition_epoch, state.partition_epoch)

    def _open(self, topic: str, topic_id: uuid.UUID, index: int) -> Replica:
        stale = self.by_name.get((topic, index))
        if stale is not None:
            self._remove(stale)
        found = self.logs.logs.get((topic, index))
        if found is not None and found.topic_id == derived_topic_id(topic):
            self.logs.adopt(topic, index, topic_id)
        elif found is not None and found.topic_id != topic_id:
            # The topic was deleted and made again while this broker was away.
            self.logs.delete(topic, index)
        values = self._topic_values(topic)
        config = log_config(values)
        log = self.logs.create(topic, index, topic_id, config)
        log.config = config
        replica = Replica(topic, topic_id, index, log, log.high_watermark)
        replica.min_isr = int(str(values["min.insync.replicas"]))
        self.by_key[replica.key] = replica
        self.by_name[topic, index] = replica
        return replica

    def _remove(self, replica: Replica) -> None:
        self._retire(replica)
        self.logs.delete(replica.topic, replica.index)

    def _remove_all(self, gone: Iterable[Replica]) -> None:
        """Remove replicas of topics that are gone. A log that cannot be deleted keeps nothing else from being
        done: metadata has to be followed all the more."""
        for replica in list(gone):
            try:
                self._remove(replica)
            except StorageError as error:
                self.storage_failed(str(error), self.core.now)

    def _retire(self, replica: Replica) -> None:
        self.core.following.leave(replica)
        replica.leadership = None
        replica.waits.abandon(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.by_key.pop(replica.key, None)
        self.by_name.pop((replica.topic, replica.index), None)

    # What control requests ask for (zookeeper mode).

    def stop(self, topic: str, index: int, *, delete: bool, now: int) -> None:
        """StopReplica: the partition plays no role here any more; its log stays unless it is to go."""
        replica = self.by_name.get((topic, index))
        if replica is not None:
            replica.log.high_watermark = replica.high_watermark
            self._retire(replica)
            self.core.offsets.left(topic, index, now)
        if delete and (topic, index) in self.logs.logs:
            self.logs.delete(topic, index)

    def forget(self, topics: Iterable[Topic]) -> None:
        """Topics that are no more, or are others under the same name."""
        for topic in topics:
            self._remove_all(each for each in self.by_key.values() if each.topic_id == topic.id)

    def rekey(self, topic: str, topic_id: uuid.UUID, now: int) -> None:
        """The real id of a topic that was known by its name alone."""
        for replica in [each for each in self.by_key.values() if each.topic == topic]:
            followed = self.core.following.follows(replica)
            self.core.following.leave(replica)
            del self.by_key[replica.key]
            self.core.isr_changes.forget(replica)
            self.logs.adopt(topic, replica.index, topic_id)
            replica.topic_id = topic_id
            self.by_key[replica.key] = replica
            self.core.isr_changes.submit(replica)
            if followed:
                self.core.following.follow(replica, replica.leader_id, now)

    def _lead(self, replica: Replica, state: PartitionState, now: int) -> None:
        leadership = replica.leadership
        if leadership is not None and state.leader_epoch == replica.leader_epoch:
            if leadership.adopt(state.partition_epoch, state.replicas, state.isr, now):
                self.advance_high_watermark(replica, now)
            return
        if self.offline_reason is not None:
            return
        self.core.following.leave(replica)
        replica.waits.abandon(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica.leader_id = self.core.config.broker_id
        replica.leader_epoch = state.leader_epoch
        replica.leadership = Leadership(
            broker_id=self.core.config.broker_id,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
            start_offset=replica.log.end_offset,
            now=now,
        )
        # Without this entry a follower of an earlier epoch that wrote more would look like one of our own.
        replica.log.begin_epoch(state.leader_epoch)
        replica.unseen_bytes = 0
        self.advance_high_watermark(replica, now)

    def _obey(self, replica: Replica, state: PartitionState, now: int) -> None:
        if replica.leadership is not None:
            replica.leadership = None
            replica.waits.abandon(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif state.leader == replica.leader_id and state.leader_epoch == replica.leader_epoch:
            if not self._may_follow(state):
                self.core.following.leave(replica)
            return
        replica.leader_id = state.leader
        replica.leader_epoch = state.leader_epoch
        if self._may_follow(state):
            self.core.following.follow(replica, state.leader, now)
        else:
            self.core.following.leave(replica)

    def _may_follow(self, state: PartitionState) -> bool:
        """Not to a disk that takes nothing; and a stopping broker that has left the ISR must not catch up and
        ask to come back (KIP-841)."""
        if self.offline_reason is not None:
            return False
        return not self.core.stopping() or self.core.config.broker_id in state.isr

    # Settings of a topic.

    def dynamic_defaults(self) -> dict[str, str]:
        """What was set while brokers ran: for all of them, and before that for this one."""
        image, own = self.core.image, str(self.core.config.broker_id)
        return {**image.config(BROKER_RESOURCE, ""), **image.config(BROKER_RESOURCE, own)}

    def topic_defaults(self) -> dict[str, topic_configs.Value]:
        """What holds where a topic is silent."""
        return {**self.core.config.topic_defaults, **self.dynamic_defaults()}

    def _topic_values(self, topic: str) -> dict[str, topic_configs.Value]:
        return topic_configs.effective(self.core.image.topic_config(topic), self.topic_defaults())

    def _topics(self) -> Iterable[str]:
        return dict.fromkeys(replica.topic for replica in self.by_key.values())

    def _reconfigure(self, topics: Iterable[str], now: int) -> None:
        values = {topic: self._topic_values(topic) for topic in topics}
        for replica in list(self.by_key.values()):
            if replica.topic in values:
                config = values[replica.topic]
                replica.log.config = log_config(config)
                replica.min_isr = int(str(config["min.insync.replicas"]))
                self.advance_high_watermark(replica, now)

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """What is worth a checkpoint."""
        return {name: replica.high_watermark for name, replica in self.by_name.items()}

    # The ISR.

    def eligible(self, replica: Replica) -> Callable[[Follower], bool]:
        """May this follower be counted on? Asked of the metadata image and of its own last fetch."""
        core = self.core
        level = core.image.level
        if level < FeatureLevel.ELIGIBLE_ISR:
            return _anybody

        def may_join(follower: Follower) -> bool:
            broker_id = follower.broker_id
            known = core.image.broker(broker_id)
            active = core.rules.ask(
                isr_rules.eligible,
                broker_id,
                registered=known is not None,
                fenced=known is not None and known.fenced,
                stopping=known is not None and known.in_controlled_shutdown,
            )
            if active.refused:
                return False
            if level < FeatureLevel.FETCH_EPOCHS:
                return True
            unfenced_epoch = None if known is None or known.fenced else known.epoch
            return core.rules.ask(
                isr_rules.fetched_generation, broker_id, follower.broker_epoch, unfenced_epoch
            ).accepted

        return may_join

    def advance_high_watermark(self, replica: Replica, now: int) -> bool:
        """A follower has fetched or the ISR has changed: more may be committed, and deleted for good."""
        leadership = replica.leadership
        if leadership is None:
            return False
        if replica.waits.deletes:
            replica.waits.low_watermark_reached(leadership.low_watermark(replica.log.log_start_offset))
        if not leadership.followers and len(leadership.isr) >= min(replica.min_isr, 1):
            return replica.raise_high_watermark(replica.log.end_offset)
        mark = leadership.high_watermark(
            replica.log.end_offset,
            replica.min_isr,
            now,
            self.core.config.replica_lag_time_max_ms,
            self.eligible(replica),
        )
        return mark is not None and replica.raise_high_watermark(mark)

    def follower_fetched(self, replica: Replica, follower: Follower, now: int) -> None:
        """A fetch of a follower was taken in: it may join the ISR now, and records may be committed now."""
        leadership = replica.leadership
        assert leadership is not None
        if follower.broker_id not in leadership.isr and leadership.propose_join(
            follower,
            replica.high_watermark,
            replica.log.log_start_offset,
            self.eligible(replica),
            self.core.lifecycle.broker_epoch,
        ):
            self._tell_proposal(replica, f"broker {follower.broker_id} has caught up", now)
            self.core.isr_changes.submit(replica)
        self.advance_high_watermark(replica, now)

    def _check_lag_later(self, now: int) -> None:
        self.core.deadlines.at(now + self.core.config.replica_lag_time_max_ms // 2, self._check_lag)

    def _check_lag(self, now: int) -> None:
        for replica in list(self.by_key.values()):
            leadership = replica.leadership
            if leadership is None:
                continue
            if leadership.propose_shrink(
                replica.log.end_offset,
                now,
                self.core.config.replica_lag_time_max_ms,
                self.core.lifecycle.broker_epoch,
            ):
                self._tell_proposal(replica, leadership.told_lag(now), now)
                self.core.isr_changes.submit(replica)
            # Who is no member holds the high watermark only for as long.
            self.advance_high_watermark(replica, now)
        self._check_lag_later(now)

    def _tell_proposal(self, replica: Replica, reason: str, now: int) -> None:
        """Why the leader asks for another ISR is known here and nowhere else."""
        leadership = replica.leadership
        assert leadership is not None and leadership.pending is not None
        self.core.report(
            LedgerEvent(
                kind="isr-proposed",
                topic=replica.topic,
                partition=replica.index,
                leader=self.core.config.broker_id,
                leader_epoch=leadership.leader_epoch,
                partition_epoch=leadership.partition_epoch,
                isr_before=leadership.isr,
                isr=leadership.pending.isr,
                detail=reason,
            ),
            now,
        )

    # When the disk fails.

    def append_refused(self, replica: Replica, refused: Refused, now: int) -> None:
        if refused.code == ErrorCode.KAFKA_STORAGE_ERROR:
            self.storage_failed(refused.reason, now)

    def storage_failed(self, reason: str, now: int) -> None:
        """The disk takes no more writes; what is there stays readable until leaders are moved away."""
        if self.offline_reason is not None:
            return
        self.offline_reason = reason
        for replica in self.by_key.values():
            self.core.following.leave(replica)
        self.core.report(LedgerEvent(kind="storage-failed", detail=reason), now)
        self.core.lifecycle.beat_now(now)


def _anybody(follower: Follower) -> bool:
    return True


def log_config(values: dict[str, topic_configs.Value]) -> LogConfig:
    """The part of a topic's settings that its log lives by."""
    settings: dict[str, Any] = {
        field: values[name]
        for name, field in {
            "segment.bytes": "segment_bytes",
            "segment.ms": "segment_ms",
            "index.interval.bytes": "index_interval_bytes",
            "retention.ms": "retention_ms",
            "retention.bytes": "retention_bytes",
            "cleanup.policy": "cleanup_policy",
            "max.message.bytes": "max_message_bytes",
            "min.cleanable.dirty.ratio": "min_cleanable_ratio",
            "delete.retention.ms": "delete_retention_ms",
            "min.compaction.lag.ms": "min_compaction_lag_ms",
            "flush.messages": "flush_messages",
            "flush.ms": "flush_ms",
            "message.timestamp.type": "message_timestamp_type",
            "message.timestamp.before.max.ms": "message_timestamp_before_max_ms",
            "message.timestamp.after.max.ms": "message_timestamp_after_max_ms",
        }.items()
    }
    return LogConfig(**settings)

"""`__consumer_offsets`: where groups and their offsets live, and how the coordinator moves with its leaders.

The coordinator decides; this room appends what it wants kept, tells it when that is committed, and loads or
drops a partition's groups when its leadership comes or goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from epoka.broker.deadlines import Deadline
from epoka.broker.groups import Answer, GroupCoordinator, GroupEffect, Store
from epoka.broker.replica import Replica
from epoka.broker.waiting import ProduceWait, Written
from epoka.log.partition_log import Refused
from epoka.model.events import CONTROLLER, Request
from epoka.model.image import Delta
from epoka.wire import records
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import create_topics

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

TOPIC = "__consumer_offsets"
COMMIT_TIMEOUT_MS = 5_000
SETTINGS = (("cleanup.policy", "compact"), ("segment.bytes", "104857600"), ("compression.type", "producer"))


class OffsetsTopic:
    def __init__(self, core: BrokerCore, new_member_id: Callable[[str], str]) -> None:
        self.core = core
        self.coordinator = GroupCoordinator(core.config.groups, new_member_id)
        self._led: dict[int, int] = {}
        """Partition to the leader epoch in which its groups were loaded."""
        self._requests: dict[int, tuple[Request, Callable[[Any], Any] | None]] = {}
        self._alarm: Deadline | None = None
        self._creating = False

    # Requests of groups.

    def ask(
        self,
        request: Request,
        method: Callable[..., list[GroupEffect]],
        *about: Any,
        message: Any = None,
        complete: Callable[[Any], Any] | None = None,
    ) -> None:
        """Hand a request to the coordinator; its answer may come at once or later.

        `message` stands in for the request's own, and `complete` has the last word on the answer.
        """
        self._requests[request.token] = (request, complete)
        self._perform(
            method(request.token, request.version, *about, message or request.message, self.core.now)
        )
        if request.token in self._requests:
            self.core.wait(request, lambda: self._gone(request.token))

    def _gone(self, token: int) -> None:
        self._requests.pop(token, None)
        self.coordinator.disconnected((token,))

    def _perform(self, effects: list[GroupEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                request, complete = self._requests.pop(effect.token, (None, None))
                if request is not None:
                    self.core.respond(request, complete(effect.message) if complete else effect.message)
            else:
                self._store(effect)
        self._set_alarm()

    def _set_alarm(self) -> None:
        due = self.coordinator.deadline
        if self._alarm is not None and self._alarm.call is not None:
            if due is not None and self._alarm.at <= due:
                return
            self._alarm.cancel()
        self._alarm = None if due is None else self.core.deadlines.at(due, self._wake)

    def _wake(self, now: int) -> None:
        self._perform(self.coordinator.wake(now))

    # Keeping.

    def _store(self, store: Store) -> None:
        core = self.core
        replica = core.replicas.by_name.get((TOPIC, store.partition))
        error = core.replicas.leading(replica)
        if replica is None or error != ErrorCode.NONE or replica.leadership is None:
            self._stored(store.ticket, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if len(replica.leadership.isr) < min(replica.min_isr, len(replica.leadership.replicas)):
            self._stored(store.ticket, ErrorCode.NOT_ENOUGH_REPLICAS)
            return
        batch = records.encode_batch(
            [
                records.Record(offset=index, timestamp=core.now, key=key, value=value)
                for index, (key, value) in enumerate(store.records)
            ]
        )
        appended = replica.log.append_as_leader(
            batch, [records.read_header(batch)], replica.leader_epoch, core.now
        )
        if isinstance(appended, Refused):
            core.replicas.append_refused(replica, appended, core.now)
            self._stored(store.ticket, appended.code)
            return
        written = Written(TOPIC, store.partition)
        written.required = appended.last_offset + 1
        wait = ProduceWait(lambda: self._stored(store.ticket, written.error))
        wait.open[id(written)] = written
        replica.waits.produces.append((written, wait))
        wait.deadline = core.deadlines.at(core.now + COMMIT_TIMEOUT_MS, wait.expire)
        replica.appended(len(batch))
        core.replicas.advance_high_watermark(replica, core.now)

    def _stored(self, ticket: int, error: ErrorCode) -> None:
        self._perform(self.coordinator.stored(ticket, error, self.core.now))

    # Coming and going of leaderships.

    def apply(self, delta: Delta, now: int) -> None:
        deleted = [topic.name for topic in delta.deleted_topics]
        if TOPIC in deleted:
            # First: the next one of that name may be told of in the same breath.
            for index in list(self._led):
                self._drop(index, now)
        topic = self.core.image.topic(TOPIC)
        if topic is not None:
            for topic_id, index in delta.changed_partitions:
                if topic_id == topic.id:
                    self._follow_leadership(index, now)
        if deleted:
            self._perform(self.coordinator.topics_deleted(deleted, now))

    def _follow_leadership(self, index: int, now: int) -> None:
        replica = self.core.replicas.by_name.get((TOPIC, index))
        if replica is None or replica.leadership is None:
            self._drop(index, now)
        elif self._led.get(index) != replica.leader_epoch:
            self._drop(index, now)
            self._led[index] = replica.leader_epoch
            self.coordinator.load_started(index)
            self.coordinator.load(index, _kept(replica), now)
            self._set_alarm()

    def left(self, topic: str, index: int, now: int) -> None:
        """A partition plays no role here any more."""
        if topic == TOPIC:
            self._drop(index, now)

    def _drop(self, index: int, now: int) -> None:
        if self._led.pop(index, None) is not None:
            self._perform(self.coordinator.unload(index, now))

    # Where a group's coordinator is.

    def create(self) -> None:
        """Ask the controller for the topic, once at a time; whoever needs it asks again."""
        if self._creating:
            return
        self._creating = True
        config = self.core.config
        # Brokers that are away count too: when they are back, the groups must not live on one disk only.
        known = len(self.core.image.brokers)
        request = create_topics.CreateTopicsRequest(
            topics=(
                create_topics.CreatableTopic(
                    name=TOPIC,
                    num_partitions=config.offsets_topic_partitions,
                    replication_factor=max(1, min(config.offsets_topic_replication_factor, known)),
                    configs=tuple(
                        create_topics.CreatableTopicConfig(name=key, value=value) for key, value in SETTINGS
                    ),
                ),
            ),
            timeout_ms=config.request_timeout_ms,
        )
        self.core.send(CONTROLLER, request, 7, self._created)

    def _created(self, reply: Any, now: int) -> None:
        self._creating = False


def _kept(replica: Replica) -> Iterator[tuple[bytes, bytes | None, int, int]]:
    """Every record of the partition, as the coordinator reads them."""
    for batch, header in replica.log.batches(replica.log.log_start_offset):
        if header.is_control:
            continue
        for record in records.decode_batch(batch, 0, header):
            if record.key is not None:
                yield (
                    bytes(record.key),
                    None if record.value is None else bytes(record.value),
                    record.offset,
                    record.timestamp,
                )

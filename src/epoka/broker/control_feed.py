"""The broker's picture of the cluster in zookeeper mode: control requests become what the image replays.

Every request is asked about its generation, its controller and its connection (`control.*`); what is refused
changes nothing and goes to the ledger. LeaderAndIsr gives roles, UpdateMetadata tells of everybody and never
makes this broker a leader or a follower by itself, StopReplica takes roles away.

Topic ids travel in UpdateMetadata from version 8 on. Below that every node derives the id from the name, so
all of them agree; when the real one arrives, the topic and its logs are re-keyed. At levels that send ids
LeaderAndIsr for an unknown topic waits for the UpdateMetadata behind it, which brings the id.

Settings do not travel in control requests: brokers read them where they live. A log is made only when they
have been read since its role was given, as Kafka does. By defaults alone a broker that is cut off from the
ensemble would take a topic for one that is content with a single in-sync replica.

The first UpdateMetadata of a generation, and of a controller, is the whole truth: what it does not name is
gone. That holds only where requests carry generations.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from epoka.fencing import control as rules
from epoka.fencing.verdict import Verdict
from epoka.model.events import Hangup, ReadSettings, Request, SettingsRead
from epoka.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId, derived_topic_id
from epoka.model.image import TOPIC_RESOURCE, Delta, Topic, register_broker_record
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.model.partitions import PartitionState
from epoka.model.registrations import CONTROL_LISTENER, BrokerRegistration, Endpoint
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import leader_and_isr as lai
from epoka.wire.messages import metadata_records as m
from epoka.wire.messages import stop_replica as sr
from epoka.wire.messages import update_metadata as um

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore
    from epoka.broker.replica import Replica

DELETED = -2
GENERATIONS_SINCE = 5
TOPIC_IDS_SINCE = 8
Place = tuple[str, int]
CONTROL_REQUESTS = (lai.LeaderAndIsrRequest, um.UpdateMetadataRequest, sr.StopReplicaRequest)


class _Role(msgspec.Struct):
    """A role that this broker has been given and not taken up yet."""

    state: PartitionState
    reading: int | None = None
    """The reading of settings that it waits for; None until one has been asked for."""


class ControlFeed:
    def __init__(self, core: BrokerCore) -> None:
        self.core = core
        self.controller_epoch = -1
        """The greatest that has been seen."""
        self._connection = 0
        """The newest connection on which that controller was obeyed."""
        self.updated = False
        """Whether any UpdateMetadata has been taken in."""
        self.seen_epoch = -1
        """The greatest generation that an UpdateMetadata was made for."""
        self._updated_by = -1
        self._told: dict[int, um.UpdateMetadataBroker] = {}
        """What the last UpdateMetadata said of each broker that the image holds in just these words."""
        self._held: dict[str, dict[int, _Role]] = {}
        """Roles of topics whose id is still to come, or whose settings are, by name and partition."""
        self._asked = 0
        """How often settings have been asked for."""
        self._read = 0
        """Which of those has been answered last."""

    def start(self, now: int) -> None:
        """Nothing is asked for: the controller comes."""

    def admit(self, request: Request, now: int) -> Verdict | None:
        """The refusal of a control request, or None; the order of the questions is part of the protocol.

        A refusal without an error is no answer: whoever sent the request has given its connection up, and it
        is closed on this side, too.
        """
        message = request.message
        core, own_epoch = self.core, self.core.lifecycle.broker_epoch
        verdict = core.rules.ask(rules.generation, message.broker_epoch, own_epoch)
        if verdict.accepted:
            verdict = core.rules.ask(rules.max_generation, message.max_broker_epoch, own_epoch)
        if verdict.accepted:
            verdict = core.rules.ask(rules.controller, message.controller_epoch, self.controller_epoch)
        if verdict.accepted and message.controller_epoch == self.controller_epoch:
            verdict = core.rules.ask(rules.connection, request.peer.connection, self._connection)
        if verdict.refused:
            core.report_verdict(verdict, now, broker=message.controller_id)
            if verdict.error is ErrorCode.NONE:
                core.emit(Hangup(request.token, verdict.reason))
            return verdict
        self.controller_epoch = max(self.controller_epoch, message.controller_epoch)
        self._connection = request.peer.connection
        return None

    # LeaderAndIsr.

    def leader_and_isr(self, message: lai.LeaderAndIsrRequest, now: int) -> dict[Place, ErrorCode]:
        errors: dict[Place, ErrorCode] = {}
        roles: dict[tuple[TopicId, int], None] = {}
        self._tell_brokers(self._unknown_leaders(message))
        for name, row in _rows(message.ungrouped_partition_states, message.topic_states):
            state = _state(row)
            error = errors[name, row.partition_index] = self._judge(name, row.partition_index, state, now)
            if error != ErrorCode.NONE:
                continue
            topic = self.core.image.topic(name)
            if topic is not None and (name, row.partition_index) in self.core.replicas.by_name:
                self._put(topic, row.partition_index, state)
                roles[topic.id, row.partition_index] = None
            else:
                self._held.setdefault(name, {})[row.partition_index] = _Role(state)
        roles |= self._due(list(self._held))
        delta = self._collected()
        self.core.apply(msgspec.structs.replace(delta, changed_partitions=tuple(roles)), now)
        return errors

    def _due(self, names: Iterable[str]) -> dict[tuple[TopicId, int], None]:
        """Take up what can be of the roles that are held: the image has them, the caller acts on them."""
        due: dict[tuple[TopicId, int], None] = {}
        asked = self._asked
        for name in names:
            topic, held = self.core.image.topic(name), self._held.pop(name, {})
            for index, role in held.items():
                if not self._keeps_a_log(topic, name, index):
                    role.reading = role.reading or asked + 1
                    self._asked = max(self._asked, role.reading)
                if (role.reading or 0) > self._read or (topic is None and self._has_an_id(name, index)):
                    self._held.setdefault(name, {})[index] = role
                    continue
                topic = topic or self._add_topic(name, derived_topic_id(name))
                self._put(topic, index, role.state)
                due[topic.id, index] = None
        if self._asked > asked:
            self.core.emit(ReadSettings(self._asked))
        return due

    def _keeps_a_log(self, topic: Topic | None, name: str, index: int) -> bool:
        """Whether there is a log of this very topic, as far as it is known: its settings have been read."""
        log = self.core.replicas.logs.logs.get((name, index))
        return log is not None and (topic is None or log.topic_id in (None, topic.id, derived_topic_id(name)))

    def _has_an_id(self, name: str, index: int) -> bool:
        """Topics have ids from `eligible-isr` on. A broker that has not read the level yet may have a log
        that knows better: by the name alone it would be taken for that of an earlier topic, and deleted."""
        log = self.core.replicas.logs.logs.get((name, index))
        return self.core.image.level >= FeatureLevel.ELIGIBLE_ISR or (
            log is not None and log.topic_id not in (None, derived_topic_id(name))
        )

    def _judge(self, name: str, index: int, state: PartitionState, now: int) -> ErrorCode:
        core = self.core
        if core.replicas.offline_reason is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        replica = core.replicas.by_name.get((name, index))
        current = -1 if replica is None else replica.leader_epoch
        if state.leader_epoch <= current:
            if state.leader_epoch < current:
                core.report(
                    LedgerEvent(
                        kind="verdict",
                        rule="control.leader-epoch",
                        verdict="refused",
                        error=ErrorCode.STALE_CONTROLLER_EPOCH.name,
                        given=str(state.leader_epoch),
                        expected=f"> {current}",
                        topic=name,
                        partition=index,
                    ),
                    now,
                )
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if core.config.broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def _unknown_leaders(self, message: lai.LeaderAndIsrRequest) -> list[BrokerRegistration]:
        """Where leaders live of whom no UpdateMetadata has told yet."""
        return [
            BrokerRegistration(
                BrokerId(each.broker_id),
                BrokerEpoch(-1),
                uuid.UUID(int=0),
                (Endpoint(CONTROL_LISTENER, each.host_name, each.port),),
            )
            for each in message.live_leaders
            if self.core.image.broker(each.broker_id) is None
        ]

    # UpdateMetadata.

    def update_metadata(self, message: um.UpdateMetadataRequest, version: int, now: int) -> None:
        core = self.core
        whole = self._is_whole(message, version)
        named: dict[str, None] = {}
        deleted: list[Topic] = []
        for name, topic_id, rows in _topics(message, version):
            if any(row.leader == DELETED for row in rows):
                self._held.pop(name, None)
                if (topic := core.image.topic(name)) is not None:
                    self._remove_topic(topic)
                    deleted.append(topic)
                continue
            named[name] = None
            topic, anew = self._topic(name, topic_id, now)
            deleted += anew
            if core.image.partition_count_of(topic.id):
                for row in rows:
                    self._put(topic, row.partition_index, _state(row))
            else:
                core.image.tell_partitions(topic.id, {row.partition_index: _state(row) for row in rows})
            if anew:
                # The LeaderAndIsr before this was judged by the topic that was here before.
                held = self._held.setdefault(name, {})
                for row in rows:
                    if self._is_ours(state := _state(row)):
                        held.setdefault(row.partition_index, _Role(state))
            if (anew or whole) and name in self._held:
                # What is not told of here was given for an earlier topic of that name.
                ours = {row.partition_index for row in rows if core.config.broker_id in row.replicas}
                held = self._held[name]
                self._held[name] = {index: role for index, role in held.items() if index in ours}
        roles = self._due([name for name in self._held if name in named])
        if whole:
            deleted += self._forget_unnamed(named)
        told = self._told
        news = [each for each in message.live_brokers if told.get(each.id) != each]
        self._tell_brokers(
            [_registration(each) for each in news],
            gone=set(core.image.brokers) - {each.id for each in message.live_brokers},
        )
        told.update((each.id, each) for each in news)
        self._act(roles, deleted, now)
        if whole:
            self._forget_strays()
        self.updated = True
        core.lifecycle.initialised(now)

    def _is_whole(self, message: um.UpdateMetadataRequest, version: int) -> bool:
        """Whether this is the first that a controller made for our present generation."""
        if version < GENERATIONS_SINCE:
            return False
        given = max(message.broker_epoch, message.max_broker_epoch)
        own = self.core.lifecycle.broker_epoch
        first = self.seen_epoch < own <= given
        by_another = message.controller_epoch > self._updated_by
        self.seen_epoch = max(self.seen_epoch, given)
        self._updated_by = max(self._updated_by, message.controller_epoch)
        return own >= 0 and given >= own and (first or by_another)

    def _topic(self, name: str, topic_id: uuid.UUID | None, now: int) -> tuple[Topic, list[Topic]]:
        """The topic under that name, and the one that it replaces, if it was made anew."""
        known = self.core.image.topic(name)
        if known is None:
            return self._add_topic(name, topic_id or derived_topic_id(name)), []
        if topic_id is None or known.id == topic_id:
            return known, []
        if known.id == derived_topic_id(name):
            return self._rekey(known, topic_id, now), []
        self._remove_topic(known)
        return self._add_topic(name, topic_id), [known]

    def _remove_topic(self, topic: Topic) -> None:
        """Its settings stay: they are told apart, by name, and may be those of the next one already."""
        settings = dict(self.core.image.topic_config(topic.name))
        self._apply(m.RemoveTopicRecord(topic_id=topic.id))
        for key, value in settings.items():
            self._apply(
                m.ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=key, value=value)
            )

    def _rekey(self, known: Topic, topic_id: uuid.UUID, now: int) -> Topic:
        """The real id of a topic that was known by its name alone."""
        image = self.core.image
        partitions = list(image.partitions_of(known.id))
        self._remove_topic(known)
        topic = self._add_topic(known.name, topic_id)
        for index, state in partitions:
            self._put(topic, index, state)
        self.core.replicas.rekey(known.name, topic_id, now)
        return topic

    def _forget_unnamed(self, named: dict[str, None]) -> list[Topic]:
        gone = [topic for topic in self.core.image.topics() if topic.name not in named]
        for topic in gone:
            self._remove_topic(topic)
        for name in list(self._held):
            if name not in named:
                del self._held[name]
        return gone

    def _act(self, roles: dict[tuple[TopicId, int], None], deleted: list[Topic], now: int) -> None:
        """Hand on what changed; of our own partitions only what leaves roles as they are."""
        core = self.core
        delta = self._collected()
        changed = dict(roles)
        for topic_id, index in delta.changed_partitions:
            replica = core.replicas.by_key.get((topic_id, index))
            state = core.image.partition(topic_id, index)
            if replica is not None and state is not None and self._may_go_by(replica, state):
                changed[topic_id, index] = None
        # Not with StopReplica: that may go down with its controller, or with our session, and nothing that
        # comes later names a topic that this broker does not know.
        core.replicas.forget(deleted)
        # Groups hear of it, too. A topic that got its real id stays.
        gone = tuple(
            topic
            for topic in delta.deleted_topics
            if core.image.topic(topic.name) is None or topic.id != derived_topic_id(topic.name)
        )
        delta = msgspec.structs.replace(delta, changed_partitions=tuple(changed), deleted_topics=gone)
        core.apply(delta, now)

    def _may_go_by(self, replica: Replica, state: PartitionState) -> bool:
        """Roles come with LeaderAndIsr, and their end with StopReplica. But a disk that failed keeps the one
        from being obeyed, and the other may have gone down with its controller, or with our session."""
        if replica.leader_epoch >= state.leader_epoch:
            return replica.leader_epoch == state.leader_epoch and self._is_ours(state)
        return self.core.replicas.offline_reason is not None or not self._is_ours(state)

    def _is_ours(self, state: PartitionState) -> bool:
        return self.core.config.broker_id in state.replicas

    def _forget_strays(self) -> None:
        """Logs that the whole truth does not give to this broker."""
        core = self.core
        for (name, index), log in list(core.replicas.logs.logs.items()):
            topic, state = core.image.topic(name), core.image.partition(name, index)
            ours = (
                topic is not None
                and state is not None
                and core.config.broker_id in state.replicas
                and log.topic_id in (None, topic.id, derived_topic_id(name))
            )
            if not ours and (name, index) not in core.replicas.by_name:
                core.replicas.logs.delete(name, index)

    # StopReplica.

    def stop_replica(self, message: sr.StopReplicaRequest, now: int) -> dict[Place, ErrorCode]:
        errors: dict[Place, ErrorCode] = {}
        places = [(each.topic_name, each.partition_index) for each in message.ungrouped_partitions]
        places += [(each.name, index) for each in message.topics for index in each.partition_indexes]
        for place in places:
            self._held.get(place[0], {}).pop(place[1], None)
            self.core.replicas.stop(*place, delete=message.delete_partitions, now=now)
            errors[place] = ErrorCode.NONE
        return errors

    # What control requests do not carry.

    def settings_read(self, settings: SettingsRead, now: int) -> None:
        image = self.core.image
        if FEATURE_NAME not in image.features or image.level != settings.level:
            self._apply(m.FeatureLevelRecord(name=FEATURE_NAME, feature_level=settings.level))
        keys = dict.fromkeys([*image.configured(), *settings.configs])
        for kind, name in keys:
            old, new = image.config(kind, name), settings.configs.get((kind, name), {})
            for key in dict.fromkeys([*old, *new]):
                if old.get(key) != new.get(key):
                    self._apply(
                        m.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=new.get(key))
                    )
        self._read = max(self._read, settings.token)
        roles = self._due(list(self._held))
        self.core.apply(msgspec.structs.replace(self._collected(), changed_partitions=tuple(roles)), now)

    # The image.

    def _apply(self, record: Any) -> None:
        self.core.image.apply(record, self.core.image.offset + 1)

    def _add_topic(self, name: str, topic_id: uuid.UUID) -> Topic:
        self._apply(m.TopicRecord(name=name, topic_id=topic_id))
        return Topic(name, TopicId(topic_id))

    def _put(self, topic: Topic, index: int, state: PartitionState) -> None:
        known = self.core.image.partition(topic.id, index)
        if known is None or (known.leader_epoch, known.partition_epoch) < (
            state.leader_epoch,
            state.partition_epoch,
        ):
            self.core.image.tell_partition(topic.id, index, state)

    def _tell_brokers(self, brokers: Sequence[BrokerRegistration], gone: set[BrokerId] | None = None) -> None:
        image = self.core.image
        for broker in brokers:
            self._told.pop(broker.id, None)
            if image.broker(broker.id) != broker:
                self._apply(register_broker_record(broker))
        for broker_id in sorted(gone or ()):
            self._told.pop(broker_id, None)
            known = image.broker(broker_id)
            assert known is not None
            self._apply(m.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=known.epoch))

    def _collected(self) -> Delta:
        return self.core.image.collected()


def _rows(ungrouped: Sequence[Any], grouped: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for row in ungrouped:
        yield row.topic_name, row
    for topic in grouped:
        for row in topic.partition_states:
            yield topic.topic_name, row


def _topics(
    message: um.UpdateMetadataRequest, version: int
) -> list[tuple[str, uuid.UUID | None, list[um.UpdateMetadataPartitionState]]]:
    rows: dict[str, list[um.UpdateMetadataPartitionState]] = {}
    for name, row in _rows(message.ungrouped_partition_states, message.topic_states):
        rows.setdefault(name, []).append(row)
    ids = {each.topic_name: each.topic_id for each in message.topic_states}
    return [
        (name, ids[name] if version >= TOPIC_IDS_SINCE else None, states) for name, states in rows.items()
    ]


def _state(row: lai.LeaderAndIsrPartitionState | um.UpdateMetadataPartitionState) -> PartitionState:
    return PartitionState(
        BrokerId(row.leader),
        LeaderEpoch(row.leader_epoch),
        PartitionEpoch(row.partition_epoch),
        cast("tuple[BrokerId, ...]", row.replicas),
        cast("tuple[BrokerId, ...]", row.isr),
    )


def _registration(broker: um.UpdateMetadataBroker) -> BrokerRegistration:
    return BrokerRegistration(
        BrokerId(broker.id),
        BrokerEpoch(broker.broker_epoch),
        uuid.UUID(int=max(broker.broker_epoch, 0)),
        tuple(
            Endpoint(each.listener, each.host, each.port, each.security_protocol) for each in broker.endpoints
        ),
        (),
        broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )

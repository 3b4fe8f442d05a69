"""A `World` in zookeeper mode, with a tiny coordination service: transactions, sessions, a registry, state.

The service is instantaneous and always right; what takes time, and what a test may hold back, is telling:
brokers learn their generation, controllers learn of the registry, one millisecond later. `tell` says who is
told. State is a metadata log beside which leaders write ISRs, as they do below level `heartbeats`.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from typing import Any

from epoka.broker.config import BrokerConfig, Listener
from epoka.broker.core import BrokerCore
from epoka.controller.core import ControllerCore
from epoka.controller.metadata_log import MemoryMetadataLog, Overtaken
from epoka.fencing import ALL_RULES, Rules
from epoka.log.directory import LogDirectory
from epoka.log.store import MemoryStore
from epoka.model.events import (
    CONTROLLER,
    Coordinate,
    Effect,
    Exit,
    IsrChanged,
    IsrWritten,
    ReadSettings,
    Register,
    Registered,
    RegistryChanged,
    RegistryEntry,
    SettingsRead,
    Stop,
    WriteIsr,
)
from epoka.model.image import ClusterImage
from epoka.model.levels import FEATURE_NAME, HIGHEST, FeatureLevel
from epoka.model.records import decode_record, encode_record
from epoka.model.registrations import Endpoint, Feature
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import update_features
from epoka.wire.messages.metadata_records import PartitionChangeRecord
from tests.broker.world import CLUSTER, Node, World

SESSION_MS = 600


class SharedLog(MemoryMetadataLog):
    """State that leaders write too: an append that does not know of it is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.image = ClusterImage()
        self._untold: list[PartitionChangeRecord] = []

    def append(self, records: Sequence[bytes]) -> int:
        decoded = [decode_record(each) for each in records]
        for record in decoded:
            if isinstance(record, PartitionChangeRecord):
                for written in self._untold:
                    if (written.topic_id, written.partition_id) == (record.topic_id, record.partition_id):
                        topic = self.image.topic(record.topic_id)
                        assert topic is not None
                        raise Overtaken(topic.name, record.partition_id, self.end_offset, 0)
        base_offset = super().append(records)
        self.image.apply_batch(decoded, base_offset)
        return base_offset

    def write_isr(self, write: WriteIsr) -> IsrWritten:
        topic, state = self.image.topic(write.topic), self.image.partition(write.topic, write.partition)
        if topic is None or state is None or state.partition_epoch != write.expected_version:
            return IsrWritten(write.token, moved=True)
        record = PartitionChangeRecord(partition_id=write.partition, topic_id=topic.id, isr=write.isr)
        self.image.apply(record, self.image.offset)
        self._untold.append(record)
        return IsrWritten(write.token, write.expected_version + 1)

    def take_isr_changes(self) -> tuple[int, list[PartitionChangeRecord]]:
        return self._take(lambda record: True)

    def take_partition(self, topic: str, partition: int) -> tuple[int, list[PartitionChangeRecord]]:
        named = self.image.topic(topic)
        assert named is not None
        return self._take(lambda each: (each.topic_id, each.partition_id) == (named.id, partition))

    def _take(self, wanted: Any) -> tuple[int, list[PartitionChangeRecord]]:
        taken = [each for each in self._untold if wanted(each)]
        self._untold = [each for each in self._untold if not wanted(each)]
        return super().append([encode_record(each) for each in taken]), taken


class ZkWorld(World):
    def __init__(
        self, brokers: int = 3, level: FeatureLevel = HIGHEST, rules: Rules = ALL_RULES, **settings: Any
    ) -> None:
        self.zxid = 100
        self.registry: dict[int, tuple[RegistryEntry, Node]] = {}
        self.tell = True
        """False: the controller is not told of changes of the registry until `tell_registry`."""
        self.deaf: set[int] = set()
        """Brokers that are not told of settings, so stay on the level they know."""
        self.deaf_to_isr_changes = False
        """True: the controller is not told what leaders write."""
        self.rules = rules
        self.mandate = 0
        self._settings: tuple[int, dict[Any, Any]] | None = None
        super().__init__(brokers, level, zookeeper=True, **settings)

    # Nodes.

    def start_controller(self) -> None:
        if not isinstance(self.metadata_log, SharedLog):
            self.metadata_log = SharedLog()
        self.mandate += 1
        core = ControllerCore(
            100,
            CLUSTER,
            self.metadata_log,
            self.controller_config,
            new_id=lambda: uuid.UUID(int=next(self._ids)),
            rules=self.rules,
            controller_epoch=self.mandate,
        )
        self._start(Node(CONTROLLER, core))
        self.tell_registry()

    def start_broker(self, broker_id: int) -> None:
        store = self.stores.setdefault(broker_id, MemoryStore())
        directory = LogDirectory.open(store, cluster_id=CLUSTER, node_id=broker_id, now=self.now)
        config = BrokerConfig(
            broker_id=broker_id,
            cluster_id=CLUSTER,
            incarnation_id=uuid.UUID(int=10_000 + next(self._ids)),
            listeners=(
                Listener("PLAINTEXT", "host", 9000 + broker_id),
                Listener("CONTROL", "host", 9100 + broker_id),
            ),
            directory_ids=(directory.directory_id,),
            last_broker_epoch=directory.last_generation,
            **self.settings,
        )
        members = itertools.count(1)
        core = BrokerCore(config, directory, lambda client_id: f"{client_id}-{next(members)}", self.rules)
        node = Node(broker_id, core)
        self._start(node)
        level, configs = self._read_settings()
        self._perform(node, core.handle(SettingsRead(level, configs), self.now))

    def crash(self, node_id: int, *, wipe: bool = False, keep_unflushed: bool = True) -> None:
        """The process is gone; its session ends when the service has waited long enough, or by a restart."""
        node = self.nodes[node_id]
        super().crash(node_id, wipe=wipe, keep_unflushed=keep_unflushed)
        self._later(SESSION_MS, lambda: self._end_session(node))

    def stop_without_waiting(self, broker_id: int) -> None:
        node = self.nodes[broker_id]
        self._perform(node, node.core.handle(Stop(), self.now))

    def expire(self, broker_id: int) -> None:
        """The broker loses its session and gets another one at once: a new generation of a living process."""
        node = self.nodes[broker_id]
        entry = self.registry[broker_id][0]
        self._end_session(node)
        self._register(node, entry.version)

    def _perform(self, node: Node, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Register):
                self._register(node, effect.version)
            elif isinstance(effect, ReadSettings):
                self._later(1, lambda asked=effect: self._read_settings_for(node, asked))
            elif isinstance(effect, WriteIsr):
                answer = self.metadata_log.write_isr(effect)
                self._later(1, lambda answer=answer: self._event(node, answer))
                if not self.deaf_to_isr_changes:
                    self._later(1, lambda: self._event(self.nodes[CONTROLLER], IsrChanged()))
        super()._perform(node, [each for each in effects if not isinstance(each, Coordinate)])
        if any(isinstance(each, Exit) for each in effects) and node.node_id != CONTROLLER:
            self._end_session(node)
        if self._settings is not None and node.node_id == CONTROLLER:
            self._publish_settings()

    def _read_settings_for(self, node: Node, asked: ReadSettings) -> None:
        if node.node_id in self.deaf:
            self._later(1, lambda: self._read_settings_for(node, asked))
        else:
            self._event(node, SettingsRead(*self._read_settings(), asked.token))

    def _event(self, node: Node, event: Any) -> None:
        if node.alive and self.nodes.get(node.node_id) is node:
            self._perform(node, node.core.handle(event, self.now))

    # The registry.

    def _register(self, node: Node, version: int) -> None:
        self.zxid += 1
        held = self.registry.get(node.node_id)
        if held is not None and held[1] is not node:
            del self.registry[node.node_id]
            held = None
        epoch = self.zxid if held is None else held[0].epoch
        config = node.core.config
        entry = RegistryEntry(
            node.node_id,
            epoch,
            version,
            tuple(Endpoint(each.name, each.host, each.port) for each in config.listeners),
            config.rack,
            (Feature(FEATURE_NAME, min(FeatureLevel), max(FeatureLevel)),),
        )
        self.registry[node.node_id] = (entry, node)
        self._later(1, lambda: self._event(node, Registered(epoch)))
        self._registry_moved()

    def _end_session(self, node: Node) -> None:
        held = self.registry.get(node.node_id)
        if held is not None and held[1] is node:
            self.zxid += 1
            del self.registry[node.node_id]
            self._registry_moved()

    def _registry_moved(self) -> None:
        if self.tell:
            self._later(1, self.tell_registry)

    def tell_registry(self) -> None:
        """The controller reads the registry as it is now."""
        picture = RegistryChanged(tuple(entry for entry, _ in self.registry.values()), self.zxid)
        self._event(self.nodes[CONTROLLER], picture)

    # Settings.

    def _read_settings(self) -> tuple[int, dict[Any, Any]]:
        image = self.metadata_log.image
        configs = {key: dict(image.config(*key)) for key in image.configured()}
        self._settings = (int(image.level), configs)
        return self._settings

    def _publish_settings(self) -> None:
        if self._settings == (before := self._settings) and self._read_settings() != before:
            for node in list(self.nodes.values()):
                if node.node_id != CONTROLLER and node.node_id not in self.deaf:
                    level, configs = self._read_settings()
                    event = SettingsRead(level, configs)
                    self._later(1, lambda node=node, event=event: self._event(node, event))

    def hear(self, broker_id: int) -> None:
        """A broker that was deaf reads the settings."""
        self.deaf.discard(broker_id)
        self._event(self.nodes[broker_id], SettingsRead(*self._read_settings()))

    # What tests do.

    def climb(self, level: FeatureLevel) -> None:
        request = update_features.UpdateFeaturesRequest(
            feature_updates=(
                update_features.FeatureUpdateKey(
                    feature=FEATURE_NAME, max_version_level=int(level), upgrade_type=1
                ),
            )
        )
        answer = self.call(CONTROLLER, request, 1, control=True)
        assert answer.error_code == ErrorCode.NONE, answer
        self.level = level

    def epoch(self, broker_id: int) -> int:
        return self.registry[broker_id][0].epoch

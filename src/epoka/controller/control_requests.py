"""What control requests say at each level: LeaderAndIsr, UpdateMetadata, StopReplica.

From level `shared-updates` on the two that tell of partitions are bytes when they leave here, written once
from the image's columns (`control_bodies`); below that they are objects, because every receiver's generation
stands in its own copy. To whom they go, and when, is decided in `push`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from epoka.controller import control_bodies
from epoka.controller.control_bodies import Flags
from epoka.controller.state import ControllerState
from epoka.model.image import Topic
from epoka.model.levels import FeatureLevel
from epoka.model.partitions import Rows
from epoka.model.registrations import BrokerRegistration, Endpoint
from epoka.wire import codec
from epoka.wire.encoded import Encoded
from epoka.wire.messages import leader_and_isr as lai
from epoka.wire.messages import stop_replica as sr
from epoka.wire.messages import update_metadata as um

FEW_ROWS: Final = 40
"""Up to so many rows are written faster as objects than as columns; the bytes are the same."""
DELETED: Final = -2
"""The leader that UpdateMetadata gives for partitions of a topic that is no more."""

Gone = tuple[Topic, Sequence[tuple[int, tuple[int, ...]]]]
"""A deleted topic, and the replicas of each of its partitions."""


class Versions(msgspec.Struct, frozen=True):
    leader_and_isr: int
    update_metadata: int
    stop_replica: int

    @property
    def grouped(self) -> bool:
        """KIP-380 names each topic once."""
        return self.leader_and_isr >= 2

    @property
    def shared(self) -> bool:
        """One payload for every broker: the maximum generation instead of the receiver's own."""
        return self.leader_and_isr >= 5


VERSIONS: Final = {
    FeatureLevel.LEGACY: Versions(1, 4, 0),
    FeatureLevel.GENERATIONS: Versions(2, 5, 1),
    FeatureLevel.HEARTBEATS: Versions(2, 5, 1),
    FeatureLevel.SHARED_UPDATES: Versions(5, 7, 4),
    FeatureLevel.ELIGIBLE_ISR: Versions(5, 8, 4),
    FeatureLevel.FETCH_EPOCHS: Versions(5, 8, 4),
}


class ControlRequests:
    """Makes the requests of one controller, as the image is now. Rows are given in their order."""

    def __init__(self, state: ControllerState, controller_epoch: int) -> None:
        self.controller_epoch = controller_epoch
        self.max_epoch = -1
        """The greatest generation in the last picture of the registry."""
        self._state = state

    @property
    def versions(self) -> Versions:
        return VERSIONS[self._state.image.level]

    def leader_and_isr(self, rows: Rows, is_new: Flags) -> lai.LeaderAndIsrRequest | Encoded:
        versions, image = self.versions, self._state.image
        table = image.partitions
        leaders = sorted(set(table.leader[rows].tolist()))
        live = [broker for each in leaders if (broker := image.broker(each)) is not None]
        about = self._about(versions)
        about["live_leaders"] = tuple(
            lai.LeaderAndIsrLiveLeader(broker_id=broker.id, host_name=door.host, port=door.port)
            for broker in live
            if (door := _door(broker)) is not None
        )
        if versions.shared and len(rows) > FEW_ROWS:
            request = lai.LeaderAndIsrRequest(**about)
            return control_bodies.leader_and_isr(request, versions.leader_and_isr, image, rows, is_new)
        topics: dict[str, list[lai.LeaderAndIsrPartitionState]] = {}
        for row, new in zip(rows.tolist(), is_new.tolist(), strict=True):
            name, state = image.topic_in(table.topic.item(row)).name, table.state(row)
            topics.setdefault(name, []).append(
                lai.LeaderAndIsrPartitionState(
                    topic_name="" if versions.grouped else name,
                    partition_index=table.index.item(row),
                    controller_epoch=self.controller_epoch,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.isr,
                    partition_epoch=state.partition_epoch,
                    replicas=state.replicas,
                    is_new=new,
                )
            )
        if versions.grouped:
            about["topic_states"] = tuple(
                lai.LeaderAndIsrTopicState(topic_name=name, partition_states=tuple(states))
                for name, states in topics.items()
            )
        else:
            about["ungrouped_partition_states"] = tuple(each for states in topics.values() for each in states)
        request = lai.LeaderAndIsrRequest(**about)
        return _written(request, versions.leader_and_isr) if versions.shared else request

    def update_metadata(self, rows: Rows, deleted: Mapping[str, Gone]) -> um.UpdateMetadataRequest | Encoded:
        versions, image = self.versions, self._state.image
        topics: dict[Topic, list[um.UpdateMetadataPartitionState]] = {}
        for topic, gone in deleted.values():
            topics[topic] = [
                self._told(topic, index, DELETED, -1, -1, (), replicas) for index, replicas in gone
            ]
        from_columns = versions.shared and len(rows) > FEW_ROWS
        if not from_columns:
            table = image.partitions
            for row in rows.tolist():
                topic, state = image.topic_in(table.topic.item(row)), table.state(row)
                topics.setdefault(topic, []).append(
                    self._told(
                        topic,
                        table.index.item(row),
                        state.leader,
                        state.leader_epoch,
                        state.partition_epoch,
                        state.isr,
                        state.replicas,
                    )
                )
        about = self._about(versions)
        about["live_brokers"] = self._live_brokers(versions)
        if versions.grouped:
            about["topic_states"] = tuple(
                um.UpdateMetadataTopicState(
                    topic_name=topic.name, topic_id=topic.id, partition_states=tuple(states)
                )
                for topic, states in topics.items()
            )
        else:
            about["ungrouped_partition_states"] = tuple(each for states in topics.values() for each in states)
        request = um.UpdateMetadataRequest(**about)
        if from_columns:
            return control_bodies.update_metadata(request, versions.update_metadata, image, rows)
        return _written(request, versions.update_metadata) if versions.shared else request

    def stop_replica(self, partitions: Sequence[tuple[str, int]], *, delete: bool) -> sr.StopReplicaRequest:
        versions = self.versions
        about = self._about(versions)
        about["delete_partitions"] = delete
        if versions.grouped:
            topics: dict[str, list[int]] = {}
            for name, index in partitions:
                topics.setdefault(name, []).append(index)
            about["topics"] = tuple(
                sr.StopReplicaTopic(name=name, partition_indexes=tuple(indexes))
                for name, indexes in topics.items()
            )
        else:
            about["ungrouped_partitions"] = tuple(
                sr.StopReplicaPartition(topic_name=name, partition_index=index) for name, index in partitions
            )
        return sr.StopReplicaRequest(**about)

    def _about(self, versions: Versions) -> dict[str, Any]:
        about = {"controller_id": self._state.node_id, "controller_epoch": self.controller_epoch}
        if versions.shared:
            about["max_broker_epoch"] = self.max_epoch
        return about

    def _told(
        self,
        topic: Topic,
        index: int,
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...],
    ) -> um.UpdateMetadataPartitionState:
        known = self._state.image.brokers
        return um.UpdateMetadataPartitionState(
            topic_name="" if self.versions.grouped else topic.name,
            partition_index=index,
            controller_epoch=self.controller_epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=isr,
            partition_epoch=partition_epoch,
            replicas=replicas,
            offline_replicas=tuple(each for each in replicas if each not in known),
        )

    def _live_brokers(self, versions: Versions) -> tuple[um.UpdateMetadataBroker, ...]:
        """An inactive broker is as good as absent (KIP-343), unless the version can say that it is there."""
        told = versions.update_metadata >= 8
        return tuple(
            um.UpdateMetadataBroker(
                id=broker.id,
                endpoints=tuple(
                    um.UpdateMetadataEndpoint(
                        port=each.port,
                        host=each.host,
                        listener=each.name,
                        security_protocol=each.security_protocol,
                    )
                    for each in broker.endpoints
                ),
                rack=broker.rack,
                broker_epoch=broker.epoch if told else -1,
                fenced=told and broker.fenced,
                in_controlled_shutdown=told and broker.in_controlled_shutdown,
            )
            for broker in self._state.image.brokers.values()
            if told or not broker.fenced
        )


def _written(request: lai.LeaderAndIsrRequest | um.UpdateMetadataRequest, version: int) -> Encoded:
    return Encoded(type(request), version, codec.encode(request, version))


def none_new(rows: Rows) -> Flags:
    return np.zeros(len(rows), np.bool_)


def _door(broker: BrokerRegistration) -> Endpoint | None:
    return broker.control_endpoint or (broker.endpoints[0] if broker.endpoints else None)

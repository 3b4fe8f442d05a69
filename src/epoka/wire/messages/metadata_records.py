# Generated from schemas/metadata_records.msg by epoka.wire.generate; do not edit.

"""The records of the metadata log: what the controller has decided, in the order of its decisions.

Numbers, names and layouts are Kafka's. A record that changes a thing carries only what changes: its optional
fields are tagged, and a field that stays as it was is not written. Kafka's eligible leader replicas are
left out.
"""

from typing import ClassVar
from uuid import UUID

import msgspec

from epoka.wire.notation import ZERO_UUID

__all__ = [
    "BrokerEndpoint",
    "BrokerFeature",
    "BrokerRegistrationChangeRecord",
    "ConfigRecord",
    "FeatureLevelRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RemoveTopicRecord",
    "TopicRecord",
    "UnregisterBrokerRecord",
]


class BrokerEndpoint(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


class BrokerFeature(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


class RegisterBrokerRecord(msgspec.Struct, frozen=True, gc=False):
    """A new life of a broker. Version 1 adds controlled shutdown (KIP-841), version 3 the log directories."""

    RECORD_KEY: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "RegisterBrokerRecord"

    broker_id: int = 0
    is_migrating_zk_broker: bool = False
    incarnation_id: UUID = ZERO_UUID
    broker_epoch: int = 0
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()


class UnregisterBrokerRecord(msgspec.Struct, frozen=True, gc=False):
    """A broker that will not come back."""

    RECORD_KEY: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "UnregisterBrokerRecord"

    broker_id: int = 0
    broker_epoch: int = 0


class TopicRecord(msgspec.Struct, frozen=True, gc=False):
    """TopicRecord, version 0, flexible from 0."""

    RECORD_KEY: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "TopicRecord"

    name: str = ""
    topic_id: UUID = ZERO_UUID


class PartitionRecord(msgspec.Struct, frozen=True, gc=False):
    """A new partition, or the whole state of one in a snapshot. Version 1 adds directories."""

    RECORD_KEY: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "PartitionRecord"

    partition_id: int = -1
    topic_id: UUID = ZERO_UUID
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: tuple[UUID, ...] = ()
    # 0 recovered, 1 recovering from an unclean election
    leader_recovery_state: int = 0


class ConfigRecord(msgspec.Struct, frozen=True, gc=False):
    """ConfigRecord, version 0, flexible from 0."""

    RECORD_KEY: ClassVar[int] = 4
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "ConfigRecord"

    # 2 topic, 4 broker
    resource_type: int = 0
    resource_name: str = ""
    name: str = ""
    # null takes the setting back
    value: str | None = None


class PartitionChangeRecord(msgspec.Struct, frozen=True, gc=False):
    """A change of a partition. Setting a leader, even the same one, raises the leader epoch; every change
    raises the partition epoch.
    """

    RECORD_KEY: ClassVar[int] = 5
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "PartitionChangeRecord"

    partition_id: int = -1
    topic_id: UUID = ZERO_UUID
    isr: tuple[int, ...] | None = None
    # -2 no change, -1 no leader
    leader: int = -2
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    # -1 no change
    leader_recovery_state: int = -1


class RemoveTopicRecord(msgspec.Struct, frozen=True, gc=False):
    """RemoveTopicRecord, version 0, flexible from 0."""

    RECORD_KEY: ClassVar[int] = 9
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "RemoveTopicRecord"

    topic_id: UUID = ZERO_UUID


class FeatureLevelRecord(msgspec.Struct, frozen=True, gc=False):
    """FeatureLevelRecord, version 0, flexible from 0."""

    RECORD_KEY: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "FeatureLevelRecord"

    name: str = ""
    feature_level: int = 0


class ProducerIdsRecord(msgspec.Struct, frozen=True, gc=False):
    """ProducerIdsRecord, version 0, flexible from 0."""

    RECORD_KEY: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "ProducerIdsRecord"

    broker_id: int = 0
    broker_epoch: int = -1
    # the first id that nobody has been given
    next_producer_id: int = 0


class BrokerRegistrationChangeRecord(msgspec.Struct, frozen=True, gc=False):
    """A broker that is fenced, unfenced or begins its controlled shutdown. Version 1 adds the shutdown
    (KIP-841).
    """

    RECORD_KEY: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "BrokerRegistrationChangeRecord"

    broker_id: int = 0
    broker_epoch: int = 0
    # -1 unfenced, 0 no change, 1 fenced
    fenced: int = 0
    # -1 left it, 0 no change, 1 entered it
    in_controlled_shutdown: int = 0


class NoOpRecord(msgspec.Struct, frozen=True, gc=False):
    """Nothing: it only moves the end of the log."""

    RECORD_KEY: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "NoOpRecord"

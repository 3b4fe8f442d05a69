"""The two admin clients behind one face."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient, errors
from kafka import OffsetSpec as PythonOffsetSpec
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType
from kafka.structs import OffsetAndMetadata

EARLIEST = "earliest"
LATEST = "latest"
MAX_TIMESTAMP = "max timestamp"


class Refused(Exception):
    """The broker said no; the text is Kafka's name for why."""


class Described(NamedTuple):
    """A group as an admin sees it."""

    state: str
    members: int


class Admin(ABC):
    name: ClassVar[str]

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None: ...

    @abstractmethod
    def delete_topic(self, topic: str) -> None: ...

    @abstractmethod
    def topics(self) -> set[str]: ...

    @abstractmethod
    def partitions(self, topic: str) -> dict[int, int]:
        """Partition to leader."""

    @abstractmethod
    def add_partitions(self, topic: str, total: int) -> None: ...

    @abstractmethod
    def configs(self, topic: str) -> dict[str, str | None]: ...

    @abstractmethod
    def broker_configs(self, broker: int) -> dict[str, str | None]: ...

    @abstractmethod
    def set_config(self, topic: str, key: str, value: str) -> None: ...

    @abstractmethod
    def reset_config(self, topic: str, key: str) -> None: ...

    @abstractmethod
    def offset(self, topic: str, partition: int, spec: str | int) -> int:
        """The offset at one of the names above, or at a time in milliseconds; -1 when there is none."""

    @abstractmethod
    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Returns the new first offset."""

    @abstractmethod
    def groups(self) -> set[str]: ...

    @abstractmethod
    def describe_group(self, group: str) -> Described: ...

    @abstractmethod
    def delete_group(self, group: str) -> None: ...

    @abstractmethod
    def committed(self, group: str) -> dict[int, int]:
        """Partition to offset, for a group that reads one topic."""

    @abstractmethod
    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None: ...

    @abstractmethod
    def nodes(self) -> set[int]: ...


class ConfluentAdmin(Admin):
    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def close(self) -> None: ...

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._only(self._admin.create_topics([NewTopic(topic, partitions, 1, config=dict(configs))]))

    def delete_topic(self, topic: str) -> None:
        self._only(self._admin.delete_topics([topic]))

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=10).topics)

    def partitions(self, topic: str) -> dict[int, int]:
        described = self._only(self._admin.describe_topics(TopicCollection([topic])))
        return {each.id: each.leader.id for each in described.partitions}

    def add_partitions(self, topic: str, total: int) -> None:
        self._only(self._admin.create_partitions([NewPartitions(topic, total)]))

    def configs(self, topic: str) -> dict[str, str | None]:
        return self._configs(ConfigResource(ResourceType.TOPIC, topic))

    def broker_configs(self, broker: int) -> dict[str, str | None]:
        return self._configs(ConfigResource(ResourceType.BROKER, str(broker)))

    def set_config(self, topic: str, key: str, value: str) -> None:
        self._alter(topic, ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET))

    def reset_config(self, topic: str, key: str) -> None:
        self._alter(topic, ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE))

    def offset(self, topic: str, partition: int, spec: str | int) -> int:
        specs: dict[str | int, Any] = {
            EARLIEST: OffsetSpec.earliest,
            LATEST: OffsetSpec.latest,
            MAX_TIMESTAMP: OffsetSpec.max_timestamp,
        }
        asked = specs[spec]() if isinstance(spec, str) else OffsetSpec.for_timestamp(spec)
        return int(self._only(self._admin.list_offsets({TopicPartition(topic, partition): asked})).offset)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        return int(
            self._only(self._admin.delete_records([TopicPartition(topic, partition, before)])).low_watermark
        )

    def groups(self) -> set[str]:
        return {each.group_id for each in self._admin.list_consumer_groups().result(10).valid}

    def describe_group(self, group: str) -> Described:
        described = self._only(self._admin.describe_consumer_groups([group]))
        return Described(described.state.name.lower(), len(described.members))

    def delete_group(self, group: str) -> None:
        self._only(self._admin.delete_consumer_groups([group]))

    def committed(self, group: str) -> dict[int, int]:
        asked = [ConsumerGroupTopicPartitions(group)]
        found = self._only(self._admin.list_consumer_group_offsets(asked))
        return {each.partition: each.offset for each in found.topic_partitions}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, wanted)]
        done = self._only(self._admin.alter_consumer_group_offsets(asked))
        for each in done.topic_partitions:
            if each.error is not None:
                raise Refused(each.error.name())

    def nodes(self) -> set[int]:
        return {node.id for node in self._admin.describe_cluster().result(10).nodes}

    def _configs(self, resource: ConfigResource) -> dict[str, str | None]:
        found = self._only(self._admin.describe_configs([resource]))
        return {name: entry.value for name, entry in found.items()}

    def _alter(self, topic: str, entry: ConfigEntry) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._only(self._admin.incremental_alter_configs([resource]))

    @staticmethod
    def _only(futures: Mapping[Any, Future[Any]]) -> Any:
        (future,) = futures.values()
        try:
            return future.result(30)
        except Exception as refusal:
            error = refusal.args[0]
            raise Refused(error.name() if hasattr(error, "name") else str(error)) from refusal


class KafkaPythonAdmin(Admin):
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._admin.close()

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs)}
        with _refused():
            self._admin.create_topics({topic: options})

    def delete_topic(self, topic: str) -> None:
        with _refused():
            self._admin.delete_topics([topic])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partitions(self, topic: str) -> dict[int, int]:
        (described,) = self._admin.describe_topics([topic])
        return {each["partition_index"]: each["leader_id"] for each in described["partitions"]}

    def add_partitions(self, topic: str, total: int) -> None:
        with _refused():
            self._admin.create_partitions({topic: total})

    def configs(self, topic: str) -> dict[str, str | None]:
        return self._configs(PythonConfigResource(ConfigResourceType.TOPIC, topic))

    def broker_configs(self, broker: int) -> dict[str, str | None]:
        return self._configs(PythonConfigResource(ConfigResourceType.BROKER, str(broker)))

    def set_config(self, topic: str, key: str, value: str) -> None:
        resource = PythonConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        self._alter(resource)

    def reset_config(self, topic: str, key: str) -> None:
        resource = PythonConfigResource(ConfigResourceType.TOPIC, topic, {key: ("DELETE", None)})
        self._alter(resource)

    def offset(self, topic: str, partition: int, spec: str | int) -> int:
        place = PythonTopicPartition(topic, partition)
        specs = {
            EARLIEST: PythonOffsetSpec.EARLIEST,
            LATEST: PythonOffsetSpec.LATEST,
            MAX_TIMESTAMP: PythonOffsetSpec.MAX_TIMESTAMP,
        }
        asked = specs[spec] if isinstance(spec, str) else spec
        return int(self._admin.list_partition_offsets({place: asked})[place].offset)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = PythonTopicPartition(topic, partition)
        return int(self._admin.delete_records({place: before})[place]["low_watermark"])

    def groups(self) -> set[str]:
        return {each["group_id"] for each in self._admin.list_groups()}

    def describe_group(self, group: str) -> Described:
        described = self._admin.describe_groups([group])[group]
        return Described(described["group_state"].lower(), len(described["members"]))

    def delete_group(self, group: str) -> None:
        outcome = self._admin.delete_groups([group])[group]
        if outcome != "OK":
            raise Refused(getattr(errors, outcome).message)

    def committed(self, group: str) -> dict[int, int]:
        found = self._admin.list_group_offsets(group)[group]
        return {place.partition: entry.offset for place, entry in found.items()}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {
            PythonTopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        for error in self._admin.alter_group_offsets(group, wanted).values():
            if error is not errors.NoError:
                raise Refused(error.message)

    def nodes(self) -> set[int]:
        return {node["broker_id"] for node in self._admin.describe_cluster()["brokers"]}

    def _alter(self, resource: PythonConfigResource) -> None:
        outcome = self._admin.alter_configs([resource], raise_on_unknown=False)["topic"][resource.name]
        if outcome != "OK":
            kind = outcome.partition("] ")[2].partition(":")[0]
            raise Refused(getattr(errors, kind).message)

    def _configs(self, resource: PythonConfigResource) -> dict[str, str | None]:
        found = self._admin.describe_configs([resource], config_filter="all")
        (by_name,) = found.values()
        (entries,) = by_name.values()
        return {name: entry["value"] for name, entry in entries.items()}


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except errors.BrokerResponseError as refusal:
        raise Refused(refusal.message) from refusal

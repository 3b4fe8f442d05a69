"""What the nodes contain: Kafka's JSON, written and read.

Reading believes nothing: content that is not what the node's place promises raises `BadZnode`, which names
the path and what is wrong. Fields that nobody here knows are ignored, as Kafka ignores ours.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar, cast
from uuid import UUID

import msgspec
from msgspec import Meta

from epoka.model.config_keys import BadValue
from epoka.model.ids import BrokerId, LeaderEpoch, PartitionEpoch
from epoka.model.partitions import PartitionState
from epoka.model.registrations import CONTROL_LISTENER, WITH_HEARTBEATS, Endpoint, Feature
from epoka.model.topic_configs import TOPIC_KEYS

Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
IdOrNone = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
Epoch = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
Short = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
Text = Annotated[str, Meta(max_length=8000)]
"""What a control request has room for, whatever the letters are."""
Generation = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Ids = tuple[Id, ...]

MAX_PARTITIONS: Final = 200_000
"""Of one topic. Its assignment would be far too large for a node; a larger index is somebody's mistake."""

_SETTINGS: Final = {name: key for key in TOPIC_KEYS.values() for name in (key.name, *key.synonyms)}
"""The keys that cores follow: of topics, and of brokers that speak for all topics."""
_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ENDPOINT: Final = re.compile(r"([A-Za-z0-9_.\-]+)://(?:\[([^\]]*)\]|([^:\[\]]*)):(\d{1,5})")

M = TypeVar("M")


class BadZnode(Exception):
    """A node holds something that does not belong there. It is left as it is."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def _decode(path: str, data: bytes, kind: type[M], versions: range) -> M:
    try:
        content = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadZnode(path, f"it cannot be read: {error}" if data else "it is empty") from error
    version = content.version  # type: ignore[attr-defined]
    if str(version) not in map(str, versions):
        raise BadZnode(path, f"its version is {version}, known are {versions[0]} to {versions[-1]}")
    return content


# Brokers.


class BrokerZnode(msgspec.Struct, frozen=True):
    """A registration as its node tells it."""

    version: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[Feature, ...] = ()

    @property
    def heartbeats(self) -> bool:
        """Whether the broker sends heartbeats; an older one is always active."""
        return self.version >= WITH_HEARTBEATS

    @property
    def address(self) -> str:
        """Host and port for a message to people."""
        return f"{self.endpoints[0].host}:{self.endpoints[0].port}" if self.endpoints else "no address"


class _Range(msgspec.Struct):
    min_version: Short
    max_version: Short


class _BrokerJson(msgspec.Struct):
    version: int
    host: Text | None = None
    port: int = -1
    endpoints: list[Text] | None = None
    listener_security_protocol_map: dict[str, str] | None = None
    rack: Text | None = None
    features: dict[Text, _Range] | None = None


def encode_broker(broker: BrokerZnode, now_ms: int) -> bytes:
    # For readers that know of no endpoints: where clients speak in the clear, if anywhere.
    plain = next(
        (each for each in broker.endpoints if not each.security_protocol and each.name != CONTROL_LISTENER),
        None,
    )
    content: dict[str, Any] = {
        "listener_security_protocol_map": {
            each.name: _SECURITY_PROTOCOLS[each.security_protocol] for each in broker.endpoints
        },
        "endpoints": [f"{each.name}://{_bracketed(each.host)}:{each.port}" for each in broker.endpoints],
        "jmx_port": -1,
        "features": {
            each.name: {
                "min_version": each.min_supported_version,
                "max_version": each.max_supported_version,
            }
            for each in broker.features
        },
        "host": plain.host if plain else None,
        "timestamp": str(now_ms),
        "port": plain.port if plain else -1,
        "version": broker.version,
    }
    if broker.rack is not None:
        content["rack"] = broker.rack
    return msgspec.json.encode(content)


def decode_broker(path: str, data: bytes) -> BrokerZnode:
    content = _decode(path, data, _BrokerJson, range(1, WITH_HEARTBEATS + 1))
    if content.endpoints is None:
        if not content.host or not 0 < content.port < 65536:
            raise BadZnode(path, "it names no address")
        endpoints: tuple[Endpoint, ...] = (Endpoint("PLAINTEXT", content.host, content.port),)
    else:
        protocols = content.listener_security_protocol_map or {}
        endpoints = tuple(_endpoint(path, text, protocols) for text in content.endpoints)
    features = tuple(
        Feature(name, levels.min_version, levels.max_version)
        for name, levels in sorted((content.features or {}).items())
    )
    return BrokerZnode(content.version, endpoints, content.rack, features)


def _endpoint(path: str, text: str, protocols: Mapping[str, str]) -> Endpoint:
    found = _ENDPOINT.fullmatch(text)
    if found is None or not 0 <= int(found[4]) < 65536:
        raise BadZnode(path, f"{text!r} is not an endpoint")
    protocol = protocols.get(found[1], found[1])
    if protocol not in _SECURITY_PROTOCOLS:
        raise BadZnode(path, f"{protocol!r} is not a security protocol")
    return Endpoint(found[1], found[2] or found[3], int(found[4]), _SECURITY_PROTOCOLS.index(protocol))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# The controller.


class ControllerZnode(msgspec.Struct, frozen=True):
    """Who the controller is, and where brokers reach it."""

    id: int
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"controller {self.id}" + (f" at {self.host}:{self.port}" if self.host else "")


class _ControllerJson(msgspec.Struct):
    version: int
    brokerid: Id
    host: str = ""
    port: int = 0


def encode_controller(controller: ControllerZnode, now_ms: int) -> bytes:
    content = {"version": 1, "brokerid": controller.id, "timestamp": str(now_ms)}
    if controller.host:
        content |= {"host": controller.host, "port": controller.port}
    return msgspec.json.encode(content)


def decode_controller(path: str, data: bytes) -> ControllerZnode:
    content = _decode(path, data, _ControllerJson, range(1, 3))
    return ControllerZnode(content.brokerid, content.host, content.port)


def decode_epoch(path: str, data: bytes) -> int:
    if not re.fullmatch(rb"\d{1,9}", data):
        raise BadZnode(path, f"{data[:40]!r} is not an epoch")
    return int(data)


# Topics.


class Assignment(msgspec.Struct, frozen=True):
    """Where one partition's replicas are, and which of them are coming or going."""

    replicas: Ids
    adding: Ids = ()
    removing: Ids = ()


class TopicZnode(msgspec.Struct, frozen=True):
    id: UUID | None
    """None in nodes older than topic ids."""
    partitions: Mapping[int, Assignment]


class _TopicJson(msgspec.Struct):
    version: int
    partitions: dict[str, Ids]
    topic_id: str | None = None
    adding_replicas: dict[str, Ids] = {}
    removing_replicas: dict[str, Ids] = {}


def encode_topic(topic: TopicZnode) -> bytes:
    parts = sorted(topic.partitions.items())
    content: dict[str, Any] = {
        "removing_replicas": {str(index): each.removing for index, each in parts if each.removing},
        "partitions": {str(index): each.replicas for index, each in parts},
        "adding_replicas": {str(index): each.adding for index, each in parts if each.adding},
        "version": 3,
    }
    if topic.id is not None:
        content["topic_id"] = encode_uuid(topic.id)
    return msgspec.json.encode(content)


def decode_topic(path: str, data: bytes) -> TopicZnode:
    content = _decode(path, data, _TopicJson, range(1, 4))
    partitions: dict[int, Assignment] = {}
    for text, replicas in content.partitions.items():
        if not re.fullmatch(r"0|[1-9]\d{0,8}", text) or int(text) >= MAX_PARTITIONS:
            raise BadZnode(path, f"{text!r} is not the number of a partition")
        if not replicas or len(set(replicas)) != len(replicas):
            raise BadZnode(path, f"partition {text} has the replicas {list(replicas)}")
        partitions[int(text)] = Assignment(
            replicas, content.adding_replicas.get(text, ()), content.removing_replicas.get(text, ())
        )
    topic_id = decode_uuid(path, content.topic_id) if content.topic_id is not None else None
    return TopicZnode(topic_id, dict(sorted(partitions.items())))


def encode_uuid(value: UUID) -> str:
    """Kafka's way: base64 for file names, without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(path: str, text: str) -> UUID:
    try:
        return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except ValueError as error:
        raise BadZnode(path, f"{text!r} is not a topic id") from error


class StateZnode(msgspec.Struct, frozen=True):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovery: int = 0

    def to_state(self, assignment: Assignment, version: int) -> PartitionState:
        """The partition as the image has it: its epoch is the version of the node."""
        return PartitionState(
            BrokerId(self.leader),
            LeaderEpoch(self.leader_epoch),
            PartitionEpoch(version),
            _ids(assignment.replicas),
            _ids(self.isr),
            _ids(assignment.adding),
            _ids(assignment.removing),
            self.recovery,
        )


class _StateJson(msgspec.Struct):
    leader: IdOrNone
    leader_epoch: Epoch
    isr: Ids
    version: int
    controller_epoch: Epoch = 0
    leader_recovery_state: Annotated[int, Meta(ge=0, le=1)] = 0


def encode_state(state: StateZnode) -> bytes:
    content = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
    }
    if state.recovery:
        content["leader_recovery_state"] = state.recovery
    return msgspec.json.encode(content)


def decode_state(path: str, data: bytes) -> StateZnode:
    content = _decode(path, data, _StateJson, range(1, 2))
    return StateZnode(
        content.leader,
        content.leader_epoch,
        content.isr,
        content.controller_epoch,
        content.leader_recovery_state,
    )


def _ids(brokers: Sequence[int]) -> tuple[BrokerId, ...]:
    return cast("tuple[BrokerId, ...]", tuple(brokers))


# Settings, features, producer ids, shutdowns, notifications.


class _ConfigJson(msgspec.Struct):
    version: int
    config: dict[str, str]


def encode_config(settings: Mapping[str, str]) -> bytes:
    return msgspec.json.encode({"version": 1, "config": dict(sorted(settings.items()))})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    return _decode(path, data, _ConfigJson, range(1, 2)).config


def allowed(path: str, config: Mapping[str, str], complain: Callable[[str], None]) -> dict[str, str]:
    """The settings without values that their keys do not allow: somebody else wrote those, and cores believe
    what they are told."""
    settings = {}
    for name, text in config.items():
        key = _SETTINGS.get(name)
        try:
            if key is not None:
                key.parse(text)
        except BadValue as bad:
            complain(f"{path}: {name} {bad}; it is left alone")
        else:
            settings[name] = text
    return settings


def encode_config_change(entity: str) -> bytes:
    return msgspec.json.encode({"version": 2, "entity_path": entity})


class _FeatureJson(msgspec.Struct):
    version: int
    features: dict[str, Annotated[int, Meta(ge=0, le=2**15 - 1)]]


def encode_features(features: Mapping[str, int]) -> bytes:
    return msgspec.json.encode({"version": 2, "status": 1, "features": dict(sorted(features.items()))})


def decode_features(path: str, data: bytes) -> dict[str, int]:
    return _decode(path, data, _FeatureJson, range(2, 3)).features


class _ProducerIdsJson(msgspec.Struct):
    version: int
    block_end: str


def encode_producer_ids(broker_id: int, first: int, next_producer_id: int) -> bytes:
    content = {
        "version": 1,
        "broker": broker_id,
        "block_start": str(first),
        "block_end": str(next_producer_id - 1),
    }
    return msgspec.json.encode(content)


def decode_producer_ids(path: str, data: bytes) -> int:
    """The first producer id that nobody has been given."""
    end = _decode(path, data, _ProducerIdsJson, range(1, 2)).block_end
    if not re.fullmatch(r"-1|[0-9]{1,19}", end) or int(end) >= 2**63 - 1:
        raise BadZnode(path, f"{end!r} is not a producer id")
    return int(end) + 1


class _ShutdownJson(msgspec.Struct):
    version: int
    broker_epoch: Generation


def encode_shutdown(generation: int, controller_epoch: int) -> bytes:
    content = {"version": 1, "broker_epoch": generation, "controller_epoch": controller_epoch}
    return msgspec.json.encode(content)


def decode_shutdown(path: str, data: bytes) -> int:
    """The generation that is shutting down."""
    return _decode(path, data, _ShutdownJson, range(1, 2)).broker_epoch


class _GenerationJson(msgspec.Struct):
    version: int
    broker_epoch: Generation


def encode_generation(generation: int) -> bytes:
    return msgspec.json.encode({"version": 1, "broker_epoch": generation})


def decode_generation(path: str, data: bytes) -> int:
    """The generation that a controller knew."""
    return _decode(path, data, _GenerationJson, range(1, 2)).broker_epoch


class _PartitionJson(msgspec.Struct):
    topic: str
    partition: Id


class _IsrChangeJson(msgspec.Struct):
    version: int
    partitions: list[_PartitionJson]


def encode_isr_change(partitions: Sequence[tuple[str, int]]) -> bytes:
    named = [{"topic": topic, "partition": index} for topic, index in partitions]
    return msgspec.json.encode({"version": 1, "partitions": named})


def decode_isr_change(path: str, data: bytes) -> list[tuple[str, int]]:
    content = _decode(path, data, _IsrChangeJson, range(1, 2))
    return [(each.topic, each.partition) for each in content.partitions]


class _ClusterJson(msgspec.Struct):
    version: str
    id: str


def encode_cluster_id(cluster_id: str) -> bytes:
    return msgspec.json.encode({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, data: bytes) -> str:
    return _decode(path, data, _ClusterJson, range(1, 2)).id

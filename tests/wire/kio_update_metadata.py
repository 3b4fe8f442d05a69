"""UpdateMetadata 7 and 8 for kio, in the style of its generated classes.

kio left UpdateMetadata behind with Kafka 4.0 and never knew our versions, so their layouts are written here a
second time, by hand from the KIPs; kio's own writer turns them into bytes.
"""

from __future__ import annotations

import dataclasses
import io
import uuid
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kio.schema.request_header.v1.header import RequestHeader
from kio.serial import entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64

from epoka.wire.messages import update_metadata as um

INT16, INT32, INT64 = ({"kafka_type": name} for name in ("int16", "int32", "int64"))
STRING, BOOL, UUID = ({"kafka_type": name} for name in ("string", "bool", "uuid"))


def nested(version: int, kind: Any = EntityType.nested) -> dict[str, Any]:
    about = {
        "__type__": kind,
        "__version__": i16(version),
        "__flexible__": False,
        "__api_key__": i16(6),
        "__header_schema__": RequestHeader,
    }
    return {"__annotations__": dict.fromkeys(about, ClassVar), **about}


def made(name: str, version: int, fields: list[tuple[str, Any, dict[str, str]]], kind: Any = None) -> Any:
    return dataclasses.make_dataclass(
        name,
        [(one, typ, field(metadata=about)) for one, typ, about in fields],
        namespace=nested(version, kind or EntityType.nested),
        frozen=True,
        slots=False,
    )


@dataclass(frozen=True)
class Classes:
    """The classes of one version."""

    request: Any
    topic: Any
    partition: Any
    broker: Any
    endpoint: Any


def classes(version: int) -> Classes:
    ids = (i32, ...)
    new = version >= 8
    partition = made(
        "Partition",
        version,
        [
            ("partition_index", i32, INT32),
            ("controller_epoch", i32, INT32),
            ("leader", i32, INT32),
            ("leader_epoch", i32, INT32),
            ("isr", tuple[ids], INT32),
            ("partition_epoch", i32, INT32),
            ("replicas", tuple[ids], INT32),
            ("offline_replicas", tuple[ids], INT32),
        ],
    )
    topic = made(
        "Topic",
        version,
        [
            ("topic_name", str, STRING),
            *([("topic_id", uuid.UUID | None, UUID)] if new else []),
            ("partition_states", tuple[partition, ...], {}),
        ],
    )
    endpoint = made(
        "Endpoint",
        version,
        [
            ("port", i32, INT32),
            ("host", str, STRING),
            ("listener", str, STRING),
            ("security_protocol", i16, INT16),
        ],
    )
    broker = made(
        "Broker",
        version,
        [
            ("id", i32, INT32),
            ("endpoints", tuple[endpoint, ...], {}),
            ("rack", str | None, STRING),
            *(
                [("broker_epoch", i64, INT64), ("fenced", bool, BOOL), ("in_controlled_shutdown", bool, BOOL)]
                if new
                else []
            ),
        ],
    )
    request = made(
        "Request",
        version,
        [
            ("controller_id", i32, INT32),
            ("controller_epoch", i32, INT32),
            ("max_broker_epoch", i64, INT64),
            ("topic_states", tuple[topic, ...], {}),
            ("live_brokers", tuple[broker, ...], {}),
        ],
        EntityType.request,
    )
    return Classes(request, topic, partition, broker, endpoint)


VERSIONS = {version: classes(version) for version in (7, 8)}


def convert(message: um.UpdateMetadataRequest, version: int) -> Any:
    """The same request in kio's classes."""
    known = VERSIONS[version]

    def same(cls: Any, ours: Any, **more: Any) -> Any:
        names = [each.name for each in dataclasses.fields(cls) if each.name not in more]
        return cls(**{name: getattr(ours, name) for name in names}, **more)

    return same(
        known.request,
        message,
        topic_states=tuple(
            same(
                known.topic,
                topic,
                partition_states=tuple(same(known.partition, each) for each in topic.partition_states),
            )
            for topic in message.topic_states
        ),
        live_brokers=tuple(
            same(
                known.broker,
                broker,
                endpoints=tuple(same(known.endpoint, each) for each in broker.endpoints),
            )
            for broker in message.live_brokers
        ),
    )


def encode(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()

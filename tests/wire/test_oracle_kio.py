"""An outside codec agrees with ours, byte for byte, on every message and version that both know.

kio is generated from Kafka's own schemas and shares no code with ours. Its messages carry richer types: error
codes as an enumeration, durations, dates, and None for the zero uuid.
"""

from __future__ import annotations

import dataclasses
import io
import types
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args, get_origin

import msgspec
from hypothesis import HealthCheck, given, settings
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from epoka.wire import codec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXAMPLES = 20

# What only KIP drafts, the metadata log or older Kafka releases know; golden bytes judge these instead.
UNKNOWN_TO_KIO = {
    "AlterPartitionRequest": {0, 1},
    "AlterPartitionResponse": {0, 1},
    "BrokerRegistrationChangeRecord": {0, 1},
    "ConfigRecord": {0},
    "ControlledShutdownRequest": {1, 2},
    "ControlledShutdownResponse": {1, 2},
    "FeatureLevelRecord": {0},
    "FetchMetadataRequest": {0},
    "FetchMetadataResponse": {0},
    "GroupMetadataKey": {2},
    "GroupMetadataValue": {0, 1, 2, 3, 4},
    "IsrChangeRequest": {0},
    "IsrChangeResponse": {0},
    "LeaderAndIsrRequest": {1, 2, 3, 4, 5},
    "LeaderAndIsrResponse": {1, 2, 3, 4, 5},
    "MetadataHeartbeatRequest": {0},
    "MetadataHeartbeatResponse": {0},
    "NoOpRecord": {0},
    "OffsetCommitKey": {0, 1},
    "OffsetCommitValue": {0, 1, 2, 3, 4},
    "PartitionChangeRecord": {0},
    "PartitionRecord": {0, 1},
    "ProducerIdsRecord": {0},
    "RegisterBrokerRecord": {0, 1, 2, 3},
    "RemoveTopicRecord": {0},
    "StopReplicaRequest": {0, 1, 2, 3, 4},
    "StopReplicaResponse": {0, 1, 2, 3, 4},
    "TopicRecord": {0},
    "UnregisterBrokerRecord": {0},
    "UpdateMetadataRequest": {4, 5, 6, 7, 8},
    "UpdateMetadataResponse": {4, 5, 6, 7, 8},
}

# Tagged fields that Kafka has not, with their defaults: whoever does not know them skips them.
OWN_FIELDS = {"BrokerRegistrationRequest": {"last_broker_epoch": -1}}


def to_kio(message: Any, cls: Any) -> Any:
    """The same message in kio's class."""
    values = {}
    for field in dataclasses.fields(cls):
        name = field.name if field.name in message.__struct_fields__ else f"{field.name}_ms"
        values[field.name] = convert(getattr(message, name), field.type, field.metadata.get("kafka_type"))
    return cls(**values)


def convert(value: Any, annotation: Any, kafka_type: str | None) -> Any:
    if value is None:
        return None
    if get_origin(annotation) is types.UnionType:
        annotation = next(one for one in get_args(annotation) if one is not types.NoneType)
    if get_origin(annotation) is tuple:
        return tuple(convert(one, get_args(annotation)[0], kafka_type) for one in value)
    if dataclasses.is_dataclass(annotation):
        return to_kio(value, annotation)
    match kafka_type:
        case "error_code":
            return KioErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else EPOCH + timedelta(milliseconds=value)
        case "uuid":
            return None if value == uuid.UUID(int=0) else value
    return value


def kio_encode(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def test_the_list_of_what_kio_does_not_know_is_exact(every_shape: tuple[Any, ...]) -> None:
    unknown: dict[str, set[int]] = {}
    for shape in every_shape:
        if shape.theirs is None:
            unknown.setdefault(shape.section.name, set()).add(shape.version)
    assert unknown == UNKNOWN_TO_KIO


def agree(shape: Any, message: Any) -> None:
    message = msgspec.structs.replace(message, **OWN_FIELDS.get(shape.section.name, {}))
    ours = codec.encode(message, shape.version)
    converted = to_kio(message, shape.theirs)
    assert ours == kio_encode(converted)
    assert codec.decode(shape.cls, shape.version, ours) == message
    decoded, size = entity_reader(shape.theirs)(ours, 0)
    assert size == len(ours)
    assert decoded == converted


def test_both_codecs_write_and_read_the_same_bytes(
    judged_shape: Any, messages_of: Callable[..., Any]
) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(messages_of(judged_shape))
    def on_any_message(message: Any) -> None:
        agree(judged_shape, message)

    on_any_message()


def test_both_codecs_agree_on_a_message_of_defaults(judged_shape: Any) -> None:
    agree(judged_shape, judged_shape.cls())


def test_both_codecs_agree_on_long_arrays_that_repeat_themselves(
    judged_shape: Any, sample_of: Callable[..., Any]
) -> None:
    agree(judged_shape, sample_of(judged_shape, "long", stretch=True))

"""The options of `format("epoka")`: those of Spark's Kafka connector, word for word, and a few of our own.

Decides which options are good and what each means; every complaint names the option and its value. Options
are told apart without regard to case, as Spark does. What the connector passes over in silence is passed
over here with a warning.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from epoka.client.cluster import EARLIEST, LATEST
from epoka.client.errors import BadSetting
from epoka.client.settings import ClientSettings, settings_from

log = logging.getLogger(__name__)

TopicPartition = tuple[str, int]
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"
STRATEGIES = ("assign", "subscribe", "subscribePattern")


class BadOption(ValueError):
    """An option that cannot be; the text names it and its value."""


class Where(msgspec.Struct, frozen=True):
    """Where to begin or end: an end of the log, offsets, or times, for all partitions or for each."""

    offset: int | None = None
    """EARLIEST or LATEST for every partition."""
    offsets: dict[TopicPartition, int] | None = None
    timestamp: int | None = None
    timestamps: dict[TopicPartition, int] | None = None
    option: str = ""
    """The option that said so."""


class ReadOptions(msgspec.Struct, frozen=True):
    client: ClientSettings
    strategy: str
    assigned: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str = ""
    starting: Where = Where(offset=EARLIEST)
    ending: Where = Where(offset=LATEST)
    no_match_is_latest: bool = False
    """startingOffsetsByTimestampStrategy=latest"""
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    max_bytes_per_trigger: int | None = None
    columns: tuple[str, ...] = COLUMNS
    pushdown: bool = False
    commit_group: str = ""
    poll_timeout_ms: int = 120_000
    offset_patience_ms: int = 60_000
    metadata_ttl_ms: int = -1


class WriteOptions(msgspec.Struct, frozen=True):
    client: ClientSettings
    topic: str = ""
    idempotent: bool = True
    timeout_ms: int = 120_000


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """What the options of a read mean; BadOption names the first that is wrong."""
    options = {name.lower(): value for name, value in given.items()}
    _complain_of_unknown(given, _READ)
    kafka = _kafka(options, _NEVER_READ)
    strategy, chosen = _strategy(options)
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if name.lower() in options:
                raise BadOption(
                    f"{name} has no place in a stream, which has no end: {options[name.lower()]!r}"
                )
        starting = _where(options, "starting", Where(offset=LATEST, option="startingOffsets"))
        ending = Where(offset=LATEST)
    else:
        for name in _STREAM_ONLY:
            if name.lower() in options:
                log.warning("%s=%s says nothing to a batch read", name, options[name.lower()])
        starting = _where(options, "starting", Where(offset=EARLIEST, option="startingOffsets"))
        ending = _where(options, "ending", Where(offset=LATEST, option="endingOffsets"))
        _check_batch_ends(starting, ending)
    least = _positive(options, "minOffsetsPerTrigger")
    most = _positive(options, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise BadOption(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    retries = number(options, "fetchOffset.numRetries", 3, least=0)
    interval_ms = number(options, "fetchOffset.retryIntervalMs", 10, least=0)
    poll_ms = number(options, "kafkaConsumer.pollTimeoutMs", 120_000, least=1)
    by_time = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if by_time not in ("error", "latest"):
        raise BadOption(f"startingOffsetsByTimestampStrategy is error or latest, not {by_time!r}")
    return ReadOptions(
        client=kafka,
        strategy=strategy,
        **chosen,
        starting=starting,
        ending=ending,
        no_match_is_latest=by_time == "latest",
        fail_on_data_loss=truth(options, "failOnDataLoss", True),
        min_partitions=_positive(options, "minPartitions"),
        max_records_per_partition=_positive(options, "maxRecordsPerPartition"),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=_duration_ms(options, "maxTriggerDelay", 15 * 60_000),
        max_bytes_per_trigger=_size(options, "maxBytesPerTrigger"),
        columns=columns_of(options),
        pushdown=truth(options, "pushdown", False),
        commit_group=_commit_group(options, streaming),
        poll_timeout_ms=poll_ms,
        # Each attempt of the connector may wait for its request; here attempts and waits share one deadline.
        offset_patience_ms=max(kafka.request_timeout_ms, 1000) + retries * interval_ms,
        metadata_ttl_ms=number(options, "partition.metadata.cache.ttl.ms", -1, least=-1),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    options = {name.lower(): value for name, value in given.items()}
    _complain_of_unknown(given, _WRITE)
    kafka = _kafka(options, _NEVER_WRITTEN)
    return WriteOptions(
        client=kafka,
        topic=options.get("topic", "").strip(),
        idempotent=truth(options, "idempotent", True),
        timeout_ms=kafka.delivery_timeout_ms,
    )


def _kafka(options: Mapping[str, str], never: Mapping[str, str]) -> ClientSettings:
    properties = {
        name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")
    }
    for name, instead in never.items():
        if name in properties:
            raise BadOption(f"kafka.{name}={properties[name]} cannot be set: {instead}")
    if "bootstrap.servers" not in properties:
        raise BadOption("kafka.bootstrap.servers is not set: where is the cluster?")
    if "group.id" in properties:
        log.warning(
            "kafka.group.id=%s: queries that share a group share its quotas and its committed offsets",
            properties["group.id"],
        )
    try:
        return settings_from(properties)
    except BadSetting as error:
        raise BadOption(f"kafka.{error}") from None


def _strategy(options: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    named = [name for name in STRATEGIES if name.lower() in options]
    if not named:
        raise BadOption(f"one of {', '.join(STRATEGIES)} has to say what to read")
    if len(named) > 1:
        raise BadOption(f"only one of {', '.join(named)} can say what to read")
    (name,) = named
    value = options[name.lower()].strip()
    if not value:
        raise BadOption(f"{name} is empty")
    if name == "assign":
        return name, {"assigned": _assigned(value)}
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in value.split(",") if topic.strip()))
        if not topics:
            raise BadOption(f"subscribe={value!r} names no topic")
        return name, {"topics": topics}
    try:
        re.compile(value)
    except re.error as error:
        raise BadOption(f"subscribePattern={value!r} is no regular expression: {error}") from None
    return name, {"pattern": value}


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    try:
        named = msgspec.json.decode(text, type=dict[str, list[int]])
    except msgspec.DecodeError as error:
        raise BadOption(f'assign is written as {{"topic":[0,1]}}, not {text!r}: {error}') from None
    found = tuple((topic, partition) for topic in named for partition in named[topic])
    if not found:
        raise BadOption(f"assign={text!r} names no partition")
    return found


def _where(options: Mapping[str, str], end: str, usual: Where) -> Where:
    """A time for all goes before times for each, and those before offsets."""
    name = f"{end}Timestamp"
    if name.lower() in options:
        return Where(timestamp=number(options, name, 0, least=0), option=name)
    name = f"{end}OffsetsByTimestamp"
    if name.lower() in options:
        times = _for_each(options, name)
        for (topic, partition), time in times.items():
            if time < 0:
                raise BadOption(f"{name} gives {topic}-{partition} the time {time}; times are not negative")
        return Where(timestamps=times, option=name)
    name = f"{end}Offsets"
    value = options.get(name.lower(), "").strip()
    if not value:
        return usual
    if value.lower() in ("earliest", "latest"):
        return Where(offset=EARLIEST if value.lower() == "earliest" else LATEST, option=name)
    offsets = _for_each(options, name)
    for (topic, partition), offset in offsets.items():
        if offset < EARLIEST:
            raise BadOption(
                f"{name} gives {topic}-{partition} the offset {offset}; the least is -2, earliest"
            )
    return Where(offsets=offsets, option=name)


def _for_each(options: Mapping[str, str], name: str) -> dict[TopicPartition, int]:
    text = options[name.lower()]
    try:
        named = msgspec.json.decode(text, type=dict[str, dict[int, int]])
    except msgspec.DecodeError as error:
        raise BadOption(f'{name} is written as {{"topic":{{"0":23}}}}, not {text!r}: {error}') from None
    return {(topic, partition): number for topic, each in named.items() for partition, number in each.items()}


def _check_batch_ends(starting: Where, ending: Where) -> None:
    if starting.offset == LATEST:
        raise BadOption(f"{starting.option}=latest: a batch that begins at the end reads nothing")
    if ending.offset == EARLIEST:
        raise BadOption(f"{ending.option}=earliest: a batch that ends at the beginning reads nothing")
    for (topic, partition), offset in (starting.offsets or {}).items():
        if offset == LATEST:
            raise BadOption(f"startingOffsets gives {topic}-{partition} -1, latest, which a batch cannot")
    for (topic, partition), offset in (ending.offsets or {}).items():
        if offset == EARLIEST:
            raise BadOption(f"endingOffsets gives {topic}-{partition} -2, earliest, which a batch cannot")
    if starting.offsets and ending.offsets and starting.offsets.keys() != ending.offsets.keys():
        odd = sorted(starting.offsets.keys() ^ ending.offsets.keys())
        raise BadOption(f"startingOffsets and endingOffsets name different partitions: {_names(odd)}")
    for key, first in (starting.offsets or {}).items():
        end = (ending.offsets or {}).get(key, LATEST)
        if 0 <= end < first:
            raise BadOption(f"{key[0]}-{key[1]} would begin at offset {first} and end before, at {end}")


def columns_of(options: Mapping[str, str]) -> tuple[str, ...]:
    usual = (*COLUMNS, HEADERS) if truth(options, "includeHeaders", False) else COLUMNS
    if "columns" not in options:
        return usual
    known = {name.lower(): name for name in (*COLUMNS, HEADERS)}
    chosen = []
    for name in options["columns"].split(","):
        found = known.get(name.strip().lower())
        if found is None:
            raise BadOption(f"columns names {name.strip()!r}; there are {', '.join((*COLUMNS, HEADERS))}")
        if found in chosen:
            raise BadOption(f"columns names {found} twice")
        chosen.append(found)
    return tuple(chosen)


def _commit_group(options: Mapping[str, str], streaming: bool) -> str:
    if not truth(options, "commitOffsets", False):
        return ""
    if not streaming:
        log.warning("commitOffsets says nothing to a batch read")
        return ""
    group = options.get("kafka.group.id", "").strip()
    if not group:
        raise BadOption("commitOffsets=true needs kafka.group.id, the group that offsets are committed for")
    return group


def _names(partitions: list[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)


def number(options: Mapping[str, str], name: str, usual: int, *, least: int) -> int:
    text = options.get(name.lower())
    if text is None:
        return usual
    try:
        found = int(text)
    except ValueError:
        raise BadOption(f"{name} is a whole number, not {text!r}") from None
    if found < least:
        raise BadOption(f"{name} is at least {least}, not {found}")
    return found


def _positive(options: Mapping[str, str], name: str) -> int | None:
    return number(options, name, 0, least=1) if name.lower() in options else None


def truth(options: Mapping[str, str], name: str, usual: bool) -> bool:
    text = options.get(name.lower())
    if text is None:
        return usual
    if text.lower() not in ("true", "false"):
        raise BadOption(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"


_DURATIONS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration_ms(options: Mapping[str, str], name: str, usual: int) -> int:
    text = options.get(name.lower())
    if text is None:
        return usual
    told = re.fullmatch(r"(\d+)\s*(ms|s|min|m|h|d)?", text.strip().lower())
    if told is None:
        raise BadOption(f"{name} is a time such as 15m or 30s, not {text!r}")
    return int(told.group(1)) * _DURATIONS_MS[told.group(2) or "ms"]


_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _size(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    told = re.fullmatch(r"(\d+)\s*([kmg]?)b?", text.strip().lower())
    if told is None or int(told.group(1)) == 0:
        raise BadOption(f"{name} is a size such as 64m, not {text!r}")
    return int(told.group(1)) * _SIZES[told.group(2)]


def _complain_of_unknown(given: Mapping[str, str], known: frozenset[str]) -> None:
    for name, value in given.items():
        if name.lower() not in known and not name.lower().startswith("kafka."):
            log.warning("nobody knows the option %s=%s", name, value)


_RAW = "keys and values are bytes here; cast them in the query"
_NO_JAVA = "there is no Java client here to intercept"
_NEVER_READ = {
    "auto.offset.reset": "say startingOffsets instead, Spark keeps track of offsets itself",
    "key.deserializer": _RAW,
    "value.deserializer": _RAW,
    "enable.auto.commit": "Spark keeps track of offsets itself; commitOffsets=true tells the cluster of them",
    "interceptor.classes": _NO_JAVA,
}
_NEVER_WRITTEN = {"key.serializer": _RAW, "value.serializer": _RAW, "interceptor.classes": _NO_JAVA}
_STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
_READ = frozenset(
    name.lower()
    for name in (
        *STRATEGIES,
        *_STREAM_ONLY,
        "startingOffsets",
        "startingOffsetsByTimestamp",
        "startingTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingOffsets",
        "endingOffsetsByTimestamp",
        "endingTimestamp",
        "failOnDataLoss",
        "minPartitions",
        "maxRecordsPerPartition",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "partition.metadata.cache.ttl.ms",
        "groupIdPrefix",
        "includeHeaders",
        "columns",
        "pushdown",
        "commitOffsets",
    )
)
_WRITE = frozenset(("topic", "idempotent", "includeheaders", "checkpointlocation"))

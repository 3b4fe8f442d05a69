"""The configuration keys of a topic: one table of name, kind, default, limits and meaning.

A topic key that the topic does not set takes the node's value of its synonym, and where the node does not set
that either, the default of this table. Nothing here stores a configuration; whoever changes a topic asks
`validate` first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from epoka.model.config_keys import (
    MAX_LONG,
    BadValue,
    ConfigKey,
    Kind,
    at_least,
    between,
    one_of,
    some_of,
)
from epoka.model.config_keys import Value as Value

DAY_MS = 24 * 60 * 60 * 1000

TOPIC_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        ConfigKey(
            "cleanup.policy",
            Kind.LIST,
            ("delete",),
            "What happens to old segments: `delete` removes them by age and size, `compact` keeps the last "
            "record of every key.",
            some_of("delete", "compact"),
            ("log.cleanup.policy",),
        ),
        ConfigKey(
            "compression.type",
            Kind.STRING,
            "producer",
            "Accepted as Kafka accepts it. Batches are stored with the codec that the producer chose.",
            one_of("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"),
            ("compression.type",),
        ),
        ConfigKey(
            "delete.retention.ms",
            Kind.LONG,
            DAY_MS,
            "How long a tombstone stays in a compacted topic.",
            at_least(0),
            ("log.cleaner.delete.retention.ms",),
        ),
        ConfigKey(
            "file.delete.delay.ms",
            Kind.LONG,
            60_000,
            "Accepted as Kafka accepts it. Files go as soon as nothing needs them.",
            at_least(0),
        ),
        ConfigKey(
            "flush.messages",
            Kind.LONG,
            MAX_LONG,
            "After how many records the log is forced to disk.",
            at_least(1),
            ("log.flush.interval.messages",),
        ),
        ConfigKey(
            "flush.ms",
            Kind.LONG,
            MAX_LONG,
            "After how long the log is forced to disk.",
            at_least(0),
            ("log.flush.interval.ms",),
        ),
        ConfigKey(
            "follower.replication.throttled.replicas",
            Kind.LIST,
            (),
            "Accepted as Kafka accepts it. Replication is not throttled.",
        ),
        ConfigKey(
            "index.interval.bytes",
            Kind.INT,
            4096,
            "How many bytes of log lie between two entries of the offset index.",
            at_least(0),
            ("log.index.interval.bytes",),
        ),
        ConfigKey(
            "leader.replication.throttled.replicas",
            Kind.LIST,
            (),
            "Accepted as Kafka accepts it. Replication is not throttled.",
        ),
        ConfigKey(
            "max.compaction.lag.ms",
            Kind.LONG,
            MAX_LONG,
            "Accepted as Kafka accepts it. Compaction begins by min.cleanable.dirty.ratio.",
            at_least(1),
        ),
        ConfigKey(
            "max.message.bytes",
            Kind.INT,
            1_048_588,
            "The largest batch that is taken, as compressed by the producer.",
            at_least(0),
            ("message.max.bytes",),
        ),
        ConfigKey(
            "message.timestamp.after.max.ms",
            Kind.LONG,
            MAX_LONG,
            "How far ahead of the broker's clock a record's timestamp may be.",
            at_least(0),
            ("log.message.timestamp.after.max.ms",),
        ),
        ConfigKey(
            "message.timestamp.before.max.ms",
            Kind.LONG,
            MAX_LONG,
            "How far behind the broker's clock a record's timestamp may be.",
            at_least(0),
            ("log.message.timestamp.before.max.ms",),
        ),
        ConfigKey(
            "message.timestamp.type",
            Kind.STRING,
            "CreateTime",
            "Whether a record carries the producer's time or the time of its append.",
            one_of("CreateTime", "LogAppendTime"),
            ("log.message.timestamp.type",),
        ),
        ConfigKey(
            "min.cleanable.dirty.ratio",
            Kind.DOUBLE,
            0.5,
            "The share of a log that must be uncompacted before compaction begins.",
            between(0, 1),
            ("log.cleaner.min.cleanable.ratio",),
        ),
        ConfigKey(
            "min.compaction.lag.ms",
            Kind.LONG,
            0,
            "How long a record is safe from compaction.",
            at_least(0),
            ("log.cleaner.min.compaction.lag.ms",),
        ),
        ConfigKey(
            "min.insync.replicas",
            Kind.INT,
            1,
            "How many replicas must be in sync for acks=all to be taken.",
            at_least(1),
            ("min.insync.replicas",),
        ),
        ConfigKey(
            "preallocate",
            Kind.BOOLEAN,
            False,
            "Accepted as Kafka accepts it. Segments grow as they are written.",
        ),
        ConfigKey(
            "retention.bytes",
            Kind.LONG,
            -1,
            "How large a partition may grow before old segments are deleted; -1 for no limit.",
            at_least(-1),
            ("log.retention.bytes",),
        ),
        ConfigKey(
            "retention.ms",
            Kind.LONG,
            7 * DAY_MS,
            "How old records grow before their segment is deleted; -1 for no limit.",
            at_least(-1),
            ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ),
        ConfigKey(
            "segment.bytes",
            Kind.INT,
            1 << 30,
            "The size at which a new segment is begun.",
            at_least(14),
            ("log.segment.bytes",),
        ),
        ConfigKey(
            "segment.index.bytes",
            Kind.INT,
            10 * 1024 * 1024,
            "Accepted as Kafka accepts it. An index grows with its segment.",
            at_least(4),
        ),
        ConfigKey(
            "segment.jitter.ms",
            Kind.LONG,
            0,
            "Accepted as Kafka accepts it. Segments roll when their time has come.",
            at_least(0),
        ),
        ConfigKey(
            "segment.ms",
            Kind.LONG,
            7 * DAY_MS,
            "The age at which a new segment is begun, full or not.",
            at_least(1),
            ("log.roll.ms", "log.roll.hours"),
        ),
        ConfigKey(
            "unclean.leader.election.enable",
            Kind.BOOLEAN,
            False,
            "Whether a replica that is not in sync may lead when no other can; records can be lost.",
            None,
            ("unclean.leader.election.enable",),
        ),
    )
}


_DEFAULTS: Final[dict[str, Value]] = {name: key.default for name, key in TOPIC_KEYS.items()}


def validate(name: str, value: str | None) -> str | None:
    """What is wrong with setting topic key `name` to `value`, as a sentence, or None when nothing is."""
    key = TOPIC_KEYS.get(name)
    if key is None:
        return f"{name} is not a topic configuration"
    if value is None:
        return f"{name} has no value"
    try:
        key.parse(value)
    except BadValue as bad:
        return f"{name} {bad}"
    return None


def default(name: str, broker_config: Mapping[str, Value]) -> tuple[Value, str | None]:
    """What topic key `name` is where the topic is silent, and the key that says so (None: no one).

    `broker_config` speaks in node keys, or in topic keys for all topics; in typed values or in texts.
    """
    key = TOPIC_KEYS[name]
    for said_by in (name, *key.synonyms):
        if (value := broker_config.get(said_by)) is not None:
            return (key.parse(value) if isinstance(value, str) else _in_ms(said_by, value)), said_by
    return key.default, None


def effective(
    topic_overrides: Mapping[str, str | None], broker_config: Mapping[str, Value]
) -> dict[str, Value]:
    """Every topic key with the value that holds for a topic; the overrides must have passed `validate`."""
    values = dict(_DEFAULTS)
    if broker_config:
        values = {name: default(name, broker_config)[0] for name in TOPIC_KEYS}
    for name, text in topic_overrides.items():
        if text is not None and name in TOPIC_KEYS:
            values[name] = TOPIC_KEYS[name].parse(text)
    return values


def _in_ms(said_by: str, value: Value) -> Value:
    unit_ms = {"hours": 3_600_000, "minutes": 60_000}.get(said_by.rpartition(".")[2])
    if unit_ms is None or not isinstance(value, int) or value < 0:
        return value
    return value * unit_ms

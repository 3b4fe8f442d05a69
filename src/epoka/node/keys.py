"""The configuration keys of a node: one table of name, kind, default, limits and meaning.

The names are Kafka's where Kafka has one. The reference page and DescribeConfigs are written from this table.
"""

from __future__ import annotations

import re

import msgspec

from epoka.model.config_keys import (
    MAX_INT,
    MAX_LONG,
    BadValue,
    Check,
    ConfigKey,
    Kind,
    Value,
    at_least,
    between,
    one_of,
    some_of,
)
from epoka.model.levels import HIGHEST, LOWEST_IN_LOG_MODE, FeatureLevel

LEVELS = tuple(level.label for level in FeatureLevel if level >= LOWEST_IN_LOG_MODE)
CLIENT_LISTENER = "PLAINTEXT"
CONTROL_LISTENER = "CONTROL"
WILDCARD_HOSTS = ("", "0.0.0.0", "::")


class Endpoint(msgspec.Struct, frozen=True):
    """A named door: `PLAINTEXT` for clients, `CONTROL` for brokers and controllers."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def split_address(text: str, *, lowest_port: int = 1) -> tuple[str, int]:
    """The host and port written as host:port, or BadValue."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:/\[\]]*)):(\d{1,5})", text)
    if match is None or not lowest_port <= int(match[3]) <= 65535:
        raise BadValue(f"must be written as host:port, not {text!r}")
    return match[1] or match[2] or "", int(match[3])


def endpoint_of(text: str) -> Endpoint:
    """The endpoint written as NAME://host:port, or BadValue."""
    name, separator, address = text.partition("://")
    if not separator:
        raise BadValue(f"must be written as NAME://host:port, not {text!r}")
    if name not in (CLIENT_LISTENER, CONTROL_LISTENER):
        raise BadValue(f"may only name {CLIENT_LISTENER} and {CONTROL_LISTENER}, not {name!r}")
    host, port = split_address(address, lowest_port=0)
    return Endpoint(name, host, port)


def _endpoints(value: Value) -> str | None:
    assert isinstance(value, tuple)
    try:
        endpoints = [endpoint_of(text) for text in value]
    except BadValue as bad:
        # The caller repeats the whole value, so only the first half of the sentence is kept.
        return str(bad).partition(", not ")[0]
    names = [endpoint.name for endpoint in endpoints]
    if not names:
        return "must name at least one listener"
    if len(set(names)) != len(names):
        return "must not name a listener twice"
    return None


def _addresses(value: Value) -> str | None:
    items = value if isinstance(value, tuple) else (str(value),)
    try:
        for text in items:
            split_address(text)
    except BadValue as bad:
        return str(bad).partition(", not ")[0]
    return None if items else "must be written as host:port"


def _loopback_or_any(value: Value) -> str | None:
    try:
        split_address(str(value), lowest_port=0)
    except BadValue as bad:
        return str(bad).partition(", not ")[0]
    return None


def _some_folders(value: Value) -> str | None:
    if not isinstance(value, tuple) or not value:
        return "must name at least one folder"
    return "must not name a folder twice" if len(set(value)) != len(value) else None


def _unlimited_or_at_least(low: int) -> Check:
    def check(value: Value) -> str | None:
        if value == -1 or (isinstance(value, int) and value >= low):
            return None
        return f"must be at least {low}, or -1 for no limit"

    return check


def _not_empty(value: Value) -> str | None:
    return None if value else "must not be empty"


def _cluster_id(value: Value) -> str | None:
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", str(value)):
        return None
    return "must be 1 to 64 letters, digits, '-' or '_'"


def _key(
    name: str,
    kind: Kind,
    default_value: Value,
    about: str,
    check: Check | None = None,
    *,
    synonyms: tuple[str, ...] = (),
    dynamic: bool = False,
) -> ConfigKey:
    return ConfigKey(name, kind, default_value, about, check, synonyms, dynamic)


_IDENTITY = (
    _key(
        "node.id",
        Kind.INT,
        None,
        "The number of this node; no two nodes share one.",
        at_least(0),
        synonyms=("broker.id",),
    ),
    _key(
        "process.roles",
        Kind.LIST,
        ("broker",),
        "What this process is: `broker`, `controller`, or both.",
        some_of("broker", "controller"),
    ),
    _key(
        "cluster.id",
        Kind.STRING,
        None,
        "The cluster this node belongs to. Without it a new controller makes one up and a broker "
        "takes the controller's.",
        _cluster_id,
    ),
    _key(
        "broker.rack",
        Kind.STRING,
        None,
        "Where the broker stands; replicas are spread over racks.",
        _not_empty,
    ),
    _key(
        "epoka.level",
        Kind.STRING,
        HIGHEST.label,
        "The feature level a new cluster starts on. A cluster that exists keeps its own.",
        one_of(*LEVELS),
    ),
)

_NETWORK = (
    _key(
        "listeners",
        Kind.LIST,
        ("PLAINTEXT://127.0.0.1:9092", "CONTROL://127.0.0.1:9093"),
        "The doors of the node: `PLAINTEXT://host:port` for clients, `CONTROL://host:port` for brokers and "
        "controllers alone. Port 0 takes a free one.",
        _endpoints,
    ),
    _key(
        "advertised.listeners",
        Kind.LIST,
        None,
        "Where others are told to find the listeners. Without it, where they listen.",
        _endpoints,
    ),
    _key(
        "controller.quorum.bootstrap.servers",
        Kind.LIST,
        None,
        "host:port of the controller's control listener; a broker that is not a controller itself needs it.",
        _addresses,
        synonyms=("controller.connect",),
    ),
    _key(
        "admin.listener",
        Kind.STRING,
        None,
        "host:port of the admin endpoint. Without it there is none.",
        _loopback_or_any,
    ),
    _key(
        "socket.request.max.bytes",
        Kind.INT,
        100 * 1024 * 1024,
        "The largest request that is read; a connection that announces a larger one is closed.",
        at_least(1024),
    ),
    _key(
        "connections.max.idle.ms",
        Kind.LONG,
        600_000,
        "A connection on which nothing has happened for this long is closed; -1 for never.",
        _unlimited_or_at_least(1),
    ),
    _key(
        "max.connections", Kind.INT, 2000, "How many connections one listener takes at a time.", at_least(1)
    ),
    _key(
        "max.connections.per.ip",
        Kind.INT,
        MAX_INT,
        "How many connections one listener takes from one address.",
        at_least(1),
    ),
    _key(
        "queued.max.request.bytes",
        Kind.LONG,
        512 * 1024 * 1024,
        "How many bytes of unanswered requests from clients are held before reading stops; -1 for no limit.",
        _unlimited_or_at_least(1024),
    ),
    _key(
        "max.in.flight.requests.per.connection",
        Kind.INT,
        100,
        "How many unanswered requests one connection may have before no more are read from it.",
        at_least(1),
    ),
    _key("request.timeout.ms", Kind.INT, 30_000, "How long a node waits for another's answer.", at_least(1)),
    _key(
        "reconnect.backoff.ms",
        Kind.LONG,
        50,
        "The first pause before a node tries another again.",
        at_least(0),
    ),
    _key(
        "reconnect.backoff.max.ms",
        Kind.LONG,
        1000,
        "The longest pause before a node tries another again.",
        at_least(0),
    ),
    _key(
        "socket.connection.setup.timeout.ms", Kind.LONG, 10_000, "How long connecting may take.", at_least(1)
    ),
)

_LIVENESS = (
    _key(
        "broker.heartbeat.interval.ms",
        Kind.INT,
        2000,
        "How often a broker tells the controller that it lives.",
        at_least(1),
    ),
    _key(
        "controller.heartbeat.timeout.ms",
        Kind.INT,
        9000,
        "A broker the controller has not heard of for this long is fenced.",
        at_least(1),
        synonyms=("broker.session.timeout.ms",),
    ),
    _key(
        "broker.heartbeat.timeout.ms",
        Kind.INT,
        13_500,
        "A broker that has not reached the controller for this long fences itself (KIP-343). Must be "
        "longer than controller.heartbeat.timeout.ms.",
        at_least(1),
    ),
    _key(
        "initial.broker.registration.timeout.ms",
        Kind.INT,
        60_000,
        "How long a starting broker tries to register before it gives up.",
        at_least(1),
    ),
    _key(
        "controlled.shutdown.enable",
        Kind.BOOLEAN,
        True,
        "Whether a stopping broker hands its leaderships over first.",
    ),
    _key(
        "controlled.shutdown.max.wait.ms",
        Kind.INT,
        30_000,
        "How long a stopping broker waits for the controller's leave before it goes without.",
        at_least(0),
    ),
    _key(
        "unclean.leader.election.enable",
        Kind.BOOLEAN,
        False,
        "The default of the topic key of the same name.",
        dynamic=True,
    ),
    _key(
        "auto.leader.rebalance.enable",
        Kind.BOOLEAN,
        True,
        "Whether the controller gives leadership back to preferred replicas.",
    ),
    _key(
        "leader.imbalance.check.interval.seconds",
        Kind.LONG,
        300,
        "How often the controller looks for imbalance.",
        at_least(1),
    ),
    _key(
        "metadata.log.max.record.bytes.between.snapshots",
        Kind.LONG,
        20 * 1024 * 1024,
        "How much metadata log is written between two snapshots.",
        at_least(1),
    ),
)

_TOPICS = (
    _key(
        "num.partitions",
        Kind.INT,
        1,
        "Partitions of a topic that is created without saying how many.",
        at_least(1),
    ),
    _key(
        "default.replication.factor",
        Kind.SHORT,
        1,
        "Replicas of a topic that is created without saying how many.",
        at_least(1),
    ),
    _key(
        "auto.create.topics.enable",
        Kind.BOOLEAN,
        True,
        "Whether asking for a topic that is not there creates it.",
    ),
    _key("delete.topic.enable", Kind.BOOLEAN, True, "Whether topics may be deleted."),
    _key(
        "min.insync.replicas",
        Kind.INT,
        1,
        "The default of the topic key of the same name.",
        at_least(1),
        dynamic=True,
    ),
    _key("offsets.topic.num.partitions", Kind.INT, 50, "Partitions of __consumer_offsets.", at_least(1)),
    _key("offsets.topic.replication.factor", Kind.SHORT, 3, "Replicas of __consumer_offsets.", at_least(1)),
    _key(
        "offsets.topic.segment.bytes",
        Kind.INT,
        100 * 1024 * 1024,
        "Segment size of __consumer_offsets.",
        at_least(14),
    ),
    _key(
        "offsets.retention.minutes",
        Kind.INT,
        7 * 24 * 60,
        "How long the offsets of an empty group are kept.",
        at_least(1),
    ),
    _key(
        "offsets.retention.check.interval.ms",
        Kind.LONG,
        600_000,
        "How often old offsets are looked for.",
        at_least(1),
    ),
    _key("offset.metadata.max.bytes", Kind.INT, 4096, "The longest remark a commit may carry.", at_least(0)),
)

_GROUPS = (
    _key(
        "group.initial.rebalance.delay.ms",
        Kind.INT,
        3000,
        "How long the first rebalance of a group waits for more members.",
        at_least(0),
    ),
    _key(
        "group.min.session.timeout.ms",
        Kind.INT,
        6000,
        "The shortest session a member may ask for.",
        at_least(1),
    ),
    _key(
        "group.max.session.timeout.ms",
        Kind.INT,
        1_800_000,
        "The longest session a member may ask for.",
        at_least(1),
    ),
    _key("group.max.size", Kind.INT, MAX_INT, "How many members a group may have.", at_least(1)),
)

_REPLICATION = (
    _key(
        "replica.lag.time.max.ms",
        Kind.LONG,
        30_000,
        "A follower that has not caught up for this long leaves the ISR.",
        at_least(1),
    ),
    _key(
        "replica.fetch.max.bytes",
        Kind.INT,
        1024 * 1024,
        "Bytes a follower asks for in one partition.",
        at_least(0),
    ),
    _key(
        "replica.fetch.response.max.bytes",
        Kind.INT,
        10 * 1024 * 1024,
        "Bytes a follower asks for in all.",
        at_least(0),
    ),
    _key(
        "replica.fetch.min.bytes",
        Kind.INT,
        1,
        "Bytes that must be there before a follower is answered.",
        at_least(0),
    ),
    _key("replica.fetch.wait.max.ms", Kind.INT, 500, "How long a follower's fetch may wait.", at_least(0)),
    _key(
        "replica.fetch.backoff.ms", Kind.INT, 200, "How long a follower pauses after an error.", at_least(0)
    ),
    _key(
        "replica.high.watermark.checkpoint.interval.ms",
        Kind.LONG,
        5000,
        "How often high watermarks are written down.",
        at_least(1),
    ),
    _key(
        "fetch.max.bytes", Kind.INT, 55 * 1024 * 1024, "The most one fetch is answered with.", at_least(1024)
    ),
    _key(
        "max.incremental.fetch.session.cache.slots",
        Kind.INT,
        1000,
        "How many fetch sessions are kept.",
        at_least(0),
    ),
)

_LOG = (
    _key(
        "log.dirs",
        Kind.LIST,
        None,
        "The folders where records are kept.",
        _some_folders,
        synonyms=("log.dir",),
    ),
    _key(
        "metadata.log.dir",
        Kind.STRING,
        None,
        "The folder of the controller's metadata log. Without it, the first of log.dirs.",
        _not_empty,
    ),
    _key(
        "message.max.bytes",
        Kind.INT,
        1_048_588,
        "The largest batch that is taken.",
        at_least(0),
        dynamic=True,
    ),
    _key(
        "log.segment.bytes",
        Kind.INT,
        1 << 30,
        "The size at which a new segment is begun.",
        at_least(14),
        dynamic=True,
    ),
    _key(
        "log.roll.ms", Kind.LONG, None, "The age at which a new segment is begun.", at_least(1), dynamic=True
    ),
    _key("log.roll.hours", Kind.INT, 168, "As log.roll.ms, in hours; log.roll.ms goes before.", at_least(1)),
    _key(
        "log.retention.ms",
        Kind.LONG,
        None,
        "How old records grow; -1 for no limit.",
        at_least(-1),
        dynamic=True,
    ),
    _key("log.retention.minutes", Kind.INT, None, "As log.retention.ms, which goes before.", at_least(-1)),
    _key("log.retention.hours", Kind.INT, 168, "As log.retention.minutes, which goes before.", at_least(-1)),
    _key(
        "log.retention.bytes",
        Kind.LONG,
        -1,
        "How large a partition may grow; -1 for no limit.",
        at_least(-1),
        dynamic=True,
    ),
    _key(
        "log.retention.check.interval.ms",
        Kind.LONG,
        300_000,
        "How often old segments are looked for.",
        at_least(1),
    ),
    _key(
        "log.cleanup.policy",
        Kind.LIST,
        ("delete",),
        "What happens to old segments: `delete`, `compact`.",
        some_of("delete", "compact"),
        dynamic=True,
    ),
    _key("log.cleaner.enable", Kind.BOOLEAN, True, "Whether compacted topics are compacted at all."),
    _key(
        "log.cleaner.backoff.ms", Kind.LONG, 15_000, "How often a log to compact is looked for.", at_least(1)
    ),
    _key(
        "log.cleaner.delete.retention.ms",
        Kind.LONG,
        86_400_000,
        "How long tombstones stay.",
        at_least(0),
        dynamic=True,
    ),
    _key(
        "log.cleaner.min.cleanable.ratio",
        Kind.DOUBLE,
        0.5,
        "The uncompacted share at which compaction begins.",
        between(0, 1),
        dynamic=True,
    ),
    _key(
        "log.cleaner.min.compaction.lag.ms",
        Kind.LONG,
        0,
        "How long a record is safe from compaction.",
        at_least(0),
        dynamic=True,
    ),
    _key(
        "log.cleaner.max.compaction.lag.ms",
        Kind.LONG,
        MAX_LONG,
        "After how long a record must have been offered to compaction.",
        at_least(1),
        dynamic=True,
    ),
    _key(
        "log.flush.interval.messages",
        Kind.LONG,
        MAX_LONG,
        "Records after which a log is forced to disk.",
        at_least(1),
        dynamic=True,
    ),
    _key(
        "log.flush.interval.ms",
        Kind.LONG,
        None,
        "Time after which a log is forced to disk.",
        at_least(0),
        dynamic=True,
    ),
    _key(
        "log.flush.offset.checkpoint.interval.ms",
        Kind.INT,
        60_000,
        "How often the points from which recovery would start are written down.",
        at_least(1),
    ),
    _key(
        "log.index.interval.bytes",
        Kind.INT,
        4096,
        "Bytes of log between two index entries.",
        at_least(0),
        dynamic=True,
    ),
    _key(
        "log.index.size.max.bytes",
        Kind.INT,
        10 * 1024 * 1024,
        "The size at which an offset index is full.",
        at_least(4),
        dynamic=True,
    ),
    _key(
        "log.segment.delete.delay.ms",
        Kind.LONG,
        60_000,
        "How long a removed segment's file may still be read.",
        at_least(0),
        dynamic=True,
    ),
    _key(
        "log.message.timestamp.type",
        Kind.STRING,
        "CreateTime",
        "Whose time records carry.",
        one_of("CreateTime", "LogAppendTime"),
        dynamic=True,
    ),
    _key(
        "log.message.timestamp.before.max.ms",
        Kind.LONG,
        MAX_LONG,
        "How far behind the broker's clock a timestamp may be.",
        at_least(0),
        dynamic=True,
    ),
    _key(
        "log.message.timestamp.after.max.ms",
        Kind.LONG,
        MAX_LONG,
        "How far ahead of the broker's clock a timestamp may be.",
        at_least(0),
        dynamic=True,
    ),
    _key(
        "compression.type",
        Kind.STRING,
        "producer",
        "The default of the topic key of the same name.",
        one_of("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"),
        dynamic=True,
    ),
    _key(
        "producer.id.expiration.ms",
        Kind.INT,
        86_400_000,
        "How long the sequence numbers of a silent producer are remembered.",
        at_least(1),
        dynamic=True,
    ),
)

NODE_KEYS: dict[str, ConfigKey] = {
    key.name: key for key in (*_IDENTITY, *_NETWORK, *_LIVENESS, *_TOPICS, *_GROUPS, *_REPLICATION, *_LOG)
}
"""Every key of a node, by name; the reference page is written from this table."""

BY_ANY_NAME: dict[str, ConfigKey] = {
    name: key for key in NODE_KEYS.values() for name in (key.name, *key.synonyms)
}
REQUIRED = ("node.id", "log.dirs")

"""The configuration keys of a node: one table of name, kind, default, limits and meaning.

The names are Kafka's where Kafka has one. The reference page and DescribeConfigs are written from this table.
"""

from __future__ import annotations

import re

import msgspec

from epoka.coordination.zookeeper.connect import BadConnectString, Connect
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
from epoka.model.levels import HIGHEST, FeatureLevel

LEVELS = tuple(level.label for level in FeatureLevel)
PLAINTEXT = "PLAINTEXT"
SSL = "SSL"
"""As a protocol: with TLS or without. As the name of a listener: the clients' door that speaks it."""
CLIENT_LISTENERS = (PLAINTEXT, SSL)
CONTROL_LISTENER = "CONTROL"
WILDCARD_HOSTS = ("", "0.0.0.0", "::")


class Endpoint(msgspec.Struct, frozen=True):
    """A named door: `PLAINTEXT` or `SSL` for clients, `CONTROL` for brokers and controllers."""

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
    if name not in (*CLIENT_LISTENERS, CONTROL_LISTENER):
        raise BadValue(f"may only name {', '.join(CLIENT_LISTENERS)} and {CONTROL_LISTENER}, not {name!r}")
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
    if set(CLIENT_LISTENERS) <= set(names):
        return f"must name one of {' and '.join(CLIENT_LISTENERS)}: clients are told of one listener"
    return None


def _protocols(value: Value) -> str | None:
    assert isinstance(value, tuple)
    for text in value:
        name, _, protocol = text.partition(":")
        allowed = CLIENT_LISTENERS if name == CONTROL_LISTENER else (name,)
        if name not in (*CLIENT_LISTENERS, CONTROL_LISTENER) or protocol not in allowed:
            return f"may say {CONTROL_LISTENER}:{PLAINTEXT} or {CONTROL_LISTENER}:{SSL}"
    return None


def _addresses(value: Value) -> str | None:
    items = value if isinstance(value, tuple) else (str(value),)
    try:
        for text in items:
            split_address(text)
    except BadValue as bad:
        return str(bad).partition(", not ")[0]
    return None if items else "must be written as host:port"


def _metrics_listener(value: Value) -> str | None:
    try:
        split_address(str(value), lowest_port=0)
    except BadValue as bad:
        return str(bad).partition(", not ")[0]
    return None


def _one_folder(value: Value) -> str | None:
    # A node with several folders would have to live on with some of them lost, which it cannot yet.
    return None if isinstance(value, tuple) and len(value) == 1 else "must name one folder"


def _unlimited_or_at_least(low: int) -> Check:
    def check(value: Value) -> str | None:
        if value == -1 or (isinstance(value, int) and value >= low):
            return None
        return f"must be at least {low}, or -1 for no limit"

    return check


def _not_empty(value: Value) -> str | None:
    return None if value else "must not be empty"


def _ensemble(value: Value) -> str | None:
    try:
        Connect.parse(str(value))
    except BadConnectString as bad:
        return str(bad).removeprefix("zookeeper.connect: ").partition(", not ")[0]
    return None


def _cluster_id(value: Value) -> str | None:
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", str(value)):
        return None
    return "must be 1 to 64 letters, digits, '-' or '_'"


_IDENTITY = (
    ConfigKey(
        "node.id",
        Kind.INT,
        None,
        "The number of this node; no two nodes share one.",
        at_least(0),
        synonyms=("broker.id",),
    ),
    ConfigKey(
        "process.roles",
        Kind.LIST,
        ("broker",),
        "What this process is: `broker`, `controller`, or both; in zookeeper mode one of the two.",
        some_of("broker", "controller"),
    ),
    ConfigKey(
        "cluster.id",
        Kind.STRING,
        None,
        "The cluster this node belongs to. In log mode a new controller without it founds one, and a new "
        "broker needs it, unless it is a controller as well; in zookeeper mode the ensemble knows it.",
        _cluster_id,
    ),
    ConfigKey(
        "broker.rack",
        Kind.STRING,
        None,
        "Where the broker stands; replicas are spread over racks.",
        _not_empty,
    ),
    ConfigKey(
        "epoka.level",
        Kind.STRING,
        HIGHEST.label,
        "The feature level a new cluster starts on. A cluster that exists keeps its own.",
        one_of(*LEVELS),
    ),
)

_NETWORK = (
    ConfigKey(
        "listeners",
        Kind.LIST,
        ("PLAINTEXT://127.0.0.1:9092", "CONTROL://127.0.0.1:9093"),
        "The doors of the node: `PLAINTEXT://host:port` or, with TLS, `SSL://host:port` for clients, "
        "`CONTROL://host:port` for brokers and controllers alone. Port 0 takes a free one.",
        _endpoints,
    ),
    ConfigKey(
        "advertised.listeners",
        Kind.LIST,
        None,
        "Where others are told to find the listeners. Without it, where they listen; for a listener on all "
        "addresses, the machine's host name.",
        _endpoints,
    ),
    ConfigKey(
        "controller.quorum.bootstrap.servers",
        Kind.LIST,
        None,
        "host:port of the controller's control listener; a broker that is not a controller itself needs it.",
        _addresses,
        synonyms=("controller.connect",),
    ),
    ConfigKey(
        "epoka.metrics.listener",
        Kind.STRING,
        None,
        "host:port at which Prometheus finds the node's metrics; port 0 takes a free one. Without it there "
        "are none.",
        _metrics_listener,
    ),
    ConfigKey(
        "socket.request.max.bytes",
        Kind.INT,
        100 * 1024 * 1024,
        "The largest request that is read; a connection that announces a larger one is closed.",
        at_least(1024),
    ),
    ConfigKey(
        "connections.max.idle.ms",
        Kind.LONG,
        600_000,
        "A connection on which nothing has happened for this long is closed; -1 for never.",
        _unlimited_or_at_least(1),
    ),
    ConfigKey(
        "max.connections", Kind.INT, 2000, "How many connections one listener takes at a time.", at_least(1)
    ),
    ConfigKey(
        "max.connections.per.ip",
        Kind.INT,
        MAX_INT,
        "How many connections one listener takes from one address.",
        at_least(1),
    ),
    ConfigKey(
        "queued.max.request.bytes",
        Kind.LONG,
        512 * 1024 * 1024,
        "How many bytes of requests from clients, unanswered or still arriving, are held before reading "
        "stops; -1 for no limit. When others have waited 30 seconds for room, the connection that holds the "
        "most is closed.",
        _unlimited_or_at_least(1024),
    ),
    ConfigKey(
        "queued.max.response.bytes",
        Kind.LONG,
        1024 * 1024 * 1024,
        "How many bytes of answers are held for clients that do not read them; -1 for no limit. Beyond it, "
        "the connection that has left the most unread is closed.",
        _unlimited_or_at_least(1024),
    ),
    ConfigKey(
        "max.in.flight.requests.per.connection",
        Kind.INT,
        100,
        "How many unanswered requests one connection may have before no more are read from it.",
        at_least(1),
    ),
    ConfigKey(
        "request.timeout.ms", Kind.INT, 30_000, "How long a node waits for another's answer.", at_least(1)
    ),
    ConfigKey(
        "controller.socket.timeout.ms",
        Kind.INT,
        10_000,
        "How long a controller in zookeeper mode waits for a broker's answer before it asks again.",
        at_least(1),
    ),
    ConfigKey(
        "reconnect.backoff.ms",
        Kind.LONG,
        50,
        "The first pause before a node tries another again.",
        at_least(0),
    ),
    ConfigKey(
        "reconnect.backoff.max.ms",
        Kind.LONG,
        1000,
        "The longest pause before a node tries another again.",
        at_least(0),
    ),
    ConfigKey(
        "socket.connection.setup.timeout.ms", Kind.LONG, 10_000, "How long connecting may take.", at_least(1)
    ),
)

_TLS = (
    ConfigKey(
        "listener.security.protocol.map",
        Kind.LIST,
        ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "CONTROL:PLAINTEXT"),
        "`CONTROL:SSL`: nodes speak TLS among themselves, and the control listener takes nobody without a "
        "certificate. The same on every node.",
        _protocols,
    ),
    ConfigKey(
        "ssl.keystore.location",
        Kind.STRING,
        None,
        "A PEM file with the node's private key and its certificate, then those that sign it. Among nodes it "
        "is shown as a server's and as a client's.",
        _not_empty,
    ),
    ConfigKey("ssl.keystore.type", Kind.STRING, "PEM", "What is in that file.", one_of("PEM")),
    ConfigKey("ssl.key.password", Kind.PASSWORD, None, "The password of the private key, if it has one."),
    ConfigKey(
        "ssl.truststore.location",
        Kind.STRING,
        None,
        "A PEM file with the certificates of those who vouch for clients, and for other nodes.",
        _not_empty,
    ),
    ConfigKey("ssl.truststore.type", Kind.STRING, "PEM", "What is in that file.", one_of("PEM")),
    ConfigKey(
        "ssl.client.auth",
        Kind.STRING,
        "none",
        "Whether clients have to show a certificate at the listener SSL.",
        one_of("none", "requested", "required"),
    ),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        Kind.STRING,
        "https",
        "Whether another node's certificate must name the host that was asked for; empty for no.",
        one_of("https", ""),
    ),
    ConfigKey(
        "listener.name.control.ssl.keystore.location",
        Kind.STRING,
        None,
        "As ssl.keystore.location, for the control listener and other nodes.",
        _not_empty,
    ),
    ConfigKey(
        "listener.name.control.ssl.key.password",
        Kind.PASSWORD,
        None,
        "The password of that private key, if it is another.",
    ),
    ConfigKey(
        "listener.name.control.ssl.truststore.location",
        Kind.STRING,
        None,
        "Who vouches for nodes. Needed where ssl.truststore.location vouches for clients: they must not pass "
        "for nodes.",
        _not_empty,
    ),
)

OWN_OF_CONTROL = {
    key.name.removeprefix("listener.name.control."): key.name
    for key in _TLS
    if key.name.startswith("listener.name.control.")
}
"""What the control listener may have for itself: the name of the common key, and of its own."""

_ZOOKEEPER = (
    ConfigKey(
        "zookeeper.connect",
        Kind.STRING,
        None,
        "The ensemble of a cluster in zookeeper mode: `host:port,host:port/chroot`. Without it the cluster "
        "is in log mode.",
        _ensemble,
    ),
    ConfigKey(
        "zookeeper.session.timeout.ms",
        Kind.INT,
        18_000,
        "How long ZooKeeper waits for a silent node before it ends the node's session.",
        at_least(1),
    ),
    ConfigKey(
        "zookeeper.connection.timeout.ms",
        Kind.INT,
        None,
        "How long a starting node looks for the ensemble. Without it, zookeeper.session.timeout.ms.",
        at_least(1),
    ),
    ConfigKey(
        "epoka.zookeeper.mechanism",
        Kind.STRING,
        "digest",
        "How the node says who it is, once it has a name: ZooKeeper's own `digest`, or a SASL mechanism.",
        one_of("digest", "DIGEST-MD5", "PLAIN", "GSSAPI"),
    ),
    ConfigKey(
        "epoka.zookeeper.username",
        Kind.STRING,
        None,
        "Who the node is to the ensemble. With it, what the node creates is for such nodes alone to change.",
        _not_empty,
    ),
    ConfigKey("epoka.zookeeper.password", Kind.PASSWORD, None, "The password of that name."),
)

_LIVENESS = (
    ConfigKey(
        "broker.heartbeat.interval.ms",
        Kind.INT,
        2000,
        "How often a broker tells the controller that it lives.",
        at_least(1),
    ),
    ConfigKey(
        "controller.heartbeat.timeout.ms",
        Kind.INT,
        9000,
        "A broker the controller has not heard of for this long is fenced.",
        at_least(1),
        synonyms=("broker.session.timeout.ms",),
    ),
    ConfigKey(
        "broker.heartbeat.timeout.ms",
        Kind.INT,
        13_500,
        "A broker that has not reached the controller for this long fences itself (KIP-343). Must be "
        "longer than controller.heartbeat.timeout.ms.",
        at_least(1),
    ),
    ConfigKey(
        "initial.broker.registration.timeout.ms",
        Kind.INT,
        60_000,
        "How long a starting broker tries to register before it gives up.",
        at_least(1),
    ),
    ConfigKey(
        "controlled.shutdown.max.wait.ms",
        Kind.INT,
        30_000,
        "How long a stopping broker waits for the controller's leave before it goes without.",
        at_least(0),
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        Kind.BOOLEAN,
        False,
        "The default of the topic key of the same name.",
    ),
    ConfigKey(
        "auto.leader.rebalance.enable",
        Kind.BOOLEAN,
        True,
        "Whether the controller gives leadership back to preferred replicas.",
    ),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        Kind.LONG,
        300,
        "How often the controller looks for imbalance.",
        at_least(1),
    ),
)

_TOPICS = (
    ConfigKey(
        "num.partitions",
        Kind.INT,
        1,
        "Partitions of a topic that is created without saying how many.",
        at_least(1),
    ),
    ConfigKey(
        "default.replication.factor",
        Kind.SHORT,
        1,
        "Replicas of a topic that is created without saying how many.",
        at_least(1),
    ),
    ConfigKey(
        "auto.create.topics.enable",
        Kind.BOOLEAN,
        True,
        "Whether asking for a topic that is not there creates it.",
    ),
    ConfigKey(
        "min.insync.replicas", Kind.INT, 1, "The default of the topic key of the same name.", at_least(1)
    ),
    ConfigKey("offsets.topic.num.partitions", Kind.INT, 50, "Partitions of __consumer_offsets.", at_least(1)),
    ConfigKey(
        "offsets.topic.replication.factor", Kind.SHORT, 3, "Replicas of __consumer_offsets.", at_least(1)
    ),
    ConfigKey(
        "epoka.ledger.replication.factor",
        Kind.SHORT,
        1,
        "Replicas of __epoka_ledger, made once so many brokers are active. 0: ledger files only.",
        at_least(0),
    ),
    ConfigKey(
        "offsets.retention.minutes",
        Kind.INT,
        7 * 24 * 60,
        "How long the offsets of an empty group are kept.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        Kind.LONG,
        600_000,
        "How often old offsets are looked for.",
        at_least(1),
    ),
    ConfigKey(
        "offset.metadata.max.bytes", Kind.INT, 4096, "The longest remark a commit may carry.", at_least(0)
    ),
)

_GROUPS = (
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        Kind.INT,
        3000,
        "How long the first rebalance of a group waits for more members.",
        at_least(0),
    ),
    ConfigKey(
        "group.min.session.timeout.ms",
        Kind.INT,
        6000,
        "The shortest session a member may ask for.",
        at_least(1),
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        Kind.INT,
        1_800_000,
        "The longest session a member may ask for.",
        at_least(1),
    ),
    ConfigKey("group.max.size", Kind.INT, MAX_INT, "How many members a group may have.", at_least(1)),
)

_REPLICATION = (
    ConfigKey(
        "replica.lag.time.max.ms",
        Kind.LONG,
        30_000,
        "A follower that has not caught up for this long leaves the ISR.",
        at_least(1),
    ),
    ConfigKey(
        "replica.fetch.max.bytes",
        Kind.INT,
        1024 * 1024,
        "Bytes a follower asks for in one partition.",
        at_least(0),
    ),
    ConfigKey(
        "replica.fetch.response.max.bytes",
        Kind.INT,
        10 * 1024 * 1024,
        "Bytes a follower asks for in all.",
        at_least(0),
    ),
    ConfigKey(
        "replica.fetch.wait.max.ms", Kind.INT, 500, "How long a follower's fetch may wait.", at_least(0)
    ),
    ConfigKey(
        "replica.fetch.backoff.ms", Kind.INT, 200, "How long a follower pauses after an error.", at_least(0)
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        Kind.LONG,
        5000,
        "How often high watermarks are written down.",
        at_least(1),
    ),
    ConfigKey(
        "fetch.max.bytes", Kind.INT, 55 * 1024 * 1024, "The most one fetch is answered with.", at_least(1024)
    ),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        Kind.INT,
        1000,
        "How many fetch sessions are kept.",
        at_least(0),
    ),
)

_LOG = (
    ConfigKey(
        "log.dirs",
        Kind.LIST,
        None,
        "The folder where records are kept.",
        _one_folder,
        synonyms=("log.dir",),
    ),
    ConfigKey(
        "metadata.log.dir",
        Kind.STRING,
        None,
        "The folder in which the controller's metadata log is, under `controller/`. Without it, that of "
        "log.dirs.",
        _not_empty,
    ),
    ConfigKey("message.max.bytes", Kind.INT, 1_048_588, "The largest batch that is taken.", at_least(0)),
    ConfigKey(
        "log.segment.bytes", Kind.INT, 1 << 30, "The size at which a new segment is begun.", at_least(14)
    ),
    ConfigKey("log.roll.ms", Kind.LONG, None, "The age at which a new segment is begun.", at_least(1)),
    ConfigKey(
        "log.roll.hours", Kind.INT, 168, "As log.roll.ms, in hours; log.roll.ms goes before.", at_least(1)
    ),
    ConfigKey("log.retention.ms", Kind.LONG, None, "How old records grow; -1 for no limit.", at_least(-1)),
    ConfigKey(
        "log.retention.minutes", Kind.INT, None, "As log.retention.ms, which goes before.", at_least(-1)
    ),
    ConfigKey(
        "log.retention.hours", Kind.INT, 168, "As log.retention.minutes, which goes before.", at_least(-1)
    ),
    ConfigKey(
        "log.retention.bytes", Kind.LONG, -1, "How large a partition may grow; -1 for no limit.", at_least(-1)
    ),
    ConfigKey(
        "log.retention.check.interval.ms",
        Kind.LONG,
        300_000,
        "How often old segments are looked for.",
        at_least(1),
    ),
    ConfigKey(
        "log.cleanup.policy",
        Kind.LIST,
        ("delete",),
        "What happens to old segments: `delete`, `compact`.",
        some_of("delete", "compact"),
    ),
    ConfigKey("log.cleaner.enable", Kind.BOOLEAN, True, "Whether compacted topics are compacted at all."),
    ConfigKey(
        "log.cleaner.backoff.ms", Kind.LONG, 15_000, "How often a log to compact is looked for.", at_least(1)
    ),
    ConfigKey(
        "log.cleaner.delete.retention.ms", Kind.LONG, 86_400_000, "How long tombstones stay.", at_least(0)
    ),
    ConfigKey(
        "log.cleaner.min.cleanable.ratio",
        Kind.DOUBLE,
        0.5,
        "The uncompacted share at which compaction begins.",
        between(0, 1),
    ),
    ConfigKey(
        "log.cleaner.min.compaction.lag.ms",
        Kind.LONG,
        0,
        "How long a record is safe from compaction.",
        at_least(0),
    ),
    ConfigKey(
        "log.flush.interval.messages",
        Kind.LONG,
        MAX_LONG,
        "Records after which a log is forced to disk.",
        at_least(1),
    ),
    ConfigKey(
        "log.flush.interval.ms", Kind.LONG, None, "Time after which a log is forced to disk.", at_least(0)
    ),
    ConfigKey(
        "log.index.interval.bytes", Kind.INT, 4096, "Bytes of log between two index entries.", at_least(0)
    ),
    ConfigKey(
        "log.message.timestamp.type",
        Kind.STRING,
        "CreateTime",
        "Whose time records carry.",
        one_of("CreateTime", "LogAppendTime"),
    ),
    ConfigKey(
        "log.message.timestamp.before.max.ms",
        Kind.LONG,
        MAX_LONG,
        "How far behind the broker's clock a timestamp may be.",
        at_least(0),
    ),
    ConfigKey(
        "log.message.timestamp.after.max.ms",
        Kind.LONG,
        MAX_LONG,
        "How far ahead of the broker's clock a timestamp may be.",
        at_least(0),
    ),
    ConfigKey(
        "compression.type",
        Kind.STRING,
        "producer",
        "The default of the topic key of the same name.",
        one_of("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"),
    ),
)

SECTIONS: dict[str, tuple[ConfigKey, ...]] = {
    "Identity": _IDENTITY,
    "Network": _NETWORK,
    "TLS": _TLS,
    "ZooKeeper": _ZOOKEEPER,
    "Liveness and leadership": _LIVENESS,
    "Topics and offsets": _TOPICS,
    "Groups": _GROUPS,
    "Replication": _REPLICATION,
    "Logs": _LOG,
}
"""Every key of a node, under the headings of the reference page."""

NODE_KEYS: dict[str, ConfigKey] = {key.name: key for keys in SECTIONS.values() for key in keys}
"""Every key of a node, by name."""

BY_ANY_NAME: dict[str, ConfigKey] = {
    name: key for key in NODE_KEYS.values() for name in (key.name, *key.synonyms)
}
REQUIRED = ("node.id", "log.dirs")

"""A node's configuration: read from Kafka's property names, typed, and checked as a whole.

Reading a configuration finds every problem at once and names the key, the file and the line. A key that is
not in the table is refused: a misspelt limit that is silently ignored is worse than a node that stays down.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from epoka.model.config_keys import BadValue, Value
from epoka.model.levels import LOWEST_IN_LOG_MODE, FeatureLevel
from epoka.model.topic_configs import TOPIC_KEYS, default
from epoka.node.keys import (
    BY_ANY_NAME,
    CLIENT_LISTENERS,
    CONTROL_LISTENER,
    NODE_KEYS,
    OWN_OF_CONTROL,
    PLAINTEXT,
    REQUIRED,
    SSL,
    WILDCARD_HOSTS,
    Endpoint,
    endpoint_of,
    split_address,
)
from epoka.node.properties import entries


class ConfigError(Exception):
    """A configuration that no node may start with; `problems` holds one sentence for each thing wrong."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class NodeConfig(Mapping[str, Value]):
    """The typed value of every node key, by its name, set or not."""

    def __init__(self, values: dict[str, Value], explicit: frozenset[str], source: str) -> None:
        self._values = values
        self.explicit = explicit
        """The names of the keys that were set; the others hold their defaults."""
        self.source = source

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integer(self, name: str) -> int:
        """The value of a key that is a whole number."""
        value = self._values[name]
        assert isinstance(value, int) and not isinstance(value, bool), name
        return value

    def flag(self, name: str) -> bool:
        """The value of a key that is true or false."""
        value = self._values[name]
        assert isinstance(value, bool), name
        return value

    def string(self, name: str) -> str | None:
        """The value of a key that is a text; None when it has none."""
        value = self._values[name]
        assert value is None or isinstance(value, str), name
        return value

    def strings(self, name: str) -> tuple[str, ...]:
        """The value of a key that is a list; empty when it has none."""
        value = self._values[name]
        assert value is None or isinstance(value, tuple), name
        return value or ()

    @property
    def node_id(self) -> int:
        return self.integer("node.id")

    @property
    def is_broker(self) -> bool:
        return "broker" in self.strings("process.roles")

    @property
    def is_controller(self) -> bool:
        return "controller" in self.strings("process.roles")

    @property
    def zookeeper(self) -> bool:
        """Whether the cluster is in zookeeper mode."""
        return self.string("zookeeper.connect") is not None

    @property
    def listeners(self) -> tuple[Endpoint, ...]:
        return tuple(endpoint_of(text) for text in self.strings("listeners"))

    @property
    def advertised_listeners(self) -> tuple[Endpoint, ...]:
        """What the configuration says of them; the process fills in the rest when the ports are bound."""
        return tuple(endpoint_of(text) for text in self.strings("advertised.listeners"))

    def protocol(self, listener: str) -> str:
        """How the listener of this name speaks: in the clear or with TLS."""
        told = dict(entry.split(":", 1) for entry in self.strings("listener.security.protocol.map"))
        return told.get(listener, SSL if listener == SSL else PLAINTEXT)

    @property
    def controller_addresses(self) -> tuple[tuple[str, int], ...]:
        return tuple(split_address(text) for text in self.strings("controller.quorum.bootstrap.servers"))

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        return tuple(Path(text) for text in self.strings("log.dirs"))

    @property
    def metadata_log_dir(self) -> Path:
        return Path(self.string("metadata.log.dir") or self.log_dirs[0])

    def topic_defaults(self) -> dict[str, str]:
        """The topic keys that this node's configuration moves away from their defaults, as texts."""
        changed: dict[str, str] = {}
        for name, key in TOPIC_KEYS.items():
            value, synonym = default(name, self)
            if synonym is not None and value != key.default and (text := key.text(value)) is not None:
                changed[name] = text
        return changed


def load(path: Path | str) -> NodeConfig:
    """The configuration in a .properties file; ConfigError names every bad line."""
    path = Path(path)
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError([f"{path}: cannot be read: {reason}"]) from error
    settings: dict[str, str] = {}
    lines: dict[str, int] = {}
    problems: list[str] = []
    for line, name, value in entries(content):
        if not name:
            problems.append(f"{path}:{line}: a value without a key")
        elif name in settings:
            problems.append(f"{path}:{line}: {name} was already set in line {lines[name]}")
        else:
            settings[name] = value
            lines[name] = line
    return _checked(settings, str(path), lines, problems)


def parse(settings: Mapping[str, str], *, source: str = "configuration") -> NodeConfig:
    """The configuration in a mapping of key names to texts; ConfigError names every bad key."""
    return _checked(dict(settings), source, {}, [])


def _checked(settings: dict[str, str], source: str, lines: dict[str, int], problems: list[str]) -> NodeConfig:
    def place(name: str) -> str:
        return f"{source}:{lines[name]}" if name in lines else source

    values: dict[str, Value] = {key.name: key.default for key in NODE_KEYS.values()}
    written: dict[str, str] = {}
    bad: set[str] = set()
    for name, text in settings.items():
        key = BY_ANY_NAME.get(name)
        if key is None:
            problems.append(f"{place(name)}: {name} is not a known key{_suggestion(name)}")
            continue
        if key.name in written:
            problems.append(f"{place(name)}: {name} means the same as {written[key.name]}, which is set too")
            continue
        written[key.name] = name
        try:
            values[key.name] = key.parse(text)
        except BadValue as refusal:
            bad.add(key.name)
            problems.append(f"{place(name)}: {name} {refusal}")
    for name in REQUIRED:
        if name not in written:
            bad.add(name)
            problems.append(f"{source}: {name} is missing")
    config = NodeConfig(values, frozenset(written), source)
    for names, sentence in _contradictions(config, bad):
        guilty = next((written[name] for name in names if name in written), None)
        problems.append(f"{place(guilty) if guilty else source}: {sentence}")
    if problems:
        raise ConfigError(problems)
    return config


def _contradictions(config: NodeConfig, bad: set[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Pairs of keys that are fine alone and wrong together; keys that are wrong alone are not asked again."""
    for low, high, strict, reason in (
        (
            "controller.heartbeat.timeout.ms",
            "broker.heartbeat.timeout.ms",
            True,
            "a broker must not fence itself before the controller may fence it",
        ),
        (
            "broker.heartbeat.interval.ms",
            "controller.heartbeat.timeout.ms",
            True,
            "every broker would be fenced between two heartbeats",
        ),
        (
            "group.min.session.timeout.ms",
            "group.max.session.timeout.ms",
            False,
            "no session could be allowed",
        ),
        (
            "replica.fetch.wait.max.ms",
            "replica.lag.time.max.ms",
            False,
            "a follower would leave the ISR while its fetch waits",
        ),
        ("message.max.bytes", "socket.request.max.bytes", True, "such a batch could never be sent"),
        ("reconnect.backoff.ms", "reconnect.backoff.max.ms", False, "the pause can only grow"),
    ):
        if low in bad or high in bad:
            continue
        below, above = config.integer(low), config.integer(high)
        if below > above or (strict and below == above):
            word = "greater than" if strict else "at least"
            yield (high, low), f"{high} ({above}) must be {word} {low} ({below}): {reason}"
    if not bad & {"process.roles", "listeners", "advertised.listeners"}:
        yield from _door_problems(config)
    if not bad & {"listeners", "listener.security.protocol.map", "ssl.client.auth"}:
        yield from _tls_problems(config)
    if config.zookeeper and not bad & {"process.roles", "zookeeper.connect"}:
        yield from _zookeeper_problems(config)
    elif "epoka.level" not in bad:
        level = FeatureLevel.parse(config.string("epoka.level") or "")
        if level < LOWEST_IN_LOG_MODE:
            sentence = f"log mode starts at level {LOWEST_IN_LOG_MODE}, {level} is for zookeeper mode"
            yield ("epoka.level",), sentence
    addresses = "controller.quorum.bootstrap.servers"
    lonely = not config.zookeeper and not config.is_controller and not config.strings(addresses)
    if lonely and not bad & {"process.roles", addresses}:
        yield (addresses,), f"{addresses} is missing: a broker that is not a controller has to find one"


def _zookeeper_problems(config: NodeConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    if config.is_broker and config.is_controller:
        # A controller waits for ZooKeeper; the brokers' clients must not wait with it.
        yield ("process.roles",), "process.roles may name one role in zookeeper mode, broker or controller"
    addresses = "controller.quorum.bootstrap.servers"
    if config.strings(addresses):
        yield (
            (addresses,),
            f"{addresses} is for log mode; here the ensemble knows the controller",
        )
    username = "epoka.zookeeper.username"
    for name in ("epoka.zookeeper.password", "epoka.zookeeper.mechanism"):
        said = config.string(name) not in (None, "", NODE_KEYS[name].default)
        if said and config.string(username) is None:
            yield (
                (name,),
                f"{name} is set, but {username} is missing: the ensemble would be told nothing",
            )


def _door_problems(config: NodeConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    names = {endpoint.name for endpoint in config.listeners}
    if config.is_broker and names.isdisjoint(CLIENT_LISTENERS):
        either = " or ".join(CLIENT_LISTENERS)
        yield ("listeners",), f"listeners must name {either}: a broker serves clients there"
    if CONTROL_LISTENER not in names and not (config.is_broker and config.is_controller):
        yield ("listeners",), f"listeners must name {CONTROL_LISTENER}: other nodes come in there"
    for endpoint in config.advertised_listeners:
        if endpoint.name not in names:
            sentence = f"advertised.listeners names {endpoint.name}, which listeners does not"
            yield ("advertised.listeners",), sentence
        if endpoint.host in WILDCARD_HOSTS:
            yield ("advertised.listeners",), f"advertised.listeners must name a host, not {str(endpoint)!r}"


def _tls_problems(config: NodeConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    keys, trusted, asked = "ssl.keystore.location", "ssl.truststore.location", "ssl.client.auth"
    own_keys, own_trusted = OWN_OF_CONTROL[keys], OWN_OF_CONTROL[trusted]
    clients = any(endpoint.name == SSL for endpoint in config.listeners)
    nodes = config.protocol(CONTROL_LISTENER) == SSL
    if not clients and not nodes:
        for name in (keys, trusted, own_keys, own_trusted):
            if config.string(name):
                sentence = f"{name} is set, but nothing here speaks TLS: listeners names no {SSL}, and "
                yield (
                    (name,),
                    f"{sentence}listener.security.protocol.map does not say {CONTROL_LISTENER}:{SSL}",
                )
        return
    if (clients or not config.string(own_keys)) and not config.string(keys):
        yield (keys,), f"{keys} is missing: TLS needs a certificate"
    certified = clients and config.string(asked) != "none"
    if certified and not config.string(trusted):
        yield (asked, trusted), f"{trusted} is missing: somebody has to vouch for clients ({asked})"
    if not nodes:
        return
    if not config.string(own_trusted) and not config.string(trusted):
        yield (trusted,), f"{trusted} is missing: somebody has to vouch for nodes"
    elif certified and config.string(own_trusted) in (None, config.string(trusted)):
        sentence = f"{own_trusted} must name a file of its own: whoever {trusted} vouches for is a client"
        yield (own_trusted,), f"{sentence}, and could pass for a node"


def _suggestion(name: str) -> str:
    if (topic_key := TOPIC_KEYS.get(name)) is not None and topic_key.synonyms:
        return f": it is a topic's; a node sets {topic_key.synonyms[0]}"
    near = difflib.get_close_matches(name, BY_ANY_NAME, n=1, cutoff=0.8)
    return f"; did you mean {near[0]}?" if near else ""

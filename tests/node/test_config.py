"""Reading a node's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from epoka.model.config_keys import BadValue
from epoka.model.topic_configs import TOPIC_KEYS
from epoka.node.config import ConfigError, NodeConfig, load, parse
from epoka.node.keys import BY_ANY_NAME, NODE_KEYS, Endpoint

SMALLEST = {"node.id": "1", "log.dirs": "/data", "controller.connect": "one:9093"}
WITH_TLS = {"listeners": "SSL://h:1,CONTROL://h:2", "ssl.keystore.location": "node.pem"}


def problems(changes: dict[str, str], *, without: tuple[str, ...] = ()) -> list[str]:
    settings = {name: text for name, text in (SMALLEST | changes).items() if name not in without}
    with pytest.raises(ConfigError) as caught:
        parse(settings)
    return caught.value.problems


def parsed(**changes: str) -> NodeConfig:
    return parse(SMALLEST | {name.replace("_", "."): text for name, text in changes.items()})


def test_every_default_is_a_value_that_its_own_key_accepts() -> None:
    for key in NODE_KEYS.values():
        text = key.text(key.default)
        if text is not None:
            assert key.parse(text) == key.default, key.name


def test_every_key_says_what_it_means_and_no_name_means_two_keys() -> None:
    assert all(key.about.endswith(".") for key in NODE_KEYS.values())
    assert len(BY_ANY_NAME) == sum(1 + len(key.synonyms) for key in NODE_KEYS.values())


def test_the_smallest_configuration_has_the_documented_defaults() -> None:
    config = parsed()
    assert config.node_id == 1
    assert config.is_broker and not config.is_controller
    assert config.log_dirs == (Path("/data"),)
    assert config.metadata_log_dir == Path("/data")
    assert config.controller_addresses == (("one", 9093),)
    assert config.integer("broker.heartbeat.interval.ms") == 2000
    assert config.integer("controller.heartbeat.timeout.ms") == 9000
    assert config.integer("broker.heartbeat.timeout.ms") == 13_500
    assert config.integer("socket.request.max.bytes") == 100 * 1024 * 1024
    assert config.integer("max.connections") == 2000
    assert config.topic_defaults() == {}
    assert config.explicit == {"node.id", "log.dirs", "controller.quorum.bootstrap.servers"}


def test_an_unknown_key_is_named_with_the_one_that_was_meant() -> None:
    assert problems({"min.insync.replica": "2"}) == [
        "configuration: min.insync.replica is not a known key; did you mean min.insync.replicas?"
    ]


def test_a_topic_key_on_a_node_names_the_node_key() -> None:
    assert problems({"retention.ms": "1"}) == [
        "configuration: retention.ms is not a known key: it is a topic's; a node sets log.retention.ms"
    ]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("node.id", "one", "must be a whole number, not 'one'"),
        ("node.id", "-1", "must be at least 0, not '-1'"),
        ("node.id", "1_0", "must be a whole number, not '1_0'"),
        ("node.id", "99999999999", "must lie between -2147483648 and 2147483647, not '99999999999'"),
        ("auto.create.topics.enable", "yes", "must be true or false, not 'yes'"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "must lie between 0 and 1, not '1.5'"),
        ("log.cleaner.min.cleanable.ratio", "nan", "must lie between 0 and 1, not 'nan'"),
        ("process.roles", "witness", "may only name broker, controller, not 'witness'"),
        ("process.roles", "", "must name one or more of broker, controller, not ''"),
        (
            "process.roles",
            "broker,broker",
            "must name one or more of broker, controller, not 'broker,broker'",
        ),
        ("listeners", "localhost:9092", "must be written as NAME://host:port, not 'localhost:9092'"),
        ("listeners", "SASL_SSL://h:1", "may only name PLAINTEXT, SSL and CONTROL, not 'SASL_SSL://h:1'"),
        ("listeners", "PLAINTEXT://h:1,SSL://h:2", "must name one of PLAINTEXT and SSL: clients are told of"),
        ("listener.security.protocol.map", "CONTROL:SASL_SSL", "may say CONTROL:PLAINTEXT or CONTROL:SSL, n"),
        ("listener.security.protocol.map", "PLAINTEXT:SSL", "may say CONTROL:PLAINTEXT or CONTROL:SSL, not"),
        ("ssl.keystore.type", "JKS", "must be one of PEM, not 'JKS'"),
        ("listeners", "PLAINTEXT://h:70000", "must be written as host:port, not 'PLAINTEXT://h:70000'"),
        ("listeners", "PLAINTEXT://a:1,PLAINTEXT://b:2", "must not name a listener twice"),
        ("controller.connect", "one", "must be written as host:port, not 'one'"),
        ("connections.max.idle.ms", "0", "must be at least 1, or -1 for no limit, not '0'"),
        (
            "epoka.level",
            "kip-380",
            "must be one of legacy, generations, heartbeats, shared-updates, eligible",
        ),
        ("zookeeper.connect", "one two", "'one two' is not an address like host:2181"),
        ("cluster.id", "two words", "must be 1 to 64 letters, digits, '-' or '_', not 'two words'"),
        ("log.dirs", "/a,/b", "must name one folder, not '/a,/b'"),
        ("log.retention.ms", "-2", "must be at least -1, not '-2'"),
    ],
)
def test_a_bad_value_is_named_with_what_would_be_right(name: str, text: str, complaint: str) -> None:
    (problem,) = problems({name: text})
    assert problem.startswith(f"configuration: {name} {complaint}")


@pytest.mark.parametrize("missing", ["node.id", "log.dirs"])
def test_a_missing_key_is_named(missing: str) -> None:
    assert problems({}, without=(missing,)) == [f"configuration: {missing} is missing"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"broker.heartbeat.timeout.ms": "9000"},
            "broker.heartbeat.timeout.ms (9000) must be greater than controller.heartbeat.timeout.ms (9000)",
        ),
        (
            {"broker.session.timeout.ms": "20000"},
            "broker.heartbeat.timeout.ms (13500) must be greater than controller.heartbeat.timeout.ms (20",
        ),
        (
            {"broker.heartbeat.interval.ms": "9000"},
            "controller.heartbeat.timeout.ms (9000) must be greater than broker.heartbeat.interval.ms (9000)",
        ),
        (
            {"listeners": "SSL://h:1,CONTROL://h:2"},
            "ssl.keystore.location is missing: TLS needs a certificate",
        ),
        (
            {"ssl.keystore.location": "node.pem"},
            "ssl.keystore.location is set, but nothing here speaks TLS: listeners names no SSL, and",
        ),
        (
            WITH_TLS | {"ssl.client.auth": "required"},
            "ssl.truststore.location is missing: somebody has to vouch for clients (ssl.client.auth)",
        ),
        (
            WITH_TLS | {"listener.security.protocol.map": "CONTROL:SSL"},
            "ssl.truststore.location is missing: somebody has to vouch for nodes",
        ),
        (
            WITH_TLS
            | {
                "listener.security.protocol.map": "CONTROL:SSL",
                "ssl.client.auth": "requested",
                "ssl.truststore.location": "all.pem",
            },
            "listener.name.control.ssl.truststore.location must name a file of its own: whoever ssl.trustst",
        ),
        (
            {"group.min.session.timeout.ms": "2", "group.max.session.timeout.ms": "1"},
            "group.max.session.timeout.ms (1) must be at least group.min.session.timeout.ms (2)",
        ),
        (
            {"replica.fetch.wait.max.ms": "31000"},
            "replica.lag.time.max.ms (30000) must be at least replica.fetch.wait.max.ms (31000)",
        ),
        ({"epoka.level": "legacy"}, "log mode starts at level heartbeats, legacy is for zookeeper mode"),
        (
            {"zookeeper.connect": "zk:2181", "controller.connect": "c:1"},
            "controller.quorum.bootstrap.servers is for log mode; here the ensemble knows the controller",
        ),
        (
            {"message.max.bytes": "104857600"},
            "socket.request.max.bytes (104857600) must be greater than message.max.bytes (104857600)",
        ),
    ],
)
def test_two_keys_that_contradict_each_other_are_refused(changes: dict[str, str], complaint: str) -> None:
    (problem,) = problems(changes)
    assert complaint in problem


def test_timeouts_one_apart_are_enough() -> None:
    config = parsed(broker_heartbeat_timeout_ms="9001")
    assert config.integer("broker.heartbeat.timeout.ms") == 9001


def test_a_name_and_its_other_name_cannot_both_be_set() -> None:
    (problem,) = problems({"controller.heartbeat.timeout.ms": "8000", "broker.session.timeout.ms": "8000"})
    assert "broker.session.timeout.ms means the same as controller.heartbeat.timeout.ms" in problem


def test_a_broker_alone_needs_a_controller_and_a_node_that_is_both_does_not() -> None:
    (problem,) = problems({}, without=("controller.connect",))
    assert "controller.quorum.bootstrap.servers is missing" in problem
    both = {"node.id": "1", "log.dirs": "/data", "process.roles": "broker,controller"}
    assert parse(both).is_controller


def test_a_role_needs_its_doors() -> None:
    (problem,) = problems({"listeners": "CONTROL://h:1"})
    assert "listeners must name PLAINTEXT" in problem
    (problem,) = problems({"listeners": "PLAINTEXT://h:1"})
    assert "listeners must name CONTROL" in problem
    controller = {
        "node.id": "1",
        "log.dirs": "/d",
        "process.roles": "controller",
        "listeners": "CONTROL://h:1",
    }
    assert parse(controller).listeners == (Endpoint("CONTROL", "h", 1),)


def test_an_advertised_listener_must_exist_and_have_a_host() -> None:
    changes = {"listeners": "PLAINTEXT://:9092,CONTROL://:9093"}
    (problem,) = problems(changes | {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"})
    assert "advertised.listeners must name a host" in problem
    both = changes | {
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://:1",
        "advertised.listeners": "CONTROL://h:1",
    }
    (problem,) = problems(both)
    assert "advertised.listeners names CONTROL, which listeners does not" in problem


def test_addresses_of_every_shape_are_read() -> None:
    config = parsed(listeners="PLAINTEXT://[::1]:9092, CONTROL://:0")
    assert config.listeners == (Endpoint("PLAINTEXT", "::1", 9092), Endpoint("CONTROL", "", 0))
    assert str(config.listeners[0]) == "PLAINTEXT://[::1]:9092"


def test_every_problem_is_told_at_once() -> None:
    found = problems({"node.id": "x", "no.such.key": "1", "min.insync.replicas": "0"})
    assert [problem.split()[1] for problem in found] == ["node.id", "no.such.key", "min.insync.replicas"]


def test_a_node_hands_down_to_topics_what_it_changes() -> None:
    config = parsed(log_retention_hours="1", log_cleanup_policy="compact,delete", message_max_bytes="5000")
    assert config.topic_defaults() == {
        "retention.ms": "3600000",
        "cleanup.policy": "compact,delete",
        "max.message.bytes": "5000",
    }


def test_the_finer_retention_key_goes_before_the_coarser() -> None:
    config = parsed(log_retention_hours="1", log_retention_minutes="2", log_retention_ms="3")
    assert config.topic_defaults()["retention.ms"] == "3"


def test_a_properties_file_is_read_with_its_oddities(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text(
        "# a comment\n! another\n\n  node.id = 3\nlog.dirs: /a/\\\n    b\n"
        "controller.connect one:9093\nbroker.rack=caf\\u00e9 \\# 1 \\uD83D\\uDE00\r\nnum.partitions=4",
        encoding="utf-8",
    )
    config = load(file)
    assert config.node_id == 3
    assert config.log_dirs == (Path("/a/b"),)
    assert config.controller_addresses == (("one", 9093),)
    assert config["broker.rack"] == "café # 1 \U0001f600"
    assert config.integer("num.partitions") == 4


def test_half_a_letter_in_a_file_is_no_letter_that_nobody_can_write(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text("node.id=1\nlog.dirs=/d\ncontroller.connect=h:1\nbroker.rack=a\\uD83Db\n")
    assert load(file)["broker.rack"] == "a\N{REPLACEMENT CHARACTER}b"


def test_a_problem_in_a_file_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text("node.id=1\nlog.dirs=/d\n\nnode.id=2\ncontroller.connect=h:1\nmax.conections=5\n=7\n")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert caught.value.problems == [
        f"{file}:4: node.id was already set in line 1",
        f"{file}:7: a value without a key",
        f"{file}:6: max.conections is not a known key; did you mean max.connections?",
    ]


@pytest.mark.parametrize(
    ("name", "text"), [("epoka.zookeeper.password", "secret"), ("epoka.zookeeper.mechanism", "DIGEST-MD5")]
)
def test_whoever_has_no_name_cannot_prove_it(name: str, text: str) -> None:
    """What such a node creates would be everybody's, against what its operator wants."""
    with_ensemble = {"zookeeper.connect": "zk:2181", name: text}
    assert problems(with_ensemble, without=("controller.connect",)) == [
        f"configuration: {name} is set, but epoka.zookeeper.username is missing: the ensemble would be told "
        "nothing"
    ]
    settings = {**SMALLEST, **with_ensemble, "epoka.zookeeper.username": "epoka"}
    del settings["controller.connect"]
    assert parse(settings).string("epoka.zookeeper.username") == "epoka"


def test_a_node_has_one_role_in_zookeeper_mode() -> None:
    both = problems({"zookeeper.connect": "zk:2181", "process.roles": "broker,controller"})
    assert "configuration: process.roles may name one role in zookeeper mode, broker or controller" in both


def test_a_contradiction_in_a_file_names_a_line_of_it(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text("node.id=1\nlog.dirs=/d\ncontroller.connect=h:1\nbroker.heartbeat.timeout.ms=5\n")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert caught.value.problems[0].startswith(f"{file}:4: broker.heartbeat.timeout.ms (5) must be greater")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.properties: cannot be read: No such file"):
        load(tmp_path / "missing.properties")
    binary = tmp_path / "binary.properties"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        load(binary)


def test_a_list_value_goes_to_text_and_back() -> None:
    key = NODE_KEYS["process.roles"]
    assert key.parse(key.text(("broker", "controller")) or "") == ("broker", "controller")
    with pytest.raises(BadValue):
        key.parse(" , ")


def test_every_node_key_that_a_topic_inherits_from_exists() -> None:
    assert {name for key in TOPIC_KEYS.values() for name in key.synonyms} <= set(NODE_KEYS)

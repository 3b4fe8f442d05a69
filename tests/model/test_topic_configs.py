"""The keys of a topic: limits, defaults and who gives them."""

from __future__ import annotations

import pytest

from epoka.model.topic_configs import TOPIC_KEYS, default, effective, validate


def test_every_default_is_a_value_that_its_own_key_accepts() -> None:
    for key in TOPIC_KEYS.values():
        text = key.text(key.default)
        assert text is not None
        assert key.parse(text) == key.default, key.name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "-1"),
        ("min.insync.replicas", "1"),
        ("compression.type", "zstd"),
        ("message.timestamp.type", "LogAppendTime"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("unclean.leader.election.enable", "TRUE"),
    ],
)
def test_what_kafka_takes_is_taken(name: str, value: str) -> None:
    assert validate(name, value) is None


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("retention.ms", "-2", "retention.ms must be at least -1, not '-2'"),
        ("retention.ms", "long", "retention.ms must be a whole number, not 'long'"),
        ("min.insync.replicas", "0", "min.insync.replicas must be at least 1, not '0'"),
        ("cleanup.policy", "burn", "cleanup.policy may only name delete, compact, not 'burn'"),
        ("cleanup.policy", "", "cleanup.policy must name one or more of delete, compact, not ''"),
        ("compression.type", "rar", "compression.type must be one of"),
        ("segment.bytes", "4294967296", "segment.bytes must lie between"),
        ("no.such.key", "1", "no.such.key is not a topic configuration"),
        ("retention.ms", None, "retention.ms has no value"),
    ],
)
def test_a_bad_setting_is_refused_with_its_reason(name: str, value: str | None, complaint: str) -> None:
    assert (validate(name, value) or "").startswith(complaint)


def test_a_topic_goes_before_its_node_and_the_node_before_the_table() -> None:
    node = {"log.retention.ms": 5, "log.segment.bytes": 1000, "log.retention.hours": 168}
    values = effective({"retention.ms": "7"}, node)
    assert values["retention.ms"] == 7
    assert values["segment.bytes"] == 1000
    assert values["min.insync.replicas"] == 1
    assert set(values) == set(TOPIC_KEYS)


def test_a_node_key_in_hours_counts_in_milliseconds_and_no_limit_stays_none() -> None:
    assert default("retention.ms", {"log.retention.hours": 2}) == (7_200_000, "log.retention.hours")
    assert default("retention.ms", {"log.retention.hours": -1}) == (-1, "log.retention.hours")
    assert default("retention.ms", {"log.retention.ms": None, "log.retention.minutes": 1}) == (
        60_000,
        "log.retention.minutes",
    )


def test_the_node_may_speak_in_topic_keys_and_in_texts() -> None:
    values = effective({}, {"segment.bytes": "2000", "cleanup.policy": "compact"})
    assert values["segment.bytes"] == 2000
    assert values["cleanup.policy"] == ("compact",)

"""`docs/configuration.md`: every key of a node and of a topic, from the tables that read them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from epoka.model.config_keys import ConfigKey, Kind, Value
from epoka.model.topic_configs import TOPIC_KEYS
from epoka.node.keys import REQUIRED, SECTIONS
from epoka.reference.markdown import code, page, table

_HEAD = """\
# Settings

A node reads a property file in Kafka's names: `epoka broker --config FILE`, `epoka controller --config
FILE` ([operations.md](operations.md)). `epoka up --config KEY=VALUE` gives every node of a cluster on one
machine a setting. A key that is not on this page, or a bad value, is named with file and line, and the node
does not start.

`epoka up` and `epoka.Cluster` choose some values themselves, unless they are told others:
`default.replication.factor`, `offsets.topic.replication.factor` and `epoka.ledger.replication.factor` are 3,
or the number of brokers where that is less; `group.initial.rebalance.delay.ms` is 0; in zookeeper mode
`zookeeper.session.timeout.ms` is 6000. The clusters of tests choose a few more
([testing.md](testing.md#another-cluster)).

`epoka config set topic NAME KEY=VALUE` changes a topic while the cluster runs. Of a node's settings, the
defaults of topics can be changed that way too (`epoka config set broker ID KEY=VALUE`, with the first node
key in the last table); everything else is read when the node starts. No default means that the feature is
off, or that the text says what holds instead.

This page is written from the code by `python -m epoka.reference`.
"""
_TOPICS = """\
## Settings of a topic

What a topic does not set itself comes from the node key in the last column, and where no node sets that,
from the default here.
"""
_NOUNS = {
    Kind.BOOLEAN: "`true` or `false`",
    Kind.STRING: "text",
    Kind.INT: "whole number",
    Kind.SHORT: "whole number",
    Kind.LONG: "whole number",
    Kind.DOUBLE: "number",
    Kind.LIST: "list with commas",
    Kind.PASSWORD: "text that is told to nobody",
}
_NOTHING: dict[Kind, Value] = {Kind.LIST: (), Kind.STRING: "", Kind.PASSWORD: ""}


def written() -> str:
    parts: list[str | Iterable[str]] = [_HEAD]
    for title, keys in SECTIONS.items():
        parts.append(f"## {title}")
        parts.append(table(("key", "default", "value", "meaning"), map(_node_row, keys)))
    parts.append(_TOPICS)
    parts.append(
        table(("key", "default", "value", "meaning", "node key"), map(_topic_row, TOPIC_KEYS.values()))
    )
    return page(*parts)


def _node_row(key: ConfigKey) -> tuple[str, ...]:
    also = f" Also {', '.join(code(name) for name in key.synonyms)}." if key.synonyms else ""
    return (code(key.name), _default(key), _value(key), key.about + also)


def _topic_row(key: ConfigKey) -> tuple[str, ...]:
    asked = ", ".join(code(name) for name in key.synonyms)
    return (code(key.name), _default(key), _value(key), key.about, asked)


def _default(key: ConfigKey) -> str:
    if key.name in REQUIRED:
        return "required"
    return code(key.text(key.default) or "")


def _value(key: ConfigKey) -> str:
    """The kind of the value, and what its check demands of an empty one."""
    said = key.check(_NOTHING.get(key.kind)) if key.check is not None else None
    if said is None or not said.startswith("must "):
        return _NOUNS[key.kind]
    limit = re.sub(r"^must (be |lie |name )?", "", said).replace("not be", "not")
    return limit if limit.startswith(("one ", "written ")) else f"{_NOUNS[key.kind]}, {limit}"

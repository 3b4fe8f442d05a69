"""`epoka config`: settings of topics and brokers of any cluster, through the protocol that clients use."""

from __future__ import annotations

from pathlib import Path

import msgspec

from epoka.cli.brokers import asking, check
from epoka.cli.output import EXIT_GOOD, say, say_json, settings_of, table, usage
from epoka.cli.topic import SET, TAKE_BACK, TIMEOUT_MS, alter_settings
from epoka.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from epoka.wire.messages.incremental_alter_configs import IncrementallyAlterableConfig

KINDS = {"topic": 2, "broker": 4}
SOURCES = {1: "topic", 2: "broker", 3: "cluster", 4: "file", 5: "default", 6: "logger"}
STATED = (1, 2, 3, 4)
"""Sources that somebody has set; the others are defaults."""


class Setting(msgspec.Struct, frozen=True):
    name: str
    value: str | None
    source: str
    read_only: bool


def show_config(
    kind: str, name: str | None, bootstrap: str | None, data: Path | None, all: bool, json: bool
) -> int:
    resource = DescribeConfigsResource(KINDS[kind], _named(kind, name))
    with asking(bootstrap, data) as client:
        # What a broker has in its own file, only that broker knows.
        own = kind == "broker" and name is not None and int(name) in client.brokers()
        broker = client.node(int(name or 0)) if own else client.anyone()
        (result,) = broker.ask(DescribeConfigsRequest((resource,)), wait_ms=TIMEOUT_MS).results
    check(result.error_code, result.error_message, f"the settings of {_told(kind, name)} cannot be read")
    settings = [
        Setting(
            each.name,
            "(hidden)" if each.is_sensitive else each.value,
            SOURCES.get(each.config_source, "unknown"),
            each.read_only,
        )
        for each in sorted(result.configs, key=lambda each: each.name)
        if all or each.config_source in STATED
    ]
    if json:
        say_json(settings)
    elif settings:
        table(("name", "value", "source"), [(each.name, each.value, each.source) for each in settings])
    else:
        say("nothing is set; --all shows the defaults")
    return EXIT_GOOD


def set_config(
    kind: str, name: str | None, setting: list[str], bootstrap: str | None, data: Path | None, json: bool
) -> int:
    if name is not None and "=" in name:
        # No broker was named, so the first setting stands where its id would.
        setting = [name, *setting]
        name = None
    settings = settings_of(setting)
    if not settings:
        usage("nothing to set: give KEY=VALUE")
    changes = [IncrementallyAlterableConfig(key, SET, value) for key, value in settings.items()]
    return _alter(kind, name, changes, bootstrap, data, json)


def unset_config(
    kind: str, name: str, key: list[str], bootstrap: str | None, data: Path | None, json: bool
) -> int:
    changes = [IncrementallyAlterableConfig(each, TAKE_BACK, None) for each in key]
    of_all = kind == "broker" and name == "cluster"
    return _alter(kind, None if of_all else name, changes, bootstrap, data, json)


def _alter(
    kind: str,
    name: str | None,
    changes: list[IncrementallyAlterableConfig],
    bootstrap: str | None,
    data: Path | None,
    json: bool,
) -> int:
    named = _named(kind, name)
    with asking(bootstrap, data) as client:
        alter_settings(client, KINDS[kind], named, changes)
    if json:
        say_json({"kind": kind, "name": name, "changed": [each.name for each in changes]})
    else:
        say(f"changed {', '.join(each.name for each in changes)} of {_told(kind, name)}")
    return EXIT_GOOD


def _named(kind: str, name: str | None) -> str:
    """The name as the protocol has it; every broker together is the empty one."""
    if kind == "topic" and not name:
        usage("TOPIC is missing")
    if kind == "broker" and name and not (name.isascii() and name.isdecimal()):
        usage(f"a broker is named by its id, not {name!r}")
    return name or ""


def _told(kind: str, name: str | None) -> str:
    return f"{kind} {name}" if name else "all brokers"

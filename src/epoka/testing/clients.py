"""Clients of whichever library is installed, pointed at a cluster and quick enough for tests.

Settings are a mapping with Kafka's names; for libraries that take keywords, dots become underscores. Decides
which library and which settings make a test pleasant; whatever the test sets itself wins.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

LIBRARIES = {"confluent-kafka": "confluent_kafka", "kafka-python": "kafka", "aiokafka": "aiokafka"}
"""Package and module, in the order in which they are looked for."""

Settings = Mapping[str, Any]

END_S = 1.0
"""How long a client whose cluster is away may take for its end, where its library lets us say so."""


class NoClient(Exception):
    """No library for Kafka is installed, or not the one that was asked for."""


def library(wanted: str | None) -> str:
    """The package that is asked for, or the first that is installed."""
    if wanted is not None and wanted not in LIBRARIES:
        raise NoClient(f"there is no {wanted!r} here; the libraries are {', '.join(LIBRARIES)}")
    for package in LIBRARIES if wanted is None else (wanted,):
        if find_spec(LIBRARIES[package]) is not None:
            return package
    raise NoClient(f"pip install {wanted or next(iter(LIBRARIES))}")


def producer(bootstrap: str, settings: Settings, wanted: str | None) -> Any:
    package = library(wanted)
    if package == "confluent-kafka":
        return _confluent("confluent_kafka", "Producer", bootstrap, {"linger.ms": 0}, settings)
    return _keywords(package, "Producer", bootstrap, {}, settings)


def consumer(
    bootstrap: str, topics: tuple[str, ...], group: str | None, settings: Settings, wanted: str | None
) -> Any:
    """Subscribed to `topics`, from the beginning, in a group unless `group` is None."""
    package = library(wanted)
    if package == "confluent-kafka":
        # librdkafka puts everybody in a group: whoever wants none gets one that nobody else has.
        own = group or f"none-{secrets.token_hex(4)}"
        pleasant = {"group.id": own, "auto.offset.reset": "earliest", "session.timeout.ms": 6000}
        made = _confluent("confluent_kafka", "Consumer", bootstrap, pleasant, settings)
        if topics:
            made.subscribe(list(topics))
        return made
    pleasant = {"group.id": group, "auto.offset.reset": "earliest"}
    return _keywords(package, "Consumer", bootstrap, pleasant, settings, *topics)


def admin(bootstrap: str, settings: Settings, wanted: str | None) -> Any:
    package = library(wanted)
    if package == "confluent-kafka":
        return _confluent("confluent_kafka.admin", "AdminClient", bootstrap, {}, settings)
    return _keywords(package, "AdminClient", bootstrap, {}, settings)


def closing(client: Any) -> Callable[[], None]:
    """What ends a client after its test; a client of aiokafka is the test's own to end.

    What is not delivered by then is given up: it must not keep the next test waiting.
    """
    kind = type(client)
    if kind.__module__.startswith("aiokafka"):
        return lambda: None
    if hasattr(client, "purge"):
        return lambda: _quietly(client.purge, getattr(client, "close", None))
    if kind.__name__ == "KafkaProducer":
        # With a record that is not delivered, close() fails after its timeout and leaves its thread behind.
        return lambda: _quietly(client._sender.force_close, partial(client.close, timeout=END_S))
    if kind.__name__ == "KafkaConsumer":
        # A release that knows no such limit is closed without; who is closed already does nothing.
        limited = partial(client.close, autocommit=False, timeout_ms=END_S * 1000)
        return lambda: _quietly(limited, client.close)
    return lambda: _quietly(getattr(client, "close", None))


def _confluent(module: str, name: str, bootstrap: str, pleasant: Settings, settings: Settings) -> Any:
    quick = {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500, **pleasant}
    return getattr(import_module(module), name)({**quick, **settings})


def _keywords(
    package: str, name: str, bootstrap: str, pleasant: Settings, settings: Settings, *positional: str
) -> Any:
    prefix = "Kafka" if package == "kafka-python" else "AIOKafka"
    found = import_module(
        "aiokafka.admin" if (package, name) == ("aiokafka", "AdminClient") else LIBRARIES[package]
    )
    given = {"bootstrap_servers": bootstrap.split(","), **_dashed(pleasant), **_dashed(settings)}
    return getattr(found, prefix + name)(*positional, **given)


def _dashed(settings: Settings) -> dict[str, Any]:
    return {name.replace(".", "_"): value for name, value in settings.items()}


def _quietly(*ends: Callable[[], Any] | None) -> None:
    for end in ends:
        with contextlib.suppress(Exception):
            if end is not None:
                end()

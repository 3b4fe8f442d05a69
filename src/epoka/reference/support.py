"""`docs/support.md`: which APIs are served in which versions, from the handlers themselves."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable

from epoka.broker.api import CONTROL_HANDLERS, HANDLERS, Handler
from epoka.controller.config import ControllerConfig
from epoka.controller.control_requests import VERSIONS
from epoka.controller.core import ControllerCore
from epoka.coordination.metadata_log import StoredMetadataLog
from epoka.log.store import MemoryStore
from epoka.reference.markdown import code, page, table
from epoka.wire.apis import APIS

_HEAD = """\
# What is served

A broker serves what has a module in `src/epoka/broker/api`, and advertises nothing else. Clients learn the
versions with ApiVersions, as from any Kafka broker. What is left out, and what happens instead, is in
[skipped.md](skipped.md).

This page is written from the code by `python -m epoka.reference`.

## For clients
"""
_CONTROL = """\
## Between brokers and controllers

These come through the CONTROL listener and are refused anywhere else. A follower's Fetch does too.

A broker in zookeeper mode obeys:
"""
_CONTROLLER = """\
A controller answers what follows, some of it passed on by brokers for their clients. Keys from 10000 on are
Epoka's own.
"""
_LEVELS = """\
Which version of a control request a controller sends is decided by the cluster's level
([zookeeper.md](zookeeper.md)):
"""
_CODEC = """\
## Not served

The codec reads and writes these too, for the client side and for tests. No node serves or advertises them:
"""


def written() -> str:
    log, zookeeper = _controller(None), _controller(1)
    served = {handler.key for handler in (*HANDLERS.values(), *CONTROL_HANDLERS.values())}
    others = [api.name for api in APIS.values() if api.key not in served | log.keys() | zookeeper.keys()]
    return page(
        _HEAD,
        table(("API", "key", "versions", "what it does here"), _rows(HANDLERS.values())),
        _remarks(),
        _CONTROL,
        table(("API", "key", "versions", "what it does here"), _rows(CONTROL_HANDLERS.values())),
        _CONTROLLER,
        table(
            ("API", "key", "log mode", "zookeeper mode"),
            (
                (APIS[key].name, str(key), _span(log.get(key)), _span(zookeeper.get(key)))
                for key in sorted(log.keys() | zookeeper.keys())
            ),
        ),
        _LEVELS,
        table(
            ("level", "LeaderAndIsr", "UpdateMetadata", "StopReplica"),
            (
                (
                    code(level.label),
                    str(versions.leader_and_isr),
                    str(versions.update_metadata),
                    str(versions.stop_replica),
                )
                for level, versions in VERSIONS.items()
            ),
        ),
        _CODEC,
        ", ".join(sorted(others)) + ".",
    )


def _rows(handlers: Iterable[Handler]) -> list[tuple[str, ...]]:
    named = sorted((APIS[handler.key].name, handler) for handler in handlers)
    return [(name, str(handler.key), _span(handler.versions), _about(handler)) for name, handler in named]


def _about(handler: Handler) -> str:
    """The first sentence of its module, without the name that every one begins with."""
    text = sys.modules[handler.handle.__module__].__doc__ or ""
    return text.strip().splitlines()[0].partition(": ")[2]


def _remarks() -> list[str]:
    early = [
        f"{APIS[each.key].name} from {each.advertised_from}"
        for each in HANDLERS.values()
        if each.advertised_from != each.versions[0]
    ]
    always = [APIS[each.key].name for each in HANDLERS.values() if each.always]
    lines = [
        f"- A broker that is starting, or is fenced, serves clients only {', '.join(always)}; the rest is "
        "answered with an error that makes a client look for another broker, or the connection is closed."
    ]
    if early:
        lines.append(
            f"- Advertised from a lower version than is served, because librdkafka's feature gates look for "
            f"it (KAFKA-18659): {', '.join(early)}."
        )
    return [*lines, "- Compression: gzip, snappy, lz4, zstd. Idempotent producers: yes. Transactions: no."]


def _span(versions: tuple[int, int] | None) -> str:
    if versions is None:
        return ""
    return "-".join(str(version) for version in sorted(set(versions)))


def _controller(epoch: int | None) -> dict[int, tuple[int, int]]:
    """What a controller that has nothing to do yet would answer, by API key."""
    log = StoredMetadataLog(MemoryStore())
    core = ControllerCore(
        100, "reference", log, ControllerConfig(), new_id=uuid.uuid4, controller_epoch=epoch
    )
    return core.served

"""One module an API: this folder's listing is the support matrix.

Each module says which versions it serves and handles one request: it returns the answer, or None when the
answer comes later. What has no module here is neither served nor advertised.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from epoka.model.events import Request

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore


class Handler(msgspec.Struct, frozen=True):
    """How one API is served."""

    key: int
    versions: tuple[int, int]
    advertised_from: int
    """Lower than what is served where librdkafka's feature gates look for an old version (KAFKA-18659)."""
    handle: Callable[[BrokerCore, Request, int], Any]
    refuse: Callable[[BrokerCore, Request], Any] | None
    """The answer of a broker that must not serve now; without one the connection is closed."""
    always: bool
    """Served even before the broker is running and while it is fenced."""
    control: bool
    """For brokers and controllers alone."""


def _handler(module: ModuleType) -> Handler:
    versions = module.VERSIONS
    return Handler(
        key=module.REQUEST.API_KEY,
        versions=versions,
        advertised_from=getattr(module, "ADVERTISED_FROM", versions[0]),
        handle=module.handle,
        refuse=getattr(module, "refuse", None),
        always=getattr(module, "ALWAYS", False),
        control=getattr(module, "CONTROL", False),
    )


def _modules() -> list[ModuleType]:
    names = sorted(
        module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")
    )
    return [importlib.import_module(f"{__name__}.{name}") for name in names]


_ALL: dict[type, Handler] = {module.REQUEST: _handler(module) for module in _modules()}
HANDLERS = {kind: handler for kind, handler in _ALL.items() if not handler.control}
CONTROL_HANDLERS = {kind: handler for kind, handler in _ALL.items() if handler.control}
"""What a controller asks of brokers in zookeeper mode; in log mode nobody serves it."""

"""Builds cores out of a configuration: opens the disks, fills in the cores' settings, says where others are.

The only place that knows how a broker or a controller is put together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from epoka.node.chores import Chore
from epoka.node.client import Resolve
from epoka.node.config import NodeConfig
from epoka.node.keys import Endpoint
from epoka.node.runtime import Ending


class Part(msgspec.Struct, frozen=True):
    """A core and what belongs to it."""

    core: Any
    resolve: Resolve
    """Where the core's `Send` effects find the other nodes."""
    close: Callable[[Ending], None]
    """Puts the disks to rest; a clean ending leaves the clean-shutdown marker."""
    chores: tuple[Chore, ...] = ()


Build = Callable[[NodeConfig, tuple[Endpoint, ...], int], Part]
"""Builds a part from the configuration, the advertised endpoints and the time."""


def build_broker(config: NodeConfig, endpoints: tuple[Endpoint, ...], now: int) -> Part:
    raise NotImplementedError


def build_controller(config: NodeConfig, endpoints: tuple[Endpoint, ...], now: int) -> Part:
    raise NotImplementedError

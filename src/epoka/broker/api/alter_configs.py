"""AlterConfigs: all settings of topics and brokers at once, decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._forward import forward_settings
from epoka.model.events import Request
from epoka.wire.messages import alter_configs as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.AlterConfigsRequest
VERSIONS = (0, 2)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    forward_settings(core, request)

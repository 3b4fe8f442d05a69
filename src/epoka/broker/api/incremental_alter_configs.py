"""IncrementalAlterConfigs: single settings of topics and brokers, decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._forward import forward_settings
from epoka.model.events import Request
from epoka.wire.messages import incremental_alter_configs as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.IncrementalAlterConfigsRequest
VERSIONS = (0, 1)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    forward_settings(core, request)

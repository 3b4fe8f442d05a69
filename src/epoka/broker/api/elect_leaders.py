"""ElectLeaders: preferred and unclean elections, decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._forward import forward
from epoka.model.events import Request
from epoka.wire.messages import elect_leaders as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.ElectLeadersRequest
VERSIONS = (0, 2)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    forward(core, request)

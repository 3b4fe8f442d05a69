"""UpdateFeatures: raise the cluster to the next level, decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.api._forward import forward
from epoka.model.events import Request
from epoka.wire.messages import update_features as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.UpdateFeaturesRequest
VERSIONS = (0, 1)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    forward(core, request)

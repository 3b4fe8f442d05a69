"""UpdateMetadata: the controller tells what the cluster looks like (zookeeper mode)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.broker.control_feed import ControlFeed
from epoka.model.events import Request
from epoka.wire.messages import update_metadata as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.UpdateMetadataRequest
VERSIONS = (4, 8)
CONTROL = True
ALWAYS = True


def handle(core: BrokerCore, request: Request, now: int) -> wire.UpdateMetadataResponse | None:
    feed = core.feed
    assert isinstance(feed, ControlFeed)
    refused = feed.admit(request, now)
    if refused is not None:
        return wire.UpdateMetadataResponse(error_code=refused.error) if refused.error else None
    feed.update_metadata(request.message, request.version, now)
    return wire.UpdateMetadataResponse()

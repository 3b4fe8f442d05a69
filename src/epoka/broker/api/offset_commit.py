"""OffsetCommit: how far a group has read; answered when that is committed itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Request
from epoka.wire.messages import offset_commit as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.OffsetCommitRequest
VERSIONS = (2, 9)


def handle(core: BrokerCore, request: Request, now: int) -> None:
    core.offsets.ask(request, core.offsets.coordinator.offset_commit)

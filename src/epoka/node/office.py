"""The controller of one node in zookeeper mode, over all its mandates and the times without one.

To the runtime it is a core like any other. While the node is in office it is that mandate's `ControllerCore`;
otherwise it hangs up on whoever asks. A mandate that is over, for whatever reason, ends its core and never
the node: the node stands for election again. What one mandate knew, the next one reads from ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from epoka.controller.core import ControllerCore
from epoka.controller.metadata_log import MetadataLogFailed
from epoka.coordination.zookeeper.election import Mandate
from epoka.model.events import Effect, Exit, Hangup, Request, Stop, StorageFailed
from epoka.model.image import ClusterImage

log = logging.getLogger(__name__)


class Elected(msgspec.Struct, frozen=True):
    """To the office: this node is the controller from now on."""

    mandate: Mandate


class Over(msgspec.Struct, frozen=True):
    """To the office: the mandate is over; nothing that its core would still say counts."""

    mandate: Mandate
    reason: str


class ForMandate(msgspec.Struct, frozen=True):
    """To the office: an event that was made for this mandate's core, and for no other."""

    mandate: Mandate
    event: Any


class Office:
    def __init__(
        self,
        node_id: int,
        build: Callable[[Mandate], ControllerCore],
        *,
        entered: Callable[[Mandate], None],
        left: Callable[[Mandate], None],
    ) -> None:
        """`entered` and `left` are called when a mandate's core stands and when it is over."""
        self.node_id = node_id
        self.served = build(Mandate(0, 0, 0)).served
        """Every mandate serves the same; this one never begins."""
        self.mandate: Mandate | None = None
        self._build = build
        self._entered = entered
        self._left = left
        self._core: ControllerCore | None = None

    @property
    def acting(self) -> ControllerCore | None:
        """The core of the present mandate, if there is one."""
        return self._core

    @property
    def image(self) -> ClusterImage:
        """What the controller knows; nothing while it is not in office."""
        return ClusterImage() if self._core is None else self._core.image

    @property
    def deadline(self) -> int | None:
        return None if self._core is None else self._core.deadline

    def start(self, now: int) -> list[Effect]:
        return []

    def handle(self, event: Any, now: int) -> list[Effect]:
        if isinstance(event, Elected):
            return self._take_office(event.mandate, now)
        if isinstance(event, Over):
            if self.mandate != event.mandate:
                return []
            assert self._core is not None
            return self._leave(self._core.handle(StorageFailed(event.reason), now))
        if isinstance(event, ForMandate):
            return self.handle(event.event, now) if event.mandate == self.mandate else []
        if isinstance(event, Stop):
            self._core = self.mandate = None
            return [Exit(clean=True, reason="stopped")]
        if self._core is None:
            reason = "this controller stands by; another one is in office, or nobody"
            return [Hangup(event.token, reason)] if isinstance(event, Request) else []
        return self._leave(self._core.handle(event, now))

    def _take_office(self, mandate: Mandate, now: int) -> list[Effect]:
        self.mandate, self._core = mandate, self._build(mandate)
        try:
            effects = self._core.start(now)
        except MetadataLogFailed as failure:
            effects = [Exit(clean=False, reason=str(failure))]
            return self._leave(effects)
        log.info("is the controller of epoch %d", mandate.epoch, extra={"node": self.node_id})
        self._entered(mandate)
        return self._leave(effects)

    def _leave(self, effects: list[Effect]) -> list[Effect]:
        """The end of a core is the end of its mandate, and not of the node."""
        ends = [each for each in effects if isinstance(each, Exit)]
        if not ends or self.mandate is None:
            return effects
        over, self.mandate, self._core = self.mandate, None, None
        log.warning(
            "is no longer the controller of epoch %d: %s",
            over.epoch,
            ends[0].reason,
            extra={"node": self.node_id},
        )
        self._left(over)
        return [each for each in effects if not isinstance(each, Exit)]

"""Requests that only the controller can decide: passed on to it, and answered with its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from epoka.model.events import CONTROLLER, Request
from epoka.wire.error_codes import ErrorCode
from epoka.wire.refusals import refuse_all

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

SEEN_WITHIN_MS = 2_000
"""How long an answer waits for this broker's own metadata to show what was done."""


def forward(
    core: BrokerCore,
    request: Request,
    seen: Callable[[Any], bool] | None = None,
    *,
    message: Any = None,
    version: int | None = None,
    complete: Callable[[Any], Any] = lambda reply: reply,
) -> None:
    """Ask the controller; REQUEST_TIMED_OUT for everything when it cannot be reached.

    With `seen` the answer is held back until this broker's own image shows the change, so that a client that
    goes on with the same broker finds what it has just made. `message` in `version` stands in for the
    request's own, and `complete` has the last word on the answer.
    """
    core.wait(request, lambda: None)

    def answered(reply: Any, now: int) -> None:
        if reply is None:
            core.respond(request, refuse_all(request.message, ErrorCode.REQUEST_TIMED_OUT))
        elif seen is None:
            core.respond(request, complete(reply))
        else:
            core.when_seen(
                lambda: seen(reply), lambda: core.respond(request, complete(reply)), now + SEEN_WITHIN_MS
            )

    core.send(CONTROLLER, message or request.message, version or request.version, answered)


def forward_settings(core: BrokerCore, request: Request) -> None:
    """Settings: the answer waits until this broker's image has moved, if anything was changed at all."""
    before = core.image.offset

    def seen(reply: Any) -> bool:
        changed = any(each.error_code == ErrorCode.NONE for each in reply.responses)
        return request.message.validate_only or not changed or core.image.offset > before

    forward(core, request, seen)

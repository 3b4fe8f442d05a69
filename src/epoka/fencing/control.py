"""What a broker asks before it obeys a control request: LeaderAndIsr, UpdateMetadata, StopReplica.

The order of the questions is part of the rules: the generation first, the controller's epoch second, so a
request that is stale in both ways is answered with STALE_BROKER_EPOCH (KIP-380). -1 means that the sender's
version has no such field; it is never stale. The connection comes last.
"""

from __future__ import annotations

from epoka.fencing.verdict import Verdict, accept, refuse, rule
from epoka.wire.error_codes import ErrorCode


@rule(
    "control.generation",
    asked_by="broker, on a control request",
    refuses_when="the request's broker epoch is not -1 and is below the broker's own",
    answer="STALE_BROKER_EPOCH",
)
def generation(given_epoch: int, own_epoch: int) -> Verdict:
    """A greater epoch is accepted: the controller may see a registration before the broker does
    (KAFKA-9839)."""
    if given_epoch != -1 and given_epoch < own_epoch:
        return refuse(
            "control.generation",
            ErrorCode.STALE_BROKER_EPOCH,
            given=given_epoch,
            expected=f">= {own_epoch}",
            reason="the request was made for an earlier life of this broker",
        )
    return accept("control.generation")


@rule(
    "control.max-generation",
    asked_by="broker, on a control request",
    refuses_when="the request's maximum broker epoch is not -1 and is below the broker's own",
    answer="STALE_BROKER_EPOCH",
)
def max_generation(given_max_epoch: int, own_epoch: int) -> Verdict:
    """A maximum below our own epoch was taken before we registered, so the request was made without us."""
    if given_max_epoch != -1 and given_max_epoch < own_epoch:
        return refuse(
            "control.max-generation",
            ErrorCode.STALE_BROKER_EPOCH,
            given=given_max_epoch,
            expected=f">= {own_epoch}",
            reason="the request was made before this broker registered",
        )
    return accept("control.max-generation")


@rule(
    "control.controller",
    asked_by="broker, on a control request, after the generation",
    refuses_when="the controller epoch is below the greatest one seen",
    answer="STALE_CONTROLLER_EPOCH",
)
def controller(given_epoch: int, known_epoch: int) -> Verdict:
    if given_epoch < known_epoch:
        return refuse(
            "control.controller",
            ErrorCode.STALE_CONTROLLER_EPOCH,
            given=given_epoch,
            expected=f">= {known_epoch}",
            reason="a controller that has been replaced sent the request",
        )
    return accept("control.controller")


@rule(
    "control.connection",
    asked_by="broker, on a control request, after the controller",
    refuses_when="the connection is older than one on which the same controller has been obeyed",
    answer="the connection is closed",
)
def connection(given_connection: int, newest_connection: int) -> Verdict:
    """A controller opens another connection when it has given one up, and sends again from there on. What the
    old one still delivers was said before, and no document orders two requests of one controller otherwise.

    To close is safe for the wrong one, too: the controller comes back on a newer one and sends again.
    """
    if given_connection < newest_connection:
        return refuse(
            "control.connection",
            ErrorCode.NONE,
            given=f"connection {given_connection}",
            expected=f">= {newest_connection}",
            reason="the controller has gone on to a newer connection",
        )
    return accept("control.connection")

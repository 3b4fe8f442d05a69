"""Who is alive: what heartbeats must carry, and how long silence is borne on either side."""

from __future__ import annotations

from epoka.fencing.verdict import Verdict, accept, refuse, rule
from epoka.wire.error_codes import ErrorCode


@rule(
    "heartbeat.generation",
    asked_by="controller, on a heartbeat",
    refuses_when="the generation is not the registered one; where generations come from ZooKeeper, "
    "only when it is below: a higher one is a bounce the registry has not told of yet",
    answer="STALE_BROKER_EPOCH, INVALID_INCARNATION_ID in zookeeper mode",
)
def generation(given_epoch: int, registered_epoch: int | None, *, adopts_higher: bool = False) -> Verdict:
    """Whoever adopts a higher generation must run bounce handling for it (see registry.bounce)."""
    if given_epoch == registered_epoch:
        return accept("heartbeat.generation")
    if adopts_higher and (registered_epoch is None or given_epoch > registered_epoch):
        return accept("heartbeat.generation")
    return refuse(
        "heartbeat.generation",
        ErrorCode.INVALID_INCARNATION_ID if adopts_higher else ErrorCode.STALE_BROKER_EPOCH,
        given=given_epoch,
        expected="registered" if registered_epoch is None else registered_epoch,
        reason="the broker is not registered"
        if registered_epoch is None
        else "another life of this broker sent the heartbeat",
    )


@rule(
    "heartbeat.session",
    asked_by="controller, about each unfenced broker",
    refuses_when="no heartbeat for longer than controller.heartbeat.timeout.ms",
    answer="fenced",
)
def session(last_contact_ms: int, now: int, timeout_ms: int) -> Verdict:
    """A silence of exactly the timeout is still borne."""
    if now - last_contact_ms > timeout_ms:
        return refuse(
            "heartbeat.session",
            ErrorCode.NONE,
            given=f"{now - last_contact_ms} ms of silence",
            expected=f"<= {timeout_ms} ms",
            reason="the broker has not been heard of",
        )
    return accept("heartbeat.session")


@rule(
    "heartbeat.contact",
    asked_by="broker, about itself",
    refuses_when="no contact with the controller for longer than broker.heartbeat.timeout.ms",
    answer="fences itself",
)
def contact(last_contact_ms: int, now: int, timeout_ms: int) -> Verdict:
    """KIP-343: a broker that can't reach the controller ends what it has begun and takes nothing new."""
    if now - last_contact_ms > timeout_ms:
        return refuse(
            "heartbeat.contact",
            ErrorCode.NONE,
            given=f"{now - last_contact_ms} ms of silence",
            expected=f"<= {timeout_ms} ms",
            reason="the controller has not answered",
        )
    return accept("heartbeat.contact")

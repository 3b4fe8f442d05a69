"""What the controller asks before it lets a broker go, and what any request of a broker to it must show."""

from __future__ import annotations

from epoka.fencing.verdict import Verdict, accept, refuse, rule
from epoka.wire.error_codes import ErrorCode


@rule(
    "shutdown.generation",
    asked_by="controller, on ControlledShutdown",
    refuses_when="the requester's generation is not the registered one; -1 comes from versions without it",
    answer="STALE_BROKER_EPOCH",
)
def generation(given_epoch: int, registered_epoch: int | None) -> Verdict:
    """KIP-380 compared with "below"; "not equal" also catches an epoch from nowhere."""
    if given_epoch != -1 and given_epoch != registered_epoch:
        return refuse(
            "shutdown.generation",
            ErrorCode.STALE_BROKER_EPOCH,
            given=given_epoch,
            expected="registered" if registered_epoch is None else registered_epoch,
            reason="another life of this broker asked for the shutdown",
        )
    return accept("shutdown.generation")

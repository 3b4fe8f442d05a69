"""What a node asks of an answer before it acts on it."""

from __future__ import annotations

from epoka.fencing.verdict import Verdict, accept, refuse, rule
from epoka.wire.error_codes import ErrorCode


@rule(
    "reply.generation",
    asked_by="controller, on the answer to a control request",
    refuses_when="the answer comes from a generation that it no longer talks to",
    answer="ignored",
)
def generation(asked_epoch: int, current_epoch: int | None) -> Verdict:
    """KIP-380 fenced requests only: a late answer of the old life could take the new one's replicas
    offline."""
    if asked_epoch != current_epoch:
        return refuse(
            "reply.generation",
            ErrorCode.NONE,
            given=asked_epoch,
            expected="registered" if current_epoch is None else current_epoch,
            reason="the answer comes from another life of the broker",
        )
    return accept("reply.generation")

"""Who may be elected."""

from __future__ import annotations

from epoka.fencing.verdict import Verdict, accept, refuse, rule
from epoka.wire.error_codes import ErrorCode


@rule(
    "leader.eligible",
    asked_by="controller, at creation and at every election",
    refuses_when="the candidate is unregistered, fenced or stopping",
    answer="not elected",
)
def eligible(candidate: int, *, registered: bool, fenced: bool, stopping: bool) -> Verdict:
    if registered and not fenced and not stopping:
        return accept("leader.eligible")
    what = "not registered" if not registered else "fenced" if fenced else "stopping"
    return refuse(
        "leader.eligible",
        ErrorCode.NONE,
        given=f"broker {candidate} {what}",
        expected="an active broker",
        reason=f"broker {candidate} is {what}",
    )

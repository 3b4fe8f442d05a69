"""How a bounce is told from a broker that merely goes on living."""

from __future__ import annotations

from epoka.fencing.verdict import Verdict, accept, rule

BOUNCED = "bounced"


@rule(
    "registry.bounce",
    asked_by="controller, on a registry change, and when a heartbeat brings a higher generation",
    refuses_when="never: same id, higher generation means failure handling, then start-up handling",
    answer="",
)
def bounce(known_epoch: int, seen_epoch: int) -> Verdict:
    """Never refuses; `is_bounce` reads the answer. The known epoch may be -1: then the broker is new."""
    if known_epoch != -1 and seen_epoch > known_epoch:
        return Verdict("registry.bounce", given=str(seen_epoch), expected=str(known_epoch), reason=BOUNCED)
    return accept("registry.bounce")


def is_bounce(verdict: Verdict) -> bool:
    return verdict.reason == BOUNCED

"""Whether all is well, and if not, why: in sentences, the gravest first. Decides only how to say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from epoka.cluster.status import BrokerStatus, ClusterStatus
from epoka.model.ledger import LedgerEvent

GOOD: Final = "good"
UNEASY: Final = "uneasy"
"""Something is missing, and every partition is served."""
BAD: Final = "bad"


class Health(msgspec.Struct, frozen=True):
    tone: str
    headline: str
    reasons: tuple[str, ...] = ()


def health(
    status: ClusterStatus | None,
    failure: str,
    standing: Mapping[int, LedgerEvent],
    ended: Mapping[int, str],
) -> Health:
    """`failure` says why the controller does not answer; `ended` how the last life of a broker ended."""
    if status is None:
        return Health(BAD, "Nothing known yet", (failure or "the controller has not answered yet",))
    reasons = [status.problem] if status.problem else []
    if status.offline:
        reasons.append(f"{_count(status.offline, 'partition')} without a leader")
    grave = bool(reasons)
    for broker in status.brokers:
        why = _broker(broker, standing.get(broker.id), ended)
        if why:
            reasons.append(why)
    if status.under_replicated:
        reasons.append(f"{_count(status.under_replicated, 'partition')} with replicas out of sync")
    if failure:
        return Health(BAD, "The controller does not answer", (failure, *reasons))
    if grave:
        return Health(BAD, "Not healthy", tuple(reasons))
    if reasons or not status.healthy:
        return Health(UNEASY, "Needs attention", tuple(reasons))
    return Health(GOOD, "Healthy")


def broker_state(broker: BrokerStatus, ended: Mapping[int, str]) -> str:
    """One word: active, fenced, stopping, paused, down, or unknown to the controller."""
    if broker.node in ("stopped", "failed") or (broker.node is None and ended.get(broker.id)):
        return "down"
    if broker.node == "paused":
        return "paused"
    if broker.generation is None:
        return "unregistered"
    if broker.stopping:
        return "stopping"
    return "fenced" if broker.fenced else "active"


def broker_row(
    broker: BrokerStatus, standing: Mapping[int, LedgerEvent], ended: Mapping[int, str]
) -> dict[str, Any]:
    """A broker for the page."""
    row: dict[str, Any] = msgspec.to_builtins(broker)
    row["state"] = broker_state(broker, ended)
    row["because"] = _broker(broker, standing.get(broker.id), ended)
    since = standing.get(broker.id)
    row["since_ms"] = since.time_ms if since is not None else None
    return row


def _broker(broker: BrokerStatus, last: LedgerEvent | None, ended: Mapping[int, str]) -> str:
    state = broker_state(broker, ended)
    name = f"broker {broker.id}"
    if state == "active":
        return ""
    if state == "down":
        how = ended.get(broker.id)
        text = f"{name} is down" + (f" after {_an(how)} end" if how in ("clean", "unclean") else "")
        if broker.fenced is False:
            text += ", and the controller has not noticed yet"
        return text
    if state == "paused":
        return f"{name} is paused" + (" and fenced" if broker.fenced else "")
    if state == "unregistered":
        return f"{name} is not registered"
    if state == "stopping":
        return f"{name} is in its controlled shutdown"
    why = last.detail if last is not None and last.kind in ("fenced", "registered") else ""
    rule = f" [{last.rule}]" if why and last is not None and last.rule else ""
    return f"{name} is fenced" + (f": {why}{rule}" if why else "")


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _an(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"

"""Ledger events in plain sentences: what happened, to whom, by which rule, with both numbers.

Kinds that a newer version writes are told as they are, so nothing is hidden from a reader of an older one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from epoka.model.ledger import LedgerEvent


def sentence(event: LedgerEvent) -> str:
    """One event in words, without its time and its writer."""
    teller = _TELLERS.get(event.kind)
    told = teller(event) if teller is not None else _as_it_is(event)
    if event.detail and event.kind not in _TELLS_DETAIL:
        told = f"{told}: {event.detail}"
    if event.rule and event.rule not in told:
        told = f"{told} [{event.rule}]"
    return told


def line(event: LedgerEvent, *, since_ms: int | None = None) -> str:
    """One event as a line of a list, with its time (or the time that has passed since) and its writer."""
    when = moment(event.time_ms) if since_ms is None else f"{(event.time_ms - since_ms) / 1000:+8.3f} s"
    who = f"node {event.node:<4}" if event.node >= 0 else "outside  "
    return f"{when}  {who} {sentence(event)}"


def moment(time_ms: int) -> str:
    """A time as a date; as the number that it is where no calendar has it."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def _partition(event: LedgerEvent) -> str:
    return f"{event.topic}-{event.partition}"


def _leader(event: LedgerEvent) -> str:
    epochs = f"leader epoch {event.leader_epoch}"
    if event.leader_epoch_before >= 0:
        epochs = f"leader epoch {event.leader_epoch_before} -> {event.leader_epoch}"
    who = f"is led by {event.leader}" if event.leader >= 0 else "has no leader"
    return f"{_partition(event)} {who}, {epochs}, ISR {_isr(event)}"


def _isr(event: LedgerEvent) -> str:
    after = list(event.isr)
    return (
        f"{list(event.isr_before)} -> {after}"
        if event.isr_before and event.isr_before != event.isr
        else str(after)
    )


def _verdict(event: LedgerEvent) -> str:
    about = f" {_partition(event)}" if event.topic else ""
    whom = f" broker {event.broker}" if event.broker >= 0 else ""
    error = f" with {event.error}" if event.error and event.error != "NONE" else ""
    return (
        f"{event.rule} {event.verdict}{whom}{about}{error}: given {event.given}, expected {event.expected}"
        + (f" ({event.detail})" if event.detail else "")
    )


def _broker(words: str) -> Callable[[LedgerEvent], str]:
    return lambda event: f"broker {event.broker} (generation {event.broker_epoch}) {words}"


def _config(event: LedgerEvent) -> str:
    whose = (
        f"topic {event.topic}" if event.topic else f"broker {event.broker}" if event.broker >= 0 else "all"
    )
    return f"{event.given} was set for {whose}"


def _as_it_is(event: LedgerEvent) -> str:
    about = f" {_partition(event)}" if event.topic and event.partition >= 0 else f" {event.topic}".rstrip()
    whom = f" broker {event.broker}" if event.broker >= 0 else ""
    return f"{event.kind}{about}{whom}"


_TELLS_DETAIL = frozenset({"verdict", "fault"})
_TELLERS: dict[str, Callable[[LedgerEvent], str]] = {
    "registered": lambda event: f"broker {event.broker} registered as generation {event.broker_epoch}",
    "unregistered": _broker("was unregistered"),
    "fenced": _broker("was fenced"),
    "unfenced": _broker("was unfenced"),
    "stopping": _broker("began its controlled shutdown"),
    "self-fenced": _broker("fenced itself"),
    "self-unfenced": _broker("reached the controller again and serves"),
    "fenced-by-controller": _broker("heard that it is fenced"),
    "unfenced-by-controller": _broker("heard that it is unfenced"),
    "stale": _broker("heard that its generation is over"),
    "ended": _broker("ended"),
    "leader": _leader,
    "isr": lambda event: f"{_partition(event)} ISR {_isr(event)}, partition epoch {event.partition_epoch}",
    "isr-proposed": lambda event: f"leader {event.leader} asked for ISR {_isr(event)} of {_partition(event)}",
    "fault": lambda event: f"somebody {event.detail}",
    "config": _config,
    "topic-created": lambda event: f"topic {event.topic} was created",
    "topic-deleted": lambda event: f"topic {event.topic} was deleted",
    "level": lambda event: f"level {event.expected} -> {event.given}",
    "active": lambda event: "the controller is active",
    "verdict": _verdict,
}

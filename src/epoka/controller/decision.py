"""What a handler decides: records to write, what to answer when they are written, what to tell the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from epoka.fencing import Verdict
from epoka.model.ledger import LedgerEvent
from epoka.model.records import MetadataRecord


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Nothing in it has happened yet. Without records there is nothing to write."""

    response: Any = None
    records: Sequence[MetadataRecord] = ()
    rule: str = ""
    """The rule on which the records rest; the ledger names it with every change they make."""
    because: str = ""
    events: Sequence[LedgerEvent] = ()
    """What the records don't tell: refusals above all."""


def refusal(verdict: Verdict, **about: Any) -> LedgerEvent:
    """The ledger's line for a verdict that refuses."""
    return LedgerEvent(
        kind="verdict",
        rule=verdict.rule,
        verdict="refused",
        error=verdict.error.name if verdict.error else "",
        given=verdict.given,
        expected=verdict.expected,
        detail=verdict.reason,
        **about,
    )

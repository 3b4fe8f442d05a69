"""What the group coordinator asks of the core around it."""

from __future__ import annotations

from typing import Any

import msgspec

Entry = tuple[bytes, bytes | None]
"""Key and value of one record of `__consumer_offsets`; no value is a tombstone."""


class Answer(msgspec.Struct, frozen=True):
    """Answer the waiting request `token`."""

    token: int
    message: Any


class Store(msgspec.Struct, frozen=True):
    """Append to `__consumer_offsets-<partition>`; call `stored(ticket, ...)` when it is committed or refused.

    Appends to one partition must take place in the order of their tickets.
    """

    partition: int
    records: tuple[Entry, ...]
    ticket: int


GroupEffect = Answer | Store

"""Who still waits for an answer, and what still waits for the log.

Every request is opened once and answered once: a second answer is our bug and raises. An answer to a client
that has gone is dropped. A store leaves something behind to go on with when its ticket comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from epoka.broker.groups.effects import Answer, Entry, GroupEffect, Store
from epoka.model.errors import InvariantBroken


class Waiting(msgspec.Struct, frozen=True):
    """A request that is answered later, and the version it was asked in."""

    token: int
    version: int


class Continuation(msgspec.Struct, frozen=True):
    """What goes on when a store has come to its end; each kind of store has its own."""

    partition: int


class Outbox:
    def __init__(self) -> None:
        self._effects: list[GroupEffect] = []
        self._open: dict[int, bool] = {}
        """The requests without an answer; False when their client has gone."""
        self._tickets: dict[int, Continuation | None] = {}
        self._last_ticket = 0

    def open(self, token: int) -> None:
        if token in self._open:
            raise InvariantBroken(f"request {token} was handed in twice")
        self._open[token] = True

    def answer(self, token: int, message: Any) -> None:
        connected = self._open.pop(token, None)
        if connected is None:
            raise InvariantBroken(f"request {token} was answered twice", f"the second answer: {message}")
        if connected:
            self._effects.append(Answer(token, message))

    def disconnected(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            if token in self._open:
                self._open[token] = False

    @property
    def waiting(self) -> frozenset[int]:
        return frozenset(self._open)

    def store(
        self,
        partition: int,
        records: Sequence[Entry],
        continuation: Callable[[int], Continuation] | None = None,
    ) -> int:
        """Append records; `continuation` makes from the ticket what `take` gives back."""
        self._last_ticket += 1
        ticket = self._last_ticket
        self._tickets[ticket] = None if continuation is None else continuation(ticket)
        self._effects.append(Store(partition, tuple(records), ticket))
        return ticket

    def take(self, ticket: int) -> Continuation | None:
        """What waited for this ticket; nothing if the partition was handed over in the meantime."""
        return self._tickets.pop(ticket, None)

    def take_partition(self, partition: int) -> list[Continuation]:
        """All that waited for the log of a partition that is being handed over."""
        left: list[Continuation] = []
        for ticket, continuation in list(self._tickets.items()):
            if continuation is not None and continuation.partition == partition:
                del self._tickets[ticket]
                left.append(continuation)
        return left

    def drain(self) -> list[GroupEffect]:
        effects, self._effects = self._effects, []
        return effects

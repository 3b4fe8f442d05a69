"""The ledger in memory, bounded and sorted into what the pages ask for. Decides nothing.

One thread adds, any thread reads. When there is too much, the oldest quarter is forgotten.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from epoka.ledger.telling import sentence
from epoka.ledger.why import PLACEMENT, Answer, History, Step
from epoka.model.ledger import LedgerEvent

MOST_EVENTS: Final = 200_000
MOST_CAUSED: Final = 50
"""Changes of one partition whose causes are looked for; older ones are told without."""
REFUSALS: Final = ("refused", "ignored")
LIFE: Final = frozenset(
    {
        "registered",
        "unregistered",
        "fenced",
        "unfenced",
        "stopping",
        "ended",
        "stale",
        "self-fenced",
        "self-unfenced",
        "active",
        "fault",
        "storage-failed",
    }
)
"""Kinds that the time line is drawn from."""


class Chronicle:
    def __init__(self, most_events: int = MOST_EVENTS) -> None:
        self._most = most_events
        self._lock = threading.Lock()
        self._events: list[LedgerEvent] = []
        self._history: tuple[int, History] | None = None
        self._sort_anew([])
        self.forgotten = 0
        self.version = 0
        """Grows with every change."""

    def add(self, events: Sequence[LedgerEvent]) -> None:
        if not events:
            return
        with self._lock:
            self._events.extend(events)
            self.version += 1
            if len(self._events) > self._most:
                kept = self._events[-self._most * 3 // 4 :]
                self.forgotten += len(self._events) - len(kept)
                self._sort_anew(kept)
            else:
                self._sort(events)

    def __len__(self) -> int:
        return len(self._events)

    def life_events(self) -> list[LedgerEvent]:
        """What the time line is drawn from, oldest first."""
        with self._lock:
            return sorted(self._life, key=lambda each: (each.time_ms, each.node, each.event_id))

    def last_standing(self) -> dict[int, LedgerEvent]:
        """The controller's last word on every broker."""
        with self._lock:
            return dict(self._standing)

    def verdicts(
        self, fits: Callable[[LedgerEvent], bool], page: int, size: int
    ) -> tuple[list[LedgerEvent], int]:
        """One page of the verdicts that fit, newest first, and how many fit."""
        with self._lock:
            newest = list(reversed(self._verdicts))
        found = [event for event in newest if fits(event)]
        return found[page * size : (page + 1) * size], len(found)

    def rules(self) -> list[str]:
        """Every rule that a verdict names."""
        with self._lock:
            return sorted({event.rule for event in self._verdicts if event.rule})

    def refusals(self) -> int:
        with self._lock:
            return self._refusals

    def find(self, node: int, event_id: int) -> LedgerEvent | None:
        history = self._told()
        return next((e for e in reversed(history.events) if (e.node, e.event_id) == (node, event_id)), None)

    def why(self, event: LedgerEvent) -> list[Step]:
        return list(self._told().chain(event))

    def why_broker(self, broker: int) -> Answer:
        return self._told().why_broker(broker)

    def partition_history(
        self, topic: str, partition: int, most: int = 200
    ) -> list[tuple[LedgerEvent, list[Step]]]:
        """Every change of a partition, newest first, the first ones with the chain that led to each."""
        history = self._told()
        with self._lock:
            changes = self._placements.get((topic, partition), ())
            newest = list(islice(reversed(changes), most))
        return [
            (event, list(history.chain(event))[1:] if at < MOST_CAUSED else [])
            for at, event in enumerate(newest)
        ]

    def _told(self) -> History:
        with self._lock:
            version, events = self.version, list(self._events)
            known = self._history
        if known is not None and known[0] == version:
            return known[1]
        history = History(events)
        with self._lock:
            self._history = (version, history)
        return history

    def _sort_anew(self, events: list[LedgerEvent]) -> None:
        self._events = events
        self._life: deque[LedgerEvent] = deque()
        self._verdicts: list[LedgerEvent] = []
        self._placements: dict[tuple[str, int], list[LedgerEvent]] = {}
        self._standing: dict[int, LedgerEvent] = {}
        self._refusals = 0
        self._sort(events)

    def _sort(self, events: Iterable[LedgerEvent]) -> None:
        for event in events:
            if event.kind == "verdict":
                self._verdicts.append(event)
                self._refusals += event.verdict in REFUSALS
            elif event.kind in PLACEMENT:
                self._placements.setdefault((event.topic, event.partition), []).append(event)
            elif event.kind in LIFE:
                self._life.append(event)
                if event.kind in ("registered", "fenced", "unfenced", "stopping", "unregistered"):
                    self._standing[event.broker] = event


def told(event: LedgerEvent) -> dict[str, Any]:
    """An event for the page: its fields and its sentence. Kinds that nobody knows are told as they are."""
    return {**msgspec.to_builtins(event), "text": sentence(event)}


def told_steps(steps: Iterable[Step]) -> list[dict[str, Any]]:
    return [{"depth": step.depth, **told(step.event)} for step in steps]

"""How long messages take: the everyday delay of a run, and what a fault adds to it."""

from __future__ import annotations

from random import Random
from typing import Any


class Weather:
    def __init__(self, rng: Random, spread_ms: int = 0, spike_chance: float = 0.0) -> None:
        self.rng = rng
        self.spread_ms = spread_ms
        """Every message takes up to so much more than a millisecond."""
        self.spike_chance = spike_chance
        self.slow_links: dict[tuple[int, int], int] = {}
        self.slow_messages: dict[str, int] = {}

    def delay(self, sender: int, receiver: int, message: Any) -> int:
        ms, spread_ms = 1, self.spread_ms
        if spread_ms:
            draw = self.rng.random()
            ms += int(draw * spread_ms)
            if draw < self.spike_chance:
                ms += 30 + int(self.rng.random() * 120)
        if self.slow_links:
            ms += self.slow_links.get((sender, receiver), 0) or self.slow_links.get((receiver, sender), 0)
        if self.slow_messages:
            ms += self.slow_messages.get(type(message).__name__, 0)
        return ms

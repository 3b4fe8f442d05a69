"""What a benchmark reports: one measurement beside its peer, and what was aimed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """One row of the table."""

    name: str
    unit: str
    ours: float
    peer_name: str
    peer: float
    ratio: float
    aim: float | None = None
    at_most: bool = True
    """Whether the ratio should stay below the aim, or reach it."""
    spread: tuple[float, float] | None = None
    """The lowest and the highest ratio of a round, where rounds were compared one by one."""
    binding: bool = True
    """Whether to miss the aim is a failure. One that is known to be out of reach is told, and no more."""

    @property
    def met(self) -> bool | None:
        if self.aim is None:
            return None
        return self.ratio <= self.aim if self.at_most else self.ratio >= self.aim


def beside(
    name: str, unit: str, ours: float, peer_name: str, peer: float, *, at_most: float | None = None
) -> Figure:
    """How many times the peer's figure ours is, where less is better."""
    return Figure(name, unit, ours, peer_name, peer, ours / peer, at_most)


def paired(
    name: str,
    unit: str,
    ours: Sequence[float],
    peer_name: str,
    peer: Sequence[float],
    *,
    at_most: float | None = None,
) -> Figure:
    """As `beside`, for rounds measured next to each other: the ratio is the median of the rounds' ratios.

    What disturbs a machine for a minute disturbs both sides of a round; the spread says how much was left.
    """
    ratios = [mine / theirs for mine, theirs in zip(ours, peer, strict=True)]
    return Figure(
        name,
        unit,
        median(ours),
        peer_name,
        median(peer),
        median(ratios),
        at_most,
        spread=(min(ratios), max(ratios)),
    )


def faster_than_kio(row: Mapping[str, Any]) -> Figure:
    """A row of the codec benchmark, where more is better."""
    name, _, unit = str(row["name"]).rpartition(", ")
    return Figure(name, unit, row["ours"], "kio", row["peer"], row["ratio"], row["aim"], at_most=False)

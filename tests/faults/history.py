"""What writers sent and readers saw of one topic, and every way in which that can be wrong.

Each value is written once. The names of the anomalies are those of Jepsen's Kafka checkers. Looks at plain
values and knows no client, so that each anomaly can be planted in a test of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Place = tuple[int, int]
"""Partition and offset."""

NO_OFFSET = -1
"""The offset of a value that is known to be written, but not where: librdkafka says so of one whose answer
was lost when a later batch of the same producer has been acknowledged."""


@dataclass
class History:
    """What happened, as the clients tell it."""

    sent: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Every value that was handed to the producer, by partition, in its order."""
    acknowledged: list[tuple[int, int, str]] = field(default_factory=list)
    """Partition, offset and value of every acknowledgement; see NO_OFFSET."""
    refused: list[str] = field(default_factory=list)
    """Values that were never written, as the producer was told for certain."""
    uncertain: list[str] = field(default_factory=list)
    """Values that the producer gave up on without knowing."""
    reads: list[list[tuple[int, int, str]]] = field(default_factory=list)
    """What each reader saw from its beginning to its end, in its order."""


@dataclass(frozen=True)
class Anomaly:
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


def anomalies(history: History) -> list[Anomaly]:
    """Everything that is wrong with a history; the last reader is held to have read up to the end."""
    return [Anomaly(name, detail) for check in CHECKS for name, detail in check(history)]


def summary(found: Sequence[Anomaly], most: int = 5) -> str:
    """How many of each kind, and the first few in full."""
    counts = Counter(each.name for each in found)
    lines = [f"{count} {name}" for name, count in counts.items()]
    for name in counts:
        lines += [f"  {each}" for each in [a for a in found if a.name == name][:most]]
    return "\n".join(lines)


Found = Iterator[tuple[str, str]]


def _everywhere(history: History) -> Iterable[tuple[int, int, str]]:
    yield from (each for each in history.acknowledged if each[1] != NO_OFFSET)
    for read in history.reads:
        yield from read


def _inconsistent_offsets(history: History) -> Found:
    """One offset, two values."""
    values: dict[Place, set[str]] = defaultdict(set)
    for partition, offset, value in _everywhere(history):
        values[partition, offset].add(value)
    for place, found in values.items():
        if len(found) > 1:
            yield "inconsistent-offsets", f"{place} held {sorted(found)}"


def _duplicates(history: History) -> Found:
    """One value at two places."""
    places: dict[str, set[Place]] = defaultdict(set)
    for partition, offset, value in _everywhere(history):
        places[value].add((partition, offset))
    for value, found in places.items():
        if len(found) > 1:
            yield "duplicate", f"{value} is at {sorted(found)}"


def _lost(history: History) -> Found:
    """Acknowledged and not there at the end: passed over by the last reader, or beyond what it saw."""
    last = history.reads[-1] if history.reads else []
    seen = {*last, *((partition, NO_OFFSET, value) for partition, _, value in last)}
    ends: dict[int, int] = defaultdict(lambda: -1)
    for partition, offset, _ in last:
        ends[partition] = max(ends[partition], offset)
    for partition, offset, value in history.acknowledged:
        if (partition, offset, value) not in seen:
            name = "lost-write" if offset <= ends[partition] else "unseen"
            yield name, f"{value} was acknowledged at {(partition, offset)}"


def _invented(history: History) -> Found:
    """Read, though refused or never sent."""
    refused = set(history.refused)
    sent = {value for values in history.sent.values() for value in values}
    for read in history.reads:
        for partition, offset, value in read:
            if value in refused:
                yield "aborted-read", f"{value}, which was refused, is at {(partition, offset)}"
            elif value not in sent:
                yield "unknown-read", f"{value}, which nobody sent, is at {(partition, offset)}"


def _order_of_sending(history: History) -> Found:
    """Two values of one producer in one partition, the later one before the earlier."""
    ranks = {
        value: (partition, rank)
        for partition, values in history.sent.items()
        for rank, value in enumerate(values)
    }
    offsets: dict[int, dict[int, int]] = defaultdict(dict)
    for partition, offset, value in _everywhere(history):
        meant, rank = ranks.get(value, (partition, -1))
        if meant != partition:
            yield "wrong-partition", f"{value}, sent to partition {meant}, is at {(partition, offset)}"
        elif rank >= 0:
            offsets[partition][rank] = offset
    for partition, by_rank in offsets.items():
        highest = -1
        for rank in sorted(by_rank):
            if by_rank[rank] < highest:
                value = history.sent[partition][rank]
                yield "nonmonotonic-send", f"{value} is at {(partition, by_rank[rank])}, before its elders"
            highest = max(highest, by_rank[rank])


def _order_of_reading(history: History) -> Found:
    """A reader that goes back, or passes over what is known to be there."""
    known: dict[int, set[int]] = defaultdict(set)
    for partition, offset, _ in _everywhere(history):
        known[partition].add(offset)
    for number, read in enumerate(history.reads):
        position: dict[int, int] = {}
        for partition, offset, _ in read:
            before = position.get(partition)
            if before is not None and offset <= before:
                yield "nonmonotonic-poll", f"reader {number} went from {before} to {offset} in {partition}"
            elif before is not None:
                missed = [each for each in range(before + 1, offset) if each in known[partition]]
                if missed:
                    yield "poll-skip", f"reader {number} passed over {missed} in {partition}"
            position[partition] = offset


CHECKS = (
    _inconsistent_offsets,
    _duplicates,
    _lost,
    _invented,
    _order_of_sending,
    _order_of_reading,
)

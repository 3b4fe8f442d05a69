"""What clients did and saw, and the anomalies in it: the part of the truth that users would notice.

Each value is sent once by one producer (an idempotent one may send it again, under the same number). The
names of the anomalies are Jepsen's. Offsets that the last-replica exception has taken are forgiven and only
those.
"""

from __future__ import annotations

from typing import Final

import msgspec

from epoka.sim.oracle import Key
from epoka.wire.error_codes import ErrorCode

DEFINITE: Final = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_RECORD,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""Answers that are given before anything is appended; every other failure may have been a success."""


class Sent(msgspec.Struct):
    """One value on its way."""

    value: bytes
    key: Key
    producer: int
    acks: int
    idempotent: bool
    order: int
    """Its place among the values of its producer and partition."""
    offset: int = -1
    """Where it was acknowledged; -1 not (yet)."""
    failed: bool = False
    """Definitely not written."""
    attempts: int = 0


class History:
    def __init__(self) -> None:
        self.sent: dict[bytes, Sent] = {}
        self.read: dict[Key, dict[int, bytes]] = {}
        """Offset to value, as any consumer has seen it."""
        self.acked = 0
        self._counts: dict[tuple[Key, int], int] = {}
        self._forgiven: dict[Key, int] = {}

    def sends(self, value: bytes, key: Key, producer: int, acks: int, idempotent: bool) -> Sent:
        order = self._counts[key, producer] = self._counts.get((key, producer), 0) + 1
        sent = self.sent[value] = Sent(value, key, producer, acks, idempotent, order)
        return sent

    def acknowledged(self, sent: Sent, offset: int) -> None:
        sent.offset = offset
        self.acked += 1

    def reads(self, key: Key, offset: int, value: bytes) -> str | None:
        """Take in one record that a consumer got; the anomaly, if it is one."""
        seen = self.read.setdefault(key, {})
        known = seen.setdefault(offset, value)
        if known != value:
            return f"inconsistent-offsets: offset {offset} was {known!r} and is {value!r}"
        sent = self.sent.get(value)
        if sent is None:
            return f"phantom-read: nobody sent {value!r}"
        if sent.failed:
            return f"aborted-read: {value!r} at offset {offset} was refused for good"
        if sent.offset >= 0 and sent.acks == -1 and sent.offset != offset and sent.idempotent:
            return f"duplicate: {value!r} was acknowledged at {sent.offset} and is at {offset}"
        return None

    def excuse(self, key: Key, offset: int) -> None:
        """What was at or behind this offset is gone by the stated exception."""
        self._forgiven[key] = min(offset, self._forgiven.get(key, offset))
        self.read[key] = {at: value for at, value in self.read.get(key, {}).items() if at < offset}
        for sent in self.sent.values():
            if sent.key == key and sent.offset >= offset:
                sent.acks = 1
                sent.idempotent = False

    def forget(self, key: Key) -> None:
        """The topic was deleted: nothing is owed any more."""
        self.read.pop(key, None)
        self.sent = {value: sent for value, sent in self.sent.items() if sent.key != key}

    def anomalies(self) -> list[str]:
        """At the end, when everything has been read from the beginning."""
        found: list[str] = []
        for key, seen in self.read.items():
            found += self._order(key, seen)
        for sent in self.sent.values():
            if sent.acks != -1 or sent.offset < 0 or sent.offset >= self._forgiven.get(sent.key, 1 << 62):
                continue
            seen = self.read.get(sent.key, {})
            if seen.get(sent.offset) != sent.value:
                kind = "lost-write" if seen and max(seen) > sent.offset else "unseen"
                found.append(
                    f"{kind}: {sent.value!r} was acknowledged at offset {sent.offset}, "
                    f"where {seen.get(sent.offset)!r} is"
                )
        return found

    def _order(self, key: Key, seen: dict[int, bytes]) -> list[str]:
        found: list[str] = []
        places: dict[bytes, int] = {}
        last: dict[int, int] = {}
        forgiven = self._forgiven.get(key, 1 << 62)
        for offset in sorted(seen):
            value = seen[offset]
            sent = self.sent.get(value)
            if sent is None or not sent.idempotent or offset >= forgiven:
                continue
            if value in places:
                found.append(f"duplicate: {value!r} is at {places[value]} and at {offset}")
            places[value] = offset
            if sent.order <= last.get(sent.producer, 0):
                found.append(f"nonmonotonic-send: {value!r} at {offset} comes behind a later one")
            last[sent.producer] = sent.order
        return found

"""Who has been heard of, when, and how far they have read: the controller's soft state.

It is not in the log. A controller that starts gives every unfenced broker a fresh session, so a failover can
delay a fencing by one timeout but never causes one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import msgspec

from epoka.model.ids import BrokerEpoch, BrokerId


class Session(msgspec.Struct):
    epoch: BrokerEpoch
    contact_ms: int
    metadata_offset: int = -1
    shutdown_offset: int | None = None
    """The last offset written when the broker began to stop. Set once: a target that moves is never
    reached in a busy cluster (KAFKA-14292)."""
    beats: bool = True
    """False for a broker whose liveness is its registration alone: its silence means nothing."""


class Sessions:
    """The sessions of brokers that have been heard of and not been fenced since."""

    def __init__(self) -> None:
        self._sessions: dict[BrokerId, Session] = {}
        self._by_contact: list[tuple[int, BrokerId]] = []
        """A heap. Contact only moves on, so an entry may be too early and never too late: the first one is
        looked at again until it is right, and a thousand heartbeats a second sort nothing."""
        self._entries: dict[BrokerId, int] = {}
        """The contact in the one entry of each broker that counts."""

    def get(self, broker_id: int) -> Session | None:
        return self._sessions.get(broker_id)  # type: ignore[call-overload, no-any-return]

    def heard(
        self, broker_id: BrokerId, epoch: BrokerEpoch, now: int, metadata_offset: int | None = None
    ) -> None:
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = Session(epoch, now, beats=False)
        session.contact_ms = max(session.contact_ms, now)
        if not session.beats:
            session.beats = True
            self._enter(broker_id, session.contact_ms)
        if metadata_offset is not None:
            session.metadata_offset = metadata_offset

    def attend(self, broker_id: BrokerId, epoch: BrokerEpoch, now: int) -> None:
        """A session without heartbeats, unless there is one with them."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            self._sessions[broker_id] = Session(epoch, now, beats=False)

    def begin_shutdown(self, broker_id: BrokerId, offset: int) -> None:
        session = self._sessions[broker_id]
        if session.shutdown_offset is None:
            session.shutdown_offset = offset

    def forgive(self, ms: int) -> None:
        """Time in which the controller did not listen is nobody's silence."""
        for session in self._sessions.values():
            session.contact_ms += ms

    def drop(self, broker_id: int) -> None:
        """Forget the broker: it is fenced, gone, or has been let go."""
        self._sessions.pop(BrokerId(broker_id), None)
        self._entries.pop(BrokerId(broker_id), None)

    def stopping(self, broker_id: int) -> bool:
        session = self.get(broker_id)
        return session is not None and session.shutdown_offset is not None

    def by_silence(self) -> Iterator[tuple[int, BrokerId]]:
        """Contact time and id, the longest silent first; ids decide between equals."""
        first = self.longest_silent()
        if first is None:
            return
        yield first
        yield from sorted(
            (session.contact_ms, broker_id)
            for broker_id, session in self._sessions.items()
            if session.beats and broker_id != first[1]
        )

    def longest_silent(self) -> tuple[int, BrokerId] | None:
        """The first of `by_silence`."""
        heap = self._by_contact
        while heap:
            contact_ms, broker_id = heap[0]
            session = self._sessions.get(broker_id)
            if session is None or not session.beats or self._entries.get(broker_id) != contact_ms:
                heapq.heappop(heap)
            elif session.contact_ms != contact_ms:
                self._entries[broker_id] = session.contact_ms
                heapq.heapreplace(heap, (session.contact_ms, broker_id))
            else:
                return heap[0]
        return None

    def _enter(self, broker_id: BrokerId, contact_ms: int) -> None:
        self._entries[broker_id] = contact_ms
        heapq.heappush(self._by_contact, (contact_ms, broker_id))

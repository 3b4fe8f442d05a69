"""Who has been heard of, when, and how far they have read: the controller's soft state.

It is not in the log. A controller that starts gives every unfenced broker a fresh session, so a failover can
delay a fencing by one timeout but never causes one.
"""

from __future__ import annotations

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

    def get(self, broker_id: int) -> Session | None:
        return self._sessions.get(BrokerId(broker_id))

    def heard(
        self, broker_id: BrokerId, epoch: BrokerEpoch, now: int, metadata_offset: int | None = None
    ) -> None:
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = Session(epoch, now)
        session.beats = True
        session.contact_ms = max(session.contact_ms, now)
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

    def stopping(self, broker_id: int) -> bool:
        session = self.get(broker_id)
        return session is not None and session.shutdown_offset is not None

    def by_silence(self) -> list[tuple[int, BrokerId]]:
        """Contact time and id, the longest silent first; ids decide between equals."""
        return sorted(
            (session.contact_ms, broker_id) for broker_id, session in self._sessions.items() if session.beats
        )

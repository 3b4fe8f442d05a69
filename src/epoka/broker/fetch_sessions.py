"""Fetch sessions (KIP-227): a consumer names its partitions once, and later only what changed.

The cache is bounded. When it is full a session that nobody used for two minutes makes room; if there is none,
the consumer gets session id 0 and goes on with full fetches.

Where ids begin comes from the incarnation: a consumer that goes on with a session of the life before must not
be served from one of this life.
"""

from __future__ import annotations

import uuid

import msgspec

from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.fetch import FetchPartition, FetchRequest

IDLE_MS = 120_000
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
MAX_ID = 0x7FFFFFFF

Key = tuple[object, int]
"""Topic (by id, or by name in old versions) and partition index."""


class Sent:
    """What a session's client was last told of a partition, so that only news is sent."""

    __slots__ = ("high_watermark", "log_start_offset", "request")

    def __init__(self, request: FetchPartition) -> None:
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1


class FetchSession:
    def __init__(self, session_id: int, by_id: bool) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.last_used_ms = 0
        self.partitions: dict[Key, Sent] = {}

    def update(self, request: FetchRequest) -> None:
        for topic in request.topics:
            name: object = topic.topic_id if self.by_id else topic.topic
            for partition in topic.partitions:
                key = (name, partition.partition)
                sent = self.partitions.get(key)
                if sent is None:
                    self.partitions[key] = Sent(partition)
                else:
                    sent.request = partition
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.by_id else forgotten.topic
            for index in forgotten.partitions:
                self.partitions.pop((name, index), None)

    def moved_to_end(self, key: Key) -> None:
        """A partition that had data goes behind the others, so that each gets its turn."""
        sent = self.partitions.pop(key, None)
        if sent is not None:
            self.partitions[key] = sent


class Fetching(msgspec.Struct, frozen=True):
    """What one request asks for once its session is known."""

    session: FetchSession | None
    incremental: bool
    partitions: list[tuple[Key, FetchPartition]]


class FetchSessions:
    def __init__(self, slots: int, incarnation_id: uuid.UUID) -> None:
        self.slots = slots
        self._sessions: dict[int, FetchSession] = {}
        self._next_id = incarnation_id.int % MAX_ID + 1

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, request: FetchRequest, version: int, now: int) -> Fetching | ErrorCode:
        by_id = version >= 13
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id:
                self._sessions.pop(request.session_id, None)
            session = self._open(by_id, now) if request.session_epoch == INITIAL_EPOCH else None
            if session is not None:
                session.update(request)
            return Fetching(session, False, _listed(request, by_id))
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = session.epoch + 1 if session.epoch < 0x7FFFFFFF else 1
        session.update(request)
        self._used(session, now)
        return Fetching(session, True, [(key, sent.request) for key, sent in session.partitions.items()])

    def _open(self, by_id: bool, now: int) -> FetchSession | None:
        if len(self._sessions) >= self.slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.last_used_ms < IDLE_MS:
                return None
            del self._sessions[oldest.session_id]
        session = FetchSession(self._next_id, by_id)
        self._next_id = self._next_id % MAX_ID + 1
        self._used(session, now)
        return session

    def _used(self, session: FetchSession, now: int) -> None:
        """The table is kept in the order of last use, so the first one is the idlest."""
        self._sessions.pop(session.session_id, None)
        self._sessions[session.session_id] = session
        session.last_used_ms = now


def _listed(request: FetchRequest, by_id: bool) -> list[tuple[Key, FetchPartition]]:
    return [
        ((topic.topic_id if by_id else topic.topic, partition.partition), partition)
        for topic in request.topics
        for partition in topic.partitions
    ]

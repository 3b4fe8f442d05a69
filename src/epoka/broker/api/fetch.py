"""Fetch: whole batches as they lie in the log, for consumers up to the high watermark, for followers all.

A follower comes through the control listener, names itself and its generation, and what it has read decides
about the ISR. A fetch of a dead generation is refused and changes nothing (`fetch.generation`, KAFKA-15221).
An onlooker, -2 as in Kafka, may read any replica up to the high watermark that this replica knows.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from epoka.broker.fetch_sessions import Fetching, Key
from epoka.broker.replica import Replica
from epoka.broker.waiting import FetchWait
from epoka.fencing import fetch as rules
from epoka.log.store import StorageError
from epoka.model.events import Request
from epoka.model.ids import ONLOOKER
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import fetch as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.FetchRequest
VERSIONS = (4, 17)

NO_RECORDS = b""
NO_ERROR = ErrorCode.NONE


def refuse(core: BrokerCore, request: Request) -> wire.FetchResponse:
    message: wire.FetchRequest = request.message
    return wire.FetchResponse(
        responses=tuple(
            wire.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=tuple(
                    _refused(each.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER) for each in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )


def handle(core: BrokerCore, request: Request, now: int) -> wire.FetchResponse | None:
    message: wire.FetchRequest = request.message
    replica_id = message.replica_state.replica_id if request.version >= 15 else message.replica_id
    if replica_id >= 0 and not request.peer.control:
        return wire.FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    fetching = core.sessions.resolve(message, request.version, now)
    if isinstance(fetching, ErrorCode):
        return wire.FetchResponse(error_code=fetching)
    answer = _Answer(core, request, fetching, replica_id)
    answer.admit(now)
    answer.read(now)
    if (
        message.max_wait_ms <= 0
        or answer.settled
        or not fetching.partitions
        or answer.size >= message.min_bytes
    ):
        return answer.response(now)
    answer.park(now)
    return None


class _Answer:
    """One fetch on its way to an answer: what may be read, what was read, and whether that is enough."""

    __slots__ = (
        "by_id",
        "core",
        "fetching",
        "message",
        "parts",
        "refused",
        "replica_id",
        "request",
        "settled",
        "size",
    )

    def __init__(self, core: BrokerCore, request: Request, fetching: Fetching, replica_id: int) -> None:
        self.core = core
        self.request = request
        self.message: wire.FetchRequest = request.message
        self.fetching = fetching
        self.replica_id = replica_id
        self.by_id = request.version >= 13
        self.size = 0
        self.settled = False
        """True once something must be told that no waiting improves: an error, a divergence, a new start."""
        self.parts: dict[Key, wire.FetchPartitionResponse] = {}
        self.refused: set[Key] = set()

    def _replica(self, key: Key) -> Replica | None:
        if self.by_id:
            return self.core.replicas.by_key.get(key)  # type: ignore[arg-type]
        return self.core.replicas.by_name.get(key)  # type: ignore[arg-type]

    def admit(self, now: int) -> None:
        """Let a follower's progress count, once a request; consumers have none."""
        if self.replica_id < 0:
            return
        core = self.core
        epoch = self.message.replica_state.replica_epoch if self.request.version >= 15 else -1
        for key, asked in self.fetching.partitions:
            replica = self._replica(key)
            if replica is None or core.replicas.leading(replica, asked.current_leader_epoch):
                continue
            leadership = replica.leadership
            assert leadership is not None
            follower = leadership.followers.get(self.replica_id)
            if follower is None:
                error = (
                    ErrorCode.UNKNOWN_LEADER_EPOCH
                    if asked.current_leader_epoch >= 0
                    else ErrorCode.NOT_LEADER_OR_FOLLOWER
                )
                self._refuse(key, asked, error)
                continue
            if core.image.level >= FeatureLevel.FETCH_EPOCHS:
                known = core.image.broker(self.replica_id)
                unfenced_epoch = None if known is None or known.fenced else known.epoch
                verdict = core.rules.ask(rules.generation, epoch, unfenced_epoch)
                if verdict.refused:
                    core.report_verdict(
                        verdict, now, broker=self.replica_id, topic=replica.topic, partition=replica.index
                    )
                    self._refuse(key, asked, verdict.error)
                    continue
            log = replica.log
            if not log.log_start_offset <= asked.fetch_offset <= log.end_offset or _divergence(
                replica, asked
            ):
                continue
            follower.fetched(epoch, asked.fetch_offset, log.end_offset, now, asked.log_start_offset)
            core.replicas.follower_fetched(replica, follower, now)
            if asked.log_start_offset < log.log_start_offset:
                self.settled = True

    def _refuse(self, key: Key, asked: wire.FetchPartition, error: ErrorCode) -> None:
        self.refused.add(key)
        self.settled = True
        self.parts[key] = _refused(asked.partition, error)

    def read(self, now: int) -> None:
        message = self.message
        left = min(message.max_bytes, self.core.config.fetch_max_bytes)
        self.size = 0
        for key, asked in self.fetching.partitions:
            if self.refused and key in self.refused:
                continue
            part = self._read_one(key, asked, left)
            self.parts[key] = part
            if part.records:
                size = len(part.records)
                self.size += size
                left -= size
            if part.error_code or part.diverging_epoch.epoch >= 0:
                self.settled = True

    def _read_one(self, key: Key, asked: wire.FetchPartition, left: int) -> wire.FetchPartitionResponse:
        index = asked.partition
        replica = self._replica(key)
        if replica is None:
            return _refused(index, self.core.replicas.missing(key[0], index))  # type: ignore[arg-type]
        error = self.core.replicas.leading(replica, asked.current_leader_epoch)
        if error and self.replica_id != ONLOOKER:
            return _refused(index, error)
        log = replica.log
        mark = replica.high_watermark
        divergence = _divergence(replica, asked)
        if divergence is not None and divergence.epoch >= 0:
            return wire.FetchPartitionResponse(
                partition_index=index,
                high_watermark=mark,
                last_stable_offset=mark,
                log_start_offset=log.log_start_offset,
                records=NO_RECORDS,
                diverging_epoch=divergence,
            )
        follower = self.replica_id >= 0
        start, end = log.log_start_offset, log.end_offset
        up_to = end if follower else mark
        offset = asked.fetch_offset
        if divergence is not None or not start <= offset <= end:
            # A follower is told where this log starts and ends, so that it can cut its own to fit.
            return wire.FetchPartitionResponse(
                partition_index=index,
                error_code=ErrorCode.OFFSET_OUT_OF_RANGE,
                high_watermark=end if follower else -1,
                log_start_offset=start if follower else -1,
                records=NO_RECORDS,
            )
        batches: bytes | memoryview | None = NO_RECORDS
        limit = min(asked.partition_max_bytes, left)
        if offset < up_to and (limit > 0 or self.size == 0):
            try:
                batches = log.read(offset, max(limit, 0), up_to, min_one=self.size == 0)
            except StorageError:
                # What is damaged is said and never skipped; the rest of the log can still be read.
                return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR)
        return wire.FetchPartitionResponse(
            index, NO_ERROR, mark, mark, start, None, -1, batches or NO_RECORDS
        )

    def park(self, now: int) -> None:
        core = self.core
        wait = FetchWait(max(self.message.min_bytes - self.size, 1), self._finish)
        follower = self.replica_id >= 0
        for key, _ in self.fetching.partitions:
            replica = self._replica(key)
            if replica is not None:
                wait.file_under(replica.waits.tail if follower else replica.waits.committed)
        wait.deadline = core.deadlines.at(now + self.message.max_wait_ms, wait.end)
        core.wait(self.request, wait.cancel)

    def _finish(self) -> None:
        self.read(self.core.now)
        self.core.respond(self.request, self.response(self.core.now))

    def response(self, now: int) -> wire.FetchResponse:
        session = self.fetching.session
        topics: dict[object, list[wire.FetchPartitionResponse]] = {}
        for key, part in self.parts.items():
            if session is not None:
                sent = session.partitions.get(key)
                if sent is not None:
                    news = (
                        bool(part.records)
                        or part.error_code
                        or part.diverging_epoch.epoch >= 0
                        or sent.high_watermark != part.high_watermark
                        or sent.log_start_offset != part.log_start_offset
                    )
                    sent.high_watermark = part.high_watermark
                    sent.log_start_offset = part.log_start_offset
                    if part.records:
                        session.moved_to_end(key)
                    if self.fetching.incremental and not news:
                        continue
            topics.setdefault(key[0], []).append(part)
        by_id = self.by_id
        return wire.FetchResponse(
            session_id=0 if session is None else session.session_id,
            responses=tuple(
                wire.FetchableTopicResponse(
                    topic="" if by_id else name,  # type: ignore[arg-type]
                    topic_id=name if by_id else _NO_ID,  # type: ignore[arg-type]
                    partitions=tuple(parts),
                )
                for name, parts in topics.items()
            ),
        )


_NO_ID = uuid.UUID(int=0)


def _divergence(replica: Replica, asked: wire.FetchPartition) -> wire.DivergingEpoch | None:
    """Where the asker's log parts from this one, if it does (KIP-595); epoch -1 when nobody can tell."""
    if asked.last_fetched_epoch < 0:
        return None
    epoch, end_offset = replica.log.end_offset_for_epoch(asked.last_fetched_epoch)
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return wire.DivergingEpoch(epoch=epoch, end_offset=end_offset)
    return None


def _refused(index: int, error: ErrorCode) -> wire.FetchPartitionResponse:
    return wire.FetchPartitionResponse(
        partition_index=index, error_code=error, high_watermark=-1, records=NO_RECORDS
    )

"""Reads a range of one partition to its end, through leader changes and bounced brokers.

The next request is on its way while the last answer is decoded. Decides what an answer means: an offset that
the log no longer holds, a topic that is another one by now, a log that was cut back. Whether any of them is
fatal is the caller's to say. It must never move past an offset without having looked at its batch.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import msgspec

from epoka.client.cluster import EARLIEST, LATEST, ClusterClient, TopicView
from epoka.client.columns import ALL_FIELDS, Columns, aborted_in, decode, next_offset_of
from epoka.client.connection import Connection
from epoka.client.errors import ClientError, CorruptBatch, OffsetOutOfRange, Refused, TopicGone, Unreachable
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import WireError
from epoka.wire.messages import fetch as wire

NO_ID = uuid.UUID(int=0)
FIRST_VERSION_BY_ID = 13
OTHER_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})


def last_version(connection: Connection, topic: TopicView) -> int:
    """The highest version of Fetch by which this topic can be asked for."""
    return connection.version_for(wire.FetchRequest, None if topic.id.int else FIRST_VERSION_BY_ID - 1)


class Range(msgspec.Struct, frozen=True):
    """Offsets `first` to before `end` of one partition; with an id, of no other topic of that name."""

    topic: str
    partition: int
    first: int
    end: int
    topic_id: str = ""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class RangeReader:
    """One range, read once. `position` is where it stands; everything before it has been handed out."""

    def __init__(
        self,
        client: ClusterClient,
        wanted: Range,
        *,
        fields: int = ALL_FIELDS,
        patience_ms: int = 120_000,
    ) -> None:
        self.client = client
        self.wanted = wanted
        self.fields = fields
        self.patience_ms = patience_ms
        self.position = wanted.first
        self.log_start_offset = -1
        self._settings = client.settings
        self._replica = -1
        self._deadline = 0.0
        self._pause_s = 0.0
        self._max_bytes = self._settings.partition_fetch_bytes
        self._id = uuid.UUID(wanted.topic_id) if wanted.topic_id else NO_ID

    def columns(self) -> Iterator[Columns]:
        """The records of the range. Gaps are passed over; they are what compaction and transactions leave."""
        self._moved()
        asked: Connection | None = None
        while self.position < self.wanted.end:
            try:
                if asked is None:
                    asked = self._ask(self.position)
                answer = asked.take(wait_ms=self._settings.fetch_max_wait_ms)
                found = self._judge(answer)
            except (Unreachable, Refused) as error:
                asked = None
                self._replica = -1
                self._wait_for_better(error)
                continue
            records = memoryview(found.records or b"")
            following = self._next_offset(records)
            if following == self.position:
                asked = None
                if self._replica >= 0 and found.preferred_read_replica == self._replica:
                    continue
                self._make_room(records)
                continue
            first, self.position = self.position, following
            self._moved()
            chunks = decode(
                records,
                first,
                self.wanted.end,
                about=self.wanted.name,
                fields=self.fields,
                aborted=aborted_in(found),
                committed_only=bool(self._settings.isolation),
            )
            # The answer lies in the connection's only buffer: the next request may leave now, but its
            # answer is not taken before these records are decoded.
            asked = None
            if following < self.wanted.end:
                try:
                    asked = self._ask(following)
                except (Unreachable, Refused):
                    asked = None
            try:
                yield from chunks
            except BaseException:
                if asked is not None:
                    # Nobody will take its answer, and whoever asked next would take it for theirs.
                    asked.close()
                raise
            # How long the reader kept them is not the cluster's fault.
            self._moved()

    def peek(self, size: int) -> memoryview:
        """The batches at the beginning of the range as they lie in the log, about `size` bytes of them."""
        self._max_bytes = size
        answer = self._ask(self.position).take(wait_ms=self._settings.fetch_max_wait_ms)
        return memoryview(self._judge(answer).records or b"")

    def _ask(self, offset: int) -> Connection:
        topic, partition = self.wanted.topic, self.wanted.partition
        leader = self.client.leader(topic, partition)
        connection = leader if self._replica < 0 else self.client.node(self._replica)
        view = self.client.topic(topic)
        version = last_version(connection, view)
        if self._id == NO_ID:
            self._id = view.id
        elif view.id != self._id and view.id.int:
            raise TopicGone(f"{topic} is another topic by now: its id is {view.id}, it was {self._id}")
        connection.send(
            wire.FetchRequest(
                max_wait_ms=self._settings.fetch_max_wait_ms,
                min_bytes=self._settings.fetch_min_bytes,
                max_bytes=self._max_bytes,
                isolation_level=self._settings.isolation,
                topics=(
                    wire.FetchTopic(
                        topic=topic,
                        topic_id=self._id,
                        partitions=(
                            wire.FetchPartition(
                                partition=partition,
                                current_leader_epoch=self.client.leader_epoch(topic, partition),
                                fetch_offset=offset,
                                partition_max_bytes=self._max_bytes,
                            ),
                        ),
                    ),
                ),
                rack_id=self._settings.rack,
            ),
            version=version,
        )
        return connection

    def _judge(self, answer: wire.FetchResponse) -> wire.FetchPartitionResponse:
        what = f"fetch of {self.wanted.name} from offset {self.position}"
        if answer.error_code:
            raise Refused(what, ErrorCode.of(answer.error_code))
        if not answer.responses or not answer.responses[0].partitions:
            raise ClientError(f"{what}: the answer does not speak of it")
        found = answer.responses[0].partitions[0]
        code = ErrorCode.of(found.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._replica >= 0:
                # A follower may be behind; only the leader knows what the log holds.
                behind = f"replica {self._replica} does not hold it"
                raise Refused(what, ErrorCode.OFFSET_NOT_AVAILABLE, behind)
            raise self._out_of_range()
        if code in OTHER_TOPIC:
            # A broker that has not heard of a young topic says the same: fresh metadata tells them apart.
            self.client.refresh(self.wanted.topic)
        if code:
            self.client.forget(self.wanted.topic)
            raise Refused(what, code)
        if found.preferred_read_replica >= 0 and found.preferred_read_replica != self._replica:
            self._replica = found.preferred_read_replica
        self.log_start_offset = found.log_start_offset
        return found

    def _out_of_range(self) -> OffsetOutOfRange:
        key = (self.wanted.topic, self.wanted.partition)
        first = self.client.offsets({key: EARLIEST})[key].offset
        end = self.client.offsets({key: LATEST})[key].offset
        return OffsetOutOfRange(*key, self.position, first, end)

    def _next_offset(self, records: memoryview) -> int:
        try:
            following = next_offset_of(records, self.position)
        except WireError as error:
            raise CorruptBatch(f"{self.wanted.name}, at offset {self.position}: {error}") from error
        return max(following, self.position)

    def _make_room(self, records: memoryview) -> None:
        """Nothing whole came: there is nothing yet, or the first batch is larger than what was asked for."""
        if len(records):
            self._max_bytes = min(2 * self._max_bytes, 1 << 30)
        self._wait_for_better(Unreachable(f"{self.wanted.name} has nothing at offset {self.position}"))

    def _moved(self) -> None:
        self._deadline = time.monotonic() + self.patience_ms / 1000
        self._pause_s = self._settings.retry_backoff_ms / 1000

    def _wait_for_better(self, error: Unreachable | Refused) -> None:
        if isinstance(error, Refused) and not error.code.retriable:
            raise error
        if time.monotonic() + self._pause_s > self._deadline:
            what = f"fetch of {self.wanted.name} from offset {self.position}"
            raise Unreachable(f"{what}: gave up, the last answer was: {error}") from error
        self.client.forget(self.wanted.topic)
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s + 0.001, self._settings.retry_backoff_max_ms / 1000)

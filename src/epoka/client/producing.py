"""Writes record batches to partitions and waits until they are acknowledged, through leader changes.

At most one request to a broker and one batch of a partition are under way, so batches of a partition stay in
their order whatever fails. A batch that may have been written is sent again under the same identity: a
broker that has it already says where. Gives up only when the time is up, and then says what is not
acknowledged.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import msgspec

from epoka.client.batching import Identity
from epoka.client.cluster import ClusterClient, TopicPartition
from epoka.client.connection import Connection
from epoka.client.errors import ClientError, Refused, Unreachable, check
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import init_producer_id, produce

MOST_WAITING_BYTES = 32 << 20


class Outgoing(msgspec.Struct):
    """One batch on its way to one partition."""

    topic: str
    partition: int
    batch: bytearray
    count: int
    base_offset: int = -1

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class Acknowledged(msgspec.Struct, frozen=True):
    """What a partition has taken; offsets are -1 where no broker has told them."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    count: int


class BatchWriter:
    """`on_refused` is asked for other bytes when a batch is refused for good; without any it is raised."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        on_written: Callable[[Outgoing], None] = lambda _: None,
        on_refused: Callable[[Outgoing, ErrorCode], bytearray | None] = lambda *_: None,
    ) -> None:
        self.client = client
        self._settings = client.settings
        self._on_written = on_written
        self._on_refused = on_refused
        self._waiting: dict[TopicPartition, deque[Outgoing]] = {}
        self._waiting_bytes = 0
        self._asked: dict[int, tuple[Connection, list[Outgoing]]] = {}
        self._moved_s = time.monotonic()
        self._pause_s = 0.0
        self._taken: dict[TopicPartition, Acknowledged] = {}

    def add(self, outgoing: Outgoing) -> None:
        """Take a batch in; returns at once unless too much is waiting."""
        if not self._waiting_bytes:
            # As long as nothing was waiting, nobody was late.
            self._moved_s = time.monotonic()
        self._waiting.setdefault((outgoing.topic, outgoing.partition), deque()).append(outgoing)
        self._waiting_bytes += len(outgoing.batch)
        while self._waiting_bytes > MOST_WAITING_BYTES:
            self._step()

    def nudge(self) -> None:
        """Take answers that have come and send what can be sent, without waiting for either."""
        for node, (connection, _) in list(self._asked.items()):
            if connection.answered():
                self._take(node)
        self._send(only_free=True)

    def flush(self) -> None:
        """Until everything is acknowledged."""
        while self._waiting_bytes:
            self._step()

    def acknowledged(self) -> list[Acknowledged]:
        return [self._taken[key] for key in sorted(self._taken)]

    def _step(self) -> None:
        self._send(only_free=False)
        if not self._asked:
            self._rest(Unreachable("no partition has a leader"))
            return
        self._take(next(iter(self._asked)))

    def _take(self, node: int) -> None:
        connection, sent = self._asked.pop(node)
        try:
            # The broker was given as much time for its replicas as an answer may take to come.
            answer = connection.take(wait_ms=self._settings.request_timeout_ms)
            self._judge(answer, sent)
        except Unreachable as error:
            self._failed(sent, error)

    def _send(self, *, only_free: bool) -> None:
        """One request to every leader that has none under way."""
        by_node: dict[int, list[Outgoing]] = {}
        under_way = {(each.topic, each.partition) for _, sent in self._asked.values() for each in sent}
        for key, queue in self._waiting.items():
            if not queue or key in under_way:
                continue
            try:
                leader = self.client.leading(*key).leader
            except (Unreachable, Refused) as error:
                if not only_free:
                    self._failed([], error)
                continue
            if leader not in self._asked:
                by_node.setdefault(leader, []).append(queue[0])
        for node, batches in by_node.items():
            try:
                connection = self.client.node(node)
                request = _request(batches, self._settings.acks, self._settings.request_timeout_ms)
                if self._settings.acks == 0:
                    connection.send_silently(request)
                    for each in batches:
                        self._done(each)
                    continue
                connection.send(request)
            except Unreachable as error:
                self._failed(batches, error)
                continue
            self._asked[node] = (connection, batches)

    def _judge(self, answer: produce.ProduceResponse, sent: list[Outgoing]) -> None:
        told = {
            (topic.name, each.index): each for topic in answer.responses for each in topic.partition_responses
        }
        left = []
        for each in sent:
            found = told.get((each.topic, each.partition))
            if found is None:
                raise ClientError(f"the answer to a produce does not speak of {each.name}")
            code = ErrorCode.of(found.error_code)
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                each.base_offset = found.base_offset
                self._done(each)
            else:
                left.append((each, found, code))
        # A refusal may be the end of the writing: what the same answer takes is acknowledged before.
        for each, found, code in left:
            refusal = Refused(f"{each.name} refused the records", code, found.error_message)
            if code.retriable:
                self._failed([each], refusal)
                continue
            other = self._on_refused(each, code)
            if other is None:
                raise refusal
            self._waiting_bytes += len(other) - len(each.batch)
            each.batch = other

    def _done(self, each: Outgoing) -> None:
        key = (each.topic, each.partition)
        queue = self._waiting[key]
        assert queue[0] is each
        queue.popleft()
        self._waiting_bytes -= len(each.batch)
        self._moved_s = time.monotonic()
        self._pause_s = 0.0
        known = self._taken.get(key, Acknowledged(*key, -1, -1, 0))
        first, last = known.first_offset, known.last_offset
        if each.base_offset >= 0:
            first = each.base_offset if first < 0 else min(first, each.base_offset)
            last = max(last, each.base_offset + each.count - 1)
        self._taken[key] = Acknowledged(*key, first, last, known.count + each.count)
        self._on_written(each)

    def _failed(self, batches: list[Outgoing], error: Unreachable | Refused) -> None:
        for each in batches:
            self.client.forget(each.topic)
        self._rest(error)

    def _rest(self, error: Unreachable | Refused) -> None:
        if isinstance(error, Refused) and not error.code.retriable:
            raise error
        if time.monotonic() - self._moved_s > self._settings.delivery_timeout_ms / 1000:
            left = sorted(f"{topic}-{part}" for (topic, part), queue in self._waiting.items() if queue)
            raise Unreachable(f"not acknowledged in time: {', '.join(left)}; the last answer was: {error}")
        self._pause_s = min(
            2 * self._pause_s + self._settings.retry_backoff_ms / 1000,
            self._settings.retry_backoff_max_ms / 1000,
        )
        time.sleep(self._pause_s)


def new_identity(client: ClusterClient) -> Identity:
    """An identity that nobody else has; none where the cluster does not give any."""

    def ask() -> Identity:
        someone = client.anyone()
        if init_producer_id.InitProducerIdRequest.API_KEY not in someone.versions:
            return Identity()
        answer = someone.ask(
            init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        )
        check(answer.error_code, "no producer id was given")
        return Identity(answer.producer_id, answer.producer_epoch)

    return client.patiently("a producer id", ask)


def _request(batches: list[Outgoing], acks: int, timeout_ms: int) -> produce.ProduceRequest:
    topics: dict[str, list[produce.PartitionProduceData]] = {}
    for each in batches:
        topics.setdefault(each.topic, []).append(
            produce.PartitionProduceData(index=each.partition, records=memoryview(each.batch))
        )
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=tuple(
            produce.TopicProduceData(name=name, partition_data=tuple(parts)) for name, parts in topics.items()
        ),
    )

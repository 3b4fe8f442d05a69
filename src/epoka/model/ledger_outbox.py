"""Ledger events on their way to the topic `__epoka_ledger`, off the hot path and in bounds.

Both cores own one. Events wait here until the core sends them to the topic's leader in one produce request
with acks=all; what was not acknowledged is sent again, so a reader may see an event twice and tells it by its
node and event id. When nobody takes them the oldest go, and the next request says how many.
"""

from __future__ import annotations

from collections import deque

import msgspec

from epoka.model.ledger import LedgerEvent
from epoka.wire import records
from epoka.wire.messages import produce

TOPIC = "__epoka_ledger"
INTERVAL_MS = 250
RETRY_MS = 1_000
MOST_WAITING = 20_000
MOST_IN_A_REQUEST = 1_000
PRODUCE_VERSION = 9
TIMEOUT_MS = 5_000


class LedgerOutbox:
    def __init__(self) -> None:
        self._waiting: deque[LedgerEvent] = deque()
        self._in_flight: list[LedgerEvent] = []
        self._due: int | None = None
        self._dropped = 0
        self._encoder = msgspec.json.Encoder()

    def add(self, event: LedgerEvent, now: int) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(event)
        if self._due is None and not self._in_flight:
            self._due = now + INTERVAL_MS

    @property
    def due(self) -> int | None:
        """When the next request should leave."""
        return self._due

    def put_off(self, now: int) -> None:
        """Nobody could take them now."""
        self._due = now + RETRY_MS

    def request(self, now: int) -> produce.ProduceRequest | None:
        """The next request, if there is anything to send; its answer must come back through `answered`."""
        self._due = None
        if self._in_flight or not self._waiting:
            return None
        if self._dropped:
            note = LedgerEvent(kind="ledger-dropped", time_ms=now, detail=f"{self._dropped} events")
            self._waiting.appendleft(note)
            self._dropped = 0
        while self._waiting and len(self._in_flight) < MOST_IN_A_REQUEST:
            self._in_flight.append(self._waiting.popleft())
        batch = records.encode_batch(
            [
                records.Record(
                    offset=at, timestamp=event.time_ms, key=None, value=self._encoder.encode(event)
                )
                for at, event in enumerate(self._in_flight)
            ]
        )
        partition = produce.PartitionProduceData(index=0, records=memoryview(batch))
        return produce.ProduceRequest(
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=(produce.TopicProduceData(name=TOPIC, partition_data=(partition,)),),
        )

    def answered(self, answer: produce.ProduceResponse | None, now: int) -> None:
        taken = answer is not None and all(
            partition.error_code == 0 for topic in answer.responses for partition in topic.partition_responses
        )
        if taken:
            self._in_flight.clear()
            self._due = now + INTERVAL_MS if self._waiting else None
        else:
            self._waiting.extendleft(reversed(self._in_flight))
            self._in_flight.clear()
            self._due = now + RETRY_MS


def decode(value: bytes | memoryview) -> LedgerEvent:
    """An event as it was written into the topic."""
    return _DECODER.decode(value)


_DECODER = msgspec.json.Decoder(LedgerEvent)

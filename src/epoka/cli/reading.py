"""Reads records of a topic of any cluster: leaders, positions, aborted transactions, trying again.

Positions only go forwards. A leader that moved is looked up again; a record that is damaged ends the reading
with a line that names it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from epoka.cli.brokers import EARLIEST, LATEST, RETRY_S, Brokers, check
from epoka.cli.output import Failed, complain
from epoka.cluster.calls import CallFailed
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import WireError
from epoka.wire.messages.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic
from epoka.wire.records import (
    BatchHeader,
    ControlType,
    Record,
    control_type,
    crc_ok,
    decode_batch,
    headers,
)

MAX_BYTES = 16 * 1024 * 1024
PARTITION_BYTES = 1024 * 1024
WAIT_MS = 500
WAIT_AMONG_LEADERS_MS = 100
"""Leaders are asked one after the other, so none may keep the others waiting for long."""
COMMITTED = 1


class Reader:
    def __init__(
        self, brokers: Brokers, topic: str, positions: dict[int, int], *, committed: bool, patience_s: float
    ) -> None:
        self.positions = positions
        self.ends: dict[int, int] = {}
        """The end of each partition as its leader last told it."""
        self._brokers = brokers
        self._topic = topic
        self._committed = committed
        self._patience_s = patience_s
        self._leaders: dict[int, int] = {}
        self._topic_id = brokers.topic(topic).topic_id
        self._aborted: dict[int, set[int]] = {}

    def at_end(self, partition: int) -> bool:
        return partition in self.ends and self.positions[partition] >= self.ends[partition]

    def records(self, wanted: set[int]) -> Iterator[tuple[int, Record]]:
        """What the partitions have next, one round of asking; nothing when nothing has come."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                answers = self._ask_all(wanted)
                break
            except (CallFailed, _NotNow) as error:
                if time.monotonic() >= deadline:
                    raise Failed(f"{self._topic} cannot be read: {error}") from error
                self._leaders.clear()
                self._brokers.forget()
                time.sleep(RETRY_S)
        for answer in answers:
            for record in self._taken(answer):
                yield answer.partition_index, record

    def _ask_all(self, wanted: set[int]) -> list[FetchPartitionResponse]:
        if not self._leaders:
            known = self._brokers.leaders([self._topic])
            self._leaders = {partition: leader for (_, partition), leader in known.items()}
        leaders = sorted({self._leaders[partition] for partition in wanted})
        if leaders[0] < 0:
            raise _NotNow("a partition has no leader")
        wait_ms = WAIT_MS if len(leaders) == 1 else WAIT_AMONG_LEADERS_MS
        answers: list[FetchPartitionResponse] = []
        for leader in leaders:
            led = sorted(each for each in wanted if self._leaders[each] == leader)
            answers += self._ask(leader, led, 0 if answers else wait_ms)
        return answers

    def _ask(self, leader: int, partitions: list[int], wait_ms: int) -> list[FetchPartitionResponse]:
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            isolation_level=COMMITTED if self._committed else 0,
            topics=(
                FetchTopic(
                    topic=self._topic,
                    topic_id=self._topic_id,
                    partitions=tuple(
                        FetchPartition(
                            partition=each,
                            fetch_offset=self.positions[each],
                            partition_max_bytes=PARTITION_BYTES,
                        )
                        for each in partitions
                    ),
                ),
            ),
        )
        answer = self._brokers.broker(leader).ask(request)
        check(answer.error_code, None, f"{self._topic} cannot be read")
        found = [each for topic in answer.responses for each in topic.partitions]
        for each in found:
            code = ErrorCode.of(each.error_code)
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._go_back(each.partition_index)
            elif code.retriable:
                raise _NotNow(f"{self._topic}-{each.partition_index}: {code.message} ({code.name})")
            else:
                check(each.error_code, None, f"{self._topic}-{each.partition_index} cannot be read")
        return [each for each in found if not each.error_code]

    def _go_back(self, partition: int) -> None:
        """The log holds the position no more, or not any more that far."""
        at = (self._topic, partition)
        first = self._brokers.offsets({at: EARLIEST})[at]
        end = self._brokers.offsets({at: LATEST})[at]
        goal = first if self.positions[partition] < first else end
        complain(
            f"{self._topic}-{partition} holds offsets {first} to {end} and not {self.positions[partition]}; "
            f"going on at {goal}"
        )
        self.positions[partition] = goal

    def _taken(self, answer: FetchPartitionResponse) -> Iterator[Record]:
        partition = answer.partition_index
        self.ends[partition] = answer.last_stable_offset if self._committed else answer.high_watermark
        if self.ends[partition] < 0:
            self.ends[partition] = answer.high_watermark
        buffer = answer.records
        if not buffer:
            return
        aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
        open_: set[int] = set()
        try:
            for position, header in headers(buffer):
                if not crc_ok(buffer, position, header):
                    raise Failed(f"{self._topic}-{partition} is damaged at offset {header.base_offset}")
                while aborted and aborted[0][0] <= header.last_offset:
                    open_.add(aborted.pop(0)[1])
                if self._is_for_readers(buffer, position, header, open_):
                    for record in decode_batch(buffer, position, header):
                        if record.offset >= self.positions[partition]:
                            self.positions[partition] = record.offset + 1
                            yield record
                self.positions[partition] = max(self.positions[partition], header.next_offset)
        except WireError as error:
            raise Failed(
                f"{self._topic}-{partition} cannot be decoded at offset {self.positions[partition]}: {error}"
            ) from error

    def _is_for_readers(
        self, buffer: bytes | memoryview, position: int, header: BatchHeader, aborted: set[int]
    ) -> bool:
        if header.is_control:
            for record in decode_batch(buffer, position, header):
                if control_type(record) is ControlType.ABORT:
                    aborted.discard(header.producer_id)
            return False
        return not (self._committed and header.is_transactional and header.producer_id in aborted)


class _NotNow(Exception):
    """A broker said to ask again."""

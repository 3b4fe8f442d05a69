"""Writes records to a topic of any cluster: batches, leaders, sequence numbers, trying again.

A batch is sent until its leader has taken it, has it already, or has refused it for good. With acks=all the
producer is idempotent where the cluster can do it, so trying again never writes twice. Plain and blocking:
one request at a time, which a pipe is content with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from epoka.cli.brokers import RETRY_S, Brokers, check
from epoka.cli.output import Failed
from epoka.cluster.calls import CallFailed
from epoka.wire.compression import Codec
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.init_producer_id import InitProducerIdRequest
from epoka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from epoka.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from epoka.wire.records import Record, encode_batch

BATCH_BYTES = 900_000
"""Below what topics allow by default, with room for what a batch adds."""
REQUEST_TIMEOUT_MS = 30_000
IN_ALL = -1
SEQUENCES = 1 << 31

_THERE_ALREADY = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class Written(msgspec.Struct):
    """What one partition has taken so far."""

    records: int = 0
    first_offset: int = -1
    last_offset: int = -1


class Writer:
    def __init__(self, brokers: Brokers, topic: str, *, acks: int, codec: Codec, patience_s: float) -> None:
        self.written: dict[int, Written] = {}
        self._brokers = brokers
        self._topic = topic
        self._acks = acks
        self._codec = codec
        self._patience_s = patience_s
        self._leaders: dict[int, int] = {}
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}
        self._next_partition = 0

    @property
    def partitions(self) -> int:
        """How many partitions the topic has; asking for them makes it, where the cluster allows that."""
        if not self._leaders:
            self._until(lambda: None, self._learn)
        return len(self._leaders)

    def partition_for(self, key: bytes | None) -> int:
        """Where Java's producer would put a key; without one, each call takes the next partition."""
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % self.partitions
        self._next_partition = (self._next_partition + 1) % self.partitions
        return self._next_partition

    def write(self, records: dict[int, list[Record]]) -> None:
        """Write records to their partitions and wait until they are there; Failed if they never are."""
        for partition in records:
            if not 0 <= partition < self.partitions:
                raise Failed(f"{self._topic} has no partition {partition}; it has {self.partitions}")
        waiting = {partition: _batches(each) for partition, each in records.items() if each}
        while waiting:
            self._write_round({partition: batches.pop(0) for partition, batches in waiting.items()})
            waiting = {partition: batches for partition, batches in waiting.items() if batches}

    def _write_round(self, batches: dict[int, list[Record]]) -> None:
        """One batch a partition, until every one is taken."""
        encoded = {partition: self._encode(partition, batch) for partition, batch in batches.items()}

        def left() -> str | None:
            if encoded:
                return f"{self._topic}-{min(encoded)} was not written"
            return None

        def once() -> None:
            if any(self._leaders.get(partition, -1) < 0 for partition in encoded):
                self._learn()
            for leader in sorted({self._leaders[partition] for partition in encoded}):
                led = {p: encoded[p] for p in sorted(encoded) if self._leaders[p] == leader}
                for answer in self._ask(leader, led):
                    if self._taken(answer, len(batches[answer.index])):
                        del encoded[answer.index]

        self._until(left, once)

    def _until(self, left: Callable[[], str | None], once: Callable[[], None]) -> None:
        """Do it until nothing is left; Failed when the patience is at its end."""
        deadline = time.monotonic() + self._patience_s
        reason = ""
        while True:
            try:
                once()
                reason = left() or ""
                if not reason:
                    return
            except (CallFailed, _NotNow) as error:
                reason = str(error)
                self._leaders.clear()
                self._brokers.forget()
            if time.monotonic() >= deadline:
                raise Failed(f"{self._topic} cannot be written: {reason}")
            time.sleep(RETRY_S)

    def _learn(self) -> None:
        """Who leads the partitions."""
        wanted = MetadataRequest(topics=(MetadataRequestTopic(name=self._topic),))
        self._brokers.metadata(())
        (topic,) = self._brokers.any().ask(wanted).topics
        code = ErrorCode.of(topic.error_code)
        if code.retriable:
            raise _NotNow(f"{code.message} ({code.name})")
        check(topic.error_code, None, f"topic {self._topic}")
        self._leaders = {each.partition_index: each.leader_id for each in topic.partitions}
        if not self._leaders or min(self._leaders.values()) < 0:
            raise _NotNow("a partition has no leader")

    def _encode(self, partition: int, batch: Sequence[Record]) -> bytearray:
        producer_id, producer_epoch = self._identified()
        if producer_id < 0:
            return encode_batch(batch, codec=self._codec)
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + len(batch)) % SEQUENCES
        return encode_batch(
            batch,
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )

    def _identified(self) -> tuple[int, int]:
        """The producer's id and epoch, asked for once; none without acks=all."""
        if self._acks != IN_ALL:
            return -1, -1
        if self._identity is None:
            self._until(lambda: None, self._identify)
        assert self._identity is not None
        return self._identity

    def _identify(self) -> None:
        try:
            self._brokers.any().version_for(InitProducerIdRequest.API_KEY)
        except CallFailed:
            self._identity = (-1, -1)
            return
        answer = self._brokers.any().ask(InitProducerIdRequest())
        code = ErrorCode.of(answer.error_code)
        if code.retriable:
            raise _NotNow(f"{code.message} ({code.name})")
        check(answer.error_code, None, "no producer id was given")
        self._identity = (answer.producer_id, answer.producer_epoch)

    def _ask(self, leader: int, batches: dict[int, bytearray]) -> Sequence[PartitionProduceResponse]:
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=(
                TopicProduceData(
                    name=self._topic,
                    partition_data=tuple(
                        PartitionProduceData(index=partition, records=memoryview(batch))
                        for partition, batch in batches.items()
                    ),
                ),
            ),
        )
        answer = self._brokers.broker(leader).ask(request, timeout_s=REQUEST_TIMEOUT_MS / 1000 + 5)
        return [each for topic in answer.responses for each in topic.partition_responses]

    def _taken(self, answer: PartitionProduceResponse, records: int) -> bool:
        code = ErrorCode.of(answer.error_code)
        if code.refresh_metadata:
            self._leaders[answer.index] = -1
        if code.retriable:
            return False
        if code is not _THERE_ALREADY:
            check(
                answer.error_code, answer.error_message, f"{self._topic}-{answer.index} refused the records"
            )
        written = self.written.setdefault(answer.index, Written())
        written.records += records
        if answer.base_offset >= 0:
            written.first_offset = answer.base_offset if written.first_offset < 0 else written.first_offset
            written.last_offset = answer.base_offset + records - 1
        return True


class _NotNow(Exception):
    """A broker said to ask again."""


def _batches(records: list[Record]) -> list[list[Record]]:
    """Records in their order, in batches that topics take."""
    batches: list[list[Record]] = [[]]
    size = 0
    for record in records:
        bytes_ = len(record.key or b"") + len(record.value or b"") + 64
        bytes_ += sum(len(name) + len(value or b"") + 8 for name, value in record.headers)
        if batches[-1] and size + bytes_ > BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(record)
        size += bytes_
    return batches


def murmur2(key: bytes) -> int:
    """The hash by which Java's producer chooses a partition."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    whole = len(key) & ~3
    value = 0x9747B28C ^ len(key)
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        value = (value * factor & mask) ^ word
    if whole < len(key):
        value = (value ^ int.from_bytes(key[whole:], "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return value ^ value >> 15

"""Makes record batches of a command's records and sends them, until they are taken or refused for good.

With acks=all the producer is idempotent where the cluster can do it, so trying again never writes twice.
"""

from __future__ import annotations

from functools import cached_property

from epoka.cli.output import Failed
from epoka.client.batching import Identity, murmur2
from epoka.client.cluster import ClusterClient
from epoka.client.producing import Acknowledged, BatchWriter, Outgoing, new_identity
from epoka.wire.compression import Codec
from epoka.wire.records import Record, encode_batch

BATCH_BYTES = 900_000
"""Below what topics allow by default, with room for what a batch adds."""
SEQUENCES = 1 << 31


class Writer:
    def __init__(self, client: ClusterClient, topic: str, codec: Codec) -> None:
        self._client = client
        self._topic = topic
        self._codec = codec
        self._writer = BatchWriter(client)
        self._sequences: dict[int, int] = {}
        self._next_partition = 0

    @cached_property
    def partitions(self) -> int:
        """How many partitions the topic has; asking for them makes it, where the cluster allows that."""
        return len(self._client.topic_made(self._topic).partitions)

    @property
    def written(self) -> list[Acknowledged]:
        """What each partition has taken so far."""
        return self._writer.acknowledged()

    def partition_for(self, key: bytes | None) -> int:
        """Where Java's producer would put a key; without one, each call takes the next partition."""
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % self.partitions
        self._next_partition = (self._next_partition + 1) % self.partitions
        return self._next_partition

    def write(self, records: dict[int, list[Record]]) -> None:
        """Write records to their partitions and wait until they are there; ClientError if they never are."""
        for partition in records:
            if not 0 <= partition < self.partitions:
                raise Failed(f"{self._topic} has no partition {partition}; it has {self.partitions}")
        for partition, given in records.items():
            for batch in _batches(given):
                encoded = self._encode(partition, batch)
                self._writer.add(Outgoing(self._topic, partition, encoded, len(batch)))
        self._writer.flush()

    def _encode(self, partition: int, batch: list[Record]) -> bytearray:
        who = self._identity
        if who.producer_id < 0:
            return encode_batch(batch, codec=self._codec)
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + len(batch)) % SEQUENCES
        return encode_batch(
            batch,
            codec=self._codec,
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            base_sequence=sequence,
        )

    @cached_property
    def _identity(self) -> Identity:
        return new_identity(self._client) if self._client.settings.acks < 0 else Identity()


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

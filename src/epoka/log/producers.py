"""What a log knows of its idempotent producers.

Decides whether a batch is the next one of its producer, one that is already there, or one that must be
refused. Five batches a producer are remembered, since that is how many a producer may have in flight. A
producer that is not known may begin at any sequence number (KIP-360): its state may have expired while
its records stayed.

Snapshots let a restart begin at one offset instead of reading the log; each holds everything below the
offset in its name, under a checksum. One that does not match its checksum is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from crc32c import crc32c

from epoka.log.store import Store
from epoka.wire.error_codes import ErrorCode
from epoka.wire.records import BatchHeader

REMEMBERED_BATCHES = 5
SNAPSHOT_SUFFIX = ".snapshot"
_MAX_SEQUENCE = (1 << 31) - 1


class RememberedBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry(msgspec.Struct, array_like=True):
    """One producer. `transaction_first_offset` is where its open transaction began, or -1."""

    producer_id: int
    epoch: int
    batches: list[RememberedBatch]
    seen_ms: int
    transaction_first_offset: int = -1


class Refused(msgspec.Struct, frozen=True, gc=False):
    """An append that was not made: a value, not an exception."""

    code: ErrorCode
    reason: str


class ProducerStates:
    __slots__ = ("_entries", "_store", "_taken_at")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: dict[int, ProducerEntry] = {}
        self._taken_at = -1

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def entries(self) -> list[ProducerEntry]:
        return list(self._entries.values())

    @property
    def first_open_transaction_offset(self) -> int | None:
        """Where the earliest transaction that is still open began."""
        opened = [
            e.transaction_first_offset for e in self._entries.values() if e.transaction_first_offset >= 0
        ]
        return min(opened, default=None)

    def check(self, header: BatchHeader) -> RememberedBatch | Refused | None:
        """None if the batch is the producer's next, the batch it repeats, or why it is refused."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        if header.producer_epoch < entry.epoch:
            return Refused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {entry.epoch}, given {header.producer_epoch}",
            )
        if header.attributes & 0x20:
            return None
        first = header.base_sequence
        if header.producer_epoch > entry.epoch:
            if first != 0:
                return Refused(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} at sequence {first}",
                )
            return None
        batches = entry.batches
        if not batches:
            # The epoch is known from a transaction marker alone, and a marker says nothing of sequences.
            return None
        expected = (batches[-1].last_sequence + 1) & _MAX_SEQUENCE
        if first == expected:
            return None
        last = header.last_sequence
        for batch in batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return Refused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sends sequence {first}, expected {expected}",
        )

    def expects(self, header: BatchHeader) -> bool:
        """Whether the batch follows one of the same epoch that is here, or is here itself."""
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch or not entry.batches:
            return False
        return type(self.check(header)) is not Refused

    def appended(self, header: BatchHeader, base_offset: int, seen_ms: int) -> None:
        """Remembers a batch that is in the log. `base_offset` counts, not that of the header."""
        producer_id = header.producer_id
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(
                producer_id, header.producer_epoch, [], seen_ms
            )
        elif header.producer_epoch != entry.epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.seen_ms = seen_ms
        attributes = header.attributes
        if attributes & 0x20:
            entry.transaction_first_offset = -1
            return
        batches = entry.batches
        if header.base_sequence >= 0:
            batches.append(
                RememberedBatch(
                    header.base_sequence,
                    header.last_sequence,
                    base_offset,
                    base_offset + header.last_offset_delta,
                    header.max_timestamp,
                )
            )
            if len(batches) > REMEMBERED_BATCHES:
                del batches[0]
        if attributes & 0x10 and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = base_offset

    def expire(self, now: int, expiration_ms: int) -> int:
        """Forgets producers that were silent for too long and have no open transaction."""
        gone = [
            producer_id
            for producer_id, entry in list(self._entries.items())
            if entry.transaction_first_offset < 0 and entry.seen_ms + expiration_ms <= now
        ]
        for producer_id in gone:
            self._entries.pop(producer_id, None)
        return len(gone)

    # snapshots

    def take_snapshot(self, offset: int) -> None:
        """Writes what is known of everything below `offset`, and keeps the one before it for truncation."""
        if self._taken_at == offset:
            return
        body = msgspec.msgpack.encode(list(self._entries.values()))
        self._store.replace(snapshot_name(offset), crc32c(body).to_bytes(4, "big") + body)
        self._taken_at = offset

    def load_latest(self, start_offset: int, end_offset: int, now: int) -> int:
        """Loads the newest usable snapshot and returns its offset: batches from there on are to be replayed.

        Silence is counted from now on, because the time a node was down says nothing of a producer.
        """
        self._entries.clear()
        self._taken_at = -1
        for offset in sorted(self.snapshot_offsets(), reverse=True):
            if offset > end_offset:
                self._store.delete(snapshot_name(offset))
                continue
            if offset < start_offset:
                break
            entries = self._read(offset)
            if entries is None:
                self._store.delete(snapshot_name(offset))
                continue
            for entry in entries:
                entry.seen_ms = now
                self._entries[entry.producer_id] = entry
            self._taken_at = offset
            return offset
        return start_offset

    def _read(self, offset: int) -> list[ProducerEntry] | None:
        content = self._store.read_all(snapshot_name(offset))
        if content is None or len(content) < 4 or crc32c(content[4:]) != int.from_bytes(content[:4], "big"):
            return None
        try:
            return msgspec.msgpack.decode(content[4:], type=list[ProducerEntry])
        except msgspec.DecodeError:
            return None

    def snapshot_offsets(self) -> list[int]:
        return snapshot_offsets(self._store.names())

    def delete_snapshots(self, *, below: int | None = None, above: int | None = None) -> None:
        for offset in self.snapshot_offsets():
            if (below is not None and offset < below) or (above is not None and offset > above):
                self._store.delete(snapshot_name(offset))
                if offset == self._taken_at:
                    self._taken_at = -1

    def clear(self) -> None:
        self._entries.clear()


def follows(sequence: int, earlier: int) -> bool:
    """Whether one sequence number comes after another; behind the last one comes 0."""
    return 0 < (sequence - earlier) & _MAX_SEQUENCE <= _MAX_SEQUENCE >> 1


def snapshot_name(offset: int) -> str:
    return f"{offset:020d}{SNAPSHOT_SUFFIX}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    return [
        int(name[:20])
        for name in names
        if name.endswith(SNAPSHOT_SUFFIX) and len(name) == 20 + len(SNAPSHOT_SUFFIX)
    ]

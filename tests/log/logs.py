"""Small logs for tests: open one, append to it, read it back."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from crc32c import crc32c

from epoka.log import Appended, LogConfig, PartitionLog, Refused, Store
from epoka.wire.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    Record,
    decode_batch,
    encode_batch,
    headers,
    read_header,
    validate,
)

NOW = 1_000_000
Item = bytes | tuple[object, ...]


def open_log(
    store: Store,
    config: LogConfig | None = None,
    *,
    recovery_point: int = 0,
    clean: bool = False,
    now: int = NOW,
) -> PartitionLog:
    return PartitionLog.open(
        store,
        config if config is not None else LogConfig(),
        recovery_point=recovery_point,
        clean=clean,
        now=now,
    )


def batch_of(items: Sequence[Item], **options: object) -> bytearray:
    records = [item if isinstance(item, tuple) else (None, item, NOW) for item in items]
    return encode_batch(records, **options)  # type: ignore[arg-type]


def try_append(
    log: PartitionLog, *items: Item, epoch: int = 0, now: int = NOW, **options: object
) -> Appended | Refused:
    batch = batch_of(items, **options)
    return log.append_as_leader(batch, validate(batch, max_batch_bytes=1 << 21), epoch, now)


def append(log: PartitionLog, *items: Item, epoch: int = 0, now: int = NOW, **options: object) -> Appended:
    done = try_append(log, *items, epoch=epoch, now=now, **options)
    assert isinstance(done, Appended), done
    return done


def append_sequence(
    log: PartitionLog, sequence: int, *items: Item, producer: int = 7, epoch: int = 0
) -> object:
    return try_append(log, *items, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def forged(batch: bytearray, body: bytes | None = None, **changes: int) -> bytearray:
    """The batch with other records or another header, rightly sealed: what a hostile client can write."""
    header = read_header(batch)._replace(**changes)
    batch = bytearray(batch[:HEADER_SIZE]) + (batch[HEADER_SIZE:] if body is None else body)
    Struct(">qiibIhiqqqhii").pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD))
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return batch


def garbage() -> bytearray:
    """A batch that says of itself that it holds a record, and holds none."""
    return forged(batch_of([b"x"]), b"\xff" * 40)


def append_bytes(log: PartitionLog, batch: bytearray) -> Appended:
    done = log.append_as_leader(batch, validate(batch, max_batch_bytes=1 << 21), 0, NOW)
    assert isinstance(done, Appended), done
    return done


def records_in(log: PartitionLog, start: int | None = None) -> list[Record]:
    offset = log.log_start_offset if start is None else start
    return [
        record
        for batch, header in log.batches(offset)
        for record in decode_batch(batch, 0, header)
        if record.offset >= offset
    ]


def values_in(log: PartitionLog, start: int | None = None) -> list[bytes | None]:
    return [record.value for record in records_in(log, start)]


def offsets_in(content: bytes | None) -> list[tuple[int, int]]:
    assert content is not None
    return [(header.base_offset, header.last_offset) for _position, header in headers(content)]

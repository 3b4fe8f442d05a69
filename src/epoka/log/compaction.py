"""Compaction: the latest record of every key stays, the ones before it go.

Decides which records of the sealed segments are superseded. It must never touch the active segment, a
segment that reaches beyond the given limit, or an offset: what stays keeps its own. Rules:

- A record is dropped once the same key has a later one below the limit.
- A tombstone stays for `delete_retention_ms` after the first pass that covered it, so that whoever reads
  the log from its start within that time learns of the deletion.
- The last batch of the cleaned range stays, empty if need be: a new replica that copies the log must
  arrive at the same end offset (KAFKA-17076). So does the last batch of every producer, which holds its
  sequence numbers.
- Control batches stay.

A pass writes `<base>.<next>.cleaned`, flushes it and renames it to `.swap`. From that moment on it
counts: a crash before it leaves the old segments, a crash after it is finished when the log is opened
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from epoka.log.config import LogConfig
from epoka.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    TIME_INDEX_SUFFIX,
    BrokenBatch,
    Segment,
    segment_name,
)
from epoka.log.store import Buffer, Store
from epoka.wire.errors import WireError
from epoka.wire.records import BatchHeader, RawRecord, crc_ok, payload_of, raw_records, with_records

STATE_FILE = "cleaner-checkpoint"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
MAX_KEYS = 2_000_000
"""Keys one pass remembers; a pass that meets more cleans up to where it got."""

_WRITE_BYTES = 1 << 20


class CompactionStats(msgspec.Struct, frozen=True):
    cleaned_up_to: int
    records_before: int
    records_kept: int
    tombstones_kept: int
    bytes_before: int
    bytes_after: int
    segments_before: int
    segments_after: int


class Pass(msgspec.Struct, frozen=True, array_like=True):
    up_to: int
    ms: int


class CleanerState(msgspec.Struct, frozen=True):
    """What earlier passes did, kept beside the log; `begun_up_to` is known before a segment is replaced."""

    clean_up_to: int = 0
    begun_up_to: int = 0
    passes: tuple[Pass, ...] = ()
    tombstones: int = 0
    horizon: int = 0

    def horizon_at(self, now: int, delete_retention_ms: int) -> int:
        """Tombstones below this offset have been there long enough."""
        return max((p.up_to for p in self.passes if p.ms + delete_retention_ms <= now), default=0)


def load_state(store: Store) -> CleanerState:
    content = store.read_all(STATE_FILE)
    if content is None:
        return CleanerState()
    try:
        return msgspec.json.decode(content, type=CleanerState)
    except msgspec.DecodeError:
        return CleanerState()


def save_state(store: Store, state: CleanerState) -> None:
    store.replace(STATE_FILE, msgspec.json.encode(state))


def truncate_state(store: Store, end_offset: int) -> None:
    """What was cleaned above a new end has to be cleaned again."""
    state = load_state(store)
    if state.begun_up_to > end_offset:
        passes = tuple(p for p in state.passes if p.up_to <= end_offset)
        fewer = CleanerState(
            clean_up_to=min(state.clean_up_to, end_offset),
            begun_up_to=end_offset,
            passes=passes,
            tombstones=state.tombstones,
            horizon=min(state.horizon, end_offset),
        )
        save_state(store, fewer)


class Plan(msgspec.Struct, frozen=True):
    segments: tuple[Segment, ...]
    first_dirty: int
    limit: int
    horizon: int
    state: CleanerState


def plan(
    segments: Sequence[Segment], config: LogConfig, state: CleanerState, *, now: int, up_to: int, always: bool
) -> Plan | None:
    """The sealed segments to clean, or None if there is too little to gain."""
    chosen: list[Segment] = []
    for index, segment in enumerate(segments[:-1]):
        next_base = segments[index + 1].base_offset
        young = (
            config.min_compaction_lag_ms > 0 and segment.max_timestamp > now - config.min_compaction_lag_ms
        )
        if next_base > up_to or young:
            break
        chosen.append(segment)
    if not chosen:
        return None
    limit = segments[len(chosen)].base_offset
    first_dirty = max(state.clean_up_to, chosen[0].base_offset)
    horizon = state.horizon_at(now, config.delete_retention_ms)
    dirty = sum(
        segment.size for index, segment in enumerate(chosen) if segments[index + 1].base_offset > first_dirty
    )
    total = sum(segment.size for segment in chosen)
    matured = state.tombstones > 0 and horizon > state.horizon
    enough = dirty > 0 and dirty / total >= config.min_cleanable_ratio
    if not (always or matured or enough):
        return None
    return Plan(tuple(chosen), min(first_dirty, limit), limit, horizon, state)


class Cleaned(msgspec.Struct, frozen=True):
    """A group of segments and the file that takes their place."""

    group: tuple[Segment, ...]
    next_base: int
    swap: str


class Cleaner:
    """One pass over one log."""

    def __init__(
        self,
        store: Store,
        config: LogConfig,
        chosen: Plan,
        *,
        max_keys: int = MAX_KEYS,
        keeps_sequences: Callable[[BatchHeader], bool] = lambda header: False,
    ) -> None:
        self._store = store
        self._config = config
        self._plan = chosen
        self._max_keys = max_keys
        self._keeps_sequences = keeps_sequences
        self._latest: dict[bytes, int] = {}
        self.limit = chosen.limit
        # The last batch of the range, by where it ends; the segments' own bounds may lie behind it.
        self._last_end = max(segment.next_offset for segment in chosen.segments)
        self.records_before = 0
        self.records_kept = 0
        self.tombstones_kept = 0
        self.bytes_after = 0

    def remember_keys(self) -> None:
        """Reads the dirty part: the offset of the last record of every key in it."""
        latest = self._latest
        for segment in self._plan.segments:
            if segment.next_offset <= self._plan.first_dirty:
                continue
            start = segment.position_of(self._plan.first_dirty)
            for position, header, batch in segment.batches(start):
                if header.is_control:
                    continue
                read = _records_of(batch, position, header)
                for record in () if read is None else read[1]:
                    if record.key is not None:
                        latest[record.key] = header.base_offset + record.offset_delta
                if len(latest) > self._max_keys:
                    self.limit = header.next_offset
                    return

    def announce(self) -> None:
        """Makes it known how far this pass may go, before it replaces anything."""
        state = self._plan.state
        if state.begun_up_to < self._plan.limit:
            save_state(self._store, msgspec.structs.replace(state, begun_up_to=self._plan.limit))

    def groups(self) -> list[tuple[Segment, ...]]:
        """Neighbours that fit into one segment together."""
        found: list[list[Segment]] = []
        size = 0
        for segment in self._plan.segments:
            if segment.base_offset >= self.limit:
                break
            fits = (
                found
                and size + segment.size <= self._config.segment_bytes
                and segment.next_offset - found[-1][0].base_offset <= MAX_RELATIVE_OFFSET
            )
            if fits:
                found[-1].append(segment)
                size += segment.size
            else:
                found.append([segment])
                size = segment.size
        return [tuple(group) for group in found]

    def clean(self, group: tuple[Segment, ...], next_base: int) -> Cleaned:
        """Writes the cleaned copy of a group and makes it count."""
        name = f"{group[0].base_offset:020d}.{next_base:020d}"
        self._store.delete(name + CLEANED_SUFFIX)
        blob = self._store.open(name + CLEANED_SUFFIX)
        try:
            waiting: list[Buffer] = []
            size = 0
            for segment in group:
                for position, header, batch in segment.batches():
                    kept = self._cleaned_batch(batch, position, header)
                    if kept is not None:
                        waiting.append(kept)
                        size += len(kept)
                        if size >= _WRITE_BYTES:
                            blob.append(waiting)
                            waiting, size = [], 0
            if waiting:
                blob.append(waiting)
            blob.flush()
            self.bytes_after += blob.size
        finally:
            blob.close()
        self._store.rename(name + CLEANED_SUFFIX, name + SWAP_SUFFIX)
        return Cleaned(group, next_base, name + SWAP_SUFFIX)

    def _cleaned_batch(self, batch: bytes, position: int, header: BatchHeader) -> Buffer | None:
        read = None
        if not header.is_control and header.base_offset < self.limit:
            read = _records_of(batch, position, header)
        if read is None:
            self.records_before += header.records_count
            self.records_kept += header.records_count
            return batch
        payload, records = read
        kept = [record for record in records if self._stays(header.base_offset + record.offset_delta, record)]
        self.records_before += len(records)
        self.records_kept += len(kept)
        self.tombstones_kept += sum(not record.has_value for record in kept)
        if len(kept) == len(records) and kept:
            return batch
        if not kept and header.next_offset != self._last_end and not self._keeps_sequences(header):
            return None
        return with_records(header, payload, kept)

    def _stays(self, offset: int, record: RawRecord) -> bool:
        if offset >= self.limit:
            return True
        if record.key is None or self._latest.get(record.key, offset) > offset:
            return False
        return record.has_value or offset >= self._plan.horizon

    def finished_state(self, now: int) -> CleanerState:
        state = self._plan.state
        matured = [p for p in state.passes if p.up_to <= self._plan.horizon]
        waiting = [p for p in state.passes if p.up_to > self._plan.horizon]
        passes = [*matured[-1:], *waiting]
        # Times are rounded up to a hundredth of the retention, so that frequent passes leave a short list.
        grain = max(1, self._config.delete_retention_ms // 100)
        stamp = -(-now // grain) * grain
        if passes and passes[-1].ms == stamp and passes[-1].up_to > self._plan.horizon:
            passes[-1] = Pass(max(passes[-1].up_to, self.limit), stamp)
        elif not passes or passes[-1].up_to < self.limit:
            passes.append(Pass(self.limit, stamp))
        return CleanerState(
            clean_up_to=self.limit,
            begun_up_to=max(state.begun_up_to, self._plan.limit),
            passes=tuple(passes),
            tombstones=self.tombstones_kept,
            horizon=self._plan.horizon,
        )


def _records_of(batch: bytes, position: int, header: BatchHeader) -> tuple[Buffer, list[RawRecord]] | None:
    """None if the batch does not hold what it says: nobody looked inside when it came, before the topic was
    compacted. It has no keys then, and stays."""
    if not crc_ok(batch, 0, header):
        raise BrokenBatch(position, f"the batch at offset {header.base_offset} does not match its checksum")
    try:
        payload = payload_of(batch, 0, header)
        return payload, raw_records(payload, header.records_count)
    except WireError:
        return None


def finish_swap(store: Store, swap: str) -> int:
    """Puts a cleaned file in the place of the segments it was made from; its base offset. May be repeated."""
    base_offset, next_base = _range_of(swap)
    for name in store.names():
        if name.endswith((LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)) and name[:20].isdigit():
            replaced = base_offset <= int(name[:20]) < next_base
            if replaced and name != segment_name(base_offset):
                store.delete(name)
    store.rename(swap, segment_name(base_offset))
    return base_offset


def finish_interrupted(store: Store) -> list[str]:
    """What a crash left of a pass: files that never counted go, swaps that did are finished."""
    finished = []
    for name in store.names():
        if name.endswith(CLEANED_SUFFIX):
            store.delete(name)
        elif name.endswith(SWAP_SUFFIX):
            finish_swap(store, name)
            finished.append(name)
    return finished


def _range_of(swap: str) -> tuple[int, int]:
    base_offset, next_base, _suffix = swap.split(".")
    return int(base_offset), int(next_base)

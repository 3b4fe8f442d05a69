"""Partitions in columns: one row a partition, numbers in numpy arrays, broker lists in one shared pool.

A hundred thousand partitions are a few megabytes here, and "which partitions does broker 7 lead" is one pass
over an array. The table stores what it is told; which change is right is decided elsewhere.

The four broker lists of a row (replicas, ISR, adding, removing) lie one behind the other in a block of the
pool, with room for an ISR as long as the assignment, so an ISR that shrinks and grows again moves nothing.
A block that no longer fits is given up and the pool is packed when half of it is garbage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from epoka.model.errors import InvariantBroken
from epoka.model.ids import BrokerId, LeaderEpoch, PartitionEpoch

RECOVERED = 0
RECOVERING = 1
"""The leader came out of an unclean election and has not yet finished recovering."""

_MOST_ENTRIES = 32_767
"""What a length column can count."""

_REMEMBERED_STATES = 1_024

Rows = npt.NDArray[np.int64]


class PartitionState(msgspec.Struct, frozen=True, gc=False):
    """One partition at one moment."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    recovery: int = RECOVERED

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)


class PartitionTable:
    """The columns. Rows of deleted partitions are used again; their `topic` is -1 until then."""

    __slots__ = (
        "_free",
        "_states",
        "adding_length",
        "block",
        "capacity",
        "garbage",
        "index",
        "isr_length",
        "leader",
        "leader_epoch",
        "owner",
        "partition_epoch",
        "pool",
        "pool_used",
        "recovery",
        "removing_length",
        "replicas_length",
        "rows_used",
        "topic",
    )

    _COLUMNS = (
        "topic",
        "index",
        "leader",
        "leader_epoch",
        "partition_epoch",
        "block",
        "capacity",
        "replicas_length",
        "isr_length",
        "adding_length",
        "removing_length",
        "recovery",
    )

    def __init__(self, rows: int = 64) -> None:
        self.topic = np.full(rows, -1, np.int32)
        self.index = np.zeros(rows, np.int32)
        self.leader = np.full(rows, -1, np.int32)
        self.leader_epoch = np.zeros(rows, np.int32)
        self.partition_epoch = np.zeros(rows, np.int32)
        self.block = np.zeros(rows, np.int32)
        self.capacity = np.zeros(rows, np.int16)
        self.replicas_length = np.zeros(rows, np.int16)
        self.isr_length = np.zeros(rows, np.int16)
        self.adding_length = np.zeros(rows, np.int16)
        self.removing_length = np.zeros(rows, np.int16)
        self.recovery = np.zeros(rows, np.int8)
        self.rows_used = 0
        self._free: list[int] = []
        self.pool = np.full(rows * 6, -1, np.int32)
        self.owner = np.full(rows * 6, -1, np.int32)
        self.pool_used = 0
        self.garbage = 0
        self._states: dict[int, PartitionState] = {}
        """Of rows that were asked for since they were last written: the same few, all the time."""

    def __len__(self) -> int:
        return self.rows_used - len(self._free)

    @property
    def bytes_used(self) -> int:
        """Memory behind the columns and the pool."""
        arrays: list[npt.NDArray[Any]] = [getattr(self, name) for name in self._COLUMNS]
        return sum(array.nbytes for array in arrays) + self.pool.nbytes + self.owner.nbytes

    def copy(self) -> PartitionTable:
        copied = PartitionTable(0)
        for name in (*self._COLUMNS, "pool", "owner"):
            setattr(copied, name, getattr(self, name).copy())
        copied.rows_used, copied._free = self.rows_used, list(self._free)
        copied.pool_used, copied.garbage = self.pool_used, self.garbage
        return copied

    # Writing.

    def add(self, topic: int, index: int, state: PartitionState) -> int:
        row = self._free.pop() if self._free else self._new_row()
        self._states.pop(row, None)
        self.topic[row] = topic
        self.index[row] = index
        self.capacity[row] = 0
        self.put(row, state)
        return row

    def add_many(self, topic: int, states: Mapping[int, PartitionState]) -> Sequence[int]:
        """As `add` for each index in turn, at a fraction of the price."""
        if self._free:
            return [self.add(topic, index, state) for index, state in states.items()]
        rows = range(self.rows_used, self.rows_used + len(states))
        self._room_for_rows(rows.stop)
        cells: list[int] = []
        sizes: list[int] = []
        for state in states.values():
            before, replicas = len(cells), len(state.replicas)
            cells += state.replicas
            cells += state.isr
            if state.adding or state.removing:
                cells += state.adding
                cells += state.removing
            spare = replicas - len(state.isr)
            if spare > 0:
                cells += (-1,) * spare
            sizes.append(len(cells) - before)
        if sizes and max(sizes) > _MOST_ENTRIES:
            raise InvariantBroken(f"a partition with {max(sizes)} replica entries does not fit the image")
        self._room_for_cells(len(cells))
        new, every = slice(rows.start, rows.stop), list(states.values())
        self.rows_used = rows.stop
        self.topic[new] = topic
        self.index[new] = list(states)
        self.leader[new] = [state.leader for state in every]
        self.leader_epoch[new] = [state.leader_epoch for state in every]
        self.partition_epoch[new] = [state.partition_epoch for state in every]
        self.recovery[new] = [state.recovery for state in every]
        self.replicas_length[new] = [len(state.replicas) for state in every]
        self.isr_length[new] = [len(state.isr) for state in every]
        self.adding_length[new] = [len(state.adding) for state in every]
        self.removing_length[new] = [len(state.removing) for state in every]
        self.capacity[new] = sizes
        ends = np.cumsum(sizes, dtype=np.int64)
        self.block[new] = self.pool_used + ends - sizes
        taken = slice(self.pool_used, self.pool_used + len(cells))
        self.pool[taken] = cells
        self.owner[taken] = np.repeat(np.arange(rows.start, rows.stop), sizes)
        self.pool_used = taken.stop
        return rows

    def put(self, row: int, state: PartitionState) -> None:
        """Replace everything about the partition except its name."""
        self._states.pop(row, None)
        self.leader[row] = state.leader
        self.leader_epoch[row] = state.leader_epoch
        self.partition_epoch[row] = state.partition_epoch
        self.recovery[row] = state.recovery
        self._put_lists(row, state.replicas, state.isr, state.adding, state.removing)

    def remove(self, row: int) -> None:
        self._states.pop(row, None)
        self._give_up_block(row)
        self.topic[row] = -1
        self.leader[row] = -2
        self.replicas_length[row] = self.isr_length[row] = 0
        self.adding_length[row] = self.removing_length[row] = 0
        self._free.append(row)

    # Reading.

    def state(self, row: int) -> PartitionState:
        known = self._states.get(row)
        if known is None:
            if len(self._states) >= _REMEMBERED_STATES:
                self._states.clear()
            known = self._states[row] = self._read(row)
        return known

    def _read(self, row: int) -> PartitionState:
        start = self.block.item(row)
        first = self.replicas_length.item(row)
        second = first + self.isr_length.item(row)
        third = second + self.adding_length.item(row)
        last = third + self.removing_length.item(row)
        cells = self.pool[start : start + last].tolist()
        return PartitionState(
            BrokerId(self.leader.item(row)),
            LeaderEpoch(self.leader_epoch.item(row)),
            PartitionEpoch(self.partition_epoch.item(row)),
            tuple(cells[:first]),
            tuple(cells[first:second]),
            tuple(cells[second:third]),
            tuple(cells[third:]),
            self.recovery.item(row),
        )

    def replicas(self, row: int) -> list[int]:
        start = self.block.item(row)
        replicas: list[int] = self.pool[start : start + self.replicas_length.item(row)].tolist()
        return replicas

    def isr(self, row: int) -> list[int]:
        start = self.block.item(row) + self.replicas_length.item(row)
        isr: list[int] = self.pool[start : start + self.isr_length.item(row)].tolist()
        return isr

    def rows(self) -> Rows:
        """Every row in use."""
        return np.flatnonzero(self.topic[: self.rows_used] >= 0)

    def rows_led_by(self, broker: int) -> Rows:
        """Rows whose leader is that broker; -1 finds those without one."""
        used = slice(0, self.rows_used)
        return np.flatnonzero((self.leader[used] == broker) & (self.topic[used] >= 0))

    def rows_hosted_by(self, broker: int) -> Rows:
        """Rows with the broker in the assignment."""
        rows, place = self._find(broker)
        return self.each_once(rows[place < self.replicas_length[rows]])

    def rows_with_isr_member(self, broker: int) -> Rows:
        rows, place = self._find(broker)
        first = self.replicas_length[rows]
        return self.each_once(rows[(place >= first) & (place < first + self.isr_length[rows])])

    def places_by_host(self, rows: Rows) -> dict[int, Rows]:
        """Broker to the places in `rows`, ascending, of those that have it in their assignment."""
        lengths = self.replicas_length[rows].astype(np.int64)
        total = int(lengths.sum())
        if not total:
            return {}
        places = np.repeat(np.arange(len(rows)), lengths)
        within = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        hosts = self.pool[self.block[rows][places] + within]
        order = np.lexsort((places, hosts))
        hosts = hosts[order]
        firsts = np.flatnonzero(np.diff(hosts, prepend=hosts[0] - 1))
        parts = np.split(places[order], firsts[1:])
        return dict(zip(hosts[firsts].tolist(), parts, strict=True))

    def each_once(self, rows: Rows) -> Rows:
        """Rows in order, without repetitions."""
        # As np.unique, which would load the masked arrays of numpy for it, a good part of a cold start.
        found = np.zeros(self.rows_used, dtype=np.bool_)
        found[rows] = True
        return np.flatnonzero(found)

    def rows_reassigning(self) -> Rows:
        used = slice(0, self.rows_used)
        busy = (self.adding_length[used] > 0) | (self.removing_length[used] > 0)
        return np.flatnonzero(busy & (self.topic[used] >= 0))

    def preferred_leaders(self, rows: Rows) -> npt.NDArray[np.int32]:
        """The head of each row's assignment."""
        return self.pool[self.block[rows]]

    def _find(self, broker: int) -> tuple[Rows, Rows]:
        cells = np.flatnonzero(self.pool[: self.pool_used] == broker)
        rows = self.owner[cells].astype(np.int64)
        return rows, cells - self.block[rows]

    # The pool.

    def _put_lists(
        self,
        row: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        adding: Sequence[int],
        removing: Sequence[int],
    ) -> None:
        needed = len(replicas) + len(isr) + len(adding) + len(removing)
        if needed > self.capacity.item(row):
            self._give_up_block(row)
            self._take_block(row, max(needed, 2 * len(replicas) + len(adding) + len(removing)))
        start = self.block.item(row)
        spare = self.capacity.item(row) - needed
        self.pool[start : start + needed + spare] = [*replicas, *isr, *adding, *removing, *[-1] * spare]
        self.replicas_length[row] = len(replicas)
        self.isr_length[row] = len(isr)
        self.adding_length[row] = len(adding)
        self.removing_length[row] = len(removing)

    def _take_block(self, row: int, size: int) -> None:
        if size > _MOST_ENTRIES:
            raise InvariantBroken(f"a partition with {size} replica entries does not fit the image")
        self._room_for_cells(size)
        self.block[row] = self.pool_used
        self.capacity[row] = size
        self.owner[self.pool_used : self.pool_used + size] = row
        self.pool_used += size

    def _room_for_cells(self, count: int) -> None:
        if self.pool_used + count > len(self.pool) and self.garbage > len(self.pool) // 2:
            self._pack()
        if self.pool_used + count > len(self.pool):
            length = max(self.pool_used + count, len(self.pool) + len(self.pool) // 2)
            self.pool = _grown(self.pool, length, -1)
            self.owner = _grown(self.owner, length, -1)

    def _give_up_block(self, row: int) -> None:
        size = self.capacity.item(row)
        if size:
            start = self.block.item(row)
            self.pool[start : start + size] = -1
            self.owner[start : start + size] = -1
            self.capacity[row] = 0
            self.garbage += size

    def _pack(self) -> None:
        """Move every block to the front, over the garbage, in the order in which they lie."""
        rows = np.flatnonzero(self.capacity[: self.rows_used] > 0)
        rows = rows[np.argsort(self.block[rows], kind="stable")]
        kept = np.flatnonzero(self.owner[: self.pool_used] >= 0)
        pool, owner = self.pool[kept], self.owner[kept]
        self.pool[:] = -1
        self.owner[:] = -1
        self.pool[: len(kept)] = pool
        self.owner[: len(kept)] = owner
        ends = np.cumsum(self.capacity[rows], dtype=np.int64)
        self.block[rows] = ends - self.capacity[rows]
        self.pool_used = len(kept)
        self.garbage = 0

    def _new_row(self) -> int:
        row = self.rows_used
        self._room_for_rows(row + 1)
        self.rows_used += 1
        return row

    def _room_for_rows(self, count: int) -> None:
        here = len(self.topic)
        if count > here:
            length = max(count, here + max(64, here // 2))
            for name in self._COLUMNS:
                fill = -1 if name in ("topic", "leader") else 0
                setattr(self, name, _grown(getattr(self, name), length, fill))


def _grown(column: npt.NDArray[Any], length: int, fill: int) -> npt.NDArray[Any]:
    grown = np.full(length, fill, column.dtype)
    grown[: len(column)] = column
    return grown

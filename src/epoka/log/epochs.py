"""The leader-epoch history of a log: which epoch began at which offset.

Decides where a follower's log and a leader's part, which is what keeps truncation from losing committed
records (KIP-101, KIP-279). Epochs and start offsets both only grow; an entry that would break that is
never kept.

The checkpoint file is written before the recovery point moves past what it describes, and at every
truncation. Entries above the recovery point come back from the batches themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from threading import Lock

from epoka.log.store import StorageError, Store

CHECKPOINT = "leader-epoch-checkpoint"
NO_EPOCH = -1
NO_OFFSET = -1


class EpochHistory:
    __slots__ = ("_dirty", "_epochs", "_saving", "_starts", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._dirty = False
        self._saving = Lock()

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(list(zip(self._epochs, self._starts)))

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def last_epoch(self) -> int:
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def last_start(self) -> int:
        """Where the last epoch begins."""
        return self._starts[-1] if self._starts else NO_OFFSET

    def load(self) -> bool:
        """False if there is no checkpoint or it cannot be read: then the batches have to say."""
        content = self._store.read_all(CHECKPOINT)
        if content is None:
            return False
        try:
            lines = content.decode().split("\n")
            if lines[0] != "0" or len(lines) < 2 + int(lines[1]):
                return False
            pairs = [line.split(" ") for line in lines[2 : 2 + int(lines[1])]]
            entries = [(int(epoch), int(start)) for epoch, start in pairs]
        except ValueError:
            return False
        for (epoch, start), (next_epoch, next_start) in pairwise(entries):
            if next_epoch <= epoch or next_start < start:
                return False
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        return True

    def save(self, *, always: bool = False) -> None:
        """Writes the checkpoint if it is out of date. A flush may do so in another thread than a truncation:
        one waits for the other, so that what is written last is what was known last."""
        with self._saving:
            if not self._dirty and not always:
                return
            # Cleared first: an epoch that begins meanwhile may miss this checkpoint, but not the next.
            self._dirty = False
            entries = list(self)
            lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
            try:
                self._store.replace(CHECKPOINT, ("\n".join(lines) + "\n").encode())
            except StorageError:
                self._dirty = True
                raise

    def begin(self, epoch: int, start_offset: int) -> bool:
        """Says that `epoch` begins at `start_offset`; False if a later epoch is already known."""
        if epoch <= self.last_epoch or epoch < 0:
            return epoch == self.last_epoch or epoch < 0
        while self._starts and self._starts[-1] >= start_offset:
            # An epoch in which nothing was written ends where it began; keeping it would say nothing.
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._dirty = True
        return True

    def epoch_of(self, offset: int) -> int:
        found = bisect_right(self._starts, offset) - 1
        return self._epochs[found] if found >= 0 else NO_EPOCH

    def end_offset_for_epoch(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The greatest epoch not above `epoch` and where it ends; (-1, -1) if that is not known.

        An epoch before all known ones ends where the first known one starts.
        """
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        following = bisect_right(self._epochs, epoch)
        if following == 0:
            return epoch, self._starts[0]
        return self._epochs[following - 1], self._starts[following]

    def truncate_from_end(self, end_offset: int) -> None:
        """Forgets epochs that began at or after the new end."""
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
            self._dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Forgets epochs that ended before the new start; the one it falls into begins there."""
        found = bisect_right(self._starts, start_offset) - 1
        if found < 0 or (found == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:found]
        del self._starts[:found]
        self._starts[0] = start_offset
        self._dirty = True

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self._dirty = True

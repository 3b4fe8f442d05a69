"""Requests that wait for a partition: produces for its high watermark, fetches for bytes, deletions for the
start of every in-sync log.

A wait ends once: when what it waits for is there, when its time is up, or when the partition changes hands.
It then takes itself off every partition it was filed under, so idle partitions keep no dead waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from epoka.broker.deadlines import Deadline
from epoka.wire.error_codes import ErrorCode


class Written:
    """One partition's part of a produce request: what was appended, and what became of it."""

    __slots__ = (
        "append_time_ms",
        "base_offset",
        "error",
        "index",
        "log_start_offset",
        "reason",
        "required",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        error: ErrorCode = ErrorCode.NONE,
        base_offset: int = -1,
        append_time_ms: int = -1,
        log_start_offset: int = -1,
        reason: str | None = None,
    ) -> None:
        self.topic = topic
        self.index = index
        self.error = error
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.log_start_offset = log_start_offset
        self.reason = reason
        self.required = 0
        """The high watermark at which the records count as committed."""


class ProduceWait:
    """A produce with acks=all: done when every partition's high watermark has passed its records."""

    __slots__ = ("deadline", "done", "finish", "open")

    def __init__(self, finish: Callable[[], None]) -> None:
        self.finish = finish
        self.open: dict[int, Written] = {}
        self.deadline: Deadline | None = None
        self.done = False

    def settle(self, written: Written, error: ErrorCode = ErrorCode.NONE) -> None:
        if self.open.pop(id(written), None) is None:
            return
        if error != ErrorCode.NONE:
            written.error = error
            written.base_offset = -1
        if not self.open:
            self._end()

    def expire(self, now: int) -> None:
        for written in self.open.values():
            written.error = ErrorCode.REQUEST_TIMED_OUT
            written.base_offset = -1
        self.open.clear()
        self._end()

    def _end(self) -> None:
        if self.done:
            return
        self.done = True
        if self.deadline is not None:
            self.deadline.cancel()
        self.finish()


class FetchWait:
    """A fetch that found too few bytes: done when enough have come, or at its deadline."""

    __slots__ = ("deadline", "done", "filed", "finish", "missing_bytes")

    def __init__(self, missing_bytes: int, finish: Callable[[], None]) -> None:
        self.missing_bytes = missing_bytes
        self.finish = finish
        self.filed: list[dict[FetchWait, None]] = []
        self.deadline: Deadline | None = None
        self.done = False

    def file_under(self, waits: dict[FetchWait, None]) -> None:
        waits[self] = None
        self.filed.append(waits)

    def arrived(self, size: int) -> None:
        self.missing_bytes -= size
        if self.missing_bytes <= 0:
            self.end()

    def end(self, now: int = 0) -> None:
        if self.done:
            return
        self.cancel()
        self.finish()

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        self.done = True
        if self.deadline is not None:
            self.deadline.cancel()
        for waits in self.filed:
            waits.pop(self, None)
        self.filed.clear()


class Deleted:
    """One partition's part of a DeleteRecords request: the start that is wanted, and what became of it."""

    __slots__ = ("error", "index", "low_watermark", "required")

    def __init__(self, index: int, error: ErrorCode, low_watermark: int = -1, required: int = -1) -> None:
        self.index = index
        self.error = error
        self.low_watermark = low_watermark
        self.required = required
        """The low watermark at which the records are gone, whoever leads next."""


class DeleteWait:
    """A DeleteRecords: done when every partition's low watermark has come as far as is wanted."""

    __slots__ = ("deadline", "filed", "finish")

    def __init__(self, finish: Callable[[], None]) -> None:
        self.finish = finish
        self.filed: dict[Deleted, dict[Deleted, DeleteWait]] = {}
        self.deadline: Deadline | None = None

    def file_under(self, waits: dict[Deleted, DeleteWait], deleted: Deleted) -> None:
        waits[deleted] = self
        self.filed[deleted] = waits

    def settle(self, deleted: Deleted, error: ErrorCode, low_watermark: int = -1) -> None:
        deleted.error = error
        deleted.low_watermark = low_watermark
        del self.filed.pop(deleted)[deleted]
        if not self.filed:
            self.end()

    def end(self, now: int = 0) -> None:
        self.cancel()
        self.finish()

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        if self.deadline is not None:
            self.deadline.cancel()
        for deleted, waits in self.filed.items():
            del waits[deleted]
        self.filed.clear()


class PartitionWaits:
    """What waits for one partition."""

    __slots__ = ("committed", "deletes", "produces", "tail")

    def __init__(self) -> None:
        self.produces: deque[tuple[Written, ProduceWait]] = deque()
        self.tail: dict[FetchWait, None] = {}
        """Followers, who see all of the log."""
        self.committed: dict[FetchWait, None] = {}
        """Consumers, who see it up to the high watermark."""
        self.deletes: dict[Deleted, DeleteWait] = {}

    def high_watermark_reached(self, offset: int) -> None:
        produces = self.produces
        while produces and produces[0][0].required <= offset:
            written, wait = produces.popleft()
            wait.settle(written)

    def low_watermark_reached(self, offset: int) -> None:
        for deleted, wait in list(self.deletes.items()):
            if deleted.required <= offset:
                wait.settle(deleted, ErrorCode.NONE, offset)

    def abandon(self, error: ErrorCode) -> None:
        """The partition changed hands: nothing that waits here can come true."""
        while self.produces:
            written, wait = self.produces.popleft()
            wait.settle(written, error)
        for deleted, deletion in list(self.deletes.items()):
            deletion.settle(deleted, error)
        for waits in (self.tail, self.committed):
            for fetch in list(waits):
                fetch.end()

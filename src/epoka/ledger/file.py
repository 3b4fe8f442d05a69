"""The ledger as a file of JSON lines, bounded: when it is full it becomes `<name>.1` and a new one begins.

Writing costs a node one list append; lines go to the file in `flush`, which the node calls on the side. A
ledger that cannot be written is said once and never stands in the way of the node.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from epoka.model.ledger import LedgerEvent

log = logging.getLogger(__name__)

MAX_BYTES = 32 * 1024 * 1024
MOST_WAITING = 100_000
"""Events kept for the next flush; beyond that the oldest are dropped and counted."""
NO_EVENT = (msgspec.DecodeError, UnicodeDecodeError)
"""What decoding says of bytes that are no event; msgspec has no error of its own for what is no text."""


class LedgerFile:
    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.dropped = 0
        self._waiting: list[LedgerEvent] = []
        self._encoder = msgspec.json.Encoder()
        self._failed = False
        self._opened = False

    def write(self, event: LedgerEvent) -> None:
        if len(self._waiting) >= MOST_WAITING:
            del self._waiting[: MOST_WAITING // 10]
            self.dropped += MOST_WAITING // 10
        self._waiting.append(event)

    def flush(self) -> None:
        if not self._waiting:
            return
        events, self._waiting = self._waiting, []
        lines = self._encoder.encode_lines(events)
        try:
            if self.path.exists() and self.path.stat().st_size + len(lines) > self.max_bytes:
                self.path.replace(older(self.path))
            with self.path.open("ab") as file:
                if not self._opened and file.tell() > 0:
                    # A life that was killed while it wrote may have left half a line.
                    file.write(b"\n")
                file.write(lines)
            self._opened = True
            self._failed = False
        except OSError as error:
            # A full disk, too, leaves half a line.
            self._opened = False
            self.dropped += len(events)
            if not self._failed:
                log.error("the ledger %s cannot be written: %s", self.path, error.strerror or error)
            self._failed = True


def older(path: Path) -> Path:
    return path.with_name(path.name + ".1")


def read(path: Path) -> Iterator[LedgerEvent]:
    """Every event of a ledger file and of the one before it, oldest first; torn lines are left out."""
    decoder = msgspec.json.Decoder(LedgerEvent)
    with contextlib.ExitStack() as stack:
        files: dict[int, BinaryIO] = {}
        # The newer one is opened first: if it is turned over meanwhile, it is not missed, and not read twice.
        for each in (path, older(path)):
            with contextlib.suppress(FileNotFoundError):
                file = stack.enter_context(each.open("rb"))
                files.setdefault(os.fstat(file.fileno()).st_ino, file)
        for opened in reversed(files.values()):
            for line in opened:
                if not line.endswith(b"\n") or not line.strip():
                    continue
                try:
                    event = decoder.decode(line)
                except NO_EVENT:
                    continue
                yield event

"""Ledger files as they grow: each call gives what has been written since the last one.

Follows a file over its own rotation, and finds files that appear later. Lines that are torn or that nobody
understands are left out; kinds and fields of newer versions are not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from epoka.ledger.file import NO_EVENT, older
from epoka.model.ledger import LedgerEvent

_NOTHING: Final = (-1, 0)


class Tail:
    def __init__(self, paths: Callable[[], Iterable[Path]]) -> None:
        self._paths = paths
        self._read: dict[Path, tuple[int, int]] = {}
        """Inode and position of every file."""
        self._decoder = msgspec.json.Decoder(LedgerEvent)

    def new(self) -> list[LedgerEvent]:
        """Every event that was not given before, in the order of time."""
        events: list[LedgerEvent] = []
        given = self._read.copy()
        try:
            for path in self._paths():
                events += self._events_of(path)
        except OSError:
            # What was read of the other files has not been given to anybody.
            self._read = given
            raise
        return sorted(events, key=lambda event: (event.time_ms, event.node, event.event_id))

    def _events_of(self, path: Path) -> list[LedgerEvent]:
        """What is new in a file and in the one before it."""
        # A file that is turned over is the same file under its other name, and has been read so far. The
        # newer one comes first: if it is turned over in between, it is found again, and not missed.
        newer, before = self._read.get(path, _NOTHING), self._read.get(older(path), _NOTHING)
        events = self._events(path, newer)
        return events + self._events(older(path), self._read.get(path, _NOTHING), newer, before)

    def _events(self, path: Path, *known: tuple[int, int]) -> list[LedgerEvent]:
        """What is new in a file that may be one of those known, inode and position."""
        try:
            with path.open("rb") as file:
                about = os.fstat(file.fileno())
                inode = about.st_ino
                position = max((at for each, at in known if each == inode), default=0)
                if position > about.st_size:
                    # Somebody has emptied it.
                    position = 0
                file.seek(position)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text.rfind(b"\n") + 1
        self._read[path] = (inode, position + whole)
        events = []
        for line in text[:whole].splitlines():
            try:
                events.append(self._decoder.decode(line))
            except NO_EVENT:
                continue
        return events

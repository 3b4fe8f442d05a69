"""Ledger files as they grow: each call gives what has been written since the last one.

Follows a file over its own rotation, and finds files that appear later. Lines that are torn or that nobody
understands are left out; kinds and fields of newer versions are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from epoka.ledger.file import older
from epoka.model.ledger import LedgerEvent


class Tail:
    def __init__(self, paths: Callable[[], Iterable[Path]]) -> None:
        self._paths = paths
        self._read: dict[Path, tuple[int, int]] = {}
        """Inode and position of every file."""
        self._decoder = msgspec.json.Decoder(LedgerEvent)

    def new(self) -> list[LedgerEvent]:
        """Every event that was not given before, in the order of time."""
        events: list[LedgerEvent] = []
        for path in self._paths():
            for each in (older(path), path):
                events += self._events(each)
        return sorted(events, key=lambda event: (event.time_ms, event.node, event.event_id))

    def _events(self, path: Path) -> list[LedgerEvent]:
        try:
            with path.open("rb") as file:
                inode = path.stat().st_ino
                # A file that was turned over is the same file under its other name.
                position = next((at for known, at in self._read.values() if known == inode), 0)
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
            except msgspec.DecodeError:
                continue
        return events

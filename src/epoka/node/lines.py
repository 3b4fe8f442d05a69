"""How a node writes its log: one line an event, with the time, the level and the node.

Lines that strangers can provoke go through `Sparing`, so that nobody fills the disk by knocking at the door.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

_COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[1;31m"}
_RESET = "\x1b[0m"


class LineFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO node=1 text`; only a traceback takes more than one line."""

    def __init__(self, node_id: int | None, *, colours: bool = False) -> None:
        super().__init__()
        self._node = "" if node_id is None else f" node={node_id}"
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        node = getattr(record, "node", None)
        origin = self._node if node is None else f" node={node}"
        text = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        line = f"{when.replace('+00:00', 'Z')} {record.levelname}{origin} {text}"
        if self._colours and (colour := _COLOURS.get(record.levelno)):
            line = f"{colour}{line}{_RESET}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def write_lines(node_id: int | None, stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send the log of this process to `stream` (standard error), in colour only on a terminal."""
    target = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(target)
    handler.setFormatter(LineFormatter(node_id, colours=target.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


class Sparing:
    """Writes at most `burst` lines in `window_s` seconds and then says how many it left out."""

    def __init__(
        self,
        log: Callable[[str], None],
        *,
        burst: int = 20,
        window_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._burst = burst
        self._window_s = window_s
        self._clock = clock
        self._began = clock()
        self._written = 0
        self._left_out = 0

    def __call__(self, line: str) -> None:
        now = self._clock()
        if now - self._began >= self._window_s:
            if self._left_out:
                self._log(
                    f"{self._left_out} more connections were closed or refused without a line of their own"
                )
            self._began, self._written, self._left_out = now, 0, 0
        if self._written < self._burst:
            self._written += 1
            self._log(line)
        else:
            self._left_out += 1

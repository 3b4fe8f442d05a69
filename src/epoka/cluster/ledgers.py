"""Ledger files of nodes on an event loop: written on the side, a moment after something was reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from epoka.ledger.file import LedgerFile

FLUSH_S = 0.1


def keep_written(ledgers: Callable[[], Iterable[LedgerFile]]) -> None:
    """Have the running loop write the ledgers down from now on, again and again."""
    loop = asyncio.get_running_loop()

    def flush() -> None:
        for ledger in ledgers():
            ledger.flush()
        loop.call_later(FLUSH_S, flush)

    flush()

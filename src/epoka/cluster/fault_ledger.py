"""What somebody does to the nodes of a cluster, written down beside what the nodes write themselves.

So the ledger of a cluster on one machine begins a chain of causes where it began: with a verb.
"""

from __future__ import annotations

import time
from pathlib import Path

from epoka.ledger.file import LedgerFile
from epoka.ledger.why import UNDONE
from epoka.model.ledger import LedgerEvent

FILE_NAME = "faults.jsonl"
_EVENTS_PER_MS = 1024


class FaultLedger:
    def __init__(self, folder: Path) -> None:
        self._file = LedgerFile(folder / FILE_NAME)
        self._next_id = int(time.time() * 1000) * _EVENTS_PER_MS

    def tell(self, verb: str, node: int, told: str, *, undone: bool = False) -> None:
        """Write down what is about to be done; `node` is -1 for what concerns all."""
        self._file.write(
            LedgerEvent(
                kind="fault",
                time_ms=int(time.time() * 1000),
                event_id=self._next_id,
                verdict=UNDONE if undone else "",
                given=verb,
                broker=node,
                detail=told,
            )
        )
        self._next_id += 1
        self._file.flush()

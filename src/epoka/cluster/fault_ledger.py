"""What somebody does to the nodes of a cluster, written down beside what the nodes write themselves.

So the ledger of a cluster on one machine begins a chain of causes where it began: with a verb.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from epoka.ledger.file import LedgerFile, read
from epoka.ledger.why import ENDS, LASTING, UNDONE
from epoka.model.ledger import LedgerEvent

FILE_NAME = "faults.jsonl"
_EVENTS_PER_MS = 1024


class FaultLedger:
    def __init__(self, folder: Path) -> None:
        self._file = LedgerFile(folder / FILE_NAME)
        self._next_id = int(time.time() * 1000) * _EVENTS_PER_MS

    def begin(self) -> None:
        """A run begins: nobody is cut off, and nobody stands still, whatever the run before has left so."""
        lasting: set[tuple[str, int]] = set()
        # One that cannot be read is no reason not to start.
        with suppress(OSError):
            for event in read(self._file.path):
                over = ENDS.get(event.given, ())
                lasting -= {each for each in lasting if each[0] in over and event.broker in (each[1], -1)}
                if event.given in LASTING:
                    lasting.add((event.given, event.broker))
        if any(verb == "isolate" for verb, _ in lasting):
            self.tell("heal", -1, "started the cluster anew", undone=True)
        for verb, node in sorted(lasting):
            if verb == "pause":
                self.tell("resume", node, "started the cluster anew", undone=True)

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

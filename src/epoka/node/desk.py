"""The thread on which a node waits for ZooKeeper, so that nothing else has to.

Jobs are done one after the other. One that ZooKeeper lets down is told in a line and forgotten: whoever asked
for it is sent to look again. Any other exception is a defect of ours and ends the desk.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from epoka.coordination.zookeeper.session import ZooKeeperError

log = logging.getLogger(__name__)


class Desk:
    """One thread for everything that may have to wait. What is already asked for is not asked for twice."""

    def __init__(self, name: str) -> None:
        self._jobs: deque[tuple[str, Callable[[], None]]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._broken: Callable[[Exception], None] = lambda error: None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self, broken: Callable[[Exception], None]) -> None:
        self._broken = broken
        self._thread.start()

    def ask(self, key: str, job: Callable[[], None]) -> None:
        """Do the job after those before it; one with the same key that still waits is enough."""
        with self._changed:
            if not self._closed and all(key != waiting for waiting, _ in self._jobs):
                self._jobs.append((key, job))
                self._changed.notify()

    @property
    def closed(self) -> bool:
        return self._closed

    def pause(self, seconds: float) -> None:
        """For the job at work: wait, but not beyond the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._jobs.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._jobs))
                if self._closed:
                    return
                _, job = self._jobs.popleft()
            try:
                job()
            except ZooKeeperError as error:
                if not self._closed:
                    log.warning("%s", error)
            except Exception as error:
                self._broken(error)
                return

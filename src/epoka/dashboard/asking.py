"""Questions to the brokers, as any client asks them. Decides who gets which connection; changes nothing.

A client serves one thread at a time, so each question borrows one. Few are asked at once, and each has a
short deadline: a broker that stands still costs its question and no page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from epoka.client.cluster import ClusterClient
from epoka.client.errors import ClientError, Unreachable
from epoka.client.settings import Address, ClientSettings

MOST_AT_ONCE: Final = 8
MOST_IDLE: Final = 3
QUEUE_S: Final = 2.0
ANSWER_MS: Final = 2_000
"""How long a broker may take for one answer."""
PATIENCE_MS: Final = 4_000
"""How long a question may take with all its attempts."""
FETCH_BYTES: Final = 256 << 10


class Asking:
    def __init__(self, addresses: Callable[[], tuple[Address, ...]]) -> None:
        """`addresses` tells where brokers are now, those that are likely to answer first."""
        self._addresses = addresses
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._lock = threading.Lock()
        self._idle: list[ClusterClient] = []
        self._closed = False

    def settings(self) -> ClientSettings:
        found = self._addresses()
        if not found:
            raise Unreachable("no broker is known that answers in plain text")
        return ClientSettings(
            bootstrap=found,
            client_id="epoka-dashboard",
            request_timeout_ms=ANSWER_MS,
            fetch_max_wait_ms=100,
            partition_fetch_bytes=FETCH_BYTES,
        )

    @contextmanager
    def client(self) -> Iterator[ClusterClient]:
        """A client for one question; ClientError when nobody can be asked."""
        settings = self.settings()
        if not self._free.acquire(timeout=QUEUE_S):
            raise Unreachable("too many questions are waiting for the brokers")
        try:
            client = self._borrow(settings)
            try:
                yield client
            except BaseException:
                # Something may still be under way on its connections.
                client.close()
                raise
            self._give_back(client)
        finally:
            self._free.release()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def _borrow(self, settings: ClientSettings) -> ClusterClient:
        with self._lock:
            if self._closed:
                raise ClientError("the dashboard is closing")
            while self._idle:
                client = self._idle.pop()
                if {*client.settings.bootstrap} == {*settings.bootstrap}:
                    return client
                client.close()
        return ClusterClient(settings, patience_ms=PATIENCE_MS)

    def _give_back(self, client: ClusterClient) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE:
                self._idle.append(client)
                return
        client.close()

"""What the pages are told while they are open: to each listener what has changed, never everything again.

Any thread publishes; every listener reads on the event loop of the server. A listener that does not keep up
loses its messages and is told to begin anew.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

MOST_WAITING: Final = 256
MOST_LISTENERS: Final = 64

Message = tuple[str, dict[str, Any]]


class Listener:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: asyncio.Queue[Message | None] = asyncio.Queue()

    def tell(self, message: Message | None) -> None:
        """From any thread."""
        try:
            self._loop.call_soon_threadsafe(self._put, message)
        except RuntimeError:
            # The server's loop has ended, and the listener with it.
            return

    async def next(self, timeout_s: float) -> Message | None:
        """The next message; `ping` when there was none for a while, None when it is over."""
        try:
            return await asyncio.wait_for(self._waiting.get(), timeout_s)
        except TimeoutError:
            return "ping", {}

    def _put(self, message: Message | None) -> None:
        if self._waiting.qsize() >= MOST_WAITING:
            while not self._waiting.empty():
                self._waiting.get_nowait()
            self._waiting.put_nowait(("anew", {}))
        self._waiting.put_nowait(message)


class Feed:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._closed = False

    def listen(self) -> Listener | None:
        """A new listener on the running loop; None when there are too many."""
        listener = Listener(asyncio.get_running_loop())
        with self._lock:
            if self._closed or len(self._listeners) >= MOST_LISTENERS:
                return None
            self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.discard(listener)

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def publish(self, kind: str, content: dict[str, Any]) -> None:
        with self._lock:
            for listener in self._listeners:
                listener.tell((kind, content))

    def close(self) -> None:
        """End every stream."""
        with self._lock:
            self._closed = True
            for listener in self._listeners:
                listener.tell(None)

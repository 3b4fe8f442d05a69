"""A door for Prometheus: one page, asked for with GET, over a connection that is closed afterwards.

Reads the first line of a request and nothing else of it. Serves few at a time, and waits for nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from epoka.node.exposition import CONTENT_TYPE, Family, written_in_slices

log = logging.getLogger(__name__)

PATIENCE_S = 5.0
MOST_AT_A_TIME = 16
MOST_CONNECTIONS = 64
"""More than these are not even told that they are too many."""
MAX_LINE_BYTES = 8192


class MetricsDoor:
    def __init__(self, collect: Callable[[], Awaitable[Sequence[Family]]]) -> None:
        self._collect = collect
        self._server: asyncio.Server | None = None
        self._inside = 0

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address, or OSError."""
        self._server = await asyncio.start_server(self._attend, host, port, limit=MAX_LINE_BYTES)
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._inside >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._inside += 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                line = (await reader.readuntil(b"\n")).decode("latin-1").split()
                # A client that still speaks while the connection is closed would lose the answer.
                while (await reader.readuntil(b"\n")).strip():
                    pass
                writer.write(await self._answer(line))
                await writer.drain()
                # Behind `drain` some of it may still wait for a client that has stopped reading.
                writer.close()
                await asyncio.shield(writer.wait_closed())
        except (TimeoutError, OSError, EOFError, asyncio.LimitOverrunError):
            log.debug("a scrape came to nothing")
            writer.transport.abort()
        finally:
            self._inside -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, line: list[str]) -> bytes:
        method, path = (line[0], line[1].partition("?")[0]) if len(line) == 3 else ("", "")
        if self._inside > MOST_AT_A_TIME:
            return _page("503 Service Unavailable", b"too many scrapes at a time\n")
        if method not in ("GET", "HEAD"):
            return _page("405 Method Not Allowed", b"GET /metrics\n")
        if path != "/metrics":
            return _page("404 Not Found", b"GET /metrics\n")
        body = await written_in_slices(await self._collect())
        return _page("200 OK", body, CONTENT_TYPE, head=method == "HEAD")


def _page(status: str, body: bytes, kind: str = "text/plain; charset=utf-8", *, head: bool = False) -> bytes:
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + (b"" if head else body)

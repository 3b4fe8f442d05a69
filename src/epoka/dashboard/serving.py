"""Runs the dashboard beside whatever else the process does: a server on a thread of its own, on loopback."""

from __future__ import annotations

import errno
import socket
import threading
from pathlib import Path
from typing import Final

import uvicorn

from epoka.cluster.errors import BadCluster, PortTaken
from epoka.cluster.ports import HOST
from epoka.dashboard.app import build
from epoka.dashboard.gate import Secrets
from epoka.dashboard.observing import NodeStates, Observer

GRACE_S: Final = 2
MOST_CONNECTIONS: Final = 256


class Dashboard:
    """Serves from the moment it is made until it is closed."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        *,
        allow_faults: bool = False,
        nodes: NodeStates | None = None,
        observer: Observer | None = None,
    ) -> None:
        """`folder` is the data directory of the cluster; `port` 0 takes any that is free.

        An `observer` of one's own shows what it likes, for whoever measures the pages.
        """
        self._socket = _bound(port)
        self.port = int(self._socket.getsockname()[1])
        self._secrets = Secrets()
        self.observer = observer or Observer(folder, nodes)
        self._server = uvicorn.Server(
            uvicorn.Config(
                build(self.observer, self._secrets, self.port, allow_faults=allow_faults),
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,  # the first address has a token in it
                proxy_headers=False,
                server_header=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run,
            kwargs={"sockets": [self._socket]},
            name="epoka-dashboard",
            daemon=True,
        )
        self.observer.start()
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/"

    @property
    def url(self) -> str:
        """What a person opens: it begins a session."""
        return f"{self.address}?token={self._secrets.entrance}"

    def close(self) -> None:
        self.observer.close()
        self._server.should_exit = True
        self._thread.join(timeout=2 * GRACE_S)
        self._socket.close()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bound(port: int) -> socket.socket:
    # With the protocol named, asyncio sends small answers at once; without, they wait for 40 ms.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
        # Listening from here on: whoever reads the address may come at once.
        bound.listen(128)
    except OverflowError:
        bound.close()
        raise BadCluster(f"there is no port {port}; ports go from 1 to 65535") from None
    except OSError as error:
        bound.close()
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be taken: {error.strerror}"
        raise PortTaken(f"port {port} on {HOST} {why}") from error
    return bound

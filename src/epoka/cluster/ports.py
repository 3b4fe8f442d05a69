"""Ports for the nodes of one cluster, kept for as long as the cluster lives.

A port that was free a moment ago is a race, and the port of a broker that is down is anybody's. So the
cluster binds every port itself and never listens: the system gives it to nobody else, while a node that binds
with SO_REUSEADDR, as ours do, still may. Only Linux allows this; elsewhere the port is let go at once.
"""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Sequence

from epoka.cluster.errors import BadCluster, PortTaken

HOST = "127.0.0.1"
_MAY_SHARE = sys.platform == "linux"


class Ports:
    """The ports that one cluster holds."""

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}

    def take(self, wanted: int = 0) -> int:
        """Hold a port, any free one for 0; PortTaken when somebody else has it."""
        reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            reservation.bind((HOST, wanted))
        except OverflowError:
            reservation.close()
            raise BadCluster(f"there is no port {wanted}; ports go from 1 to 65535") from None
        except OSError as error:
            reservation.close()
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be taken: {error.strerror}"
            raise PortTaken(f"port {wanted} on {HOST} {why}") from error
        port = int(reservation.getsockname()[1])
        if _MAY_SHARE:
            self._held[port] = reservation
        else:
            reservation.close()
        return port

    def take_again(self, wanted: Sequence[int]) -> list[int]:
        """Ports that were used before, as far as they are still free; new ones in place of the others."""
        taken = []
        for port in wanted:
            try:
                taken.append(self.take(port))
            except PortTaken:
                taken.append(self.take())
        return taken

    def close(self) -> None:
        """Let go of every port."""
        for reservation in self._held.values():
            reservation.close()
        self._held.clear()

"""Asks one server of an ensemble what it is, without a session. Standard library only."""

from __future__ import annotations

import socket
from typing import Final

TIMEOUT_S: Final = 2.0
WAITING: Final = "waiting"
"""It answers, and does not serve: the others are missing, or they have not agreed on a leader."""
UNKNOWN: Final = "unknown"
"""It answers, and keeps to itself what it is: not every ensemble allows such questions."""
_MOST_BYTES: Final = 64 * 1024


def mode(host: str, port: int) -> str | None:
    """`standalone`, `leader` or `follower`, or WAITING, or UNKNOWN; None when nobody answers."""
    try:
        with socket.create_connection((host, port), TIMEOUT_S) as peer:
            peer.settimeout(TIMEOUT_S)
            peer.sendall(b"srvr")
            answer = b""
            while len(answer) < _MOST_BYTES and (part := peer.recv(4096)):
                answer += part
    except OSError:
        return None
    if b"not currently serving" in answer:
        return WAITING
    for line in answer.decode(errors="replace").splitlines():
        name, _, value = line.partition(": ")
        if name == "Mode":
            return value.strip()
    return UNKNOWN

"""The private line between a cluster and a node's process: JSON values, one a line, over a socket pair.

Nobody else can reach it, it needs no port and no path, and its end is heard by both sides: a node whose
cluster is gone ends as well.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import msgspec

from epoka.cluster.faults import Faulty


class ChannelClosed(Exception):
    """The other side is gone."""


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The first word of the cluster: the node may start, under these faults."""

    controller_id: int
    faults: Faulty


class SetFaults(msgspec.Struct, frozen=True, tag=True):
    """From now on these faults and no others."""

    faults: Faulty


class Tell(msgspec.Struct, frozen=True, tag=True):
    """Write the ledger down and say how it goes."""


class Started(msgspec.Struct, frozen=True, tag=True):
    """The node listens."""


class Done(msgspec.Struct, frozen=True, tag=True):
    """What was asked is done; `held` counts the messages that each hold has stopped."""

    held: dict[int, int]


Order = Begin | SetFaults | Tell
Word = Started | Done

orders = msgspec.json.Decoder(Order)
words = msgspec.json.Decoder(Word)


def line(value: Order | Word) -> bytes:
    return msgspec.json.encode(value) + b"\n"


class Channel:
    """The cluster's end. One question at a time; the node answers in order."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._buffer = bytearray()
        self._lock = threading.Lock()
        self._unanswered = 0

    def close(self) -> None:
        self._socket.close()

    def tell(self, order: Order) -> None:
        """Give an order and do not wait; a node that is paused will find it."""
        with self._lock:
            self._send(order)

    def ask(self, order: Order, *, timeout_s: float) -> Done:
        """Give an order and wait until it is done; TimeoutError or ChannelClosed if it never is."""
        with self._lock:
            deadline = time.monotonic() + timeout_s
            self._send(order)
            while True:
                word = self._receive(deadline)
                if isinstance(word, Done):
                    self._unanswered -= 1
                    if not self._unanswered:
                        return word

    def wait_started(self, *, timeout_s: float) -> bool:
        """Whether the node has said within the time that it listens."""
        with self._lock:
            try:
                return isinstance(self._receive(time.monotonic() + timeout_s), Started)
            except TimeoutError:
                return False

    def _send(self, order: Order) -> None:
        try:
            self._socket.settimeout(5)
            self._socket.sendall(line(order))
        except TimeoutError:
            raise
        except OSError as error:
            raise ChannelClosed from error
        if not isinstance(order, Begin):
            self._unanswered += 1

    def _receive(self, deadline: float) -> Any:
        while b"\n" not in self._buffer:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            try:
                more = self._socket.recv(65536)
            except TimeoutError:
                raise
            except OSError as error:
                raise ChannelClosed from error
            if not more:
                raise ChannelClosed
            self._buffer += more
        first, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        return words.decode(first)

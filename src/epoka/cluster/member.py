"""A node as one of the processes of a cluster on this machine: the plain node, with a line to its cluster.

Through the line come the faults of the network, which no node outside of such a cluster can have. When the
line breaks, the cluster is gone, and the node ends at once.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec

from epoka.cluster.channel import Begin, Done, SetFaults, Started, line, orders
from epoka.cluster.faults import FaultyGate
from epoka.cluster.ledgers import keep_written
from epoka.ledger.file import LedgerFile
from epoka.node.config import ConfigError, load
from epoka.node.process import Node, run

log = logging.getLogger(__name__)

EXIT_BAD_CONFIG = 2
EXIT_ORPHAN = 3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="epoka.cluster.member")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--channel", type=int, required=True)
    options = parser.parse_args(arguments)
    end = socket.socket(fileno=options.channel)
    try:
        config = load(options.config)
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return EXIT_BAD_CONFIG
    # Unbuffered: what comes behind the first line is for the event loop.
    with end.makefile("rb", buffering=0) as stream:
        first = stream.readline()
    if not first:
        return EXIT_ORPHAN
    begin = orders.decode(first)
    assert isinstance(begin, Begin)
    gate = FaultyGate(begin.controller_id, begin.faults)
    ledger = LedgerFile(options.ledger)
    line_to_cluster: list[_Line] = []

    def on_start(node: Node) -> None:
        gate.find_controller = lambda: node.controller_id
        line_to_cluster.append(_Line(end, gate, ledger))

    try:
        return run(config, report=ledger.write, on_start=on_start, gate=gate)
    finally:
        ledger.flush()


class _Line(asyncio.Protocol):
    """The node's end of the channel, on its event loop."""

    def __init__(self, end: socket.socket, gate: FaultyGate, ledger: LedgerFile) -> None:
        self._gate = gate
        self._ledger = ledger
        self._buffer = b""
        self._transport: asyncio.WriteTransport
        self._loop = asyncio.get_running_loop()
        self._connecting = self._loop.create_task(self._loop.create_connection(lambda: self, sock=end))
        keep_written(lambda: (ledger,))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._transport.write(line(Started()))

    def data_received(self, data: bytes) -> None:
        *complete, self._buffer = (self._buffer + data).split(b"\n")
        for each in complete:
            try:
                order = orders.decode(each)
            except msgspec.DecodeError as error:
                log.error("an order that nobody understands: %s", error)
                continue
            if isinstance(order, SetFaults):
                self._gate.set(order.faults)
            self._ledger.flush()
            self._transport.write(line(Done(self._gate.held)))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._loop.is_running():
            return
        log.error("the cluster of this node is gone")
        self._ledger.flush()
        # Nothing may keep an orphan alive, and there is nobody left to hand anything over to.
        os._exit(EXIT_ORPHAN)


if __name__ == "__main__":
    sys.exit(main())

"""Brings `Send` to the right node: to a core in this process directly, to any other through a connection.

A message between two cores of one process is written and read back like on a socket: what its version
cannot say must not arrive, and no two cores may hold the same buffer. Decides nothing about the messages; a
test or a fault verb may stand at the gate and hold or drop them.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any, Final

from epoka.model.events import Disconnected, Peer, Reply, Send
from epoka.node.runtime import Runtime, reply_none
from epoka.wire import codec
from epoka.wire.apis import APIS

log = logging.getLogger(__name__)

Gate = Callable[[int, int, Any, Callable[[], None]], None]
"""Gets sender, receiver, message and the call that lets it through; not to call it loses the message."""


def open_gate(sender: int, receiver: int, message: Any, go: Callable[[], None]) -> None:
    """Let everything through."""
    go()


ELEMENTS_AMONG_NODES: Final = 32_000_000
"""How many elements a message between nodes may have in all. UpdateMetadata for half a million partitions has
three and a half million, which nobody else may send us."""

connection_numbers = itertools.count(1)
"""One number a connection, for all nodes of this process."""


class LocalCall:
    """One request between two cores of this process."""

    __slots__ = ("api_key", "board", "done", "receiver", "sender", "timer", "token", "token_there", "version")

    def __init__(self, board: Switchboard, sender: Runtime, receiver: Runtime, send: Send) -> None:
        self.board = board
        self.sender = sender
        self.receiver = receiver
        self.token = send.token
        self.token_there = 0
        self.api_key: int = send.message.API_KEY
        self.version = send.version
        self.done = False
        self.timer: asyncio.TimerHandle | None = None

    def answer(self, message: Any | None) -> None:
        if message is None:
            self.finish(None)
            return
        try:
            copy = _through_the_codec(message, self.version)
        except Exception:
            # Somebody's request can bring it about, and the codec holds no state: it costs this call alone.
            log.exception(
                "a defect in an answer: %s version %d cannot be written",
                APIS[self.api_key].name,
                self.version,
                extra={"node": self.receiver.node_id},
            )
            self.finish(None)
            return
        receiver, sender = self.receiver.node_id, self.sender.node_id
        self.board.gate(receiver, sender, copy, lambda: self.board.soon(self.finish, copy))

    def hang_up(self, reason: str) -> None:
        self.finish(None)

    def finish(self, message: Any | None) -> None:
        """The end of the call, whichever way; only the first one counts."""
        if self.done:
            return
        self.done = True
        if self.timer is not None:
            self.timer.cancel()
        self.receiver.forget(self, self.token_there)
        self.board.calls.pop(self, None)
        self.sender.handle(Reply(self.token, message))


class Switchboard:
    """The routes of one process. Nodes of one process may share it; each brings its own connections."""

    def __init__(self, gate: Gate = open_gate) -> None:
        self.gate = gate
        self.calls: dict[LocalCall, None] = {}
        self._loop = asyncio.get_running_loop()
        self._local: dict[int, Runtime] = {}
        self._links: dict[Runtime, Callable[[Send], None]] = {}
        self._numbers: dict[tuple[Runtime, Runtime, int], int] = {}
        self._away: dict[tuple[Runtime, int], Send] = {}

    def join(self, address: int, runtime: Runtime) -> None:
        """Requests to `address`, a node id or CONTROLLER, go to this core from now on."""
        self._local[address] = runtime

    def connect(self, runtime: Runtime, send: Callable[[Send], None]) -> None:
        """What `runtime` sends to nodes that are not in this process goes through `send`."""
        self._links[runtime] = send

    def leave(self, runtime: Runtime) -> None:
        """A core is gone: whoever waits for it hears so, and what it asked is forgotten."""
        for address in [a for a, there in self._local.items() if there is runtime]:
            del self._local[address]
        self._links.pop(runtime, None)
        self._away = {key: send for key, send in self._away.items() if key[0] is not runtime}
        for call in list(self.calls):
            if call.receiver is runtime or call.sender is runtime:
                call.finish(None)
        for key in [k for k in self._numbers if runtime in k[:2]]:
            number = self._numbers.pop(key)
            if key[0] is runtime:
                key[1].handle(Disconnected(number))

    def send(self, runtime: Runtime, send: Send) -> None:
        receiver = self._local.get(send.to)
        if receiver is not None:
            self._send_here(runtime, receiver, send)
        elif (links := self._links.get(runtime)) is not None:
            self._send_away(runtime, links, send)
        else:
            self._loop.call_soon(reply_none, runtime, send.token)

    def returned(self, runtime: Runtime, token: int, message: Any | None) -> None:
        """An answer from another process has come; it passes the gate like everything else."""
        send = self._away.pop((runtime, token), None)
        if send is None or message is None:
            runtime.handle(Reply(token, message))
            return
        ends: list[asyncio.TimerHandle | None] = []

        def finish(answer: Any | None) -> None:
            if len(ends) < 2:
                if ends and ends[0] is not None:
                    ends[0].cancel()
                ends[:] = (None, None)
                runtime.handle(Reply(token, answer))

        self.gate(send.to, runtime.node_id, message, lambda: finish(message))
        if not ends:
            ends.append(self._loop.call_later(send.timeout_ms / 1000, finish, None))

    def soon(self, call: Callable[..., None], *arguments: Any) -> None:
        """Let `call` happen after what happens now, in order."""
        self._loop.call_soon(call, *arguments)

    def _send_here(self, sender: Runtime, receiver: Runtime, send: Send) -> None:
        call = LocalCall(self, sender, receiver, send)
        copy = _through_the_codec(send.message, send.version)
        self.calls[call] = None
        call.timer = self._loop.call_later(send.timeout_ms / 1000, call.finish, None)
        number = self._numbers.setdefault((sender, receiver, send.lane), 0)
        if not number:
            number = self._numbers[sender, receiver, send.lane] = next(connection_numbers)
        peer = Peer(control=True, host="127.0.0.1", client_id=f"node-{sender.node_id}", connection=number)
        self.gate(sender.node_id, receiver.node_id, copy, lambda: self.soon(self._ask, call, copy, peer))

    def _send_away(self, sender: Runtime, links: Callable[[Send], None], send: Send) -> None:
        if self.gate is open_gate:
            links(send)
            return
        held = [True]

        def go() -> None:
            if held:
                held.clear()
                timer.cancel()
                self._away[sender, send.token] = send
                links(send)

        def give_up() -> None:
            held.clear()
            reply_none(sender, send.token)

        timer = self._loop.call_later(send.timeout_ms / 1000, give_up)
        self.gate(sender.node_id, send.to, send.message, go)

    def _ask(self, call: LocalCall, message: Any, peer: Peer) -> None:
        if call.done:
            return
        lowest, highest = call.receiver.served.get(call.api_key, (0, -1))
        if not lowest <= call.version <= highest:
            log.warning(
                "%s of version %d is not served by node %d",
                type(message).__name__,
                call.version,
                call.receiver.node_id,
                extra={"node": call.sender.node_id},
            )
            call.finish(None)
            return
        call.token_there = call.receiver.ask(call, call.version, message, peer)


def _through_the_codec(message: Any, version: int) -> Any:
    written = bytearray(b"").join(codec.encode_parts(message, version))
    return codec.decode(codec.class_of(message), version, written, max_elements=ELEMENTS_AMONG_NODES)

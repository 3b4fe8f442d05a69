"""Everything between two processes: connections, delays, what a link loses, what somebody holds back.

Inside a connection each direction keeps its order and repeats nothing; across connections anything goes. An
answer belongs to the request it was given for, by its call, as correlation ids do. Where a link is cut,
messages wait like segments that are sent again and again; whoever waits too long closes the connection, and
what was under way on it is lost, or comes late, when its sender has long given it up.

Clients send one request behind the other, so theirs are as true as TCP: nothing arrives that is behind
something lost, nothing after the other end has heard that the connection is gone, and no other connection
takes its place before this end has. Nodes have to bear more than a network does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from epoka.model.events import Disconnected, Peer, Reply, Request
from epoka.wire import codec
from epoka.wire.encoded import Encoded

if TYPE_CHECKING:
    from epoka.sim.process import Process
    from epoka.sim.world import World

Answered = Callable[[Any], None]
Delay = Callable[[int, int, Any], int]
"""From sender, receiver and message to milliseconds."""


class Call(msgspec.Struct, eq=False):
    """One request and its answer."""

    connection: Connection
    token: int
    message: Any
    version: int
    answer: Any = None
    answered: bool = False
    done: bool = False
    """True once the asker has heard the answer, or that there is none."""
    held: bool = False
    """Held back on purpose: it then reaches whoever lives at the address."""
    answer_held: bool = False
    """The same of its answer: it then reaches the asker, though the connection may be gone by then."""
    on_answer: Answered | None = None
    """For askers that are not cores."""


class Way:
    """One direction of a connection."""

    __slots__ = ("arrive", "connection", "last_ms", "receiver", "sender", "waiting")

    def __init__(
        self, connection: Connection, sender: int, receiver: int, arrive: Callable[[Call], None]
    ) -> None:
        self.connection = connection
        self.arrive = arrive
        self.sender = sender
        self.receiver = receiver
        self.last_ms = 0
        self.waiting: deque[tuple[Call, Any]] = deque()


class Connection:
    """From one process to one address; bound to the process that took its first request."""

    __slots__ = (
        "back",
        "broken",
        "calls",
        "key",
        "lives",
        "number",
        "out",
        "peer",
        "receiver",
        "sender",
        "serving",
        "torn",
    )

    def __init__(self, network: Network, sender: Process, to: int, key: tuple[int, int], peer: Peer) -> None:
        self.number = peer.connection
        self.sender = sender
        self.key = key
        self.peer = peer
        self.lives = network.world.lives
        """How many processes there had been when it was asked for. One that came later is at its other end
        only if it has taken something in."""
        self.receiver: Process | None = None
        self.out = Way(self, sender.address, to, network._deliver)
        self.back = Way(self, to, sender.address, network._return)
        self.calls: deque[Call] = deque()
        self.serving: deque[Call] = deque()
        self.broken = False
        self.torn = False
        """A client's, of which nothing arrives any more."""


class Hold:
    """Messages that are kept back until `release`; the first of a connection stops what is behind it."""

    def __init__(
        self,
        network: Network,
        matches: Callable[[int, int, Any], bool],
        most: int | None,
        outlasts: bool = False,
    ) -> None:
        self.outlasts = outlasts
        """Answers reach the asker although their connection may be gone by then."""
        self._network = network
        self._matches = matches
        self._most = most
        self.messages: list[Any] = []
        """What has been held so far."""
        self.open = True

    def wants(self, sender: int, receiver: int, message: Any) -> bool:
        return (
            self.open
            and (self._most is None or len(self.messages) < self._most)
            and self._matches(sender, receiver, message)
        )

    def release(self) -> None:
        self.open = False
        self._network.unstick()


class Network:
    def __init__(self, world: World, rng: Random, *, codec_share: bool) -> None:
        self.world = world
        self.rng = rng
        self.through_codec = codec_share
        self.delay: Delay = one_millisecond
        self.late_share = 1.0
        """How often a message arrives although its connection was given up."""
        self.cuts: dict[tuple[int, int], int] = {}
        """Links that carry nothing, sender to receiver, and how many cuts are on them."""
        self.holds: list[Hold] = []
        self.ambushes: list[Callable[[Process, int, Any], None]] = []
        """Called with every request that leaves: sender, receiver's address, message."""
        self.reset_chance = 0.0
        self.confuses_replies = False
        """A mutant: an answer that comes too late is taken for that to the newest request of its kind."""
        self._opened: tuple[Encoded | None, Any] = (None, None)
        """The last message that was bytes already; it goes to several receivers, one after the other."""
        self._stuck: dict[Way, None] = {}
        self._number = 0

    # Requests.

    def send(
        self, sender: Process, to: int, token: int, message: Any, version: int, timeout_ms: int, lane: int
    ) -> Call:
        key = (to, lane)
        connection = sender.outgoing.get(key)
        if connection is None:
            self._number += 1
            peer = Peer(control=sender.node_id < 1000, host="sim", connection=self._number)
            connection = sender.outgoing[key] = Connection(self, sender, to, key, peer)
        # What is bytes already is opened in any case.
        if self.through_codec:
            message = through_the_codec(message, version)
        elif type(message) is Encoded:
            if message is not self._opened[0]:
                self._opened = (message, codec.opened(message))
            message = self._opened[1]
        call = Call(connection, token, message, version)
        connection.calls.append(call)
        world = self.world
        world.schedule(world.now + timeout_ms, self._expire, call)
        for ambush in self.ambushes:
            ambush(sender, to, message)
        if connection.broken:
            world.schedule(world.now + 1, self._finish, call, None)
        elif self.reset_chance and self.rng.random() < self.reset_chance:
            self.carry(connection.out, call, message)
            self.break_up(connection)
        else:
            self.carry(connection.out, call, message)
        return call

    def carry(self, way: Way, call: Call, message: Any) -> None:
        if way.waiting or ((self.cuts or self.holds) and self._is_stuck(way, call, message)):
            way.waiting.append((call, message))
            self._stuck[way] = None
            return
        world = self.world
        at = world.now + self.delay(way.sender, way.receiver, message)
        if at < way.last_ms:
            at = way.last_ms
        way.last_ms = at
        world.schedule(at, way.arrive, call)

    def _is_stuck(self, way: Way, call: Call, message: Any) -> bool:
        if (way.sender, way.receiver) in self.cuts:
            return True
        for hold in self.holds:
            if hold.wants(way.sender, way.receiver, message):
                hold.messages.append(message)
                call.held = True
                call.answer_held = hold.outlasts and way is call.connection.back
                return True
        return False

    def unstick(self) -> None:
        """Links or holds have changed: whatever may go on goes on, in its order."""
        self.holds = [hold for hold in self.holds if hold.open]
        for way in list(self._stuck):
            waiting, way.waiting = way.waiting, deque()
            while waiting:
                call, message = waiting[0]
                if (way.sender, way.receiver) in self.cuts or (call.held and self._still_held(message)):
                    break
                waiting.popleft()
                if not way.connection.broken or self._comes_late(call):
                    self.carry(way, call, message)
                    if way.waiting:
                        break
            way.waiting.extend(waiting)
            if not way.waiting:
                del self._stuck[way]

    def _still_held(self, message: Any) -> bool:
        return any(message is kept for hold in self.holds for kept in hold.messages)

    def _comes_late(self, call: Call) -> bool:
        if call.held or self.late_share >= 1.0:
            return True
        connection = call.connection
        comes = self.rng.random() < self.late_share and not connection.torn
        connection.torn = not comes and not connection.peer.control
        return comes

    def _deliver(self, call: Call) -> None:
        connection = call.connection
        bound = connection.receiver
        machine = self.world.machines.get(connection.out.receiver)
        receiver = None if machine is None else machine.process
        elsewhere = receiver is None or (bound is not None and bound is not receiver and not call.held)
        if connection.broken:
            if not self._comes_late(call):
                return
            if elsewhere:
                return
        else:
            if elsewhere or connection.torn:
                # A powered-off machine says nothing; a process that is gone is refused by its machine.
                connection.torn = not connection.peer.control
                if not self.world.is_silent(connection.out.receiver):
                    self.break_up(connection)
                return
            if bound is not receiver:
                connection.receiver = receiver
                receiver.incoming[connection] = None  # type: ignore[union-attr]
            connection.serving.append(call)
        assert receiver is not None
        token = receiver.next_token
        receiver.next_token = token + 1
        receiver.askers[token] = call
        met = receiver.life <= connection.lives or bound is receiver
        peer = connection.peer if met else self._present_peer(connection)
        self.world.deliver(receiver, Request(token, call.version, call.message, peer))

    def _present_peer(self, connection: Connection) -> Peer:
        """What is held for a later life of the receiver stands for what waited in the sender's queue: it
        comes on the newest connection that the sender has."""
        to = connection.key[0]
        present = [each for key, each in connection.sender.outgoing.items() if key[0] == to]
        return max(present, key=lambda each: each.number, default=connection).peer

    # Answers.

    def respond(self, call: Call, message: Any | None) -> None:
        """A core has answered. Answers leave a connection in the order of its requests."""
        call.answer = message
        call.answered = True
        connection = call.connection
        serving = connection.serving
        while serving and serving[0].answered:
            first = serving.popleft()
            if first.answer is None:
                self._finish(first, None)
            elif not connection.broken or self.confuses_replies:
                if self.through_codec:
                    first.answer = through_the_codec(first.answer, first.version)
                self.carry(connection.back, first, first.answer)

    def hang_up(self, call: Call) -> None:
        if not call.connection.broken:
            self.break_up(call.connection)

    def _return(self, call: Call) -> None:
        if self.confuses_replies and call.done:
            newest = self._newest_like(call)
            if newest is not None:
                self._finish(newest, call.answer)
            return
        if not call.connection.broken or call.answer_held:
            self._finish(call, call.answer)

    def _newest_like(self, call: Call) -> Call | None:
        sender = call.connection.sender
        return next(
            (
                other
                for connection in reversed(sender.outgoing.values())
                for other in reversed(connection.calls)
                if not other.done and type(other.message) is type(call.message)
            ),
            None,
        )

    def _finish(self, call: Call, message: Any | None) -> None:
        if call.done:
            return
        call.done = True
        connection = call.connection
        if connection.calls and connection.calls[0] is call:
            connection.calls.popleft()
        else:
            connection.calls.remove(call)
        if call.on_answer is not None:
            call.on_answer(message)
        elif connection.sender.alive:
            self.world.deliver(connection.sender, Reply(call.token, message))

    # The end of connections.

    def _expire(self, call: Call) -> None:
        if not call.done and call.connection.sender.alive:
            self.break_up(call.connection, lag_ms=0)

    def break_up(self, connection: Connection, lag_ms: int = 1) -> None:
        """The connection is gone: its sender hears so, and its receiver, if there is one, a little later."""
        if connection.broken:
            return
        connection.broken = True
        world = self.world
        receiver = connection.receiver
        if lag_ms and not connection.peer.control:
            world.schedule(world.now + lag_ms, self._tell_sender, connection)
        else:
            self._tell_sender(connection)
        for call in list(connection.calls):
            if call.answer_held:
                continue
            if lag_ms:
                world.schedule(world.now + lag_ms, self._finish, call, None)
            else:
                self._finish(call, None)
        if receiver is not None and receiver.alive:
            receiver.incoming.pop(connection, None)
            at = world.now + max(lag_ms, 1)
            if not connection.peer.control:
                at = max(at, connection.out.last_ms + 1)
            world.schedule(at, self._tell_receiver, connection, receiver)

    def _tell_sender(self, connection: Connection) -> None:
        outgoing = connection.sender.outgoing
        if outgoing.get(connection.key) is connection:
            del outgoing[connection.key]

    def _tell_receiver(self, connection: Connection, receiver: Process) -> None:
        connection.torn = not connection.peer.control
        self.world.deliver(receiver, Disconnected(connection.number))

    def process_ended(self, process: Process, *, silent: bool) -> None:
        """Both ends of everything it had: others hear at once, or not before they have waited long enough."""
        for connection in list(process.outgoing.values()):
            connection.broken = True
            receiver = connection.receiver
            if receiver is not None and receiver.alive:
                receiver.incoming.pop(connection, None)
                lag_ms = 1_000 if silent else 1
                world = self.world
                world.schedule(world.now + lag_ms, self._tell_receiver, connection, receiver)
        process.outgoing.clear()
        if not silent:
            for connection in list(process.incoming):
                self.break_up(connection)
        process.incoming.clear()

    # What the world does to it.

    def cut(self, sender: int, receiver: int) -> None:
        self.cuts[sender, receiver] = self.cuts.get((sender, receiver), 0) + 1

    def mend(self, sender: int, receiver: int) -> None:
        left = self.cuts.get((sender, receiver), 0) - 1
        if left > 0:
            self.cuts[sender, receiver] = left
        else:
            self.cuts.pop((sender, receiver), None)
            self.unstick()

    def mend_all(self) -> None:
        self.cuts.clear()
        for hold in self.holds:
            hold.open = False
        self.unstick()

    def hold(
        self, matches: Callable[[int, int, Any], bool], most: int | None = None, *, outlasts: bool = False
    ) -> Hold:
        hold = Hold(self, matches, most, outlasts)
        self.holds.append(hold)
        return hold

    def reset(self, one: int, other: int) -> None:
        """Every connection between two addresses breaks, in the middle of whatever it carries."""
        for here, there in ((one, other), (other, one)):
            process = self.world.process_at(here)
            if process is not None:
                for connection in list(process.outgoing.values()):
                    if connection.out.receiver == there:
                        self.break_up(connection)


def one_millisecond(sender: int, receiver: int, message: Any) -> int:
    return 1


def through_the_codec(message: Any, version: int) -> Any:
    return codec.decode(codec.class_of(message), version, bytearray(codec.encode(message, version)))

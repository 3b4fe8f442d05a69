"""What a schedule looks like from outside: who said what to whom, when it arrived, and what became of it.

A world that is watched writes one line for every message that matters to the story, every verdict that
refuses, every change the controller makes durable and everything that is done to the cluster. Routine
traffic (fetches, heartbeats, metadata) is left out unless the scenario asks for it or a rule refuses it.
Nothing here changes what happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from epoka.ledger.telling import sentence
from epoka.model.events import Event, Registered, RegistryChanged, Reply, Request, Send
from epoka.model.ledger import LedgerEvent
from epoka.sim.network import Hold
from epoka.sim.process import Process
from epoka.sim.scenarios.saying import about
from epoka.sim.world import CONTROLLER, CONTROLLERS, OPERATOR, ZOOKEEPER, Answer, World
from epoka.wire import codec
from epoka.wire.messages.alter_partition import AlterPartitionRequest

NOTE, FAULT, MESSAGE, CHANGE, VERDICT, HARM = "note", "fault", "message", "change", "verdict", "harm"

_DETOURS = 2_000_000

_CHANGES = frozenset(
    {
        "registered",
        "unregistered",
        "fenced",
        "unfenced",
        "stopping",
        "self-fenced",
        "self-unfenced",
        "stale",
        "leader",
        "isr",
        "ended",
        "active",
    }
)


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule that refused: what it was given and what it expected."""

    rule: str
    error: str = ""
    given: str = ""
    expected: str = ""
    reason: str = ""


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened."""

    time_ms: int
    """Since the schedule began; of a message, when it arrived."""
    kind: str
    text: str
    """What a message says, or what happened."""
    sender: str = ""
    """Of anything but a message: where it happened, empty for everywhere."""
    receiver: str = ""
    name: str = ""
    """Of a message: its name."""
    sent_ms: int = -1
    held: bool = False
    """Kept back by the schedule, not by the network's ordinary delay."""
    verdicts: tuple[Verdict, ...] = ()


class WatchedWorld(World):
    """A world that writes down what it carries, from `watch_from_here` on."""

    def __init__(self, **settings: Any) -> None:
        self.lines: list[Line] = []
        self.shows: frozenset[str] = frozenset()
        self._watched = False
        self._began_ms = 0
        self._sent: dict[int, tuple[int, Any]] = {}
        self._held: dict[int, Any] = {}
        self._to: dict[tuple[int, int], tuple[str, int]] = {}
        self.registry_is_told = True
        """False: what the registry has to say to the controller waits for `tell_registry`."""
        self._untold: RegistryChanged | None = None
        self.unregistered: dict[int, Registered | None] = {}
        """Brokers that are not told yet under which generation they are registered."""
        self.misled: dict[int, int] = {}
        """Brokers whose next proposal goes to a controller that is not in office any more."""
        self.in_line: list[Hold] = []
        """Holds that hold up what comes behind on the same connection."""
        self._astray: int | None = None
        super().__init__(**settings)

    def watch_from_here(self, shows: frozenset[str]) -> None:
        self.shows = shows
        self._watched = True
        self._began_ms = self.now
        self.network.ambushes.append(self._leaves)

    @property
    def elapsed_ms(self) -> int:
        return self.now - self._began_ms

    def write(self, kind: str, text: str, node: int | None = None) -> None:
        if self._watched:
            self.lines.append(
                Line(self.elapsed_ms, kind, text, "" if node is None else self.name_of(self.address_of(node)))
            )

    def name_of(self, address: int) -> str:
        """What a node is called in the chart."""
        if address == OPERATOR:
            return "operator"
        if address > OPERATOR:
            return "client"
        if address >= CONTROLLERS:
            several = sum(CONTROLLERS <= each < OPERATOR for each in self.machines) > 1
            return f"controller {address}" if several else "controller"
        machine = self.machines[address]
        other = "" if machine.node_id == address else " (second)"
        return f"broker {machine.node_id}{other}"

    # What goes over the wire.

    def _leaves(self, sender: Process, to: int, message: Any) -> None:
        self._sent[id(message)] = (self.now, message)

    def locate(self, process: Process, to: int) -> int | None:
        return self._astray if to == CONTROLLER and self._astray is not None else super().locate(process, to)

    def _send(self, process: Process, send: Send) -> None:
        if process.address in self.misled and isinstance(send.message, AlterPartitionRequest):
            self._astray = self.astray[process.address] = self.misled.pop(process.address)
            try:
                self._send(process, send)
            finally:
                self._astray = None
                del self.astray[process.address]
            return
        to = self.locate(process, send.to)
        if self._watched:
            self._to[process.life, send.token] = ("" if to is None else self.name_of(to), send.version)
        if to is not None and self.network.holds:
            message = codec.opened(send.message)
            if any(
                hold.wants(process.address, to, message)
                for hold in self.network.holds
                if hold not in self.in_line
            ):
                # What is held back has a connection of its own, so that it holds up nothing else.
                self._lane += 1
                send = msgspec.structs.replace(send, lane=_DETOURS + self._lane)
        super()._send(process, send)

    def ask(self, node: int, message: Any, version: int, **options: Any) -> Answer:
        then: Callable[[Any], None] | None = options.pop("then", None)
        receiver = self.name_of(self.address_of(node))
        asker = "operator" if options.get("control") else "client"

        def answered(reply: Any) -> None:
            if reply is not None:
                self._arrived(receiver, asker, reply, version, ())
            if then is not None:
                then(reply)

        return super().ask(node, message, version, then=answered, **options)

    def tell_registry(self, picture: RegistryChanged | None = None) -> None:
        """The controller reads the registry as it is, or as the picture says."""
        self.registry_is_told = True
        picture = picture or self._untold
        process = self.process_at(self.address_of(CONTROLLER))
        if picture is not None and process is not None:
            self.deliver(process, picture)

    def tell_registered(self, broker_id: int) -> None:
        event = self.unregistered.pop(broker_id)
        process = self.process_at(broker_id)
        if event is not None and process is not None:
            self.deliver(process, event)

    def deliver(self, process: Process, event: Event) -> None:
        if isinstance(event, Registered) and process.address in self.unregistered:
            self.unregistered[process.address] = event
            return
        if isinstance(event, RegistryChanged):
            self._untold = event
            if not self.registry_is_told:
                return
        if not self._watched or not process.alive or process.paused or process.busy_until > self.now:
            super().deliver(process, event)
            return
        here = self.name_of(process.address)
        before = len(self.ledger)
        place = len(self.lines)
        sender, version = "", 0
        if isinstance(event, RegistryChanged | Registered):
            self._registry_says(here, event)
            place = len(self.lines)
        if isinstance(event, Request):
            call = process.askers.get(event.token)
            sender = "" if call is None else self.name_of(call.connection.sender.address)
            version = event.version
        elif isinstance(event, Reply):
            sender, version = self._to.pop((process.life, event.token), ("", 0))
        try:
            super().deliver(process, event)
        finally:
            new = self.ledger[before:]
            refused = tuple(_verdict(each) for each in new if each.kind == "verdict")
            told = [
                # Of two processes with one id it is the one that tells.
                Line(self.elapsed_ms, CHANGE, sentence(each), here)
                for each in new
                if each.kind in _CHANGES and each.topic != "__consumer_offsets"
            ]
            if sender and getattr(event, "message", None) is not None:
                self._arrived(sender, here, event.message, version, refused, place)  # type: ignore[union-attr]
            else:
                for verdict in refused:
                    self.lines.insert(place, Line(self.elapsed_ms, VERDICT, "", here, verdicts=(verdict,)))
            self.lines.extend(told)

    def _registry_says(self, receiver: str, event: RegistryChanged | Registered) -> None:
        if isinstance(event, Registered):
            name, text = "registered", f"your generation is {event.epoch}"
        else:
            name = "registry"
            text = ", ".join(
                f"broker {entry.id} as {entry.epoch}"
                for entry in sorted(event.registrations, key=lambda entry: entry.id)
            )
        self.lines.append(Line(self.elapsed_ms, MESSAGE, text, ZOOKEEPER, receiver, name))

    def _arrived(
        self,
        sender: str,
        receiver: str,
        message: Any,
        version: int,
        verdicts: tuple[Verdict, ...],
        place: int | None = None,
    ) -> None:
        full = type(message).__name__
        sent, _ = self._sent.pop(id(message), (0, None))
        sent_ms = max(sent - self._began_ms, -1)
        held = self._is_held(message)
        if not (verdicts or held or (full in self.shows and not _is_routine(message))):
            return
        name = full.removesuffix("Request")
        if full.endswith("Response"):
            name = f"{full.removesuffix('Response')} answer"
        line = Line(
            self.elapsed_ms,
            MESSAGE,
            about(message, self._topic_name),
            sender,
            receiver,
            f"{name} v{version}",
            sent_ms,
            held,
            verdicts,
        )
        self.lines.insert(len(self.lines) if place is None else place, line)

    def hold(self, api: str, *, where: Callable[[Any], bool] | None = None, **about: Any) -> Hold:
        def noticed(message: Any) -> bool:
            fits = where is None or where(message)
            if fits:
                self._sent.setdefault(id(message), (self.now, message))
            return fits

        return super().hold(api, where=noticed, **about)

    def keep_in_mind(self, messages: list[Any]) -> None:
        """These were held back: they are shown whatever they are."""
        for message in messages:
            self._held[id(message)] = message

    def _is_held(self, message: Any) -> bool:
        return self._held.pop(id(message), None) is not None

    def _topic_name(self, topic_id: Any) -> str:
        process = self.process_at(self.address_of(CONTROLLER))
        topic = None if process is None else process.core.image.topic(topic_id)
        return "?" if topic is None else str(topic.name)


def _is_routine(message: Any) -> bool:
    """A heartbeat that wants nothing."""
    return not (getattr(message, "want_fence", True) or getattr(message, "want_shut_down", True))


def _verdict(event: LedgerEvent) -> Verdict:
    error = "" if event.error == "NONE" else event.error
    return Verdict(event.rule, error, event.given, event.expected, event.detail)

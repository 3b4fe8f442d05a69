"""Every life of every broker, read off the ledger: when it began, what it went through, how it ended.

Pure: events in, lanes out. What the ledger does not say is left open: a broker that fell silent stays fenced
until somebody tells that its life is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from epoka.ledger.why import HEARD, UNDONE
from epoka.model.ledger import LedgerEvent

MOST_LIVES: Final = 200
"""Lives of one broker that are told; older ones are counted."""
MOST_REIGNS: Final = 200
MOST_FAULTS: Final = 500
ENDS_A_FAULT: Final = {"pause": ("resume",), "isolate": ("heal",), "kill": ("start",), "stop": ("start",)}


class Span(msgspec.Struct):
    """A part of a life: `fenced`, `active` or `stopping`."""

    kind: str
    from_ms: int
    to_ms: int | None = None


class Life(msgspec.Struct):
    generation: int
    incarnation: str
    from_ms: int
    to_ms: int | None = None
    ended: str = ""
    """`clean`, `unclean`, `fast bounce` or `wiped`; empty while it goes on."""
    because: str = ""
    spans: list[Span] = []


class Lane(msgspec.Struct):
    broker: int
    lives: list[Life] = []
    before: int = 0
    """How many older lives are left out."""


class Reign(msgspec.Struct):
    """A time in which one node was the controller."""

    node: int
    number: int
    """The controller epoch in zookeeper mode, in log mode how often the controller has begun."""
    from_ms: int
    to_ms: int | None = None
    detail: str = ""


class Fault(msgspec.Struct):
    verb: str
    node: int
    from_ms: int
    to_ms: int | None
    text: str


class TimeLine(msgspec.Struct):
    lanes: dict[int, Lane]
    reigns: list[Reign]
    faults: list[Fault]


def time_line(events: Iterable[LedgerEvent]) -> TimeLine:
    """The lanes that events, oldest first, tell of."""
    drawing = _Drawing()
    for event in events:
        drawing.take(event)
    return drawing.done()


class _Drawing:
    def __init__(self) -> None:
        self._lives: dict[int, list[Life]] = {}
        self._reigns: list[Reign] = []
        self._faults: list[Fault] = []
        self._open: list[Fault] = []
        self._violence: dict[int, LedgerEvent] = {}
        """The last thing that somebody did to end a broker's life, until its next life begins."""
        self._wiped: set[int] = set()
        self._noticed: set[tuple[int, int]] = set()
        """Broker and generation of every life whose end the controller saw before the next life began."""

    def take(self, event: LedgerEvent) -> None:
        if event.kind == "fault":
            self._fault(event)
        elif event.kind == "active":
            self._reign(event)
        elif event.kind == "registered":
            self._begin(event)
        elif event.broker >= 0:
            life = self._life(event)
            if life is not None:
                self._go_on(life, event)

    def done(self) -> TimeLine:
        lanes = {
            broker: Lane(broker, lives[-MOST_LIVES:], max(0, len(lives) - MOST_LIVES))
            for broker, lives in sorted(self._lives.items())
        }
        return TimeLine(lanes, self._reigns[-MOST_REIGNS:], self._faults[-MOST_FAULTS:])

    def _life(self, event: LedgerEvent) -> Life | None:
        """The life that an event is about; the ledger may begin in the middle of one."""
        lives = self._lives.setdefault(event.broker, [])
        for life in reversed(lives):
            if life.generation == event.broker_epoch:
                return life
        if event.broker_epoch < 0 or lives:
            return None
        lives.append(Life(event.broker_epoch, "", event.time_ms, spans=[]))
        return lives[-1]

    def _begin(self, event: LedgerEvent) -> None:
        lives = self._lives.setdefault(event.broker, [])
        if lives and lives[-1].generation == event.broker_epoch:
            # In zookeeper mode the broker tells of it, and so does the controller.
            lives[-1].incarnation = lives[-1].incarnation or event.given
            return
        violence = self._violence.pop(event.broker, None)
        if lives:
            last = lives[-1]
            if not last.ended:
                noticed = bool(last.spans) and last.spans[-1].kind == "fenced"
                clean = "after a clean end" in event.detail
                last.ended = "clean" if clean else "unclean" if noticed else "fast bounce"
                last.because = last.because or event.detail
                self._end(last, last.spans[-1].from_ms if noticed else event.time_ms)
            elif last.ended == "unclean" and (event.broker, last.generation) not in self._noticed:
                # Killed, and back before the controller had noticed.
                last.ended = "fast bounce"
            if event.broker in self._wiped or (violence is not None and "wiped bounce" in violence.detail):
                last.ended = "wiped"
        self._wiped.discard(event.broker)
        lives.append(
            Life(
                event.broker_epoch,
                event.given,
                event.time_ms,
                because="",
                spans=[Span("fenced", event.time_ms)],
            )
        )

    def _go_on(self, life: Life, event: LedgerEvent) -> None:
        if event.kind in ("fenced", "unregistered"):
            self._noticed.add((event.broker, life.generation))
        elif event.kind == "unfenced":
            self._noticed.discard((event.broker, life.generation))
        if event.kind in ("ended", "unregistered"):
            if not life.ended:
                stopping = any(span.kind == "stopping" for span in life.spans)
                granted = "shutdown" in event.detail or stopping
                life.ended = "clean" if granted and event.kind == "ended" else "unclean"
                life.because = event.detail
                self._end(life, event.time_ms)
        elif event.kind in ("fenced", "unfenced", "stopping") or self._is_news(life, event):
            kind = "active" if event.kind in ("unfenced", HEARD) else event.kind
            if life.ended and kind != "fenced":
                return
            if not life.spans or life.spans[-1].kind != kind:
                if life.spans and life.spans[-1].to_ms is None:
                    life.spans[-1].to_ms = event.time_ms
                # After its end a life stays on the controller's books until it is fenced.
                life.spans.append(Span(kind, event.time_ms, event.time_ms if life.ended else None))

    def _is_news(self, life: Life, event: LedgerEvent) -> bool:
        """Whether a broker tells first that it is active: where brokers are fenced, the controller does."""
        decided = len(life.spans) > 1 or (event.broker, life.generation) in self._noticed
        return event.kind == HEARD and not decided

    def _end(self, life: Life, at_ms: int) -> None:
        life.to_ms = max(at_ms, life.from_ms)
        for span in life.spans:
            if span.to_ms is None or span.to_ms > life.to_ms:
                span.to_ms = max(life.to_ms, span.from_ms)

    def _reign(self, event: LedgerEvent) -> None:
        if self._reigns:
            self._reigns[-1].to_ms = event.time_ms
        # In zookeeper mode a controller tells its epoch; in log mode there is one, and its lives are counted.
        number = int(event.given) if event.given.isdecimal() else len(self._reigns) + 1
        self._reigns.append(Reign(event.node, number, event.time_ms, None, event.detail))

    def _fault(self, event: LedgerEvent) -> None:
        verb, node = event.given, event.broker
        if event.verdict == UNDONE:
            for fault in self._open.copy():
                if verb in ENDS_A_FAULT.get(fault.verb, ()) and node in (fault.node, -1):
                    self._close(fault, event.time_ms)
            return
        fault = Fault(verb, node, event.time_ms, event.time_ms, event.detail)
        self._faults.append(fault)
        if verb in ("pause", "isolate"):
            fault.to_ms = None
            self._open.append(fault)
        elif verb == "wipe":
            self._wiped.add(node)
        if verb in ("kill", "stop"):
            self._violence[node] = event
            for open_ in self._open.copy():
                if (open_.verb, open_.node) == ("pause", node):
                    self._close(open_, event.time_ms)
        if verb == "kill":
            lives = self._lives.get(node)
            if lives and not lives[-1].ended:
                lives[-1].ended = "unclean"
                lives[-1].because = event.detail
                self._end(lives[-1], event.time_ms)

    def _close(self, fault: Fault, at_ms: int) -> None:
        fault.to_ms = at_ms
        self._open.remove(fault)

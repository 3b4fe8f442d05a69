"""Drives one core: events in, one at a time; effects out, in their order; a wake-up when its time has come.

Decides nothing of its own. An exception out of a core is our bug and never the peer's: it is written down
with the story of what came before, and the node ends with code 70. Nothing is swallowed and nothing is
retried, because a core that has broken once may answer anything.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from epoka.log.store import StorageError
from epoka.model.events import (
    Coordinate,
    Effect,
    Event,
    Exit,
    Hangup,
    Peer,
    Reply,
    Report,
    Request,
    Respond,
    Send,
    StorageFailed,
    Wake,
)
from epoka.model.ledger import LedgerEvent

log = logging.getLogger(__name__)

EXIT_CLEAN = 0
EXIT_FAILED = 1
EXIT_BUG = 70
"""The code of a process that stopped because of a defect in itself (EX_SOFTWARE)."""

STORY_LENGTH = 40


class Core(Protocol):
    """A state machine without I/O: a broker or a controller."""

    @property
    def served(self) -> Mapping[int, tuple[int, int]]:
        """The APIs it answers, with their lowest and highest version."""

    @property
    def deadline(self) -> int | None:
        """When it wants to be woken."""

    def start(self, now: int) -> list[Effect]:
        """The first thing it is asked."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        """The only method that changes it."""


class Asker(Protocol):
    """Whoever waits for the answer to one request."""

    def answer(self, message: Any | None) -> None:
        """Take the answer; None says that there is nothing to say."""

    def hang_up(self, reason: str) -> None:
        """The core will not answer and wants no more from there."""


class Carrier(Protocol):
    """Whatever brings requests to other nodes and their answers back."""

    def send(self, runtime: Runtime, send: Send) -> None:
        """Carry it; `Reply` with its token follows exactly once."""


class StartFailed(Exception):
    """The node cannot start, for a reason outside of it; the text says what and why."""


class Ending(msgspec.Struct, frozen=True):
    """How a core came to its end."""

    code: int
    clean: bool
    reason: str


class Clock:
    """Milliseconds since the epoch that never run backwards and never jump.

    The wall clock is asked once. A step of it must not fence a broker, so from then on the time that has
    passed is added, time in which the machine slept included where the system can tell.
    """

    def __init__(self) -> None:
        self._source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        self._origin_ns = time.time_ns() - time.clock_gettime_ns(self._source)

    def now(self) -> int:
        return (self._origin_ns + time.clock_gettime_ns(self._source)) // 1_000_000


class Runtime:
    """One core and everything it needs from the world."""

    def __init__(
        self,
        core: Core,
        *,
        node_id: int,
        carrier: Carrier,
        report: Callable[[LedgerEvent], None],
        on_end: Callable[[Ending], None],
        clock: Clock | None = None,
        coordinate: Callable[[Coordinate], None] | None = None,
        name: str = "node",
    ) -> None:
        """`coordinate` does what a core asks of the coordination service, in zookeeper mode."""
        self.core = core
        self.served = dict(core.served)
        """The core's answer is asked for with every request, and it never changes."""
        self.node_id = node_id
        self.name = name
        self.ending: Ending | None = None
        self._clock = clock or Clock()
        self._loop = asyncio.get_running_loop()
        self._carrier = carrier
        self._report = report
        self._on_end = on_end
        self._coordinate = coordinate
        self._askers: dict[int, Asker] = {}
        self._tokens = itertools.count(1)
        self._events: deque[Event] = deque()
        self._busy = False
        self._paused = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0
        # Only types and numbers: the story must not keep a megabyte of records alive.
        self._story: deque[tuple[int, type, type, int]] = deque(maxlen=STORY_LENGTH)

    @property
    def waiting(self) -> int:
        """How many requests the core has not answered yet."""
        return len(self._askers)

    def start(self) -> None:
        """Let the core begin."""
        now = self._clock.now()
        self._busy = True
        try:
            self._perform(self.core.start(now))
        except Exception as error:
            self.crash(error)
        finally:
            self._busy = False
        self._drain()

    def ask(self, asker: Asker, version: int, message: Any, peer: Peer) -> int:
        """Put a request to the core; the asker hears when it is answered. Returns the request's token."""
        token = next(self._tokens)
        self._askers[token] = asker
        self.handle(Request(token, version, message, peer))
        return token

    def forget(self, asker: Asker, token: int) -> None:
        """Nobody waits for the answer to `token` any more."""
        if self._askers.get(token) is asker:
            del self._askers[token]

    def handle(self, event: Event) -> None:
        """Hand an event to the core; one that comes up while the core is at work waits for its turn."""
        self._events.append(event)
        if not self._busy and not self._paused:
            self._drain()

    def pause(self) -> None:
        """Take in nothing and let no time pass, as a stopped process does; events wait."""
        self._paused = True

    def resume(self) -> None:
        """Go on with everything that has come in the meantime."""
        self._paused = False
        if not self._busy and self.ending is None:
            self._drain()

    def close(self) -> None:
        """Stop driving: no more events, no more wake-ups. The core is left as it is."""
        if self.ending is None:
            self.ending = Ending(EXIT_FAILED, False, "the runtime was closed")
        self._events.clear()
        self._askers.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _drain(self) -> None:
        events = self._events
        self._busy = True
        try:
            while events and self.ending is None:
                event = events.popleft()
                now = self._clock.now()
                self._story.append(
                    (now, type(event), type(getattr(event, "message", None)), getattr(event, "token", 0))
                )
                try:
                    effects = self.core.handle(event, now)
                except StorageError as error:
                    effects = self._on_storage_error(event, error, now)
                self._perform(effects)
        except Exception as error:
            self.crash(error)
        finally:
            self._busy = False
        if self.ending is None:
            self._set_alarm()
        else:
            self.close()

    def _on_storage_error(self, event: Event, error: StorageError, now: int) -> list[Effect]:
        """The world's fault: the core is told, and whoever asked learns that no answer will come."""
        if isinstance(event, StorageFailed):
            raise error
        log.error("the disk failed: %s", error, extra={"node": self.node_id})
        if isinstance(event, Request) and (asker := self._askers.pop(event.token, None)) is not None:
            asker.hang_up(f"the disk failed: {error}")
        return self.core.handle(StorageFailed(str(error)), now)

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Respond:
                asker = self._askers.pop(effect.token, None)  # type: ignore[union-attr]
                if asker is not None:
                    asker.answer(effect.message)  # type: ignore[union-attr]
            elif isinstance(effect, Send):
                self._carrier.send(self, effect)
            elif isinstance(effect, Report):
                self._report(effect.event)
            elif isinstance(effect, Hangup):
                asker = self._askers.pop(effect.token, None)
                if asker is not None:
                    asker.hang_up(effect.reason)
            elif isinstance(effect, Exit):
                self._end(Ending(EXIT_CLEAN if effect.clean else EXIT_FAILED, effect.clean, effect.reason))
            elif isinstance(effect, Coordinate) and self._coordinate is not None:
                self._coordinate(effect)
            else:
                raise TypeError(f"a core asked for {effect!r}, which nobody here can do")

    def _set_alarm(self) -> None:
        deadline = self.core.deadline
        if deadline is None:
            return
        # Deadlines mostly move later. An alarm that rings too early looks again, which is cheaper than
        # setting a new one after every request.
        if self._alarm is not None:
            if self._alarm_at <= deadline:
                return
            self._alarm.cancel()
        self._alarm_at = deadline
        delay_ms = max(deadline - self._clock.now(), 0)
        self._alarm = self._loop.call_later(delay_ms / 1000, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        deadline = self.core.deadline
        if deadline is not None and deadline <= self._clock.now():
            self.handle(Wake())
        elif self.ending is None:
            self._set_alarm()

    def _end(self, ending: Ending) -> None:
        if self.ending is None:
            self.ending = ending
            self._on_end(ending)

    def give_up(self, reason: str) -> None:
        """The world does not let the node go on."""
        self._end(Ending(EXIT_FAILED, False, reason))

    def crash(self, error: Exception) -> None:
        """Our bug: write down how it came to that, and end."""
        story = "; ".join(_outline(*entry) for entry in self._story)
        log.critical(
            "the %s has a defect and stops: %s: %s. Before it: %s",
            self.name,
            type(error).__name__,
            error,
            story or "nothing",
            exc_info=error,
            extra={"node": self.node_id},
        )
        self._end(Ending(EXIT_BUG, False, f"{type(error).__name__}: {error}"))


def report_nowhere(event: LedgerEvent) -> None:
    """A ledger sink for nodes without a ledger."""


def reply_none(runtime: Runtime, token: int) -> None:
    """Tell a core that its request will not be answered."""
    runtime.handle(Reply(token, None))


def _outline(now: int, kind: type, message: type, token: int) -> str:
    about = "" if message is type(None) else f" {message.__name__}"
    return f"{now} {kind.__name__}{about}{f' {token}' if token else ''}"

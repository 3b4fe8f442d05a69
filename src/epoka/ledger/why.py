"""Why things are as they are: walks the ledger backwards from what is to what led to it.

An event names its cause where one decision led to several changes. Between nodes no id travels, so the rest
is concluded from what the events say: a life ends before the silence that fences it, a leader's proposal
before the controller's change, a newer registration before the refusal of an older generation. Pure: events
in, steps out. Nothing is guessed: where the ledger says no more, the chain ends.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from epoka.ledger.telling import sentence
from epoka.model.ledger import LedgerEvent

DEEPEST: Final = 12
STANDING: Final = ("registered", "fenced", "unfenced", "stopping", "unregistered")
"""What the controller decides about a broker."""
HEARD: Final = "unfenced-by-controller"
"""What a broker tells of that. Below level `heartbeats` brokers are never fenced, and only this says so."""
PLACEMENT: Final = ("leader", "isr", "reassignment")
GONE: Final = ("ended", "stopping", "unregistered", "storage-failed", "stale")
"""What takes a broker away, besides fencing and whatever somebody does to it."""
UNDONE: Final = "undone"
"""The verdict of a fault event that ends a fault."""
LASTING: Final = ("isolate", "pause", "hold")
"""Faults that go on until they are undone, through any number of lives."""
ENDS: Final = {
    "heal": ("isolate",),
    "resume": ("pause",),
    "start": ("kill", "stop", "wipe", "pause"),
    "kill": ("pause",),
    "stop": ("pause",),
}
"""Which faults a verb ends: a broker that goes on, or is started, may still be cut off."""


class Step(msgspec.Struct, frozen=True):
    """One event of a chain; each step is the reason of the one above it that is less deep."""

    depth: int
    text: str
    event: LedgerEvent


class Answer(msgspec.Struct, frozen=True):
    """What is, and why."""

    subject: str
    state: str
    steps: tuple[Step, ...] = ()


class History:
    """A ledger, ready to be asked."""

    def __init__(self, events: Iterable[LedgerEvent]) -> None:
        # The topic may hold an event twice; its node and id tell.
        self._unique = {_identity(event): event for event in events}
        self.events = sorted(self._unique.values(), key=_order)
        self._place = {id(event): at for at, event in enumerate(self.events)}
        self._by_id = {(event.node, event.event_id): event for event in self.events if event.event_id >= 0}

    def add(self, events: Iterable[LedgerEvent]) -> None:
        """More events, most of them later than what is known: nodes write at their own pace."""
        for event in sorted(events, key=_order):
            if _identity(event) in self._unique:
                continue
            self._unique[_identity(event)] = event
            at = bisect_right(self.events, _order(event), key=_order)
            self.events.insert(at, event)
            for place in range(at, len(self.events)):
                self._place[id(self.events[place])] = place
            if event.event_id >= 0:
                self._by_id[event.node, event.event_id] = event

    def why_broker(self, broker: int) -> Answer:
        """What the controller last decided about a broker, what the broker did itself since, and why."""
        last = self._last(lambda event: event.kind in STANDING and event.broker == broker)
        subject = f"broker {broker}"
        if last is None:
            return Answer(subject, f"the ledger knows nothing of broker {broker}")
        if last.kind == "registered":
            life = last.broker_epoch
            last = self._last(lambda event: _is(HEARD, broker)(event) and event.broker_epoch == life) or last
        # In zookeeper mode both the broker and the controller tell of a registration.
        lives = list(
            dict.fromkeys(each.broker_epoch for each in self.events if _is("registered", broker)(each))
        )
        state = _standing(last)
        if len(lives) > 1:
            state += f"; its lives were generations {', '.join(map(str, lives[:-1]))} and {lives[-1]}"
        steps = list(self.chain(last))
        own = self._last(
            lambda event: event.node == broker and event.kind in ("self-fenced", "stale", "storage-failed")
        )
        if own is not None and own.time_ms >= last.time_ms:
            steps = [*self.chain(own), *steps]
        refused = self._last(
            lambda event: event.kind == "verdict" and event.verdict == "refused" and event.broker == broker
        )
        if refused is not None and refused not in (step.event for step in steps):
            steps += self.chain(refused)
        return Answer(subject, state, tuple(steps))

    def why_partition(self, topic: str, partition: int) -> Answer:
        """Who leads a partition and who is in sync, and the last two changes with their reasons."""
        subject = f"{topic}-{partition}"

        def about(*kinds: str) -> Callable[[LedgerEvent], bool]:
            return lambda event: event.kind in kinds and (event.topic, event.partition) == (topic, partition)

        last = self._last(about(*PLACEMENT))
        if last is None:
            return Answer(subject, f"the ledger knows nothing of {subject}")
        deleted = self._last(lambda event: event.kind == "topic-deleted" and event.topic == topic)
        if deleted is not None and _order(deleted) > _order(last):
            return Answer(subject, f"{subject} is not there any more", tuple(self.chain(deleted)))
        who = f"is led by broker {last.leader}" if last.leader >= 0 else "has no leader"
        state = f"{subject} {who}, in sync are {_brokers(last.isr)}"
        chosen = [last]
        # The last change says why the ISR is what it is; who leads may have been decided before.
        elected = self._last(about("leader"))
        if elected is not None and elected is not last:
            chosen.append(elected)
        refused = self._last(about("verdict"))
        if refused is not None and refused.verdict == "refused" and refused.time_ms >= last.time_ms:
            chosen.insert(0, refused)
        steps = [step for event in chosen for step in self.chain(event)]
        return Answer(subject, state, tuple(steps))

    def why_produce(self, least: Callable[[str], int], topic: str | None = None) -> list[Answer]:
        """Every partition that takes no acks=all now, and why; `least` is a topic's min.insync.replicas."""
        answers = []
        for (name, partition), event in sorted(self._placements().items()):
            if topic is not None and name != topic:
                continue
            subject = f"{name}-{partition}"
            wanted = least(name)
            if event.leader < 0:
                state = f"{subject} has no leader: a produce request gets LEADER_NOT_AVAILABLE and waits"
            elif len(event.isr) < wanted:
                state = (
                    f"{subject} has {_brokers(event.isr)} in sync and needs {wanted}: a produce request with "
                    "acks=all gets NOT_ENOUGH_REPLICAS"
                )
            else:
                continue
            answers.append(Answer(subject, state, self.why_partition(name, partition).steps))
        return answers

    def chain(self, event: LedgerEvent) -> Iterator[Step]:
        """The event, and what led to it, and what led to that."""
        seen: set[int] = set()
        waiting = [(0, event)]
        while waiting:
            depth, each = waiting.pop()
            if id(each) in seen or depth > DEEPEST:
                continue
            seen.add(id(each))
            yield Step(depth, sentence(each), each)
            waiting += [(depth + 1, cause) for cause in reversed(self.causes(each))]

    def causes(self, event: LedgerEvent) -> list[LedgerEvent]:
        """The events that led directly to this one, as far as the ledger tells."""
        named = self._by_id.get((event.node, event.cause)) if event.cause >= 0 else None
        # A verdict names what it led to in ledgers of older versions.
        if named is not None and not (event.kind == "verdict" and named.kind in STANDING):
            return [named]
        conclude = _CONCLUSIONS.get(event.kind)
        found = conclude(self, event) if conclude is not None else []
        return [each for each in found if each is not None]

    # What is concluded.

    def _of_proposal(self, event: LedgerEvent) -> list[LedgerEvent | None]:
        """A change that a leader asked for."""
        return [
            self._before(
                event,
                lambda each: (
                    each.kind == "isr-proposed"
                    and (each.topic, each.partition, each.leader_epoch) == _leadership(event)
                    and set(each.isr) == set(event.isr)
                ),
            )
        ]

    def _of_asking(self, event: LedgerEvent) -> list[LedgerEvent | None]:
        """What had happened to the brokers that a leader wants in or out."""
        left = [each for each in event.isr_before if each not in event.isr]
        joined = [each for each in event.isr if each not in event.isr_before]
        causes = [self._trouble(event, broker) for broker in left]
        return causes + [self._before(event, _is("unfenced", broker)) for broker in joined]

    def _of_fencing(self, event: LedgerEvent) -> list[LedgerEvent | None]:
        return [self._trouble(event, event.broker)]

    def _of_unfencing(self, event: LedgerEvent) -> list[LedgerEvent | None]:
        """The fencing that it ends, or the registration that came before it."""
        return [
            self._before(
                event,
                lambda each: each.kind in ("registered", "fenced") and each.broker == event.broker,
                epoch=event.broker_epoch,
            )
        ]

    def _of_registration(self, event: LedgerEvent) -> list[LedgerEvent | None]:
        """The end of the life before, or what somebody did to it."""
        return [self._trouble(event, event.broker)]

    def _of_end(self, event: LedgerEvent) -> list[LedgerEvent | None]:
        return [self._before(event, _is("stopping", event.broker), epoch=event.broker_epoch)]

    def _of_stopping(self, event: LedgerEvent) -> list[LedgerEvent | None]:
        return [self._trouble(event, event.broker)]

    def _of_self_fencing(self, event: LedgerEvent) -> list[LedgerEvent | None]:
        return [
            self._before(
                event,
                lambda each: each.kind == "verdict" and each.rule == "heartbeat.contact",
                node=event.node,
            )
        ]

    def _of_verdict(self, event: LedgerEvent) -> list[LedgerEvent | None]:
        """The registration that made a generation stale, or what had happened to whoever was refused."""
        if event.rule == "heartbeat.contact":
            return [self._fault(event, event.node)]
        if event.rule == "heartbeat.session":
            return [self._trouble(event, event.broker)]
        # Other rules expect epochs of partitions and controllers, ids and names; that a generation has the
        # same number is chance.
        of_lives = event.rule.endswith("generation") or event.rule == "registry.bounce"
        numbers = re.findall(r"\d+", event.expected) if of_lives else []
        for number in map(int, reversed(numbers)):
            newer = self._before(event, lambda each: each.kind == "registered", epoch=number)
            if newer is not None:
                return [newer]
        member = re.search(r"broker (\d+)", f"{event.given} {event.detail}")
        return [] if member is None else [self._trouble(event, int(member[1]))]

    def _trouble(self, event: LedgerEvent, broker: int) -> LedgerEvent | None:
        """The last thing before an event that took a broker away, in the life that it had then."""
        since: list[LedgerEvent] = []
        for each in self._backwards(event):
            if each.kind == "fault" and each.broker in (broker, -1):
                may_be = each.verdict != UNDONE or event.kind == "registered"
                if may_be and not _is_over(each, since):
                    return each
                since.append(each)
            elif each.broker == broker or (each.kind == "storage-failed" and each.node == broker):
                if each.kind in GONE or (each.kind == "fenced" and event.kind not in ("fenced", "verdict")):
                    return each
                if each.kind == "unfenced" or (each.kind == "registered" and event.kind != "registered"):
                    break
        return self._fault(event, broker)

    def _fault(self, event: LedgerEvent, broker: int) -> LedgerEvent | None:
        """What somebody had done to a broker, or to the node that tells of it, and not undone yet."""
        since: list[LedgerEvent] = []
        for each in self._backwards(event):
            if each.kind == "fault" and each.broker in (broker, event.node, -1):
                if each.given in LASTING and not _is_over(each, since):
                    return each
                since.append(each)
        return None

    # Finding.

    def _placements(self) -> dict[tuple[str, int], LedgerEvent]:
        """The last word on every partition that still exists."""
        last: dict[tuple[str, int], LedgerEvent] = {}
        for event in self.events:
            if event.kind in PLACEMENT:
                last[event.topic, event.partition] = event
            elif event.kind == "topic-deleted":
                for key in [each for each in last if each[0] == event.topic]:
                    del last[key]
        return last

    def _last(self, fits: Callable[[LedgerEvent], bool]) -> LedgerEvent | None:
        return next((event for event in reversed(self.events) if fits(event)), None)

    def _backwards(self, event: LedgerEvent) -> Iterator[LedgerEvent]:
        place = self._place.get(id(event), len(self.events))
        return (self.events[at] for at in range(place - 1, -1, -1))

    def _before(
        self,
        event: LedgerEvent,
        fits: Callable[[LedgerEvent], bool],
        *,
        epoch: int | None = None,
        node: int | None = None,
    ) -> LedgerEvent | None:
        for each in self._backwards(event):
            if fits(each) and epoch in (None, each.broker_epoch) and node in (None, each.node):
                return each
        return None


_CONCLUSIONS: Final[dict[str, Callable[[History, LedgerEvent], list[LedgerEvent | None]]]] = {
    "isr": History._of_proposal,
    "isr-proposed": History._of_asking,
    "fenced": History._of_fencing,
    "fenced-by-controller": History._of_fencing,
    "unregistered": History._of_fencing,
    "unfenced": History._of_unfencing,
    HEARD: History._of_unfencing,
    "registered": History._of_registration,
    "ended": History._of_end,
    "stopping": History._of_stopping,
    "self-fenced": History._of_self_fencing,
    "verdict": History._of_verdict,
}


def _identity(event: LedgerEvent) -> tuple[int, int, str, int]:
    return (event.node, event.event_id, event.kind, event.time_ms)


def _order(event: LedgerEvent) -> tuple[int, int, int]:
    return (event.time_ms, event.node, event.event_id)


def _is(kind: str, broker: int) -> Callable[[LedgerEvent], bool]:
    return lambda event: event.kind == kind and event.broker == broker


def _is_over(fault: LedgerEvent, since: Iterable[LedgerEvent]) -> bool:
    """Whether one of the verbs that followed a fault has ended it."""
    return any(
        each.broker in (fault.broker, -1) and fault.given in ENDS.get(each.given, ()) for each in since
    )


def _leadership(event: LedgerEvent) -> tuple[str, int, int]:
    return event.topic, event.partition, event.leader_epoch


def _standing(event: LedgerEvent) -> str:
    words = {
        "registered": "is registered and not yet unfenced",
        "fenced": "is fenced: it leads nothing and is in no ISR",
        "unfenced": "is active",
        HEARD: "is active",
        "stopping": "is in its controlled shutdown",
        "unregistered": "is not registered",
    }
    return f"broker {event.broker} (generation {event.broker_epoch}) {words[event.kind]}"


def _brokers(ids: Sequence[int]) -> str:
    if not ids:
        return "no brokers"
    return f"broker {ids[0]}" if len(ids) == 1 else f"brokers {', '.join(map(str, ids))}"

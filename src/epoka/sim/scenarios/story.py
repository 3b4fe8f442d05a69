"""A scenario: a document's story as a small schedule that anybody can run, with its rule and without it.

A scenario is a function that does things to a world, step by step, and says why. The world is the
simulator's, so the cores are the ones that serve clients; every message takes a millisecond unless the
schedule holds it back, so the same thing happens every time. The simulator's checkers look on; whatever no
checker can know, the scenario itself demands with `must`. With the rule nothing may be wrong in the end;
without it the harm must be the one that the scenario names, seen by the checker that it names. A checker
that only restates the rule proves no harm: what it sees is noted, and the story goes on to what comes of it.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from epoka.model.events import RegistryChanged
from epoka.model.image import ClusterImage
from epoka.model.levels import HIGHEST, FeatureLevel
from epoka.model.partitions import PartitionState
from epoka.sim.checkers import Checkers, Violated
from epoka.sim.client import PRODUCE_VERSION, batch, produce_request, produced
from epoka.sim.network import Hold
from epoka.sim.oracle import Oracle
from epoka.sim.scenarios.chart import CHANGE, FAULT, HARM, MESSAGE, NOTE, VERDICT, Line, WatchedWorld
from epoka.sim.world import CONTROLLER, KEEP, LOG, LOSE, TEAR, WIPE, ZOOKEEPER, StoodStill
from epoka.wire.error_codes import ErrorCode

Mutant = Callable[[contextlib.ExitStack], None]
Schedule = Callable[["Story"], None]

CONVERGED: Final = "liveness: the cluster heals"
DEMANDED: Final = "the story's own"
NOT_KEPT: Final = "the rule is not kept, says the checker"

ROUTINE: Final = frozenset({"ProduceRequest", "ProduceResponse"})
"""What every chart shows."""

_DISKS: Final = {
    KEEP: "",
    LOSE: " and loses what was not flushed",
    TEAR: " and loses a part of what was not flushed",
    WIPE: " and comes back with an empty disk",
}


class Scenario(msgspec.Struct, frozen=True):
    """One story. `rules` are switched off to show the harm; a `mutant` does it where no rule can be."""

    name: str
    document: str
    title: str
    story: str
    schedule: Schedule
    harm: str
    """The checker that sees the harm when the rule is off."""
    restated_by: str = ""
    """The checker, by the beginning of its name, that only says that the rule is not kept."""
    rules: tuple[str, ...] = ()
    guard: str = ""
    """What keeps it safe, in words, where it is not a rule of `fencing/` alone."""
    mutant: Mutant | None = None
    below: FeatureLevel | None = None
    """The level without the protection, where the protection is what a level adds."""
    mode: str = LOG
    level: FeatureLevel = HIGHEST
    brokers: int = 3
    controllers: int = 1
    shows: frozenset[str] = ROUTINE
    settings: dict[str, Any] = {}
    loses_anyway: bool = False
    """True for the exception that the documents leave open: there is no rule that prevents it."""

    @property
    def protection(self) -> str:
        """What keeps it safe."""
        return self.guard or ", ".join(self.rules)


class Harm(msgspec.Struct, frozen=True):
    """What went wrong, and who saw it."""

    checker: str
    story: str


class Outcome(msgspec.Struct, frozen=True):
    name: str
    document: str
    title: str
    mode: str
    level: str
    without_rule: bool
    protection: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    harm: Harm | None
    expected: str
    """The checker that should have seen harm; empty when none is expected."""
    trace: str
    """Equal traces mean equal runs."""

    @property
    def safe(self) -> bool:
        return self.harm is None

    @property
    def as_told(self) -> bool:
        """Whether it ended as the story says it must."""
        if self.harm is None:
            return not self.expected
        return bool(self.expected) and self.harm.checker.startswith(self.expected)

    @property
    def refusals(self) -> list[str]:
        """The rules that refused something, in order, each once."""
        return list(dict.fromkeys(verdict.rule for line in self.lines for verdict in line.verdicts))


SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(name: str, document: str, **about: Any) -> Callable[[Schedule], Schedule]:
    """Enter a schedule into the gallery. Its docstring is the story; the first line is its title."""

    def enter(schedule: Schedule) -> Schedule:
        text = inspect.cleandoc(schedule.__doc__ or "")
        title, _, story = text.partition("\n")
        if name in SCENARIOS or not story.strip():
            raise ValueError(f"scenario {name} is there already, or tells nothing")
        about["shows"] = ROUTINE | frozenset(about.get("shows", ()))
        SCENARIOS[name] = Scenario(name, document, title.rstrip("."), story.strip(), schedule, **about)
        return schedule

    return enter


class Harmed(Exception):
    """Something that the story demands is not so."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm.story)
        self.harm = harm


class _Checkers(Checkers):
    def __init__(self, world: WatchedWorld, oracle: Oracle, restating: str) -> None:
        super().__init__(world, oracle)
        self._write = world.write
        self._restating = restating
        self._noted = False

    def fail(self, checker: str, story: str) -> None:
        """That the rule is not kept is no harm yet: it is noted once, and the story goes on."""
        if not self._restating or not checker.startswith(self._restating):
            super().fail(checker, story)
        elif not self._noted:
            self._noted = True
            self._write(NOTE, f"{NOT_KEPT} [{checker}]: {story}")

    def standing(self, image: ClusterImage, name: str, state: PartitionState) -> None:
        """A controller in zookeeper mode that has not read the registry yet counts on nobody."""
        push = self.world.controller._push
        if push is None or push.ready:
            super().standing(image, name, state)


class Story:
    """What a schedule is written with: the world, and words for what is done to it."""

    def __init__(self, told: Scenario, *, without_rule: bool) -> None:
        off = without_rule and told.below is not None
        level = told.below if off and told.below is not None else told.level
        self.scenario = told
        self.without_rule = without_rule
        self.world = WatchedWorld(
            mode=told.mode,
            level=level,
            brokers=told.brokers,
            controllers=told.controllers,
            without=told.rules if without_rule else (),
            **{"request_timeout_ms": 10_000, **told.settings},
        )
        self.oracle = Oracle()
        self.checkers = _Checkers(self.world, self.oracle, told.restated_by if without_rule else "")

    # What is told.

    def say(self, text: str, node: int | None = None) -> None:
        """A step of the story."""
        self.world.write(NOTE, text, node)

    def must(self, condition: bool, text: str) -> None:
        """What no checker can know: the harm is that this is not so."""
        if not condition:
            raise Harmed(Harm(DEMANDED, text))

    # What is done.

    def watch(self) -> None:
        """The scene is set: from here on everything is shown."""
        self.world.watch_from_here(self.scenario.shows)

    def crash(self, node: int, disk: str = KEEP) -> None:
        self.world.write(FAULT, f"loses power{_DISKS[disk]}", node)
        self.world.crash(node, disk)

    def restart(self, node: int) -> None:
        self.world.write(FAULT, "starts again", node)
        self.world.restart(node)

    def bounce(self, node: int, disk: str = KEEP) -> None:
        self.world.write(FAULT, f"bounces{_DISKS[disk]}", node)
        process = self.world.process_at(self.world.address_of(node))
        self.world.crash(node, disk)
        if self.world.keeper is not None and process is not None:
            # Its session ends with it, so that its next life can register at once.
            self.world.keeper.expire(process)
        self.world.restart(node)

    def stop(self, broker_id: int) -> None:
        self.world.write(FAULT, "is asked to stop", broker_id)
        self.world.stop(broker_id)

    def pause(self, node: int) -> None:
        self.world.write(FAULT, "stands still", node)
        self.world.pause(node)

    def resume(self, node: int) -> None:
        self.world.write(FAULT, "goes on", node)
        self.world.resume(node)

    def cut(self, one: int, other: int) -> None:
        """Nothing gets from one to the other, nor back."""
        there = self.world.name_of(self.world.address_of(other))
        self.world.write(FAULT, f"is cut off from {there}", one)
        self.world.cut(one, other)

    def mend(self, one: int, other: int) -> None:
        there = self.world.name_of(self.world.address_of(other))
        self.world.write(FAULT, f"reaches {there} again", one)
        self.world.mend(one, other)

    def deafen(self) -> None:
        """The controller is not told what happens in the registry."""
        self.world.registry_is_told = False

    def tell(self, picture: RegistryChanged | None = None) -> None:
        """The controller is told what is in the registry, or what the picture says is in it."""
        self.world.tell_registry(picture)

    def hold(self, api: str, *, in_line: bool = False, **about: Any) -> Hold:
        """Hold a kind of message back until it is released; `in_line`: and what is behind it, too."""
        hold = self.world.hold(api, **about)
        if in_line:
            self.world.in_line.append(hold)
        return hold

    def release(self, hold: Hold) -> None:
        self.world.keep_in_mind(hold.messages)
        hold.release()

    def await_held(self, hold: Hold, count: int = 1) -> None:
        self.until("a message is under way", lambda: len(hold.messages) >= count)

    def run(self, ms: int) -> None:
        self.world.run(ms)

    def until(self, what: str, condition: Callable[[], bool], ms: int = 10_000) -> None:
        """Let things happen until it is so. That it never is so is a harm."""
        try:
            self.world.run_until(condition, ms)
        except StoodStill:
            raise Harmed(Harm(CONVERGED, f"not in {ms / 1000:g} s: {what}")) from None

    def write(
        self, broker: int, topic: str, value: bytes, *, acks: int = -1, timeout_ms: int = 5_000
    ) -> ErrorCode:
        """Produce and wait for the answer."""
        request = produce_request(topic, 0, batch([value]), acks, timeout_ms=timeout_ms)
        answer = self.world.ask(broker, request, PRODUCE_VERSION)
        self.until("the produce is answered", lambda: answer.done)
        outcome = produced(answer)
        return ErrorCode.NETWORK_EXCEPTION if outcome is None else ErrorCode.of(outcome.error_code)

    def until_isr(self, *members: int, topic: str = "orders") -> None:
        self.until(f"the ISR of {topic} is {list(members)}", lambda: self.isr(topic) == sorted(members))

    def until_led_by(self, broker_id: int, topic: str = "orders") -> None:
        """The controller says so, and the broker knows."""
        world = self.world
        self.until(
            f"broker {broker_id} leads {topic}",
            lambda: world.partition(topic).leader == broker_id and world.leads(broker_id, topic),
        )

    def until_fenced(self, broker_id: int) -> None:
        self.until(f"broker {broker_id} is fenced", lambda: self.fenced(broker_id))

    def until_gone(self, broker_id: int) -> None:
        """The controller knows no life of the broker any more."""
        self.until(
            f"the controller has noticed that broker {broker_id} is gone",
            lambda: self.world.controller.image.broker(broker_id) is None,
        )

    def until_new_life(self, broker_id: int, former: int) -> None:
        """The controller knows a later generation of the broker and counts on it."""
        self.until(
            f"broker {broker_id} is active in a new life",
            lambda: self.world.generation(broker_id) > former and not self.fenced(broker_id),
        )

    # Questions.

    def isr(self, topic: str = "orders") -> list[int]:
        return sorted(self.world.partition(topic).isr)

    def fenced(self, broker_id: int) -> bool:
        known = self.world.controller.image.broker(broker_id)
        return known is None or known.fenced

    def follows(self, broker_id: int, topic: str = "orders") -> bool:
        """Whether the broker has the replica and fetches for it."""
        if not self.world.is_up(broker_id):
            return False
        core = self.world.broker(broker_id)
        replica = core.replicas.by_name.get((topic, 0))
        return replica is not None and core.following.follows(replica)

    def refused(self, rule: str) -> bool:
        return any(verdict.rule == rule for line in self.world.lines for verdict in line.verdicts)

    # The end.

    def must_heal(self, ms: int = 15_000) -> None:
        """Everything is whole again and given time: brokers serve, ISRs are full, logs agree."""
        self.world.heal()
        end = self.world.now + ms
        missing = self.checkers.converged()
        while missing is not None and self.world.now < end:
            self.world.run(50)
            missing = self.checkers.converged()
        if missing is not None:
            raise Harmed(Harm(CONVERGED, missing.partition(": BrokerRegistration")[0]))
        self.checkers.logs_agree()


def run(told: Scenario, *, without_rule: bool = False) -> Outcome:
    """Play the schedule to its end, or to the first harm."""
    harm: Harm | None = None
    with contextlib.ExitStack() as stack:
        if without_rule and told.mutant is not None:
            told.mutant(stack)
        story = Story(told, without_rule=without_rule)
        try:
            told.schedule(story)
        except Harmed as harmed:
            harm = harmed.harm
        except Violated:
            violation = story.checkers.violations[-1]
            harm = Harm(violation.checker, violation.story)
        except StoodStill:
            harm = Harm(CONVERGED, "the world stood still")
    world = story.world
    if harm is not None:
        world.write(HARM, f"{harm.checker}: {harm.story}")
    elif story.oracle.exceptions:
        harm = Harm(
            "the stated exception",
            "the last replica standing led again without what it had lost, as KIP-903 says it may",
        )
        world.write(HARM, harm.story)
    return Outcome(
        told.name,
        told.document,
        told.title,
        told.mode,
        str(world.level),
        without_rule,
        told.protection,
        _columns(world, world.lines),
        tuple(world.lines),
        harm,
        told.harm if without_rule or told.loses_anyway else "",
        world.trace_hash(),
    )


def _columns(world: WatchedWorld, lines: Iterable[Line]) -> tuple[str, ...]:
    """Who appears in the chart, clients first, then controllers, then brokers."""
    seen = {name for line in lines for name in (line.sender, line.receiver) if name}
    order = [world.name_of(address) for address in sorted(world.machines)]
    clients = [name for name in ("client", "operator", ZOOKEEPER) if name in seen]
    controllers = [name for name in order if name.startswith("controller") and name in seen]
    brokers = [name for name in order if name.startswith("broker") and name in seen]
    return tuple(dict.fromkeys((*clients, *controllers, *brokers)))


__all__ = [
    "CHANGE",
    "CONTROLLER",
    "CONVERGED",
    "DEMANDED",
    "FAULT",
    "HARM",
    "KEEP",
    "LOSE",
    "MESSAGE",
    "NOTE",
    "NOT_KEPT",
    "SCENARIOS",
    "TEAR",
    "VERDICT",
    "WIPE",
    "ZOOKEEPER",
    "Harm",
    "Outcome",
    "Scenario",
    "Story",
    "run",
    "scenario",
]

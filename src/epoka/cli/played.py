"""A schedule from a file, told as a scenario is: what is done to the cluster, and every message that matters.

It is the run of `epoka simulate --schedule`, event by event, on a world that writes down what it carries. Its
story is what the file says that goes wrong; as with every scenario, ending otherwise is a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

from epoka.cli.output import plural
from epoka.cli.schedules import read_schedule
from epoka.model.events import Event, Request
from epoka.sim import runner
from epoka.sim.nemesis import Nemesis
from epoka.sim.process import Process
from epoka.sim.runner import Options, Run
from epoka.sim.scenarios import SCENARIOS, Harm, Outcome, Scenario
from epoka.sim.scenarios.chart import FAULT, HARM, NOTE, Line, WatchedWorld
from epoka.sim.steps import Schedule, Step
from epoka.sim.world import KEEP, LOSE, TEAR, WIPE, Keep

SHOWN: Final = frozenset(
    {
        "ProduceRequest",
        "ProduceResponse",
        "AlterPartitionRequest",
        "AlterPartitionResponse",
        "BrokerRegistrationRequest",
        "ControlledShutdownRequest",
        "LeaderAndIsrRequest",
        "StopReplicaRequest",
    }
)
"""Messages that decide something. Any other is shown when a rule refuses it or the schedule held it back."""
FREQUENT: Final = ("Fetch", "BrokerHeartbeat", "MetadataHeartbeat", "UpdateMetadata")
"""Too many to show all of them, also where a step is about one."""
LEFT: Final = {
    KEEP: "",
    LOSE: " and what it had not flushed",
    TEAR: " and a part of what it had not flushed",
    WIPE: " and its disk",
}
EXCEPTION: Final = "the stated exception"
ORDER: Final = ("client", "operator", "zookeeper", "controller", "broker")


class _World(WatchedWorld):
    """Writes down what befalls processes and links, too."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self._left: dict[tuple[int, int], tuple[int, Any]] = {}
        super().__init__(seed=seed, **settings)

    def _leaves(self, sender: Process, to: int, message: Any) -> None:
        super()._leaves(sender, to, message)
        self._left[to, id(message)] = (self.now, message)

    def name_of(self, address: int) -> str:
        # A stranger's machine goes when its visit is over, before all that it has said has arrived.
        return super().name_of(address) if address in self.machines else f"broker {address}"

    def deliver(self, process: Process, event: Event) -> None:
        if isinstance(event, Request):
            call = process.askers.get(event.token)
            if call is not None and call.held:
                self.keep_in_mind([event.message])
                # One message may go to several brokers, and the others have had it long ago.
                if (left := self._left.get((process.address, id(event.message)))) is not None:
                    self._sent[id(event.message)] = left
        super().deliver(process, event)

    def crash(self, node: int, disk: str = KEEP, *, silent: bool = False, keep: Keep | None = None) -> None:
        if self.is_up(node):
            self.write(FAULT, f"loses power{LEFT[disk]}", node)
        super().crash(node, disk, silent=silent, keep=keep)

    def start_broker(self, broker_id: int, address: int | None = None, *more: Any) -> Process | None:
        self.write(FAULT, "starts again", broker_id if address is None else address)
        return super().start_broker(broker_id, address, *more)

    def start_controller(self, address: int | None = None) -> None:
        self.write(FAULT, "starts again", self.office if address is None else address)
        super().start_controller(address)

    def stop_cleanly(self, broker_id: int) -> None:
        self.write(FAULT, "ends in good order", broker_id)
        super().stop_cleanly(broker_id)

    def stop(self, broker_id: int) -> None:
        self.write(FAULT, "is asked to stop", broker_id)
        super().stop(broker_id)

    def cut(self, one: int, other: int, *, both: bool = True) -> None:
        there = self.name_of(self.address_of(other))
        self.write(FAULT, f"is cut off from {there}" if both else f"does not reach {there}", one)
        super().cut(one, other, both=both)

    def mend(self, one: int, other: int, *, both: bool = True) -> None:
        self.write(FAULT, f"reaches {self.name_of(self.address_of(other))} again", one)
        super().mend(one, other, both=both)


class _Nemesis(Nemesis):
    """Says what it is about to do."""

    world: _World

    def do(self, step: Step) -> None:
        if not self.healing:
            self.world.write(NOTE, _told(step))
        super().do(step)

    def heal(self) -> None:
        self.world.write(NOTE, "no more faults: everything is healed and given time")
        super().heal()


class _Run(Run):
    def _live(self) -> None:
        assert isinstance(self.world, _World)
        self.world.watch_from_here(SHOWN | _messages(self.plan.steps))
        super()._live()


def _messages(steps: Iterable[Step]) -> set[str]:
    found: set[str] = set()
    for step in steps:
        found |= _messages(step.then)
        if step.message and not step.message.startswith(FREQUENT):
            found.add(step.message)
    return found


def _told(step: Step) -> str:
    """A step in words: its kind, and whatever it says of itself."""
    words = [step.kind]
    words += [step.message] if step.message else []
    words += [f"of {_role(step.target)}"] if step.target else []
    words += [f"and {_role(step.other)}"] if step.other else []
    about = " ".join(words)
    if step.ms:
        about += f", {step.ms} ms"
    if step.disk:
        about += f", {step.disk}"
    if step.then:
        about += ": then " + "; ".join(_told(each) for each in step.then)
    return about


def _role(role: str) -> str:
    if role == "any":
        return "any broker"
    return role.replace(":", " ") if role.startswith("broker:") else f"the {role}"


@contextmanager
def played(path: Path) -> Iterator[Outcome]:
    """The file's run. As long as the context lasts its story is in the gallery, for whoever tells of it."""
    schedule = read_schedule(path)
    told = _scenario(str(path), schedule)
    SCENARIOS[told.name] = told
    try:
        yield _outcome(told, schedule)
    finally:
        del SCENARIOS[told.name]


def _scenario(name: str, schedule: Schedule) -> Scenario:
    missing = ", ".join((*schedule.without, *schedule.mutants))
    return Scenario(
        name,
        "A schedule",
        f"seed {schedule.seed}, {plural(len(schedule.plan.steps), 'step')}",
        schedule.story or "The file says of nothing that it goes wrong.",
        lambda story: None,
        "",
        guard=f"every rule but {missing}" if missing else "every rule",
        mode=schedule.mode,
        level=schedule.plan.level,
    )


def _outcome(told: Scenario, schedule: Schedule) -> Outcome:
    options = Options(mode=schedule.mode, without=schedule.without, mutants=schedule.mutants)
    run = _Run(schedule.seed, options, schedule.plan, ledger=True)
    with mock.patch.object(runner, "World", _World), mock.patch.object(runner, "Nemesis", _Nemesis):
        result = run.go()
    world = run.world
    assert isinstance(world, _World)
    harm: Harm | None = None
    if result.violations:
        harm = Harm(result.violations[0].checker, result.violations[0].story)
    elif result.exceptions:
        harm = Harm(EXCEPTION, "the last replica standing led again without what it had lost (KIP-903)")
    if harm is not None:
        world.write(HARM, f"{harm.checker}: {harm.story}")
    return Outcome(
        told.name,
        told.document,
        told.title,
        told.mode,
        str(told.level),
        False,
        told.protection,
        _columns(world.lines),
        tuple(world.lines),
        harm,
        _expected(schedule, harm),
        result.trace,
    )


def _expected(schedule: Schedule, harm: Harm | None) -> str:
    """The checker that the story names; it comes first, and may have a colon in its name."""
    if harm is not None and (schedule.story or f"{EXCEPTION}: ").startswith(f"{harm.checker}: "):
        return harm.checker
    return ":".join(schedule.story.split(":", 2)[: 2 if schedule.story[:1].isdecimal() else 1])


def _columns(lines: Iterable[Line]) -> tuple[str, ...]:
    """Who appears in the chart: clients first, then controllers, then brokers."""
    seen = {name for line in lines for name in (line.sender, line.receiver) if name}
    return tuple(sorted(seen, key=lambda name: (ORDER.index(name.split()[0]), name)))

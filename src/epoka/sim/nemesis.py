"""Carries out faults, within a budget, and undoes them.

The budget is stated here and nowhere else: a fault that loses data befalls a broker only while, for every
partition it hosts, it and the brokers that have not got back what they lost before are fewer than
`min.insync.replicas`. One that would go over it is carried out without the loss. Below the top level no
fault loses data, because there losing is what the missing rules allow. Healing is never budgeted.

The kinds are those of the fault list in `docs/simulator.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from epoka.model.events import CONTROLLER
from epoka.model.levels import HIGHEST
from epoka.sim.checkers import Checkers
from epoka.sim.keeper import ADDRESS as KEEPER
from epoka.sim.process import DOUBLES, Machine
from epoka.sim.steps import Step
from epoka.sim.world import CONTROLLERS, KEEP, LOSE, TEAR, WIPE

if TYPE_CHECKING:
    from epoka.sim.process import Process
    from epoka.sim.world import World

PROCESS_KINDS = (
    "clean-stop",
    "kill",
    "kill-lossy",
    "kill-wiped",
    "fast-bounce",
    "pause",
    "controlled-shutdown",
    "shutdown-bounce",
    "controller-failover",
    "duplicate-id",
    "all-brokers",
)
NETWORK_KINDS = (
    "drop",
    "delay",
    "reorder",
    "duplicate",
    "partition",
    "one-way-partition",
    "swizzle-clog",
    "reset",
    "half-open",
)
DISK_KINDS = ("fsync-error", "disk-full", "torn-tail", "slow-disk")
CLOCK_KINDS = ("clock-jump", "clock-drift")
KINDS = (*PROCESS_KINDS, *NETWORK_KINDS, *DISK_KINDS, *CLOCK_KINDS)
"""The 24 kinds and the two of the clock."""
AIMED = ("slow-message", "ambush", "wrong-cluster", "expire-session", "late-answer", "lost-office")
"""What only profiles use."""
STRANGER = 49


class Nemesis:
    def __init__(self, world: World, checkers: Checkers, rng: Random, min_isr: int = 2) -> None:
        self.world = world
        self.checkers = checkers
        self.rng = rng
        self.min_isr = min_isr
        self.counts: dict[str, int] = {}
        self.downgraded = 0
        """Faults that were carried out without their loss, to keep the budget."""
        self.over_budget = False
        self.healing = False
        self._kinds: dict[str, Callable[[Step], bool | None]] = {
            kind: getattr(self, "_" + kind.replace("-", "_")) for kind in (*KINDS, *AIMED)
        }

    def do(self, step: Step) -> None:
        if self.healing:
            return
        if self._kinds[step.kind](step) is not False:
            self.counts[step.kind] = self.counts.get(step.kind, 0) + 1

    def knows(self, kind: str) -> bool:
        return kind in self._kinds

    # Roles.

    def find(self, role: str, salt: int) -> int | None:
        """The address that plays a role now; None when nobody does."""
        role, _, index = role.partition("@")
        if role == "controller":
            return self.world.address_of(CONTROLLER)
        if role.startswith("broker:"):
            return int(role.removeprefix("broker:"))
        brokers = [each for each in self.world.machines if each < DOUBLES]
        partitions = [ref for ref in self.checkers.truth.all_partitions() if ref.topic.name == "t"]
        if role == "any" or not partitions:
            return brokers[salt % len(brokers)]
        state = self.checkers.truth.state(partitions[int(index or 0) % len(partitions)])
        if role == "leader":
            return state.leader if state.leader >= 0 else None
        if role == "follower":
            pool = [each for each in state.replicas if each != state.leader]
        elif role == "outsider":
            pool = [each for each in state.replicas if each not in state.isr]
        elif role == "insider":
            pool = [each for each in state.isr if each != state.leader]
        else:
            raise ValueError(f"nobody plays {role!r}")
        return pool[salt % len(pool)] if pool else None

    def _broker(self, step: Step) -> Machine | None:
        """The living broker that the step is about."""
        address = self.find(step.target or "any", step.salt)
        machine = None if address is None else self.world.machines.get(address)
        if machine is None or machine.process is None or machine.address >= CONTROLLERS:
            return None
        return machine

    # The budget.

    def may_lose(self, broker_id: int) -> bool:
        if self.over_budget:
            return True
        truth, oracle = self.checkers.truth, self.checkers.oracle
        if truth.level < HIGHEST:
            return False
        for key in self.checkers.hosted(broker_id):
            state = truth.partition(*key)
            assert state is not None
            dirty = sum(
                any(
                    oracle.is_dirty(address, key, self.world.process_at(address))
                    for address in (member, member + DOUBLES)
                )
                for member in state.replicas
                if member != broker_id
            )
            if dirty + 1 >= self.min_isr:
                return False
        return True

    def _disk(self, machine: Machine, wanted: str) -> str:
        if wanted in ("", KEEP):
            return KEEP
        if self.may_lose(machine.node_id):
            return wanted
        self.downgraded += 1
        return KEEP

    # Lives.

    def _back_later(self, machine: Machine, ms: int) -> None:
        self.world.later(max(ms, 1), self._back, machine)

    def _back(self, machine: Machine) -> None:
        if machine.process is None and machine.address < DOUBLES:
            machine.store.full = machine.store.fail_flushes = machine.store.fail_writes = False
            self.world.start_broker(machine.node_id, machine.address)

    def _end(self, step: Step, disk: str, *, silent: bool = False) -> bool:
        machine = self._broker(step)
        if machine is None or machine.process is None:
            return False
        self.world.crash(machine.address, self._disk(machine, disk), silent=silent)
        self._back_later(machine, step.ms)
        return True

    def _clean_stop(self, step: Step) -> bool:
        machine = self._broker(step)
        if machine is None:
            return False
        self.world.stop_cleanly(machine.address)
        self._back_later(machine, step.ms)
        return True

    def _kill(self, step: Step) -> bool:
        return self._end(step, KEEP, silent=step.salt % 3 == 0)

    def _kill_lossy(self, step: Step) -> bool:
        return self._end(step, LOSE, silent=step.salt % 3 == 0)

    def _kill_wiped(self, step: Step) -> bool:
        return self._end(step, WIPE)

    def _torn_tail(self, step: Step) -> bool:
        return self._end(step, TEAR, silent=True)

    def _fast_bounce(self, step: Step) -> bool:
        return self._end(step, step.disk or KEEP)

    def _pause(self, step: Step) -> bool:
        address = self.find(step.target or "any", step.salt)
        process = None if address is None else self.world.process_at(address)
        if process is None or process.paused:
            return False
        process.paused = True
        self.world.later(step.ms, self._unpause, process)
        return True

    def _unpause(self, process: Process) -> None:
        if process.alive and process.paused:
            self.world.resume_process(process)

    def _controlled_shutdown(self, step: Step) -> bool:
        machine = self._broker(step)
        if machine is None or machine.process is None:
            return False
        process = machine.process
        self.world.stop(machine.address)
        self._await_end(machine, process, step.ms)
        return True

    def _await_end(self, machine: Machine, process: Process, ms: int) -> None:
        """It may begin to stop when all else is well again: a slow disk holds orders up."""
        if process.alive:
            self.world.later(50, self._await_end, machine, process, ms)
        else:
            self._back_later(machine, ms)

    def _shutdown_bounce(self, step: Step) -> bool:
        """Asked to stop, and gone before it was granted."""
        machine = self._broker(step)
        if machine is None or machine.process is None:
            return False
        process = machine.process
        self.world.stop(machine.address)
        self.world.later(1 + step.salt % 30, self._cut_short, machine, process, step)
        return True

    def _cut_short(self, machine: Machine, process: Process, step: Step) -> None:
        if process.alive:
            self.world.crash(machine.address, self._disk(machine, step.disk))
        self._back_later(machine, step.ms)

    def _controller_failover(self, step: Step) -> bool:
        address = self.world.address_of(CONTROLLER)
        if self.world.process_at(address) is None:
            return False
        self.world.crash(address, LOSE, silent=step.salt % 3 == 0)
        self.world.later(max(step.ms, 1), self._controller_back, address)
        return True

    def _controller_back(self, address: int) -> None:
        if self.world.process_at(address) is None:
            self.world.start_controller(address)

    def _duplicate_id(self, step: Step) -> bool:
        """Another process with an empty disk claims the id of a broker."""
        address = self.find(step.target or "any", step.salt)
        if address is None or address >= DOUBLES:
            return False
        double = address + DOUBLES
        if self.world.process_at(double) is not None:
            return False
        # If it gets the id, the broker of that id has an empty disk.
        if not self.may_lose(address):
            self.downgraded += 1
            return False
        self.checkers.oracle.lost_data(double, self.checkers.hosted(address))
        self.world.machines[double] = Machine(double, address)
        self.world.start_broker(address, double)
        self.world.later(step.ms, self._end_double, double)
        return True

    def _end_double(self, double: int) -> None:
        if self.world.process_at(double) is not None:
            self.world.crash(double, WIPE)
        self.checkers.oracle.is_gone(double)

    def _all_brokers(self, step: Step) -> bool:
        rng = Random(step.salt)
        machines = [each for at, each in sorted(self.world.machines.items()) if at < DOUBLES]
        for machine in machines:
            if machine.process is not None:
                self.world.crash(machine.address, KEEP)
                self._back_later(machine, 1 + rng.randrange(max(step.ms, 1)))
        return True

    def _wrong_cluster(self, step: Step) -> bool:
        """A broker of another cluster asks to be registered in this one."""
        if STRANGER in self.world.machines:
            return False
        self.world.machines[STRANGER] = Machine(STRANGER, STRANGER)
        self.world.start_broker(STRANGER, STRANGER, "another")
        self.world.later(step.ms, self._end_stranger)
        return True

    def _end_stranger(self) -> None:
        self.world.crash(STRANGER, WIPE)
        self.world.machines.pop(STRANGER, None)

    def _expire_session(self, step: Step) -> bool:
        """The coordination service gives up a session that lives."""
        machine = self._broker(step)
        if machine is None or machine.process is None or self.world.keeper is None:
            return False
        self.world.keeper.expire(machine.process)
        return True

    # The network.

    def _pair(self, step: Step) -> tuple[int, int] | None:
        one = self.find(step.target or "any", step.salt)
        other = self.find(step.other or "controller", step.salt // 7)
        return None if one is None or other is None or one == other else (one, other)

    def _drop(self, step: Step) -> None:
        """Connections break now and then, and what was on them is lost."""
        network = self.world.network
        before = (network.reset_chance, network.late_share)
        network.reset_chance, network.late_share = 0.05, 0.0
        self.world.later(step.ms, self._undrop, before)

    def _duplicate(self, step: Step) -> None:
        """Connections break, and what was on them comes late, beside what is sent again."""
        network = self.world.network
        before = (network.reset_chance, network.late_share)
        network.reset_chance, network.late_share = 0.05, 1.0
        self.world.later(step.ms, self._undrop, before)

    def _undrop(self, before: tuple[float, float]) -> None:
        self.world.network.reset_chance, self.world.network.late_share = before

    def _delay(self, step: Step) -> bool:
        pair = self._pair(step)
        if pair is None:
            return False
        weather = self.world.weather
        weather.slow_links[pair] = 5 + step.salt % 200
        self.world.later(step.ms, weather.slow_links.pop, pair, None)
        return True

    def _reorder(self, step: Step) -> None:
        weather = self.world.weather
        before, weather.spread_ms = weather.spread_ms, 20 + step.salt % 80
        self.world.later(step.ms, self._calm, before)

    def _calm(self, spread_ms: int) -> None:
        self.world.weather.spread_ms = spread_ms

    def _slow_message(self, step: Step) -> None:
        """Messages of one class take their time, on whatever link."""
        weather = self.world.weather
        weather.slow_messages[step.message] = 20 + step.salt % 400
        self.world.later(step.ms, weather.slow_messages.pop, step.message, None)

    def _partition(self, step: Step) -> bool:
        return self._cut(step, both=True)

    def _one_way_partition(self, step: Step) -> bool:
        return self._cut(step, both=False)

    def _cut(self, step: Step, *, both: bool) -> bool:
        """One from another, or, when no other is named, from every node; in zookeeper mode now and then from
        the ensemble as well, or from that alone."""
        one = self.find(step.target or "any", step.salt)
        if one is None:
            return False
        if step.other:
            other = self.find(step.other, step.salt // 7)
            others = [] if other is None or other == one else [other]
        else:
            nodes = [each for each in self._nodes() if each != one]
            others = {1: [KEEPER], 2: [*nodes, KEEPER]}.get(step.salt % 6 if self._has_keeper else 0, nodes)
        for each in others:
            here, there = (one, each) if step.salt % 2 or both else (each, one)
            self.world.cut(here, there, both=both)
            self.world.later(step.ms, self._mend, here, there, both)
        return bool(others)

    @property
    def _has_keeper(self) -> bool:
        return self.world.keeper is not None

    def _nodes(self) -> list[int]:
        return [each for each in sorted(self.world.machines) if each < KEEPER]

    def _mend(self, here: int, there: int, both: bool) -> None:
        self.world.mend(here, there, both=both)

    def _swizzle_clog(self, step: Step) -> bool:
        """Links stop one after the other and come back in another order."""
        rng = Random(step.salt)
        nodes = [*self._nodes(), KEEPER] if self._has_keeper else self._nodes()
        pairs = [(a, b) for at, a in enumerate(nodes) for b in nodes[at + 1 :]]
        chosen = rng.sample(pairs, min(len(pairs), 3))
        for one, other in chosen:
            self.world.later(rng.randrange(1, 100), self._clog, one, other)
        rng.shuffle(chosen)
        for at, (one, other) in enumerate(chosen):
            self.world.later(150 + step.ms + 40 * at, self._mend, one, other, True)
        return True

    def _clog(self, one: int, other: int) -> None:
        if not self.healing:
            self.world.cut(one, other)

    def _reset(self, step: Step) -> bool:
        pair = self._pair(step)
        if pair is None:
            return False
        self.world.network.reset(*pair)
        return True

    def _half_open(self, step: Step) -> bool:
        """It takes requests and its answers get nowhere."""
        one = self.find(step.target or "any", step.salt)
        if one is None:
            return False
        for each in sorted(self.world.machines):
            if each != one:
                self.world.cut(one, each, both=False)
                self.world.later(step.ms, self._mend, one, each, False)
        return True

    # Disks.

    def _fsync_error(self, step: Step) -> bool:
        machine = self._broker(step)
        if machine is None or not self.may_lose(machine.node_id):
            self.downgraded += 1
            return False
        machine.store.fail_flushes = True
        self.world.later(50 + step.salt % 400, self._replace_disk, machine, LOSE, step.ms)
        return True

    def _disk_full(self, step: Step) -> bool:
        machine = self._broker(step)
        if machine is None:
            return False
        machine.store.full = True
        self.world.later(50 + step.salt % 400, self._replace_disk, machine, KEEP, step.ms)
        return True

    def _replace_disk(self, machine: Machine, disk: str, ms: int) -> None:
        """An operator frees the disk and starts the broker again."""
        if machine.process is not None:
            self.world.crash(machine.address, self._disk(machine, disk))
        machine.store.full = machine.store.fail_flushes = False
        self._back_later(machine, ms)

    def _slow_disk(self, step: Step) -> bool:
        machine = self._broker(step)
        if machine is None:
            return False
        machine.slow_disk_ms = 2 + step.salt % 30
        self.world.later(step.ms, self._speed_up, machine)
        return True

    def _speed_up(self, machine: Machine) -> None:
        machine.slow_disk_ms = 0

    # Clocks.

    def _clock_jump(self, step: Step) -> bool:
        """The wall clock is set while a broker is down, which is when a runtime asks it."""
        machine = self._broker(step)
        if machine is None:
            return False
        self.world.crash(machine.address, KEEP)
        machine.clock.jump(step.salt % 20_000 - 10_000, self.world.now)
        self._back_later(machine, step.ms)
        return True

    def _clock_drift(self, step: Step) -> bool:
        address = self.find(step.target or "any", step.salt)
        machine = None if address is None else self.world.machines.get(address)
        if machine is None:
            return False
        machine.clock.drift(900 + step.salt % 201, self.world.now)
        return True

    # Ambushes: faults that wait for their moment.

    def _late_answer(self, step: Step) -> None:
        """The next answer of that class from the target is held, also beyond the end of its connection."""
        target = self.find(step.target or "any", step.salt)
        hold = self.world.network.hold(
            lambda sender, to, message: sender == target and type(message).__name__ == step.message,
            1,
            outlasts=True,
        )
        self.world.later(step.ms, hold.release)

    def _lost_office(self, step: Step) -> bool:
        """The controller loses its session and does not know it; brokers hear of the next one, but what they
        propose still goes to the one they had a connection to."""
        world = self.world
        if world.keeper is None:
            return False
        former = world.keeper.office
        world.network.cut(former, KEEPER)
        world.later(step.ms, world.network.mend, former, KEEPER)
        for broker_id in sorted(self.checkers.expected):
            world.astray[broker_id] = former
            world.later(step.ms, world.astray.pop, broker_id, None)
        return True

    def _ambush(self, step: Step) -> None:
        """From now on, when a message of that class leaves, do what `then` says; once. `ms`: hold it so
        long as well."""
        world = self.world
        until = world.now + 1_500

        def spring(sender: Process, to: int, message: Any) -> None:
            if type(message).__name__ != step.message or (step.disk and not self._fits(step.disk, message)):
                return
            if world.now > until or self.healing:
                world.network.ambushes.remove(spring)
                return
            if step.target and self.find(step.target, step.salt) not in (sender.address, to):
                return
            world.network.ambushes.remove(spring)
            if step.ms:
                hold = world.network.hold(lambda a, b, other: other is message, 1)
                world.later(step.ms, hold.release)
            for each in step.then:
                world.later(each.at, self.do, each)

        world.network.ambushes.append(spring)

    def _fits(self, what: str, message: Any) -> bool:
        """`grows`, `shrinks`: of proposals, the one that does."""
        size = sum(
            len(each.new_isr_with_epochs or each.new_isr)
            for topic in getattr(message, "topics", ())
            for each in topic.partitions
        )
        before = sum(
            len(state.isr)
            for topic in getattr(message, "topics", ())
            for each in topic.partitions
            if (state := self.checkers.truth.partition(topic.topic_id, each.partition_index)) is not None
        )
        return size > before if what == "grows" else size < before

    # The end of all faults.

    def heal(self) -> None:
        """Everything runs again, on good disks and links, with clocks that agree on a second."""
        world = self.world
        self.healing = True
        network, weather = world.network, world.weather
        network.ambushes.clear()
        network.reset_chance, network.late_share = 0.0, 0.0
        weather.slow_links.clear()
        weather.slow_messages.clear()
        world.astray.clear()
        weather.spread_ms = min(weather.spread_ms, 3)
        world.heal()
        if STRANGER in world.machines:
            self._end_stranger()
        for address, machine in sorted(world.machines.items()):
            if address >= 900:
                continue
            if DOUBLES <= address < CONTROLLERS:
                self._end_double(address)
                continue
            machine.clock.drift(1000, world.now)
            machine.slow_disk_ms = 0
            process = machine.process
            if process is not None and process.paused:
                self._unpause(process)
            elif process is None and address >= CONTROLLERS:
                world.start_controller(address)
            elif process is None:
                self._back(machine)
        for process in world.brokers():
            if process.core.replicas.offline_reason is not None or process.core.stopping():
                self._replace_disk(process.machine, KEEP, 1)
            else:
                process.machine.store.full = process.machine.store.fail_flushes = False

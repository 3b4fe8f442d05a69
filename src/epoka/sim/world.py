"""A whole cluster in one thread: the real cores on virtual time, with a network and disks that can fail.

The world decides when everything happens and nothing else: what a node does is decided by `controller/` and
`broker/`, driven through `handle` as `node/` drives them. One seed decides every delay and every fault, so
the same seed gives the same trace on every machine. Nothing here reads a clock or depends on hash order.

Addresses: brokers have their id, controllers 100 and up, clients 1000 and up. `CONTROLLER` is whichever
controller is in office.
"""

from __future__ import annotations

import hashlib
import traceback
import uuid
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from epoka.broker.config import BrokerConfig, Listener
from epoka.broker.core import BrokerCore
from epoka.broker.groups import GroupConfig
from epoka.controller.config import ControllerConfig
from epoka.controller.core import ControllerCore
from epoka.controller.metadata_log import MetadataLogFailed
from epoka.coordination.metadata_log import StoredMetadataLog
from epoka.fencing import Rules
from epoka.log.directory import LogDirectory
from epoka.log.store import MemoryStore, StorageError
from epoka.model.events import (
    CONTROLLER,
    Coordinate,
    Effect,
    Event,
    Exit,
    Hangup,
    Reply,
    Report,
    Request,
    Respond,
    Send,
    Stop,
    StorageFailed,
    Wake,
)
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import HIGHEST, FeatureLevel
from epoka.model.partitions import PartitionState
from epoka.sim.keeper import Keeper
from epoka.sim.network import Call, Hold, Network, through_the_codec
from epoka.sim.process import Machine, Process
from epoka.sim.weather import Weather
from epoka.wire.messages.alter_partition import AlterPartitionRequest

CLUSTER = "simulated"
BORN_MS = 1_000_000
FIRST_PORT = 9100
CONTROLLERS = 100
OPERATOR = 999
CLIENT = 1000
FOREVER_MS = 60_000

LOG, ZOOKEEPER = "log", "zookeeper"
KEEP, LOSE, TEAR, WIPE = "keep", "lose", "tear", "wipe"
COVERED_BYTES = 40
"""So many at the end of a batch are covered by its checksum, however small it is."""
"""What a crash leaves of a disk: everything, what was flushed, a part of the tail, nothing."""

Keep = Callable[[str, int], int]


class StoodStill(Exception):
    """A condition did not come true in the time it was given."""


class Answer:
    """What a client got, or will get."""

    __slots__ = ("done", "message")

    def __init__(self) -> None:
        self.done = False
        self.message: Any = None
        """None, too, when the connection was lost or nobody answered in time."""


class World:
    def __init__(
        self,
        seed: int = 0,
        *,
        mode: str = LOG,
        level: FeatureLevel = HIGHEST,
        brokers: int = 3,
        controllers: int = 1,
        without: Iterable[str] = (),
        codec: bool = True,
        boot: bool = True,
        controller: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """`without` names fencing rules that are switched off; `settings` are fields of `BrokerConfig`,
        `controller` of `ControllerConfig`."""
        self.seed = seed
        self.mode = mode
        self.level = level
        self.rules = Rules.without(*without)
        self.now = BORN_MS
        self.rng = Random(seed)
        self.network = Network(self, Random(seed ^ 0x5EED_0001), codec_share=codec)
        self.weather = Weather(Random(seed ^ 0x5EED_0002))
        self.network.delay = self.weather.delay
        self.controller_settings: dict[str, Any] = {
            "initial_level": level,
            "session_timeout_ms": 600,
            "auto_leader_rebalance": False,
            "control_request_timeout_ms": 1_000,
            **(controller or {}),
        }
        self.settings: dict[str, Any] = {
            "heartbeat_interval_ms": 150,
            "heartbeat_timeout_ms": 900,
            "registration_timeout_ms": FOREVER_MS,
            "controlled_shutdown_timeout_ms": 2_000,
            "request_timeout_ms": 1_500,
            "replica_lag_time_max_ms": 800,
            "replica_fetch_wait_max_ms": 300,
            "offsets_topic_partitions": 1,
            "offsets_topic_replication_factor": 1,
            "auto_create_topics": False,
            "groups": GroupConfig(initial_rebalance_delay_ms=0, partitions=1),
            **settings,
        }
        self.machines: dict[int, Machine] = {}
        self.ledger: list[LedgerEvent] = []
        self.keeps_ledger = True
        self.broken: list[str] = []
        """Exceptions that came out of a core, and nodes that could not start: bugs, each told in full."""
        self.watch: Callable[[Process, Event], None] | None = None
        """Called after every event that a core has taken in."""
        self.on_start: Callable[[Process], None] | None = None
        self.on_crash: Callable[[Machine, str], None] | None = None
        self.chores_ms = 0
        """How often a broker checkpoints and flushes; 0: only when `flush` says so."""
        self.effects: list[Effect] = []
        """What the last event led to."""
        self._trace: list[str] = []
        """Every event in short; its hash is what says that two runs were the same."""
        self._heap: list[tuple[int, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._next_number = count(1).__next__
        """Things that are due at the same time happen in the order in which they were planned."""
        self.lives = 0
        self._ids = 0
        self._lane = 0
        self.office = CONTROLLERS
        """The address of the controller in office (log mode; in zookeeper mode the service says)."""
        self.astray: dict[int, int] = {}
        """Brokers whose proposals still go to a controller of the past, and where that is."""
        self.keeper: Keeper | None = Keeper(self) if mode == ZOOKEEPER else None
        self.operator = self.stranger(OPERATOR)
        self.client = self.stranger(CLIENT)
        for address in range(CONTROLLERS, CONTROLLERS + controllers):
            self.machines[address] = Machine(address, address)
            self.start_controller(address)
        for broker_id in range(1, brokers + 1):
            self.machines[broker_id] = Machine(broker_id, broker_id)
            self.start_broker(broker_id)
        if boot:
            self.run_until(self.all_active)

    def stranger(self, address: int) -> Process:
        """A process without a core: somebody who only asks."""
        machine = self.machines[address] = Machine(address, address)
        machine.process = Process(machine, None, -address, is_broker=False)
        return machine.process

    # Nodes.

    @property
    def controller(self) -> ControllerCore:
        """The core of the controller in office."""
        core = self._process(CONTROLLER).core
        assert isinstance(core, ControllerCore)
        return core

    def broker(self, broker_id: int) -> BrokerCore:
        core = self._process(broker_id).core
        assert isinstance(core, BrokerCore)
        return core

    def is_up(self, node: int) -> bool:
        process = self.process_at(self.address_of(node))
        return process is not None

    def address_of(self, node: int) -> int:
        if node != CONTROLLER:
            return node
        return self.office if self.keeper is None else self.keeper.office

    def process_at(self, address: int) -> Process | None:
        machine = self.machines.get(address)
        return None if machine is None else machine.process

    def is_silent(self, address: int) -> bool:
        machine = self.machines.get(address)
        return machine is not None and machine.silent

    def _process(self, node: int) -> Process:
        process = self.process_at(self.address_of(node))
        if process is None:
            raise LookupError(f"nothing lives at {node}")
        return process

    def processes(self) -> list[Process]:
        """Every core that is alive, in the order of addresses."""
        return [
            machine.process
            for _, machine in sorted(self.machines.items())
            if machine.process is not None and machine.process.core is not None
        ]

    def brokers(self) -> list[Process]:
        return [process for process in self.processes() if process.is_broker]

    def start_controller(self, address: int | None = None) -> None:
        address = self.office if address is None else address
        if self.keeper is not None:
            self.keeper.stand(address)
            return
        machine = self.machines[address]
        try:
            log = StoredMetadataLog(machine.store.folder("metadata"))
        except MetadataLogFailed as failure:
            self.broken.append(f"controller {address} cannot start: {failure}")
            return
        self.begin_controller(address, log, None)

    def begin_controller(self, address: int, log: Any, controller_epoch: int | None) -> Process:
        machine = self.machines[address]
        core = ControllerCore(
            machine.node_id,
            CLUSTER,
            log,
            ControllerConfig(**self.controller_settings),
            new_id=self.new_id,
            rules=self.rules,
            controller_epoch=controller_epoch,
        )
        return self._start(machine, core, is_broker=False)

    def start_broker(
        self, broker_id: int, address: int | None = None, cluster_id: str = CLUSTER
    ) -> Process | None:
        """A new life on the disk that is there; None when the disk can't be used."""
        machine = self.machines[broker_id if address is None else address]
        if machine.process is not None:
            raise LookupError(f"broker {broker_id} is alive")
        now = machine.clock.local(self.now)
        try:
            directory = LogDirectory.open(
                machine.store, cluster_id=cluster_id, node_id=broker_id, now=now, directory_id=self.new_id()
            )
        except (StorageError, ValueError) as error:
            self.broken.append(f"broker {broker_id} cannot start: {error}")
            return None
        config = BrokerConfig(
            broker_id=broker_id,
            cluster_id=cluster_id,
            incarnation_id=self.new_id(),
            listeners=(
                Listener("PLAINTEXT", "sim", 8100 + machine.address),
                Listener("CONTROL", "sim", FIRST_PORT + machine.address),
            ),
            directory_ids=(directory.directory_id,),
            previous_broker_epoch=directory.previous_generation,
            last_broker_epoch=directory.last_generation,
            zookeeper=self.mode == ZOOKEEPER,
            **self.settings,
        )
        core = BrokerCore(config, directory, self._new_member_id, self.rules)
        process = self._start(machine, core, is_broker=True)
        if self.keeper is not None:
            self.keeper.broker_started(process)
        if self.chores_ms:
            self.schedule(self.now + self.chores_ms, self.chores, process)
        return process

    def _start(self, machine: Machine, core: Any, *, is_broker: bool) -> Process:
        self.lives += 1
        machine.silent = False
        process = machine.process = Process(machine, core, self.lives, is_broker=is_broker)
        if self.on_start is not None:
            self.on_start(process)
        try:
            self._perform(process, core.start(machine.clock.local(self.now)))
        except Exception:
            self._defect(process)
        self._rearm(process, 0)
        return process

    def new_id(self) -> uuid.UUID:
        self._ids += 1
        return uuid.UUID(int=(0xE90CA << 100) + self._ids)

    def _new_member_id(self, client_id: str) -> str:
        self._ids += 1
        return f"{client_id}-{self._ids}"

    # Faults of processes and disks.

    def crash(self, node: int, disk: str = KEEP, *, silent: bool = False, keep: Keep | None = None) -> None:
        """The process is gone at once. `silent`: the whole machine is, so nobody is told."""
        machine = self.machines[self.address_of(node)]
        process = machine.process
        if process is None:
            return
        self._end_process(process, silent=silent)
        if disk == WIPE:
            machine.store = MemoryStore()
        elif disk == KEEP:
            machine.store.crash(lambda name, size: size)
        elif disk == LOSE:
            machine.store.crash(None)
        else:
            machine.store.crash(keep or self._torn, None if keep else self._garbled)
        if self.on_crash is not None:
            self.on_crash(machine, disk)

    def _torn(self, name: str, size: int) -> int:
        """Of each file some of the tail, cut anywhere."""
        return self.rng.randint(0, size)

    def _garbled(self, name: str, size: int) -> int:
        """Of every second file a bit of what is left of the tail, close to its end: no checksum covers the
        first bytes of a batch, and what its offset was before nobody can tell."""
        return size - 1 - self.rng.randrange(min(size, COVERED_BYTES)) if self.rng.random() < 0.5 else -1

    def restart(self, node: int) -> None:
        address = self.address_of(node)
        if self.machines[address].process is None:
            if address >= CONTROLLERS:
                self.start_controller(address)
            else:
                self.start_broker(self.machines[address].node_id, address)

    def bounce(self, node: int, disk: str = KEEP) -> None:
        """Crash and start again before anybody has noticed."""
        self.crash(node, disk)
        self.restart(node)

    def stop(self, broker_id: int) -> None:
        """Ask for a controlled shutdown; it takes its time."""
        self.deliver(self._process(broker_id), Stop())

    def stop_cleanly(self, broker_id: int) -> None:
        """End at once and in order, without a word to the controller."""
        process = self._process(broker_id)
        process.exit = Exit(clean=True, reason="stopped from outside")
        self._end_process(process, silent=False)
        self._close_disk(process, clean=True)

    def end_process(self, process: Process) -> None:
        """It has to go, and goes at once, leaving its disk as it is."""
        process.exit = Exit(clean=False, reason="it lost its place")
        self._end_process(process, silent=False)
        self._close_disk(process, clean=False)

    def _end_process(self, process: Process, *, silent: bool) -> None:
        process.alive = False
        process.machine.process = None
        process.machine.silent = silent
        process.inbox.clear()
        self.network.process_ended(process, silent=silent)
        if self.keeper is not None:
            self.keeper.process_ended(process)

    def _close_disk(self, process: Process, *, clean: bool) -> None:
        core = process.core
        if not process.is_broker:
            return
        directory = core.replicas.logs
        try:
            if clean:
                for replica in core.replicas.by_key.values():
                    replica.log.high_watermark = replica.high_watermark
                directory.shutdown(core.lifecycle.broker_epoch)
            else:
                directory.abandon()
        except StorageError:
            # There is no marker then, and the next life recovers.
            pass

    def pause(self, node: int) -> None:
        self._process(node).paused = True

    def resume(self, node: int) -> None:
        self.resume_process(self._process(node))

    def resume_process(self, process: Process) -> None:
        """Go on with everything that has come meanwhile, before the alarms that were missed."""
        process.paused = False
        process.resumed_ms = self.now
        self._wake_up(process)

    def _wake_up(self, process: Process) -> None:
        if not process.alive or process.paused:
            return
        if process.busy_until > self.now:
            self.schedule(process.busy_until, self._wake_up, process)
            return
        inbox, process.inbox = process.inbox, type(process.inbox)()
        while inbox and process.alive and not process.paused and process.busy_until <= self.now:
            self.deliver(process, inbox.popleft())
        process.inbox.extendleft(reversed(inbox))
        if process.busy_until > self.now and process.inbox:
            self.schedule(process.busy_until, self._wake_up, process)
        process.alarm = 0
        self._rearm(process, 0)

    def flush(self, broker_id: int) -> None:
        """Everything that the broker has written is on its disk for good."""
        self._flush(self._process(broker_id))

    def _flush(self, process: Process) -> None:
        core = process.core
        try:
            for log in list(core.replicas.logs.logs.values()):
                if log.failure is None:
                    log.flush()
            core.replicas.logs.checkpoint(core.replicas.high_watermarks())
        except StorageError as error:
            self.deliver(process, StorageFailed(str(error)))

    def chores(self, process: Process) -> None:
        if process.alive:
            if not process.paused:
                self._flush(process)
            self.schedule(self.now + self.chores_ms, self.chores, process)

    # Faults of the network.

    def cut(self, one: int, other: int, *, both: bool = True) -> None:
        """Nothing gets from one to the other, nor back unless only one direction is meant."""
        one, other = self.address_of(one), self.address_of(other)
        self.network.cut(one, other)
        if both:
            self.network.cut(other, one)

    def mend(self, one: int, other: int, *, both: bool = True) -> None:
        one, other = self.address_of(one), self.address_of(other)
        self.network.mend(one, other)
        if both:
            self.network.mend(other, one)

    def isolate(self, node: int, *, from_: Iterable[int] | None = None) -> None:
        """Cut a node off from others, by default from every node; clients still reach it."""
        address = self.address_of(node)
        others = [each for each in self.machines if each < OPERATOR] if from_ is None else list(from_)
        for other in others:
            if self.address_of(other) != address:
                self.cut(address, other)

    def heal(self) -> None:
        """All links carry everything, and nothing is held any more."""
        self.network.mend_all()

    def hold(
        self,
        api: str,
        *,
        sender: int | None = None,
        to: int | None = None,
        most: int | None = None,
        where: Callable[[Any], bool] | None = None,
    ) -> Hold:
        """Keep back messages of that class name, such as `AlterPartitionRequest`, until they are released.

        What is held reaches whoever lives at its address then: also a later life of the receiver.
        """

        def matches(frm: int, towards: int, message: Any) -> bool:
            return (
                type(message).__name__ == api
                and (sender is None or frm == self.address_of(sender))
                and (to is None or towards == self.address_of(to))
                and (where is None or where(message))
            )

        return self.network.hold(matches, most)

    # Time.

    def schedule(self, at: int, call: Callable[..., Any], *arguments: Any) -> None:
        heappush(self._heap, (at, self._next_number(), call, arguments))

    def later(self, ms: int, call: Callable[..., Any], *arguments: Any) -> None:
        self.schedule(self.now + ms, call, *arguments)

    def step(self) -> bool:
        """Let the next thing happen; False when nothing is left to happen."""
        if not self._heap:
            return False
        self.now, _, call, arguments = heappop(self._heap)
        call(*arguments)
        return True

    def run(self, ms: int) -> None:
        self.run_to(self.now + ms)

    def run_to(self, end: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end:
            self.now, _, call, arguments = heappop(heap)
            call(*arguments)
        self.now = end

    def run_until(self, condition: Callable[[], bool], ms: int = FOREVER_MS) -> None:
        """Let things happen until the condition holds; StoodStill when it does not in that time."""
        end = self.now + ms
        while not condition():
            if not self._heap or self._heap[0][0] > end:
                raise StoodStill(f"not in {ms} ms: {condition!r}. {'; '.join(self.broken)}")
            self.step()

    # Driving cores.

    def deliver(self, process: Process, event: Event) -> None:
        """Hand an event to a core, now or when it can take one."""
        if not process.alive:
            return
        now = self.now
        if process.paused or process.busy_until > now or process.inbox:
            process.inbox.append(event)
            if not process.paused and len(process.inbox) == 1:
                self.schedule(process.busy_until, self._wake_up, process)
            return
        core = process.core
        ahead_ms = process.clock.ahead_ms
        local = process.clock.local(now) if ahead_ms is None else now + ahead_ms
        kind = type(event)
        what = type(event.message) if kind is Request or kind is Reply else kind  # type: ignore[union-attr]
        told = _TOLD.get(what)
        if told is None:
            told = _TOLD[what] = f"{kind.__name__} {what.__name__};"
        self._trace.append(f"{now} {process.life} {told}")
        try:
            try:
                effects = core.handle(event, local)
            except StorageError as error:
                effects = self._on_storage_error(process, event, error, local)
            self.effects = effects
            if effects or not process.is_broker:
                self._perform(process, effects)
        except Exception:
            self._defect(process)
            return
        if process.machine.slow_disk_ms:
            process.busy_until = now + process.machine.slow_disk_ms
        if process.alive:
            self._rearm(process, 1 if kind is Wake else 0)
        watch = self.watch
        if watch is not None:
            watch(process, event)

    def _on_storage_error(
        self, process: Process, event: Event, error: StorageError, local: int
    ) -> list[Effect]:
        if isinstance(event, StorageFailed):
            raise error
        if isinstance(event, Request) and (call := process.askers.pop(event.token, None)) is not None:
            self.network.hang_up(call)
        effects: list[Effect] = process.core.handle(StorageFailed(str(error)), local)
        return effects

    def _defect(self, process: Process) -> None:
        self.broken.append(f"{process} raised at {self.now}: {traceback.format_exc()}")
        if process.alive:
            self._end_process(process, silent=False)
            self._close_disk(process, clean=False)

    def _rearm(self, process: Process, at_least_ms: int) -> None:
        deadline = process.core.deadline
        if deadline is None:
            return
        ahead_ms = process.clock.ahead_ms
        at = process.clock.world(deadline) if ahead_ms is None else deadline - ahead_ms
        now = self.now + at_least_ms
        if at < now:
            at = now
        if 0 < process.alarm <= at:
            return
        process.alarm = at
        self.schedule(at, self._ring, process, at)

    def _ring(self, process: Process, at: int) -> None:
        if process.alarm != at or not process.alive:
            return
        process.alarm = 0
        if process.paused or process.busy_until > self.now:
            if not process.paused and not process.inbox:
                self.schedule(process.busy_until, self._wake_up, process)
            return
        deadline = process.core.deadline
        if deadline is not None and deadline <= process.clock.local(self.now):
            self.deliver(process, WAKE)
        else:
            self._rearm(process, 1)

    def _perform(self, process: Process, effects: list[Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._send(process, effect)  # type: ignore[arg-type]
            elif kind is Respond:
                call = process.askers.pop(effect.token, None)  # type: ignore[union-attr]
                if call is not None:
                    self.network.respond(call, effect.message)  # type: ignore[union-attr]
            elif kind is Report:
                if self.keeps_ledger:
                    self.ledger.append(effect.event)  # type: ignore[union-attr]
            elif isinstance(effect, Hangup):
                call = process.askers.pop(effect.token, None)
                if call is not None:
                    self.network.hang_up(call)
            elif isinstance(effect, Exit):
                process.exit = effect
                self._end_process(process, silent=False)
                self._close_disk(process, clean=effect.clean)
            elif self.keeper is not None and isinstance(effect, Coordinate):
                self.keeper.perform(process, effect)
            else:
                raise TypeError(f"a core asked for {effect!r}, which is no effect here")
        if self.keeper is not None and not process.is_broker:
            self.keeper.controller_acted(process)

    def _send(self, process: Process, send: Send) -> None:
        to = self.locate(process, send.to)
        if self.astray and type(send.message) is AlterPartitionRequest:
            to = self.astray.get(process.address, to)
        if to is None:
            self.later(1, self._nobody_there, process, send.token)
        else:
            self.network.send(process, to, send.token, send.message, send.version, send.timeout_ms, send.lane)

    def _nobody_there(self, process: Process, token: int) -> None:
        self.deliver(process, Reply(token, None))

    def locate(self, process: Process, to: int) -> int | None:
        """Where a node finds another one: as the metadata it has says."""
        if to == CONTROLLER:
            return self.office if self.keeper is None else self.keeper.office
        registration = process.core.image.broker(to)
        door = None if registration is None else registration.control_endpoint
        return None if door is None else door.port - FIRST_PORT

    # Clients.

    def ask(
        self,
        node: int,
        message: Any,
        version: int,
        *,
        control: bool = False,
        client: Process | None = None,
        lane: int | None = None,
        timeout_ms: int = FOREVER_MS,
        then: Callable[[Any], None] | None = None,
    ) -> Answer:
        """Put a request; the answer fills itself in. Without a lane it has a connection of its own."""
        if lane is None:
            self._lane += 1
            lane = 1_000_000 + self._lane
        asker = client or (self.operator if control else self.client)
        answer = Answer()

        def answered(reply: Any) -> None:
            answer.done, answer.message = True, reply
            if then is not None:
                then(reply)

        call: Call = self.network.send(asker, self.address_of(node), 0, message, version, timeout_ms, lane)
        call.on_answer = answered
        return answer

    def call(self, node: int, message: Any, version: int, *, control: bool = False) -> Any:
        """Put a request and let the world go on until it is answered."""
        answer = self.ask(node, message, version, control=control)
        self.run_until(lambda: answer.done)
        return answer.message

    # Questions.

    def all_active(self) -> bool:
        """Every broker that lives serves, and knows that every other one does."""
        for machine in self.machines.values():
            process = machine.process
            if process is not None and process.is_broker and not process.core.lifecycle.serving():
                return False
        living = self.brokers()
        return all(
            (known := process.core.image.broker(other.node_id)) is not None and known.active
            for process in living
            for other in living
        )

    def partition(self, topic: str, index: int = 0) -> PartitionState:
        """A partition as the controller in office knows it."""
        state = self.controller.image.partition(topic, index)
        if state is None:
            raise LookupError(f"there is no partition {topic}-{index}")
        return state

    def leads(self, broker_id: int, topic: str, index: int = 0) -> bool:
        """Whether the broker itself believes that it leads the partition."""
        process = self.process_at(broker_id)
        if process is None:
            return False
        replica = process.core.replicas.by_name.get((topic, index))
        return replica is not None and replica.leadership is not None

    def generation(self, broker_id: int) -> int:
        """The registered generation of a broker; -1 when it is not registered."""
        known = self.controller.image.broker(broker_id)
        return -1 if known is None else known.epoch

    @property
    def events(self) -> int:
        """How many events cores have taken in."""
        return len(self._trace)

    def trace_hash(self) -> str:
        return hashlib.blake2b("".join(self._trace).encode(), digest_size=16).hexdigest()


WAKE = Wake()

_TOLD: dict[type, str] = {}
"""What the trace calls an event, by the class of its message; requests and answers share no class."""

__all__ = [
    "CLIENT",
    "CONTROLLER",
    "CONTROLLERS",
    "KEEP",
    "LOG",
    "LOSE",
    "TEAR",
    "WIPE",
    "ZOOKEEPER",
    "Answer",
    "StoodStill",
    "World",
    "through_the_codec",
]

"""The invariants of the cluster, asked after every event of whatever that event has touched.

Numbers are those of the list of safety invariants in `docs/simulator.md`. A checker looks and never changes a
core. The first violation ends the run, because what follows from it proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from epoka.broker.lifecycle import LifeState
from epoka.model.events import Event, Reply, Request, Respond
from epoka.model.image import ClusterImage, Topic
from epoka.model.levels import FeatureLevel
from epoka.model.partitions import PartitionState
from epoka.sim.oracle import Committed, Key, Oracle, batches_of
from epoka.sim.process import DOUBLES
from epoka.sim.world import FIRST_PORT
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.leader_and_isr import LeaderAndIsrRequest
from epoka.wire.messages.produce import ProduceRequest
from epoka.wire.messages.stop_replica import StopReplicaRequest
from epoka.wire.messages.update_metadata import UpdateMetadataRequest

if TYPE_CHECKING:
    from epoka.broker.replica import Replica
    from epoka.sim.process import Machine, Process
    from epoka.sim.world import World

CONTROL = (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)


class Violation(msgspec.Struct, frozen=True):
    checker: str
    event: int
    """How many events had been handled."""
    time_ms: int
    """Since the world began."""
    story: str


class Violated(Exception):
    """Ends a run. The violation is in the checker's list."""


class _Seen:
    """What was last seen of one replica."""

    __slots__ = ("end", "high_watermark", "key", "leader_epoch", "leadership", "topic")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.topic: Topic | None = None
        """In zookeeper mode: the topic from which the key is known."""
        self.leadership: Any = None
        self.leader_epoch = -1
        self.high_watermark = -1
        self.end = 0


class _Watched:
    """What is remembered of one process: what was seen of a partition, and the same by its replica."""

    __slots__ = ("partitions", "replicas")

    def __init__(self) -> None:
        self.partitions: dict[Key, _Seen] = {}
        self.replicas: dict[Replica, _Seen] = {}

    def find(self, replica: Replica, topic: Topic | None) -> _Seen:
        key = (replica.topic_id if topic is None else topic.id, replica.index)
        known = self.partitions.get(key)
        if known is None:
            known = self.partitions[key] = _Seen(key)
        known.topic = topic
        self.replicas[replica] = known
        return known


class Checkers:
    def __init__(self, world: World, oracle: Oracle) -> None:
        self.world = world
        self.oracle = oracle
        self.violations: list[Violation] = []
        self.leaders: dict[tuple[Key, int], tuple[int, str]] = {}
        """Who led in a leader epoch: the life, and its name."""
        self.epochs: dict[Key, tuple[int, int]] = {}
        self.generations: dict[int, int] = {}
        self.stopping: dict[tuple[int, int], None] = {}
        """Lives that a controller has known to be stopping."""
        self.members: dict[Key, tuple[int, ...]] = {}
        self.controllers: dict[int, int] = {}
        """The controller epoch that each life has last obeyed."""
        self.expected = {machine.node_id for machine in world.machines.values() if machine.address < 100}
        self._by_name = world.keeper is not None
        self.doors: dict[int, int] = {}
        """The control port of each id: whose disk it is."""
        self._image_at: tuple[int, int] = (-1, -1)
        self._after_answer = False
        """Whether the controller has acted on an answer to one of its own requests."""
        world.watch = self.after
        world.on_crash = self.crashed
        oracle.replica = self.replica
        self.truth: ClusterImage = world.controller.image
        """The state that counts: the last one a controller made durable."""
        for broker in self.truth.brokers.values():
            if (door := broker.control_endpoint) is not None:
                self.doors[broker.id] = door.port

    def fail(self, checker: str, story: str) -> None:
        world = self.world
        self.violations.append(Violation(checker, world.events, world.now, story))
        raise Violated(story)

    # After every event.

    def after(self, process: Process, event: Event) -> None:
        if process.is_broker:
            if process.alive:
                self.after_broker(process, event)
        else:
            self.after_controller(process, event)
        if self.world.broken:
            self.fail("a core broke", self.world.broken[0])

    def after_broker(self, process: Process, event: Event) -> None:
        seen = process.seen
        if seen is None:
            seen = process.seen = _Watched()
        by_name = self._by_name
        if by_name and type(event) is Request and type(event.message) in CONTROL:
            self.obeyed(process, event)
        replicas: dict[Replica, _Seen] = seen.replicas
        topic = None
        for replica in process.core.replicas.by_key.values():
            if by_name:
                # Below `eligible-isr` a broker has derived the topic's id from its name.
                topic = self.truth.topic(replica.topic)
                if topic is None:
                    continue
            known = replicas.get(replica)
            if known is None or known.topic is not topic:
                known = seen.find(replica, topic)
            end, leadership = replica.log.end_offset, replica.leadership
            if (
                known.leadership is leadership
                and known.leader_epoch == replica.leader_epoch
                and known.end == end
                and (leadership is None or known.high_watermark == replica.high_watermark)
            ):
                continue
            key = known.key
            if known.leadership is not leadership:
                if leadership is not None:
                    self.began_to_lead(process, key, replica)
                    known.high_watermark = replica.high_watermark
                    committed = self.oracle.committed(key)
                    if committed.excused_from is None:
                        # Whoever is alone may commit in the moment in which it begins to lead. What an
                        # exception has made forgotten is no news.
                        known.high_watermark = min(replica.high_watermark, committed.end)
                known.leadership = leadership
            if replica.leader_epoch < known.leader_epoch:
                self.fail(
                    "8: epochs go up",
                    f"{process} went back from leader epoch {known.leader_epoch} to {replica.leader_epoch} "
                    f"of {replica}",
                )
            known.leader_epoch = replica.leader_epoch
            if leadership is not None:
                if replica.high_watermark != known.high_watermark:
                    self.high_watermark_moved(process, key, replica, known.high_watermark)
                    known.high_watermark = replica.high_watermark
                if end > known.end and type(event) is Request:
                    self.appended(process, replica, event)
            if end < known.end:
                self.truncated(process, key, replica, known.end)
            known.end = end

    def obeyed(self, process: Process, event: Request) -> None:
        """Invariant 17: no control request of an older generation, or of an older controller, is applied."""
        message = event.message
        given = max(message.broker_epoch, message.max_broker_epoch)
        own = process.core.lifecycle.broker_epoch
        stale = 0 <= given < own
        seen = self.controllers.get(process.life, -1)
        late = message.controller_epoch < seen
        for effect in self.world.effects:
            if isinstance(effect, Respond) and effect.token == event.token:
                if effect.message is None or effect.message.error_code != ErrorCode.NONE:
                    return
                if stale or late:
                    what = f"generation {given}, its own is {own}"
                    if late:
                        what = f"controller epoch {message.controller_epoch}, it knows {seen}"
                    self.fail(
                        "17: nothing stale is obeyed",
                        f"{process} obeyed a {type(message).__name__} of {what}",
                    )
                self.controllers[process.life] = message.controller_epoch

    def began_to_lead(self, process: Process, key: Key, replica: Replica) -> None:
        """Invariants 1 and 8: one leader an epoch, and it has everything."""
        first = self.leaders.setdefault((key, replica.leader_epoch), (process.life, repr(process)))
        if first[0] != process.life:
            self.fail(
                "8: one leader an epoch",
                f"{replica} has two leaders in epoch {replica.leader_epoch}: {first[1]} and {process}",
            )
        state = self.truth.partition(*key)
        if state is None or state.leader_epoch != replica.leader_epoch:
            return
        self.oracle.names[key] = repr(replica)
        committed = self.oracle.committed(key)
        lacking = committed.lacking(replica.log)
        place = (process.address, key)
        if state.isr == (process.node_id,) and place in self.oracle.lost:
            del self.oracle.lost[place]
            self.oracle.dirty.pop(place, None)
            if lacking is not None:
                self.oracle.excuse(key, lacking)
            self.oracle.taken_over(key, replica.leader_epoch, replica.log)
            return
        if lacking is None:
            self.oracle.dirty.pop(place, None)
            return
        self.fail(
            "1: the leader has everything",
            f"{process} leads {replica} in epoch {replica.leader_epoch} without offset {lacking} of "
            f"{committed.end}; ISR {list(state.isr)}",
        )

    def high_watermark_moved(self, process: Process, key: Key, replica: Replica, before: int) -> None:
        mark = replica.high_watermark
        if mark < before:
            self.fail(
                "8: the high watermark goes up",
                f"{process} took the high watermark of {replica} from {before} back to {mark}",
            )
        committed = self.oracle.committed(key)
        if committed.takeover is not None and replica.leader_epoch < committed.takeover.epoch:
            self.oracle.commits_late(key, replica.log, mark)
            return
        known = committed.end
        fresh = batches_of(replica.log, max(min(before, known), replica.log.log_start_offset), mark)
        wrong = committed.add(fresh)
        if wrong is not None:
            self.fail("4: logs match", f"{process}, {replica} in epoch {replica.leader_epoch}: {wrong}")
        if mark <= known:
            return
        self.enough(process, key, replica)
        state = self.truth.partition(*key)
        if (
            replica.leadership is not None
            and state is not None
            and state.leader_epoch == replica.leader_epoch
        ):
            self.quorum(process, key, replica)
        if state is not None:
            self.candidates(key, state, committed)

    def enough(self, process: Process, key: Key, replica: Replica) -> None:
        """Invariant 19: nothing is committed by fewer in-sync replicas than the topic asks for."""
        topic = self.truth.topic(key[0])
        if topic is None or replica.leadership is None:
            return
        asked = int(self.truth.topic_config(topic.name).get("min.insync.replicas", "1"))
        isr, replicas = replica.leadership.isr, replica.leadership.replicas
        if len(isr) < min(asked, len(replicas)):
            self.fail(
                "19: enough are in sync",
                f"{process} committed up to {replica.high_watermark} of {replica} with the ISR {list(isr)}, "
                f"where {asked} are asked for",
            )

    def quorum(self, process: Process, key: Key, replica: Replica) -> None:
        """Invariant 3: whoever could be elected is counted on."""
        truth, keeper = self.truth, self.world.keeper
        if keeper is not None and truth.level < FeatureLevel.HEARTBEATS:
            # Leaders write there themselves; the controller hears of it later and can't decide on less.
            truth = keeper.image
        state = truth.partition(*key)
        assert state is not None and replica.leadership is not None
        maximal = replica.leadership.maximal_isr
        for member in state.isr:
            if member not in maximal:
                self.fail(
                    "3: the quorum covers the ISR",
                    f"{process} counts on {list(maximal)} for {replica}, the controller on {list(state.isr)}",
                )

    def candidates(self, key: Key, state: PartitionState, committed: Committed) -> None:
        """Invariant 2: every ISR member, in the life that the controller knows, has everything."""
        for member in state.isr:
            process = self._registered(member)
            if process is None:
                continue
            replica = self.replica(process, key)
            if replica is None:
                if not self._may_have_heard(process, key):
                    continue
                lacking = self._lacking_on_disk(process, key, committed)
            else:
                lacking = committed.lacking(replica.log)
            if lacking is None:
                continue
            if state.isr == (member,) and (process.address, key) in self.oracle.lost:
                self.oracle.excuse(key, lacking)
                continue
            generation = process.core.lifecycle.broker_epoch
            self.fail(
                "2: ISR members have everything",
                f"{process} of generation {generation} is in the ISR {list(state.isr)} of "
                f"{self.oracle.names.get(key, key)} without offset {lacking} of {committed.end}",
            )

    def _lacking_on_disk(self, process: Process, key: Key, committed: Committed) -> int | None:
        """Of a replica that was not taken up: a disk that takes no writes has not lost what it holds."""
        topic = self.truth.topic(key[0])
        log = None if topic is None else process.core.replicas.logs.logs.get((topic.name, key[1]))
        if log is None:
            return 0 if committed.end else None
        return committed.lacking(log)

    def _registered(self, broker_id: int) -> Process | None:
        """The process whose life the controller knows under that id, if it runs."""
        known = self.truth.broker(broker_id)
        generation = None if known is None else known.epoch
        for address in (broker_id, broker_id + DOUBLES):
            process = self.world.process_at(address)
            if process is not None and process.core.lifecycle.broker_epoch == generation:
                return process
        return None

    def replica(self, process: Process, key: Key) -> Replica | None:
        """What a broker holds of a partition, by whatever id it knows it."""
        topic = self.truth.topic(key[0])
        found: Replica | None = (
            None if topic is None else process.core.replicas.by_name.get((topic.name, key[1]))
        )
        return found

    def _may_have_heard(self, process: Process, key: Key) -> bool:
        """A life that has not read its own registration yet holds no replicas."""
        return bool(process.core.lifecycle.state in (LifeState.RUNNING, LifeState.STOPPING))

    def truncated(self, process: Process, key: Key, replica: Replica, before: int) -> None:
        state = self.truth.partition(*key)
        committed = self.oracle.partitions.get(key)
        if state is not None and committed is not None and process.node_id in state.isr:
            self.candidates(key, state, committed)

    def appended(self, process: Process, replica: Replica, event: Request) -> None:
        """Invariant 11: who can't reach the controller takes nothing new."""
        if type(event.message) is not ProduceRequest:
            return
        core = process.core
        silence_ms = core.now - core.lifecycle.last_contact_ms
        if silence_ms > core.config.heartbeat_timeout_ms and core.image.level >= FeatureLevel.HEARTBEATS:
            self.fail(
                "11: the isolated take nothing",
                f"{process} took a produce for {replica} after {silence_ms} ms without the controller",
            )

    # After the controller's events.

    def after_controller(self, process: Process, event: Event) -> None:
        world = self.world
        self._after_answer = type(event) is Reply
        keeper = world.keeper
        image: ClusterImage = process.core.image if keeper is None else keeper.image
        self.silent(process)
        at = (id(image), image.offset)
        if at == self._image_at:
            return
        self._image_at = at
        self.truth = image
        self.state_changed(image)

    def silent(self, process: Process) -> None:
        """Invariant 14: who has not been heard of for twice the timeout is not counted on; and whoever is
        known to be stopping, is noted."""
        core = process.core
        state = core.state
        now = process.clock.local(self.world.now)
        timeout_ms = state.config.session_timeout_ms
        rested = self.world.now - process.resumed_ms <= timeout_ms
        for broker in core.image.brokers.values():
            if broker.fenced:
                continue
            session = state.sessions.get(broker.id)
            if broker.in_controlled_shutdown or (session is not None and session.shutdown_offset is not None):
                self.stopping[broker.id, broker.epoch] = None
            if rested or session is None or not session.beats:
                continue
            if now - session.contact_ms > 2 * timeout_ms:
                self.fail(
                    "14: the silent are fenced",
                    f"{process} still counts on broker {broker.id}, silent for {now - session.contact_ms} ms",
                )

    def living_id_taken(self, image: ClusterImage, broker_id: int, before: int) -> None:
        """Invariant 15: while a broker lives, is in touch and does not ask to be fenced, nobody else gets its
        id."""
        for process in self.world.brokers():
            lifecycle = process.core.lifecycle
            if (
                process.node_id == broker_id
                and lifecycle.broker_epoch == before
                and not process.paused
                and not lifecycle.fenced
                and lifecycle.state is LifeState.RUNNING
                and process.core.ready_to_serve()
                and process.core.now - lifecycle.last_contact_ms < 200
                and self.world.keeper is None
            ):
                self.fail(
                    "15: an id has one life",
                    f"{process} lives with generation {before}, and broker {broker_id} was registered anew",
                )

    def state_changed(self, image: ClusterImage) -> None:
        for broker in image.brokers.values():
            before = self.generations.get(broker.id, -1)
            if broker.id not in self.expected:
                self.fail("16: strangers stay out", f"broker {broker.id} of another cluster is registered")
            if broker.epoch > before >= 0:
                self.living_id_taken(image, broker.id, before)
            if broker.epoch < before:
                self.fail(
                    "8: epochs go up", f"broker {broker.id} went from generation {before} to {broker.epoch}"
                )
            self.generations[broker.id] = broker.epoch
            door = broker.control_endpoint
            if door is not None and self.doors.get(broker.id) != door.port:
                self.moved(broker.id, door.port)
        living: dict[Key, None] = {}
        key: Key
        for ref in image.all_partitions():
            state = image.state(ref)
            key = (ref.topic.id, ref.index)
            living[key] = None
            name = f"{ref.topic.name}-{ref.index}"
            self.partition_changed(image, key, name, state)
        for key in [each for each in self.oracle.partitions if each not in living]:
            self.oracle.forget(key)

    def moved(self, broker_id: int, port: int) -> None:
        """Another process has got the id, on another disk: what the one before it had need not be there."""
        if broker_id in self.doors:
            self.oracle.lost_data(port - FIRST_PORT, self.hosted(broker_id))
        self.doors[broker_id] = port

    def partition_changed(self, image: ClusterImage, key: Key, name: str, state: PartitionState) -> None:
        epochs = (state.leader_epoch, state.partition_epoch)
        before = self.epochs.get(key, (-1, -1))
        if epochs == before:
            # A broker's standing may have changed under a partition that has not.
            self.standing(image, name, state)
            return
        if epochs[0] < before[0] or epochs[1] < before[1]:
            self.fail("8: epochs go up", f"{name} went from leader, partition epoch {before} to {epochs}")
        self.epochs[key] = epochs
        if not state.isr or len(set(state.isr)) != len(state.isr):
            self.fail("10: the ISR is never empty", f"{name} has the ISR {list(state.isr)}")
        if any(member not in state.replicas for member in state.isr):
            self.fail("10: the ISR is of replicas", f"{name}: {list(state.isr)} of {list(state.replicas)}")
        if state.leader != -1 and state.leader not in state.isr:
            self.fail("10: the leader is in the ISR", f"{name}: {state.leader} and {list(state.isr)}")
        self.standing(image, name, state)
        self.joined(image, key, name, state)
        committed = self.oracle.partitions.get(key)
        if committed is not None:
            self.candidates(key, state, committed)

    def joined(self, image: ClusterImage, key: Key, name: str, state: PartitionState) -> None:
        """Invariant 9, over failovers: who was once known to be stopping joins nothing in that life."""
        before = self.members.get(key, state.isr)
        self.members[key] = state.isr
        for member in state.isr:
            if member not in before and (process := self._registered(member)) is not None:
                self.oracle.lost.pop((process.address, key), None)
        if self._after_answer and image.level >= FeatureLevel.HEARTBEATS:
            self.taken_offline(name, [member for member in before if member not in state.isr])
        if image.level < FeatureLevel.ELIGIBLE_ISR:
            return
        for member in state.isr:
            broker = image.broker(member)
            if member not in before and broker is not None and (member, broker.epoch) in self.stopping:
                self.fail(
                    "9: the stopping stay out",
                    f"{name}: broker {member} of generation {broker.epoch} was stopping and is in the ISR "
                    f"{list(state.isr)} again",
                )

    def taken_offline(self, name: str, members: list[int]) -> None:
        """Invariant 18: on the word of a broker that its disk has failed, only a life with such a disk leaves
        an ISR. Answers to control requests are the only ones that take anybody out."""
        for member in members:
            process = self._registered(member)
            if process is not None and process.core.replicas.offline_reason is None:
                self.fail(
                    "18: a good disk counts", f"{process} left the ISR of {name} for a disk that is well"
                )

    def standing(self, image: ClusterImage, name: str, state: PartitionState) -> None:
        """Invariant 9: nobody fenced, stopping or gone is in an ISR or leads, save the last one standing."""
        if image.level < FeatureLevel.ELIGIBLE_ISR or not self._knows_who_lives():
            return
        for member in state.isr:
            broker = image.broker(member)
            if broker is not None and broker.active:
                continue
            what = "gone" if broker is None else "fenced" if broker.fenced else "stopping"
            if len(state.isr) > 1:
                self.fail(
                    "9: only the active are in sync",
                    f"{name}: broker {member} is {what}, ISR {list(state.isr)}",
                )
            if state.leader == member and (what != "stopping" or self.world.keeper is None):
                self.fail("9: only the active lead", f"{name}: leader {member} is {what}")

    def _knows_who_lives(self) -> bool:
        """In zookeeper mode who is active is not stored: a new controller knows once it has looked."""
        if self.world.keeper is None:
            return True
        controller = self.world.process_at(self.world.address_of(-1))
        return controller is not None and controller.core.has_seen_registry

    # Crashes.

    def crashed(self, machine: Machine, disk: str) -> None:
        """A disk lost something: whatever it holds may be behind until it is caught up."""
        if disk == "keep" or machine.address >= 100:
            return
        self.oracle.lost_data(machine.address, self.hosted(machine.node_id))

    def hosted(self, broker_id: int) -> list[Key]:
        return [
            (ref.topic.id, ref.index)
            for ref in self.truth.all_partitions()
            if broker_id in self.truth.state(ref).replicas
        ]

    # At the end.

    def converged(self) -> str | None:
        """What is still missing for a healthy cluster; None when nothing is."""
        world = self.world
        controller = world.process_at(world.address_of(-1))
        if controller is None:
            return "there is no controller"
        image = controller.core.image
        for process in world.brokers():
            core = process.core
            known = image.broker(process.node_id)
            if core.lifecycle.state is not LifeState.RUNNING or core.lifecycle.fenced:
                return f"{process} is {core.lifecycle.state.value}, fenced: {core.lifecycle.fenced}"
            if core.lifecycle.self_fenced:
                return f"{process} has fenced itself"
            if known is None or not known.active or known.epoch != core.lifecycle.broker_epoch:
                return f"the controller does not count on {process}: {known}"
            if world.keeper is None and core.image.offset != image.offset:
                return f"{process} has read to {core.image.offset} of {image.offset}"
        for process in world.brokers():
            if (wrong := _mistaken(process.core.image, image)) is not None:
                return f"{process} {wrong}"
        for ref in image.all_partitions():
            state = image.state(ref)
            name = f"{ref.topic.name}-{ref.index}"
            if state.leader < 0 or sorted(state.isr) != sorted(state.replicas):
                return f"{name} has leader {state.leader}, ISR {list(state.isr)} of {list(state.replicas)}"
            if state.adding or state.removing:
                return f"{name} is still being reassigned"
            for member in state.replicas:
                process_there = world.process_at(member)
                replica = (
                    None
                    if process_there is None
                    else process_there.core.replicas.by_name.get((ref.topic.name, ref.index))
                )
                if replica is None:
                    return f"broker {member} has no {name}"
                if (replica.leadership is not None) != (member == state.leader):
                    return f"broker {member} is wrong about who leads {name}"
                if replica.leader_epoch != state.leader_epoch:
                    return f"broker {member} knows leader epoch {replica.leader_epoch} of {name}"
                if replica.leadership is not None and (
                    replica.leadership.pending is not None
                    or sorted(replica.leadership.isr) != sorted(state.isr)
                ):
                    return f"an ISR change of {name} is still pending at {member}"
        return None

    def logs_agree(self) -> None:
        """Invariants 4 and 6 at the end, by every byte: each replica has all that was ever committed."""
        for key, committed in self.oracle.partitions.items():
            state = self.truth.partition(*key)
            if state is None:
                continue
            for member in state.replicas:
                process = self.world.process_at(member)
                if process is None:
                    continue
                replica = self.replica(process, key)
                missing = (
                    (0 if committed.end else None) if replica is None else committed.differing(replica.log)
                )
                if missing is not None:
                    self.fail(
                        "6: nothing committed is lost",
                        f"{process} has not the committed offset {missing} of "
                        f"{self.oracle.names.get(key, key)}",
                    )


def _mistaken(told: ClusterImage, image: ClusterImage) -> str | None:
    """What a broker has not been told, or was told and is no more; None for nothing."""
    for broker in image.brokers.values():
        known = told.broker(broker.id)
        # Below `eligible-isr` it is not told of generations.
        if known is None or known.active != broker.active or known.epoch not in (-1, broker.epoch):
            stands = [None if each is None else (each.epoch, each.active) for each in (known, broker)]
            return f"takes broker {broker.id} for {stands[0]} (generation, active), which is {stands[1]}"
    for ref in image.all_partitions():
        state, known_state = image.state(ref), told.partition(ref.topic.name, ref.index)
        if known_state is None or (known_state.leader_epoch, known_state.partition_epoch) != (
            state.leader_epoch,
            state.partition_epoch,
        ):
            return f"takes {ref.topic.name}-{ref.index} for {known_state}, which is {state}"
    for topic in told.topics():
        if image.topic(topic.name) is None:
            return f"still knows the topic {topic.name}"
    return None

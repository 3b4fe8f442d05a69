"""The coordination service of zookeeper mode: transactions, sessions, a registry, an office, and the state.

One service that is always right and always there. What can go wrong is between it and the others: a process
that is stopped or cut off loses its session, with it its registration or its office, and learns of that when
it comes back; what the service tells arrives late. State is behind the same port as in a node, and a write of
a controller that is not in office any more fails there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from epoka.controller.metadata_log import Loaded, MetadataLogFailed, Overtaken, take
from epoka.model.events import (
    Coordinate,
    Event,
    IsrChanged,
    IsrWritten,
    ReadSettings,
    Register,
    Registered,
    RegistryChanged,
    RegistryEntry,
    SettingsRead,
    WriteIsr,
)
from epoka.model.ids import BrokerEpoch, BrokerId
from epoka.model.image import ClusterImage, register_broker_record
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.model.records import MetadataRecord, decode_record, encode_record
from epoka.model.registrations import WITH_HEARTBEATS, BrokerRegistration, Endpoint, Feature
from epoka.wire.messages.metadata_records import PartitionChangeRecord, RegisterBrokerRecord

if TYPE_CHECKING:
    from epoka.sim.process import Process
    from epoka.sim.world import World

ADDRESS = 900
SESSION_MS = 500
OFFSETS_A_MANDATE = 1 << 32
Settings = tuple[int, dict[tuple[int, str], dict[str, str]]]


class Session:
    """What ties a process to the service."""

    __slots__ = ("heard_ms", "holds_office", "process", "valid")

    def __init__(self, process: Process, now: int) -> None:
        self.process = process
        self.heard_ms = now
        self.valid = True
        self.holds_office = False


class MandateLog:
    """The state as one mandate of a controller may write it: the port of the metadata log."""

    def __init__(self, keeper: Keeper, epoch: int) -> None:
        self.epoch = epoch
        self.session: Session | None = None
        self._keeper = keeper
        self._records: list[bytes] = []
        self._start_offset = epoch * OFFSETS_A_MANDATE

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self._start_offset + len(self._records)

    def load(self) -> Loaded:
        records = self._keeper.begin_mandate(self._start_offset - 1)
        return Loaded([encode_record(each) for each in records], self._start_offset - 1, ())

    def append(self, records: Sequence[bytes]) -> int:
        self._check()
        keeper, base_offset = self._keeper, self.end_offset
        decoded = [decode_record(each) for each in records]
        for record in decoded:
            if isinstance(record, PartitionChangeRecord):
                place = (record.topic_id, record.partition_id)
                if any((each.topic_id, each.partition_id) == place for each in keeper.untold):
                    topic = keeper.image.topic(record.topic_id)
                    assert topic is not None
                    raise Overtaken(topic.name, record.partition_id, base_offset, 0)
        self._records += records
        keeper.image.apply_batch(decoded, base_offset)
        keeper.zxid += 1
        return base_offset

    def read(self, from_offset: int, max_bytes: int) -> list[bytes]:
        return take(self._records, from_offset - self._start_offset, max_bytes)

    def snapshot(self, image: ClusterImage) -> None:
        """The service is the snapshot."""

    def take_isr_changes(self) -> tuple[int, list[PartitionChangeRecord]]:
        return self._take(lambda record: True)

    def take_partition(self, topic: str, partition: int) -> tuple[int, list[PartitionChangeRecord]]:
        named = self._keeper.image.topic(topic)
        topic_id = None if named is None else named.id
        return self._take(lambda each: (each.topic_id, each.partition_id) == (topic_id, partition))

    def _take(
        self, wanted: Callable[[PartitionChangeRecord], bool]
    ) -> tuple[int, list[PartitionChangeRecord]]:
        self._check()
        keeper, base_offset = self._keeper, self.end_offset
        looked_at = [each for each in keeper.untold if wanted(each)]
        keeper.untold = [each for each in keeper.untold if not wanted(each)]
        # A note may outlive its topic. It names nothing then.
        taken = [each for each in looked_at if keeper.image.topic(each.topic_id) is not None]
        self._records += [encode_record(each) for each in taken]
        keeper.image.offset = self.end_offset - 1
        return base_offset, taken

    def _check(self) -> None:
        if self._keeper.epoch != self.epoch or (self.session is not None and not self.session.valid):
            raise MetadataLogFailed(f"controller epoch {self.epoch} is over")


class Keeper:
    def __init__(self, world: World) -> None:
        self.world = world
        self.cluster_id = "simulated"
        self.zxid = 100
        self.epoch = 0
        self.office = 100
        """The address of the controller that was elected last."""
        self.image = ClusterImage()
        """The state that counts."""
        self.untold: list[PartitionChangeRecord] = []
        """What leaders wrote and the controller has not read."""
        self.registry: dict[int, tuple[RegistryEntry, Session]] = {}
        self.splits_reads = False
        """A mutant: the registrations are read one after the other, so a picture is of many moments."""
        self.forgets_generations = False
        """A mutant: a new controller knows no other generations than those in the registry."""
        self._stopping: dict[int, int] = {}
        self._sessions: dict[int, Session] = {}
        """By the life of their process."""
        self._candidates: dict[int, None] = {}
        self._holder: Session | None = None
        self._asked: dict[int, int] = {}
        """Lives whose registration waits for the id to be free, and the version they want."""
        self._last_ms: dict[int, int] = {}
        """A session tells in order: when the last thing told to a life arrives."""
        self._settings: Settings | None = None
        self._settings_of: ClusterImage | None = None
        self._settings_at = -1
        """Where they were read last: without a record they do not change."""

    # Sessions.

    def _open(self, process: Process) -> Session:
        session = self._sessions.get(process.life)
        if session is None or not session.valid:
            new = session is None
            session = self._sessions[process.life] = Session(process, self.world.now)
            if new:
                self.world.later(SESSION_MS // 3, self._ping, process)
        return session

    def _reaches(self, process: Process) -> bool:
        cuts = self.world.network.cuts
        return (
            process.alive
            and not process.paused
            and (process.address, ADDRESS) not in cuts
            and (ADDRESS, process.address) not in cuts
        )

    def _ping(self, process: Process) -> None:
        session = self._sessions.get(process.life)
        if session is None:
            return
        now = self.world.now
        if self._reaches(process):
            if session.valid:
                session.heard_ms = now
            else:
                self._learns_of_its_end(process)
                if not process.alive:
                    return
        elif session.valid and now - session.heard_ms > SESSION_MS:
            self._expire(session)
        if process.alive or session.valid:
            self.world.later(SESSION_MS // 3, self._ping, process)
        else:
            del self._sessions[process.life]

    def _expire(self, session: Session) -> None:
        if not session.valid:
            return
        session.valid = False
        self.zxid += 1
        node_id = session.process.node_id
        held = self.registry.get(node_id)
        if held is not None and held[1] is session:
            del self.registry[node_id]
            self._registry_moved()
            self._let_in(node_id)
        if session.holds_office:
            self._holder = None
            self._elect_later()

    def _learns_of_its_end(self, process: Process) -> None:
        """A broker begins another session, and with it a generation; a controller leaves its office."""
        if process.is_broker:
            self._open(process)
            # One that has not read the settings yet does not know how to register.
            if (version := self._asked.get(process.life)) is not None:
                self.perform(process, Register(version))
        else:
            self.world.end_process(process)

    def expire(self, process: Process) -> None:
        """The service gives a session up, for no reason that the process could see."""
        session = self._sessions.get(process.life)
        if session is not None:
            self._expire(session)

    def process_ended(self, process: Process) -> None:
        """A clean end closes the session, any other leaves it to its time."""
        self._asked.pop(process.life, None)
        session = self._sessions.get(process.life)
        if session is not None and process.exit is not None:
            self._expire(session)
        if not process.is_broker and process.exit is not None:
            # Whoever runs the node starts it again, as a candidate.
            self.world.later(50, self.world.start_controller, process.address)

    # The office.

    def stand(self, address: int) -> None:
        self._candidates[address] = None
        self._elect_later()

    def _elect_later(self) -> None:
        self.world.later(self._lag(ADDRESS), self._elect)

    def _elect(self) -> None:
        if self._holder is not None:
            return
        for address in list(self._candidates):
            cuts = self.world.network.cuts
            if self.world.process_at(address) is None and (address, ADDRESS) not in cuts:
                del self._candidates[address]
                self.epoch += 1
                self.zxid += 1
                self.office = address
                log = MandateLog(self, self.epoch)
                process = self.world.begin_controller(address, log, self.epoch)
                session = self._open(process)
                session.holds_office = True
                log.session = self._holder = session
                self._registry_moved()
                return
        if self._candidates:
            self.world.later(50, self._elect)

    def begin_mandate(self, offset: int) -> list[MetadataRecord]:
        """The state as the next controller finds it: who is active is not stored, who is stopping is, and so
        are the generations that the controller before it knew."""
        records: list[MetadataRecord] = [
            record for record in self.image.iter_records() if not isinstance(record, RegisterBrokerRecord)
        ]
        self._note_stopping()
        before = {int(broker.id): int(broker.epoch) for broker in self.image.brokers.values()}
        if self.forgets_generations:
            before.clear()
        for entry, _ in self.registry.values():
            known = msgspec.structs.replace(entry, epoch=before.pop(entry.id, entry.epoch))
            stopping = self._stopping.get(entry.id) == known.epoch
            records.append(register_broker_record(_registration(known, stopping=stopping)))
        for broker_id, epoch in sorted(before.items()):
            ended = RegistryEntry(broker_id, epoch, WITH_HEARTBEATS)
            records.append(register_broker_record(_registration(ended, stopping=False)))
        self.untold.clear()
        self.image = ClusterImage()
        self.image.load(records, offset)
        return records

    def _note_stopping(self) -> None:
        for broker in self.image.brokers.values():
            if broker.in_controlled_shutdown:
                self._stopping[broker.id] = broker.epoch

    # The registry.

    def broker_started(self, process: Process) -> None:
        if process.core.config.cluster_id != self.cluster_id:
            # A node compares the cluster's id before it registers, and ends.
            self.world.end_process(process)
            return
        self._open(process)
        self._tell(process, self._settings_event)

    def perform(self, process: Process, effect: Coordinate) -> None:
        if isinstance(effect, WriteIsr):
            self.world.later(self._lag(process.address), self._write_isr, process, effect)
            return
        if isinstance(effect, ReadSettings):
            read = partial(self._settings_event, effect.token)
            self.world.later(self._lag(process.address), self._tell, process, read)
            return
        self._asked[process.life] = effect.version
        self.world.later(self._lag(process.address), self._register, process)

    def _register(self, process: Process) -> None:
        session = self._sessions.get(process.life)
        version = self._asked.get(process.life)
        if not process.alive or session is None or not session.valid or version is None:
            return
        held = self.registry.get(process.node_id)
        if held is not None and held[1] is not session:
            if held[1].valid and held[1].process is not process:
                return  # The id is in use; `_let_in` comes back when it is free.
            held = None
        self.zxid += 1
        epoch = self.zxid if held is None else held[0].epoch
        config = process.core.config
        entry = RegistryEntry(
            process.node_id,
            epoch,
            version,
            tuple(Endpoint(each.name, each.host, each.port) for each in config.listeners),
            config.rack,
            (Feature(FEATURE_NAME, min(FeatureLevel), max(FeatureLevel)),),
        )
        self.registry[process.node_id] = (entry, session)
        self._tell(process, lambda: Registered(epoch))
        self._registry_moved()

    def _let_in(self, node_id: int) -> None:
        for life in list(self._asked):
            session = self._sessions.get(life)
            if session is not None and session.valid and session.process.node_id == node_id:
                self._register(session.process)

    def _registry_moved(self) -> None:
        """The controller's watch: it reads the registry when it hears, and reads what is there then."""
        holder = self._holder
        if holder is not None:
            self.world.schedule(self._arrival(holder.process), self._read_registry, holder)

    def _read_registry(self, holder: Session) -> None:
        if not self._reaches(holder.process):
            if holder.valid and holder.process.alive:
                self.world.later(50, self._read_registry, holder)
            return
        entries = tuple(entry for entry, _ in self.registry.values())
        if self.splits_reads:
            self._read_one(holder, sorted(self.registry), (), self.zxid)
            return
        picture = RegistryChanged(entries, self.zxid)
        self.world.schedule(self._arrival(holder.process), self.world.deliver, holder.process, picture)

    def _read_one(
        self, holder: Session, left: list[int], read: tuple[RegistryEntry, ...], position: int
    ) -> None:
        """What the next id of the list holds now; in a picture of one moment, what it held then."""
        if not left:
            self.world.schedule(
                self._arrival(holder.process),
                self.world.deliver,
                holder.process,
                RegistryChanged(read, position),
            )
            return
        held = self.registry.get(left[0])
        if held is not None:
            read += (held[0],)
        there_and_back = self._lag(self.office) + self._lag(self.office)
        self.world.later(there_and_back, self._read_one, holder, left[1:], read, position)

    # The state.

    def _write_isr(self, process: Process, write: WriteIsr) -> None:
        if not self._reaches(process):
            answer = IsrWritten(write.token)
        else:
            answer = self._written(write)
        self._tell(process, lambda: answer)
        if answer.partition_epoch is not None and self._holder is not None:
            self._tell(self._holder.process, IsrChanged)

    def _written(self, write: WriteIsr) -> IsrWritten:
        topic, state = self.image.topic(write.topic), self.image.partition(write.topic, write.partition)
        if topic is None or state is None or state.partition_epoch != write.expected_version:
            return IsrWritten(write.token, moved=True)
        record = PartitionChangeRecord(partition_id=write.partition, topic_id=topic.id, isr=write.isr)
        self.image.apply(record, self.image.offset)
        self.untold.append(record)
        self.zxid += 1
        return IsrWritten(write.token, write.expected_version + 1)

    # Settings.

    def _read_settings(self) -> Settings:
        image = self.image
        return int(image.level), {key: dict(image.config(*key)) for key in image.configured()}

    def _settings_event(self, token: int = 0) -> SettingsRead:
        return SettingsRead(*self._read_settings(), token)

    def controller_acted(self, process: Process) -> None:
        """Whoever changed settings has them told to everybody."""
        image = self.image
        if image is self._settings_of and image.offset == self._settings_at:
            return
        if FEATURE_NAME not in image.features:
            return
        self._settings_of, self._settings_at = image, image.offset
        now = self._read_settings()
        if now != self._settings:
            self._settings = now
            for broker in self.world.brokers():
                self._tell(broker, self._settings_event)

    # Telling.

    def _lag(self, address: int) -> int:
        return self.world.weather.delay(ADDRESS, address, None)

    def _arrival(self, process: Process) -> int:
        at = max(self.world.now + self._lag(process.address), self._last_ms.get(process.life, 0))
        self._last_ms[process.life] = at
        return at

    def _tell(self, process: Process, make: Callable[[], Event]) -> None:
        self.world.schedule(self._arrival(process), self._told, process, make)

    def _told(self, process: Process, make: Callable[[], Event]) -> None:
        if not process.alive:
            return
        if not self._reaches(process):
            self.world.later(50, self._told, process, make)
            return
        if make == self._settings_event and FEATURE_NAME not in self.image.features:
            # Nobody has founded the cluster yet.
            self.world.later(5, self._told, process, make)
            return
        self.world.deliver(process, make())


def _registration(entry: RegistryEntry, *, stopping: bool) -> BrokerRegistration:
    return BrokerRegistration(
        BrokerId(entry.id),
        BrokerEpoch(entry.epoch),
        UUID(int=entry.epoch),
        entry.endpoints,
        entry.features,
        entry.rack,
        fenced=entry.version >= WITH_HEARTBEATS,
        in_controlled_shutdown=stopping,
    )


__all__ = ["ADDRESS", "SESSION_MS", "Keeper", "MandateLog"]

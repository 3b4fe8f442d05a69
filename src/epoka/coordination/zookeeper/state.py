"""Cluster state in Kafka's layout, behind the port that the controller core appends to.

Every step is guarded twice. It checks the mandate, so a deposed controller changes nothing. And it counts
up `/epoka/writes` from the number that it knows: steps take place in the order in which they were sent or
not at all, and after a broken connection the number tells which of them did.

An append that fits one step is atomic; a larger one is written step by step (see `writing`), with the gate
closed to leaders that write ISRs themselves, so that it never meets one halfway. What was written lives in
the nodes and nowhere else: offsets are made up here and mean nothing to the next mandate, except that they
go on rising. Whether a broker is fenced is not stored: a new controller waits for heartbeats.

    MetadataLogFailed   the controller ends
      Deposed           another one has been elected, or the session is over
      Unwritable        these records can't be written; none was, so the controller may refuse them instead
      Overtaken         a leader wrote an ISR first: nothing was written, look and decide again
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn
from uuid import UUID

from epoka.controller.metadata_log import Loaded, MetadataLogFailed, Overtaken, Unwritable, take
from epoka.coordination.zookeeper import paths, znodes
from epoka.coordination.zookeeper.election import Deposed, Mandate
from epoka.coordination.zookeeper.isr import GATE_CLOSED, GATE_OPEN
from epoka.coordination.zookeeper.loading import nodes_of_topic, read_all
from epoka.coordination.zookeeper.operations import (
    Create,
    Delete,
    Operation,
    Refused,
    SetData,
)
from epoka.coordination.zookeeper.registry import Registry
from epoka.coordination.zookeeper.session import Interrupted, Session, Watch, ZooKeeperError
from epoka.coordination.zookeeper.writing import Batch, Known, deletion, in_steps, translate
from epoka.coordination.zookeeper.znodes import BadZnode
from epoka.model.errors import InvariantBroken
from epoka.model.image import ClusterImage
from epoka.model.records import MetadataRecord, decode_record, encode_record
from epoka.wire.messages.metadata_records import ConfigRecord, PartitionChangeRecord, TopicRecord

__all__ = ["Deposed", "Overtaken", "Unwritable", "ZooKeeperState"]

log = logging.getLogger(__name__)

_IN_FLIGHT: Final = 16
_MOST_ATTEMPTS: Final = 100
_OFFSETS_A_MANDATE: Final = 1 << 32
_CONFIG_NOTES_KEPT: Final = 100


class ZooKeeperState:
    """The state of one cluster, for one mandate. `load` it before anything else."""

    def __init__(self, session: Session, mandate: Mandate, registry: Registry | None = None) -> None:
        self.mandate = mandate
        self._session = session
        self._registry = registry or Registry(session)
        self._image = ClusterImage()
        self._known = Known()
        self._loaded = False
        self._sequence = 0
        self._config_notes = _CONFIG_NOTES_KEPT
        self._start_offset = mandate.epoch * _OFFSETS_A_MANDATE
        self._snapshot_offset = self._start_offset - 1
        self._records: list[bytes] = []

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self._start_offset + len(self._records)

    def load(self) -> Loaded:
        """Finish what the controller before could not, then read everything as one snapshot."""
        try:
            self._session.ensure(paths.PERSISTENT)
            self._begin_writing()
            self._open_the_gate()
            self._finish_deletions()
            # Notes are thrown away before the partitions are read: what a later one tells of is not missed.
            self._commit(in_steps([Delete(path) for path in self._isr_notes()]))
            picture = read_all(self._session, self._registry.snapshot())
            self._commit(in_steps(picture.missing))
        except Refused as refused:
            self._explain(refused)
        except ZooKeeperError as error:
            raise MetadataLogFailed(str(error)) from error
        self._start_offset = self.end_offset
        self._snapshot_offset = self._start_offset - 1
        self._records.clear()
        self._known = picture.known
        self._image = ClusterImage()
        self._image.load(picture.records, self._snapshot_offset)
        self._loaded = True
        for note in picture.notes:
            log.warning("%s", note)
        # The image is handed on, so the records are written for those alone who want to see them.
        snapshot = _Written(picture.records)
        return Loaded(snapshot, self._snapshot_offset, (), tuple(picture.notes), self._image)

    def append(self, records: Sequence[bytes]) -> int:
        """Make the records durable; the offset of the first. Even records that no node keeps prove the
        mandate: nothing is answered by a controller that is not in office any more."""
        if not self._loaded:
            raise InvariantBroken("records were appended to a state that has not been loaded")
        base_offset = self.end_offset
        decoded = [decode_record(record) for record in records]
        try:
            batches = translate(
                decoded,
                self._image,
                self._known,
                self.mandate.epoch,
                lambda topic: nodes_of_topic(self._session, topic),
            )
            touched = _touched(decoded)
            if len(batches) > 1 and touched:
                self._commit_behind_the_gate(batches, touched)
            else:
                self._commit_unless_overtaken(batches, touched)
        except Refused as refused:
            self._explain(refused)
        except ZooKeeperError as error:
            raise MetadataLogFailed(str(error)) from error
        self._take_in(decoded, records)
        self._forget_config_notes(decoded)
        return base_offset

    def read(self, from_offset: int, max_bytes: int) -> list[bytes]:
        return take(self._records, from_offset - self._start_offset, max_bytes)

    def snapshot(self, image: ClusterImage) -> None:
        """The nodes are the snapshot; only what was kept for readers before the last one is forgotten."""
        forget = self._snapshot_offset + 1
        self._snapshot_offset = image.offset
        del self._records[: forget - self._start_offset]
        self._start_offset = forget

    # What leaders write themselves, below level `heartbeats`.

    def watch_isr_changes(self, callback: Callable[[], None]) -> Watch:
        """Be told that leaders may have written ISRs. Runs on kazoo's thread."""
        return self._session.watch_children(paths.ISR_CHANGES, callback)

    def take_isr_changes(self) -> tuple[int, list[PartitionChangeRecord]]:
        """What leaders wrote since the last look, as records to replay, with the offset of the first.

        They are in the nodes already; here they only get offsets.
        """
        base_offset = self.end_offset
        try:
            notes = self._isr_notes()
            records = self._changes_by_leaders(self._named_in(notes))
            self._take_in(records, [encode_record(record) for record in records])
            self._commit(in_steps([Delete(path) for path in notes]))
        except Refused as refused:
            self._explain(refused)
        except ZooKeeperError as error:
            raise MetadataLogFailed(str(error)) from error
        return base_offset, records

    def take_partition(self, topic: str, partition: int) -> tuple[int, list[PartitionChangeRecord]]:
        """The same for one partition, whether there is a note or not: what follows `Overtaken`."""
        base_offset = self.end_offset
        try:
            self._session.sync(paths.TOPICS)
            records = self._changes_by_leaders([(topic, partition)])
        except ZooKeeperError as error:
            raise MetadataLogFailed(str(error)) from error
        self._take_in(records, [encode_record(record) for record in records])
        return base_offset, records

    def _isr_notes(self) -> list[str]:
        return [f"{paths.ISR_CHANGES}/{name}" for name in self._session.children_of(paths.ISR_CHANGES)]

    def _named_in(self, notes: Sequence[str]) -> list[tuple[str, int]]:
        named: dict[tuple[str, int], None] = {}
        for path, node in zip(notes, self._session.get_many(notes)):
            if node is not None:
                try:
                    named |= dict.fromkeys(znodes.decode_isr_change(path, node.data))
                except BadZnode:
                    # It names nothing, so nothing is missed when it is thrown away with the others.
                    continue
        return sorted(named)

    def _changes_by_leaders(self, partitions: Sequence[tuple[str, int]]) -> list[PartitionChangeRecord]:
        records: list[PartitionChangeRecord] = []
        states = [paths.state(topic, index) for topic, index in partitions]
        for (topic, index), path, node in zip(partitions, states, self._session.get_many(states)):
            known, named = self._image.partition(topic, index), self._image.topic(topic)
            if node is None or known is None or named is None or path in self._known.left_alone:
                continue
            behind = node.stat.version - known.partition_epoch
            if behind <= 0:
                continue
            try:
                found = znodes.decode_state(path, node.data)
            except BadZnode as bad:
                raise MetadataLogFailed(f"{bad}; a stranger wrote it") from bad
            if (found.leader, found.leader_epoch) != (known.leader, known.leader_epoch):
                self._check_still_elected()
                raise MetadataLogFailed(f"{path}: a stranger elected broker {found.leader}")
            # Each write raised the partition's epoch by one; only what the last one left is known.
            records += [PartitionChangeRecord(partition_id=index, topic_id=named.id)] * (behind - 1)
            records.append(
                PartitionChangeRecord(
                    partition_id=index,
                    topic_id=named.id,
                    isr=found.isr,
                    leader_recovery_state=found.recovery,
                )
            )
        return records

    def _check_overtaken(self, touched: Sequence[tuple[UUID, int]]) -> None:
        """Overtaken if a leader has written one of these partitions. Whoever asks has written nothing."""
        named = []
        for topic_id, index in touched:
            topic = self._image.topic(topic_id)
            if topic is not None:
                named.append((topic.name, index))
        self._session.sync(paths.TOPICS)
        self._check_still_elected()
        for record in self._changes_by_leaders(named):
            topic = self._image.topic(record.topic_id)
            assert topic is not None
            raise Overtaken(topic.name, record.partition_id, self.end_offset, 0)

    def _take_in(self, records: Sequence[MetadataRecord], encoded: Sequence[bytes]) -> None:
        self._image.apply_batch(records, self.end_offset)
        self._records += encoded

    # Writing.

    def _begin_writing(self) -> None:
        """A new count for a new mandate."""
        ours = str(self.mandate.epoch).encode()
        for _ in range(_MOST_ATTEMPTS):
            self._check_office()
            node = self._session.get(paths.WRITES)
            if node is not None and node.data == ours:
                self._sequence = node.stat.version
                return
            step: list[Operation] = [self.mandate.guard]
            if node is not None:
                step.append(Delete(paths.WRITES, node.stat.version))
            step.append(Create(paths.WRITES, ours))
            try:
                self._session.multi(step)
                self._sequence = 0
                return
            except Refused as refused:
                self._check_guard(refused)
            except Interrupted:
                self._session.sync(paths.WRITES)
        raise MetadataLogFailed(f"{paths.WRITES} changes faster than it can be written")

    def _open_the_gate(self) -> None:
        """A controller that died between two steps has left it closed."""
        if self._session.get(paths.ISR_GATE) is None:
            self._commit(in_steps([Create(paths.ISR_GATE, GATE_OPEN)]))
        else:
            self._commit(in_steps([SetData(paths.ISR_GATE, GATE_OPEN)]))

    def _forget_config_notes(self, records: Sequence[MetadataRecord]) -> None:
        """Brokers look at settings when a note appears and need none of the old ones. A new topic has one."""
        self._config_notes += sum(isinstance(record, ConfigRecord | TopicRecord) for record in records)
        if self._config_notes < _CONFIG_NOTES_KEPT:
            return
        self._config_notes = 0
        try:
            names = self._session.children_of(paths.CONFIG_CHANGES)[:-1]
            self._commit(in_steps([Delete(f"{paths.CONFIG_CHANGES}/{name}") for name in names]))
        except Refused as refused:
            self._explain(refused)
        except ZooKeeperError as error:
            raise MetadataLogFailed(str(error)) from error

    def _finish_deletions(self) -> None:
        for topic in self._session.children_of(paths.TOPIC_DELETIONS):
            nodes = nodes_of_topic(self._session, topic)
            config = f"{paths.TOPIC_CONFIGS}/{topic}"
            if self._session.get(config) is not None:
                nodes.append(config)
            self._commit(deletion(topic, nodes, marked=True))

    def _commit(self, batches: Sequence[Batch]) -> None:
        """Carry out the steps in their order, several on their way at a time."""
        done = 0
        while done < len(batches):
            self._check_office()
            pending = [
                self._session.begin_multi(self._guarded(batch, self._sequence + ahead))
                for ahead, batch in enumerate(batches[done : done + _IN_FLIGHT])
            ]
            try:
                for each in pending:
                    each.wait()
                    self._sequence += 1
                    self._known.learn(batches[done].versions)
                    done += 1
            except Interrupted:
                for batch in batches[done : done + self._written_meanwhile()]:
                    self._known.learn(batch.versions)
                    done += 1

    def _commit_unless_overtaken(self, batches: Sequence[Batch], touched: Sequence[tuple[UUID, int]]) -> None:
        try:
            self._commit(batches)
        except Refused as refused:
            self._check_guard(refused)
            if len(batches) == 1:
                self._check_overtaken(touched)
            raise

    def _commit_behind_the_gate(self, batches: Sequence[Batch], touched: Sequence[tuple[UUID, int]]) -> None:
        """Several steps as one, as far as leaders are concerned: once the gate is closed none of them writes
        an ISR, so either all the partitions are as the controller knows them, or nothing has been written."""
        opening = SetData(paths.ISR_GATE, GATE_OPEN)
        self._commit(in_steps([SetData(paths.ISR_GATE, GATE_CLOSED)]))
        try:
            self._check_overtaken(touched)
        except Overtaken:
            self._commit(in_steps([opening]))
            raise
        batches[-1].add(opening)
        self._commit(batches)

    def _guarded(self, batch: Batch, sequence: int) -> list[Operation]:
        count = SetData(paths.WRITES, str(self.mandate.epoch).encode(), sequence)
        return [self.mandate.guard, count, *batch.operations]

    def _written_meanwhile(self) -> int:
        """How many of the steps that were cut off took place. A sync waits for the connection and lets
        everything that was under way arrive or fail; what is still missing then will never come."""
        self._session.sync(paths.WRITES)
        self._check_office()
        node = self._session.get(paths.WRITES)
        if node is None or node.data != str(self.mandate.epoch).encode():
            raise Deposed(f"{paths.WRITES}: another controller writes")
        written, self._sequence = node.stat.version - self._sequence, node.stat.version
        return written

    def _check_office(self) -> None:
        if self._session.id != self.mandate.session:
            raise Deposed(f"the session of controller epoch {self.mandate.epoch} has ended")

    def _check_still_elected(self) -> None:
        self._check_office()
        node = self._session.get(paths.CONTROLLER_EPOCH)
        if node is None or node.stat.version != self.mandate.zk_version:
            raise self._deposed()

    def _check_guard(self, refused: Refused) -> None:
        if refused.operation == self.mandate.guard:
            raise self._deposed() from refused

    def _deposed(self) -> Deposed:
        epoch = self.mandate.epoch
        return Deposed(f"controller epoch {epoch} is over: another controller has been elected")

    def _explain(self, refused: Refused) -> NoReturn:
        """A step was refused, and not because of a leader's write."""
        self._check_guard(refused)
        raise MetadataLogFailed(f"{refused}, which is none of this controller's doing") from refused


def _touched(records: Sequence[MetadataRecord]) -> list[tuple[UUID, int]]:
    """The partitions whose state the records change."""
    changes = (record for record in records if isinstance(record, PartitionChangeRecord))
    return list(dict.fromkeys((record.topic_id, record.partition_id) for record in changes))


class _Written(Sequence[bytes]):
    """Records as bytes, each written when it is asked for."""

    def __init__(self, records: Sequence[MetadataRecord]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: Any) -> Any:
        found = self._records[index]
        return [encode_record(each) for each in found] if isinstance(index, slice) else encode_record(found)

"""The same promises from every adapter of the metadata log's port: in memory, in files, in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from uuid import UUID

import pytest

from epoka.controller.metadata_log import MemoryMetadataLog, MetadataLog
from epoka.coordination.metadata_log import StoredMetadataLog
from epoka.log.store import FileStore
from epoka.model.image import ClusterImage
from epoka.model.levels import FEATURE_NAME
from epoka.model.records import decode_record, encode_record
from epoka.wire.messages import metadata_records as m
from tests.controller.office import Office
from tests.coordination.zookeeper.people import Open, shrink, take_office, topic


class Reopen(Protocol):
    """The next controller's view of what the last one wrote."""

    def __call__(self) -> MetadataLog: ...


@pytest.fixture(params=["memory", "files", "zookeeper"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Reopen:
    if request.param == "memory":
        kept = MemoryMetadataLog()
        return lambda: kept
    if request.param == "files":
        return lambda: StoredMetadataLog(FileStore(tmp_path))
    open_session: Open = request.getfixturevalue("open_session")
    before: list[Callable[[], None]] = []

    def take_over() -> MetadataLog:
        for leave in before:
            leave()
        session = open_session()
        before[:] = [session.close]
        return take_office(session)

    return take_over


def image_of(log: MetadataLog) -> ClusterImage:
    """What a controller knows when it has loaded the log, as the core does it."""
    loaded = log.load()
    image = ClusterImage()
    if loaded.snapshot_offset >= 0:
        image.load(map(decode_record, loaded.snapshot), loaded.snapshot_offset)
    image.apply_batch(map(decode_record, loaded.tail), loaded.snapshot_offset + 1)
    assert image.offset + 1 == log.end_offset
    assert loaded.notes == ()
    return image


HISTORY = [
    [m.FeatureLevelRecord(FEATURE_NAME, 3)],
    [*topic("a", 1, 3), m.ConfigRecord(2, "a", "retention.ms", "5"), *topic("b", 2)],
    [shrink(1, 2), shrink(1, 2, (1, 3)), m.PartitionChangeRecord(0, UUID(int=1), leader=2)],
    [m.ProducerIdsRecord(1, -1, 2000), m.ConfigRecord(4, "", "x", "y"), m.NoOpRecord()],
    [m.RemoveTopicRecord(UUID(int=2))],
]


def test_the_next_controller_knows_what_the_last_one_wrote(reopen: Reopen) -> None:
    log = reopen()
    image = image_of(log)
    for records in HISTORY:
        before = log.end_offset
        base_offset = log.append([encode_record(record) for record in records])
        assert (base_offset, log.end_offset) == (before, before + len(records))
        image.apply_batch(records, base_offset)
        assert image_of(reopen_of(reopen, log)).state_hash() == image.state_hash()
        log = reopen()
        image = image_of(log)


def reopen_of(reopen: Reopen, log: MetadataLog) -> MetadataLog:
    """The log is put down; whoever comes next has only what lasted."""
    close = getattr(log, "close", None)
    if close is not None:
        close()
    return reopen()


def test_records_are_read_from_any_offset_as_they_were_appended(reopen: Reopen) -> None:
    log = reopen()
    image_of(log)
    first = log.end_offset
    written = []
    for records in HISTORY:
        encoded = [encode_record(record) for record in records]
        log.append(encoded)
        written += encoded
    assert log.read(first, 10**6) == written
    assert log.read(first + 4, 1) == written[4:5]
    assert log.read(log.end_offset, 100) == []


def test_a_snapshot_changes_nothing_but_what_can_still_be_read(reopen: Reopen) -> None:
    log = reopen()
    image = image_of(log)
    for records in HISTORY:
        image.apply_batch(records, log.append([encode_record(record) for record in records]))
        log.snapshot(image)
        assert log.start_offset <= log.end_offset == image.offset + 1
    assert log.start_offset == log.end_offset - 1
    assert image_of(reopen_of(reopen, log)).state_hash() == image.state_hash()


def test_the_controller_core_is_born_on_it_once(reopen: Reopen) -> None:
    office = Office(log=reopen())
    assert office.image.features[FEATURE_NAME] == office.config.initial_level
    born = office.image.offset
    again = Office(log=reopen_of(reopen, office.log))
    assert again.image.state_hash() == office.image.state_hash()
    assert again.image.offset >= born


def test_every_mandate_has_higher_offsets_in_one_session_too(open_session: Open) -> None:
    session = open_session()
    first = take_office(session)
    first.load()
    for records in HISTORY:
        first.append([encode_record(record) for record in records])
    second = take_office(session)
    assert second.start_offset > first.end_offset

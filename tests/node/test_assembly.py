"""Whole nodes on real files: what they leave behind, and whose files they refuse."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from crc32c import crc32c

from epoka.log import PartitionLog
from epoka.log.config import LogConfig
from epoka.log.directory import CLEAN_SHUTDOWN, HIGH_WATERMARKS, META, LogDirectory
from epoka.log.store import FileStore
from epoka.node.assembly import (
    CONTROLLER_FOLDER,
    broker_chores,
    broker_config,
    build_broker,
    build_controller,
    controller_config,
    new_cluster_id,
    new_member_id,
    read_cluster_id,
    topic_defaults,
)
from epoka.node.chores import Chores
from epoka.node.config import NodeConfig, parse
from epoka.node.keys import NODE_KEYS, Endpoint
from epoka.node.process import Node, StartFailed
from epoka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from epoka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from epoka.wire.records import HEADER_SIZE, encode_batch, validate

Kit = SimpleNamespace
ENDPOINTS = (Endpoint("PLAINTEXT", "h", 1), Endpoint("CONTROL", "h", 2))


def settings(folder: Path, **changes: str) -> NodeConfig:
    values = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROL://127.0.0.1:0",
        "log.dirs": str(folder),
        "replica.high.watermark.checkpoint.interval.ms": "5",
        "broker.heartbeat.interval.ms": "50",
        "controller.heartbeat.timeout.ms": "300",
        "broker.heartbeat.timeout.ms": "600",
    }
    values |= {name.replace("_", "."): text for name, text in changes.items()}
    return parse(values)


async def started(kit: Kit, config: NodeConfig) -> Node:
    node = Node(config)
    await node.start()
    broker = node.cores[-1]
    await kit.eventually(broker.lifecycle.serving)
    return node


async def stopped(node: Node) -> None:
    node.stop()
    ending = await node.wait()
    assert (ending.code, ending.clean) == (0, True), ending.reason


async def test_a_node_lives_twice_in_one_cluster_and_its_generation_grows(kit: Kit, tmp_path: Path) -> None:
    first = await started(kit, settings(tmp_path))
    generation = first.cores[1].lifecycle.broker_epoch
    cluster_id = read_cluster_id(tmp_path)
    await stopped(first)
    assert f'"brokerEpoch":{generation}' in (tmp_path / CLEAN_SHUTDOWN).read_text().replace(" ", "")

    second = await started(kit, settings(tmp_path))
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    assert second.cores[1].config.previous_broker_epoch == generation
    assert second.cores[1].lifecycle.broker_epoch > generation
    assert cluster_id == second.cores[1].config.cluster_id == read_cluster_id(tmp_path / CONTROLLER_FOLDER)
    second.kill()
    await second.wait()

    third = await started(kit, settings(tmp_path))
    assert third.cores[1].config.previous_broker_epoch == -1
    await stopped(third)


async def test_high_watermarks_are_written_down_while_the_node_runs_and_when_it_ends(
    kit: Kit, tmp_path: Path
) -> None:
    node = await started(kit, settings(tmp_path))
    port = node.endpoints[0].port
    client = kit.Client(*await asyncio.open_connection("127.0.0.1", port))
    client.send(CreateTopicsRequest(topics=(CreatableTopic("t", 1, 1),)), version=4)
    await client.answer(19, 4)
    client.send(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), version=4)
    await client.answer(3, 4)
    client.close()
    await kit.eventually(lambda: (tmp_path / HIGH_WATERMARKS).exists())
    await kit.eventually(lambda: "t 0 0" in (tmp_path / HIGH_WATERMARKS).read_text())
    replica = node.cores[1].replicas.by_name["t", 0]
    replica.high_watermark = 5
    await kit.eventually(lambda: "t 0 5" in (tmp_path / HIGH_WATERMARKS).read_text())
    replica.high_watermark = 6
    await stopped(node)
    assert "t 0 6" in (tmp_path / HIGH_WATERMARKS).read_text()


async def test_a_folder_of_another_node_is_refused_and_left_alone(kit: Kit, tmp_path: Path) -> None:
    node = await started(kit, settings(tmp_path))
    await stopped(node)
    before = (tmp_path / META).read_text()
    other = settings(tmp_path, node_id="2", process_roles="broker", controller_connect="h:1")
    with pytest.raises(StartFailed, match="belongs to node 1, this is node 2"):
        build_broker(other, ENDPOINTS, 0)
    with pytest.raises(StartFailed, match="belongs to cluster"):
        build_broker(settings(tmp_path, cluster_id="another"), ENDPOINTS, 0)
    with pytest.raises(StartFailed, match="belongs to cluster"):
        build_controller(settings(tmp_path, cluster_id="another"), ENDPOINTS, 0)
    assert (tmp_path / META).read_text() == before


async def test_a_folder_in_use_is_refused(kit: Kit, tmp_path: Path) -> None:
    node = await started(kit, settings(tmp_path))
    with pytest.raises(StartFailed, match="is in use by another process"):
        build_broker(settings(tmp_path), ENDPOINTS, 0)
    with pytest.raises(StartFailed, match="is in use by another process"):
        build_controller(settings(tmp_path), ENDPOINTS, 0)
    node.kill()
    await node.wait()
    build_broker(settings(tmp_path), ENDPOINTS, 0).abandon()


def test_a_new_broker_alone_has_to_be_told_its_cluster(tmp_path: Path) -> None:
    config = settings(tmp_path, process_roles="broker", controller_connect="h:1")
    with pytest.raises(StartFailed, match=r"belongs to no cluster yet, and cluster\.id does not say"):
        build_broker(config, ENDPOINTS, 0)
    assert not (tmp_path / META).exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StartFailed, match=str(tmp_path / "file")):
        build_controller(settings(tmp_path / "file"), ENDPOINTS, 0)


async def test_a_damaged_metadata_log_is_refused_and_left_alone(kit: Kit, tmp_path: Path) -> None:
    node = await started(kit, settings(tmp_path))
    await stopped(node)
    (log,) = (tmp_path / CONTROLLER_FOLDER / "metadata").glob("*.log")
    damaged = bytearray(log.read_bytes())
    damaged[40] ^= 0xFF
    log.write_bytes(damaged)
    for _ in range(2):
        # The second time, too: whoever could not start has not kept the folder.
        with pytest.raises(StartFailed, match=log.name):
            build_controller(settings(tmp_path), ENDPOINTS, 0)
    assert log.read_bytes() == bytes(damaged)


def test_what_a_crash_has_cut_off_a_log_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = LogDirectory.open(FileStore(tmp_path), cluster_id="c", node_id=1, now=0)
    partition = directory.create("t", 0, uuid.uuid4())
    for _ in range(2):
        batch = encode_batch([(b"key", b"value")])
        partition.append_as_leader(batch, validate(batch, max_batch_bytes=1000), 0, 0)
    directory.abandon()
    (segment,) = (tmp_path / "t-0").glob("*.log")
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size - 1)

    build_broker(settings(tmp_path, cluster_id="c"), ENDPOINTS, 0).abandon()

    (line,) = caplog.messages
    assert line.startswith("t-0: cut ") and "from offset 1 on" in line


async def test_a_resolved_node_is_where_its_registration_says(kit: Kit, tmp_path: Path) -> None:
    config = settings(tmp_path, controller_connect="one:9093,two:9093")
    node = await started(kit, config)
    resolve = node._driven[1].part.resolve
    assert list(resolve(-1)) == [("one", 9093), ("two", 9093)]
    assert list(resolve(1)) == [("127.0.0.1", node.endpoints[1].port)]
    assert list(resolve(99)) == []
    await stopped(node)


def test_settings_reach_the_cores(tmp_path: Path) -> None:
    config = settings(
        tmp_path,
        broker_rack="r1",
        num_partitions="3",
        min_insync_replicas="2",
        log_retention_hours="1",
        controller_heartbeat_timeout_ms="4000",
        broker_heartbeat_timeout_ms="6000",
        broker_heartbeat_interval_ms="1000",
        epoka_level="eligible-isr",
        offsets_retention_minutes="2",
    )
    directory = SimpleNamespace(directory_id="d", previous_generation=9, last_generation=8)
    broker = broker_config(config, "c", ENDPOINTS[::-1], directory)  # type: ignore[arg-type]
    assert (broker.rack, broker.num_partitions) == ("r1", 3)
    assert (broker.previous_broker_epoch, broker.last_broker_epoch) == (9, 8)
    assert broker.client_listener().name == "PLAINTEXT"
    assert broker.heartbeat_timeout_ms == 6000
    assert broker.groups.offsets_retention_ms == 120_000
    assert broker.described["min.insync.replicas"] == "2"
    assert broker.described["log.cleanup.policy"] == "delete"
    assert topic_defaults(config) == {"min.insync.replicas": 2, "log.retention.hours": 1}
    controller = controller_config(config)
    assert (controller.session_timeout_ms, controller.initial_level.label) == (4000, "eligible-isr")


def _core_of(log: PartitionLog) -> Any:
    """A broker with this partition, committed to its end."""
    replica = SimpleNamespace(topic="t", index=0, log=log, high_watermark=log.end_offset)
    return SimpleNamespace(replicas=SimpleNamespace(by_key={("t", 0): replica}))


def test_sealed_segments_are_flushed_on_the_side(tmp_path: Path) -> None:
    directory = LogDirectory.open(FileStore(tmp_path), cluster_id="c", node_id=1, now=0)
    log = directory.create("t", 0, uuid.uuid4(), LogConfig(segment_bytes=200))
    for _ in range(5):
        batch = encode_batch([(b"k", b"v" * 100)])
        log.append_as_leader(batch, validate(batch, max_batch_bytes=1_000), 0, 0)
    assert log.recovery_point == 0 and len(log.segment_bases) > 2
    chores = broker_chores(settings(tmp_path), _core_of(log), directory)
    work = {chore.name: chore.work for chore in chores}
    for step in work["flush of sealed segments"](0):
        if step is not None:
            step()
    assert log.recovery_point == log.segment_bases[-1]


def test_what_is_flushed_in_time_does_not_wait_for_the_other_thread(tmp_path: Path) -> None:
    """A compaction may keep that thread busy for minutes."""
    directory = LogDirectory.open(FileStore(tmp_path), cluster_id="c", node_id=1, now=0)
    log = directory.create("t", 0, uuid.uuid4(), LogConfig(segment_bytes=200, flush_ms=1))
    for _ in range(5):
        batch = encode_batch([(b"k", b"v" * 100)])
        log.append_as_leader(batch, validate(batch, max_batch_bytes=1_000), 0, 0)
    (flush,) = (c for c in broker_chores(settings(tmp_path), _core_of(log), directory) if c.name == "flush")
    assert [step for now in (0, 1) for step in flush.work(now) if step is not None] == []
    assert log.recovery_point == log.end_offset


async def test_a_batch_that_holds_no_records_does_not_end_the_compaction(kit: Kit, tmp_path: Path) -> None:
    directory = LogDirectory.open(FileStore(tmp_path), cluster_id="c", node_id=1, now=0)
    log = directory.create("t", 0, uuid.uuid4(), LogConfig(segment_bytes=200))
    spoiled = encode_batch([(b"k", b"v" * 100)])
    spoiled[HEADER_SIZE:] = b"\xff" * (len(spoiled) - HEADER_SIZE)
    spoiled[17:21] = crc32c(bytes(spoiled[21:])).to_bytes(4, "big")
    for batch in (spoiled, *(encode_batch([(b"k", b"v" * 100)]) for _ in range(4))):
        log.append_as_leader(batch, validate(batch, max_batch_bytes=1_000), 0, 0)
    log.config = LogConfig(cleanup_policy=("compact",))
    config = settings(tmp_path, log_cleaner_backoff_ms="1")
    chores = broker_chores(config, _core_of(log), directory)
    failures: list[object] = []
    yard = Chores(
        [chore for chore in chores if chore.name == "compaction"],
        now=lambda: 0,
        storage_failed=failures.append,
        broken=failures.append,
    )
    yard.start()
    await kit.eventually(lambda: failures or len(log.segment_bases) < 5)
    yard.close()
    assert failures == []


def test_a_member_id_is_short_however_long_the_client_id_is() -> None:
    assert new_member_id("c").startswith("c-")
    assert len(new_member_id("c" * 32_767)) < 300


def test_a_new_cluster_id_is_one_that_the_configuration_accepts() -> None:
    ids = {new_cluster_id() for _ in range(200)}
    assert len(ids) == 200
    for each in ids:
        assert NODE_KEYS["cluster.id"].parse(each) == each

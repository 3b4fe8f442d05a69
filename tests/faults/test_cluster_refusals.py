"""Nodes, files and clients that do not belong: each refused by a name that fits it, and nothing touched."""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epoka.client.connection import Connection
from epoka.client.errors import ClientError
from epoka.cluster.cluster import Cluster
from epoka.cluster.errors import BadCluster, NodeFailed
from epoka.cluster.ports import HOST, Ports
from epoka.coordination.metadata_log import encode_batch
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import alter_partition, broker_heartbeat, broker_registration, fetch, fetch_metadata
from epoka.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.faults.load import PATIENT, QUICK, Load, create_topic, settled
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster-faults")

TOPIC = "load"
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster that nothing in here can harm."""
    with Cluster(brokers=3, processes=True, config=PATIENT) as started:
        create_topic(started, TOPIC, PARTITIONS)
        yield started
        started.check()
        settled(started, TOPIC, PARTITIONS)


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below a folder with what is in it; locks are no content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "lock" not in path.name
    }


def start_alone(folder: Path, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a node by itself until it ends, which it must do soon."""
    folder.mkdir(exist_ok=True)
    path = folder / "node.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return subprocess.run(
        [sys.executable, "-m", "epoka.node.process", "--config", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def stranger(cluster: Cluster, folder: Path, ports: Ports, **changes: str) -> dict[str, str]:
    """The properties of one more broker that wants to join; keys written as node_id for node.id."""
    settings = {
        "node.id": "7",
        "process.roles": "broker",
        "cluster.id": cluster.layout.cluster_id,
        "listeners": f"PLAINTEXT://{HOST}:{ports.take()},CONTROL://{HOST}:{ports.take()}",
        "log.dirs": str(folder / "data"),
        "controller.quorum.bootstrap.servers": cluster.layout.controller_address,
        "initial.broker.registration.timeout.ms": "1500",
    }
    return settings | {key.replace("_", "."): value for key, value in changes.items()}


@pytest.fixture
def ports() -> Iterator[Ports]:
    held = Ports()
    yield held
    held.close()


def generations(cluster: Cluster) -> dict[int, int]:
    return {broker_id: known.epoch for broker_id, known in cluster.image().brokers.items()}


# Brokers that do not belong.


def test_a_broker_of_another_cluster_is_refused(cluster: Cluster, tmp_path: Path, ports: Ports) -> None:
    before = generations(cluster)
    ended = start_alone(tmp_path, stranger(cluster, tmp_path, ports, cluster_id="elsewhere"))
    assert ended.returncode == 1
    assert "the controller refused broker 7 of cluster elsewhere: INCONSISTENT_CLUSTER_ID" in ended.stderr
    assert generations(cluster) == before


def test_a_second_broker_with_an_id_in_use_is_refused(cluster: Cluster, tmp_path: Path, ports: Ports) -> None:
    before = generations(cluster)
    with Load(cluster, TOPIC, PARTITIONS) as load:
        ended = start_alone(tmp_path, stranger(cluster, tmp_path, ports, node_id="2"))
        load.reaches_every_partition()
    assert ended.returncode == 1
    assert "broker 2 of cluster" in ended.stderr
    assert "DUPLICATE_BROKER_REGISTRATION" in ended.stderr
    assert generations(cluster) == before
    assert not cluster.image().brokers[2].fenced


def test_the_data_of_another_broker_is_refused_and_left_alone(tmp_path: Path, ports: Ports) -> None:
    data = tmp_path / "cluster"
    with Cluster(brokers=2, processes=True, config=QUICK, data=data) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS, replicas=2)
        cluster.stop(2)
        place = cluster.layout.place(2).data_path
        before = fingerprint(place)
        ended = start_alone(tmp_path, stranger(cluster, tmp_path, ports, log_dirs=str(place)))
        assert ended.returncode == 1
        assert f"{place} belongs to node 2, this is node 7" in ended.stderr
        assert fingerprint(place) == before
        ended = start_alone(
            tmp_path, stranger(cluster, tmp_path, ports, log_dirs=str(place), node_id="2", cluster_id="other")
        )
        assert ended.returncode == 1
        assert (
            f"{place} belongs to cluster {cluster.layout.cluster_id}, this is cluster other" in ended.stderr
        )
        assert fingerprint(place) == before
        cluster.start(2)


def test_the_data_of_a_running_broker_is_refused(cluster: Cluster, tmp_path: Path, ports: Ports) -> None:
    place = cluster.layout.place(2).data_path
    before = generations(cluster)
    ended = start_alone(tmp_path, stranger(cluster, tmp_path, ports, log_dirs=str(place), node_id="2"))
    assert ended.returncode == 1
    assert str(place) in ended.stderr
    assert generations(cluster) == before


# Settings that make no sense together.


@pytest.mark.parametrize("broker_ms", ["999", "1000"])
def test_timeouts_in_the_wrong_order_are_refused(tmp_path: Path, ports: Ports, broker_ms: str) -> None:
    settings = {"controller.heartbeat.timeout.ms": "1000", "broker.heartbeat.timeout.ms": broker_ms}
    with pytest.raises(
        BadCluster, match=r"broker\.heartbeat\.timeout\.ms.*controller\.heartbeat\.timeout\.ms"
    ):
        Cluster(brokers=1, config={**QUICK, **settings}).open()
    ended = start_alone(
        tmp_path,
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{HOST}:{ports.take()}",
            "log.dirs": str(tmp_path / "data"),
            **settings,
        },
    )
    assert ended.returncode == 2
    assert "broker.heartbeat.timeout.ms" in ended.stderr
    assert "controller.heartbeat.timeout.ms" in ended.stderr
    assert not (tmp_path / "data").exists()


# A controller whose log is damaged.


def controller_log(cluster: Cluster) -> Path:
    folder = cluster.layout.controller.data_path
    return max(folder.rglob("metadata-*.log"))


def test_a_torn_tail_of_the_controllers_log_is_cut_and_told(cluster: Cluster) -> None:
    topic = create_topic(cluster, "torn", PARTITIONS)
    with Load(cluster, topic, PARTITIONS) as load:
        before = generations(cluster)
        cluster.kill(cluster.controller_id)
        log = controller_log(cluster)
        whole = log.read_bytes()
        log.write_bytes(whole + encode_batch(cluster_end(whole), [b"never finished" * 10])[:-7])
        cluster.start(cluster.controller_id)
        assert log.read_bytes()[: len(whole)] == whole
        load.reaches_every_partition()
        assert generations(cluster) == before
    told = [event.detail for event in cluster.ledger() if event.kind == "recovered"]
    assert any(log.name in detail and str(len(whole)) in detail for detail in told), told
    load.check()


def cluster_end(content: bytes) -> int:
    """An offset far behind everything: a torn batch is never read far enough to be asked for it."""
    return len(content)


@pytest.mark.parametrize("where", ["header", "payload"])
def test_a_wrong_checksum_in_the_controllers_log_is_refused(where: str) -> None:
    with Cluster(brokers=2, processes=True, config=QUICK) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS, replicas=2)
        cluster.kill(cluster.controller_id)
        log = controller_log(cluster)
        whole = log.read_bytes()
        damaged = bytearray(whole)
        damaged[{"header": 5, "payload": 40}[where]] ^= 0x01
        log.write_bytes(damaged)
        before = fingerprint(cluster.layout.controller.data_path)
        with pytest.raises(NodeFailed) as refused:
            cluster.start(cluster.controller_id)
        assert log.name in str(refused.value)
        assert "position 0" in str(refused.value)
        assert fingerprint(cluster.layout.controller.data_path) == before
        log.write_bytes(whole)
        cluster.start(cluster.controller_id)
        settled(cluster, TOPIC, PARTITIONS)


# Clients that pose as nodes.


def poses(cluster: Cluster) -> dict[str, tuple[Any, int]]:
    """What only nodes may ask, as a client would forge it, with the right generations."""
    image = cluster.image()
    topic = image.topic(TOPIC)
    state = image.partition(TOPIC, 0)
    assert topic is not None and state is not None
    generation = image.brokers[2].epoch
    asked = fetch.FetchTopic(
        topic=TOPIC,
        topic_id=topic.id,
        partitions=(fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000),),
    )
    change = alter_partition.AlterPartitionPartition(
        partition_index=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr_with_epochs=(
            alter_partition.AlterPartitionBrokerState(state.leader, image.brokers[state.leader].epoch),
        ),
    )
    return {
        "fetch with a replica state": (
            fetch.FetchRequest(replica_state=fetch.ReplicaState(2, generation), topics=(asked,)),
            15,
        ),
        "fetch with a replica id": (fetch.FetchRequest(replica_id=2, topics=(asked,)), 11),
        "alter partition": (
            alter_partition.AlterPartitionRequest(
                broker_id=state.leader,
                broker_epoch=image.brokers[state.leader].epoch,
                topics=(alter_partition.AlterPartitionTopic(topic_id=topic.id, partitions=(change,)),),
            ),
            3,
        ),
        "heartbeat": (
            broker_heartbeat.BrokerHeartbeatRequest(
                broker_id=2, broker_epoch=generation, current_metadata_offset=image.offset, want_fence=True
            ),
            1,
        ),
        "registration": (
            broker_registration.BrokerRegistrationRequest(
                broker_id=2, cluster_id=cluster.layout.cluster_id, incarnation_id=image.brokers[2].incarnation
            ),
            4,
        ),
        "unregistration": (UnregisterBrokerRequest(broker_id=2), 0),
        "metadata log": (fetch_metadata.FetchMetadataRequest(broker_id=2, broker_epoch=generation), 0),
    }


POSES = [
    "fetch with a replica state",
    "fetch with a replica id",
    "alter partition",
    "heartbeat",
    "registration",
    "unregistration",
    "metadata log",
]


@pytest.mark.parametrize("pose", POSES)
def test_a_client_that_poses_as_a_node_is_refused(cluster: Cluster, pose: str) -> None:
    settled(cluster, TOPIC, PARTITIONS)
    forged, version = poses(cluster)[pose]
    before = cluster.image().state_hash()
    for broker_id in cluster.broker_ids:
        with Connection((HOST, cluster.layout.place(broker_id).client_port)) as connection:
            try:
                answer = connection.ask(forged, version=version)
            except ClientError:
                continue
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, (pose, answer)
    assert cluster.image().state_hash() == before


def test_every_pose_is_tried(cluster: Cluster) -> None:
    assert list(poses(cluster)) == POSES


# A disk that is full.


def test_a_full_disk_takes_one_broker_out_and_not_the_cluster() -> None:
    with Cluster(brokers=3, processes=True, config=QUICK) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS)
        with Load(cluster, TOPIC, PARTITIONS) as load:
            load.reaches_every_partition(100)
            pid = cluster.pid(2)
            assert pid is not None
            # A file that has grown to this size takes no more, as on a full disk; only the records get there.
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))

            def without_it() -> bool:
                image = cluster.image()
                return all(2 not in state.isr for _, state in image.partitions_of(TOPIC))

            wait_until(without_it, "every partition to do without broker 2")
            load.reaches_every_partition(50)
            assert [event.node for event in cluster.ledger() if event.kind == "storage-failed"] == [2]
            cluster.kill(2)
            cluster.start(2)
            settled(cluster, TOPIC, PARTITIONS)
        load.check()

"""What the ensemble may do to a cluster in zookeeper mode: not be there, go away, come back, hold what others
have written, and ask who we are.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import KafkaException

from epoka.client.errors import ClientError
from epoka.cluster.cluster import Cluster
from epoka.coordination.zookeeper.operations import Refused, SetData
from epoka.coordination.zookeeper.server import ZooKeeperServer
from epoka.coordination.zookeeper.session import AccessDenied, Session, end_session
from epoka.node.zookeeper import SESSION_FILE
from epoka.wire.messages.leader_and_isr import LeaderAndIsrRequest
from epoka.wire.messages.stop_replica import StopReplicaRequest
from epoka.wire.messages.update_metadata import UpdateMetadataRequest
from tests.faults.load import Load, create_assigned_topic, create_topic, read_everything, settled
from tests.faults.zk_story import MARKS, TOPIC, a_cluster, ask, partition, wait_isr, write
from tests.waiting import wait_until

pytestmark = MARKS

PARTITIONS = 3

PATIENT = {
    "controller_heartbeat_timeout_ms": 20_000,
    "broker_heartbeat_timeout_ms": 30_000,
    "replica_lag_time_max_ms": 30_000,
}
"""Where no verdict can be written down, nobody may give cause for one because the machine is busy."""


def log_of(cluster: Cluster, node_id: int) -> str:
    return cluster.layout.place(node_id).log_path.read_text()


def wait_said(cluster: Cluster, node_id: int, *words: str) -> None:
    """Until one line of a node's log has all the words."""
    wait_until(
        lambda: any(all(word in line for word in words) for line in log_of(cluster, node_id).splitlines()),
        lambda: f"node {node_id} to say {words}; it said\n{log_of(cluster, node_id)[-2000:]}",
    )


def values(cluster: Cluster) -> list[str]:
    return [value for _, _, value in read_everything(cluster, TOPIC, 1)]


def run_node(settings: dict[str, object], folder: Path) -> subprocess.CompletedProcess[str]:
    """A node as a process, until it ends by itself."""
    path = folder / "node.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return subprocess.run(
        [sys.executable, "-m", "epoka.node.process", "--config", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


# What others have written.


def test_foreign_and_corrupt_znodes_are_named_and_left_alone(keeper: ZooKeeperServer) -> None:
    with a_cluster(keeper, "fetch-epochs") as cluster, Session(cluster.layout.zookeeper) as stranger:
        create_assigned_topic(cluster, TOPIC, [[1, 2, 3]])
        create_assigned_topic(cluster, "spoilt", [[1, 2, 3]])
        write(cluster, "a")
        foreign = {
            "/brokers/ids/visitor": b"hello",
            "/brokers/ids/7": b'{"version": 5}',
            "/brokers/topics/ghost": b"\xff\xfe",
            "/config/topics/ghost": b"[]",
        }
        controller = cluster.controller_id
        for path, data in foreign.items():
            stranger.create(path, data)
        stranger.create("/brokers/ids/8", b"{", ephemeral=True)
        for name in ("visitor", "7", "8"):
            wait_said(cluster, controller, f"/brokers/ids/{name}", "left alone")
        state = "/brokers/topics/spoilt/partitions/0/state"
        stranger.multi([SetData(state, b"garbage", -1)])
        cluster.kill(controller)
        cluster.start(controller)
        for path in ("/brokers/topics/ghost", state):
            wait_said(cluster, controller, path, "left alone")
        # Nobody takes the place of what is there, and whoever tries does not cost the controller its office.
        with pytest.raises(KafkaException):
            create_assigned_topic(cluster, "ghost", [[1, 2, 3]])
        write(cluster, "b")
        cluster.bounce(2)
        wait_isr(cluster, 1, 2, 3)
        write(cluster, "c")
        assert values(cluster) == ["a", "b", "c"]
        for path, data in {**foreign, state: b"garbage"}.items():
            node = stranger.get(path)
            assert node is not None and node.data == data
        assert log_of(cluster, controller).count("is the controller of epoch") == 2
        cluster.check()


def test_a_client_that_plays_the_controller_is_refused(keeper: ZooKeeperServer) -> None:
    with a_cluster(keeper, "fetch-epochs", brokers=1, min_insync_replicas=1) as cluster:
        create_assigned_topic(cluster, TOPIC, [[1]])
        greater = {"controller_id": 666, "controller_epoch": 1000, "max_broker_epoch": 1 << 60}
        for request, version in (
            (LeaderAndIsrRequest(**greater), 5),
            (UpdateMetadataRequest(**greater), 8),
            (StopReplicaRequest(**greater, delete_partitions=True), 4),
        ):
            with pytest.raises(ClientError, match="closed the connection"):
                ask(cluster, 1, request, version=version)
        wait_said(cluster, 1, "closed the connection", "PLAINTEXT")
        write(cluster, "a")
        assert values(cluster) == ["a"]


# Not there.


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_a_node_that_finds_no_ensemble_says_so_after_a_bounded_wait(role: str, tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        connect = f"127.0.0.1:{nobody.getsockname()[1]}"
        settings: dict[str, object] = {
            "node.id": 1,
            "process.roles": role,
            "log.dirs": tmp_path / "data",
            "listeners": "CONTROL://127.0.0.1:0",
            "zookeeper.connect": f"{connect}/here",
            "zookeeper.connection.timeout.ms": 1500,
        }
        if role == "broker":
            settings["listeners"] = f"PLAINTEXT://127.0.0.1:0,{settings['listeners']}"
        began = time.monotonic()
        ended = run_node(settings, tmp_path)
    assert ended.returncode == 1, ended.stdout
    assert "Traceback" not in ended.stdout
    last = ended.stdout.splitlines()[-1]
    assert f"the node cannot start: no ZooKeeper at {connect}/here within 1.5 s" in last
    assert time.monotonic() - began >= 1.5


# Gone and back.


class LastSession(msgspec.Struct):
    id: int
    password: bytes


def end_sessions_of_brokers(cluster: Cluster) -> None:
    """As ZooKeeper does when it has not heard of anybody for too long."""
    for broker_id in cluster.broker_ids:
        file = cluster.layout.place(broker_id).data_path / SESSION_FILE
        last = msgspec.json.decode(file.read_bytes(), type=LastSession)
        end_session(cluster.layout.zookeeper, (last.id, last.password))


@pytest.mark.parametrize("level", ["generations", "fetch-epochs"])
def test_the_whole_ensemble_ends_and_comes_back_under_load(keeper: ZooKeeperServer, level: str) -> None:
    with a_cluster(keeper, level, **PATIENT) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS)
        with Load(cluster, TOPIC, PARTITIONS) as load:
            before = {each: cluster.generation(each) for each in cluster.broker_ids}
            keeper.kill(1)
            load.reaches_every_partition(50)
            keeper.restart(1)
            load.reaches_every_partition(20)
            end_sessions_of_brokers(cluster)
            wait_until(
                lambda: all(cluster.generation(each) > old for each, old in before.items()),
                "every broker to have a new generation",
            )
            load.reaches_every_partition(20)
            settled(cluster, TOPIC, PARTITIONS)
        cluster.check()
        load.check()


def test_a_broker_that_dies_while_the_ensemble_is_away_is_replaced_when_it_is_back(
    keeper: ZooKeeperServer,
) -> None:
    with a_cluster(keeper, "fetch-epochs") as cluster:
        create_topic(cluster, TOPIC, PARTITIONS)
        with Load(cluster, TOPIC, PARTITIONS) as load:
            keeper.kill(1)
            cluster.kill(3)
            # The controller wants to fence it and cannot write that down: it is in office no more.
            wait_said(cluster, cluster.controller_id, "is no longer the controller of epoch 1")
            keeper.restart(1)
            load.reaches_every_partition(20)
            leaders = [state.leader for _, state in cluster.image().partitions_of(TOPIC)]
            assert len(leaders) == PARTITIONS and 3 not in leaders
            # Whether it is the same node or not, and though its session may have lasted.
            assert "is the controller of epoch 1" not in "".join(
                log_of(cluster, each).split("is no longer the controller of epoch 1", 1)[-1]
                for each in cluster.controller_ids
            )
            cluster.start(3)
            settled(cluster, TOPIC, PARTITIONS)
        cluster.check()
        load.check()


# Who we are.


def test_with_a_name_and_a_password_nobody_else_changes_what_the_nodes_wrote(
    keeper: ZooKeeperServer, tmp_path: Path
) -> None:
    who = {"epoka_zookeeper_username": "epoka", "epoka_zookeeper_password": "s3cret"}
    with a_cluster(keeper, "fetch-epochs", **who) as cluster:
        create_assigned_topic(cluster, TOPIC, [[1, 2, 3]])
        write(cluster, "a")
        old, new = cluster.bounce(2, how="fast")
        assert new > old
        wait_isr(cluster, 1, 2, 3)
        with Session(cluster.layout.zookeeper) as stranger:
            for path in ("/brokers/topics/orders/partitions/0/state", "/controller_epoch", "/epoka/writes"):
                assert stranger.get(path) is not None
                with pytest.raises((Refused, AccessDenied), match="denied"):
                    stranger.multi([SetData(path, b"mine", -1)])
            with pytest.raises((Refused, AccessDenied), match="denied"):
                stranger.create("/brokers/ids/9", b"{}", ephemeral=True)
        write(cluster, "b")
        assert set(partition(cluster).isr) == {1, 2, 3}
        assert "s3cret" not in "".join(log_of(cluster, each) for each in cluster.node_ids)
        settings = {
            "node.id": 9,
            "process.roles": "broker",
            "log.dirs": tmp_path / "data",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROL://127.0.0.1:0",
            "zookeeper.connect": cluster.layout.zookeeper,
            "epoka.zookeeper.username": "epoka",
            "epoka.zookeeper.password": "wrong",
        }
        ended = run_node(settings, tmp_path)
        assert ended.returncode == 1, ended.stdout
        last = ended.stdout.splitlines()[-1]
        assert "broker 9 cannot register" in last and "denied" in last
        assert "Traceback" not in ended.stdout

"""Zookeeper mode on a real ensemble of three: a controller that dies, and a broker that bounces.

Two controllers as real processes, of which the one in office is killed with -9. Brokers that only listen
register and note when they were told everything by the next one, LeaderAndIsr and UpdateMetadata; what they
would do with it is not counted. Until the session of the dead is over nobody can know that it died, so the
time from the election on is told apart.

A bounce happens under the controller's nose: a broker is killed and started at once. From the moment of its
registration, as ZooKeeper noted it, to the first request that it serves as a leader again.
"""

from __future__ import annotations

import asyncio
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

import msgspec

from benchmarks.figures import Figure, beside
from epoka.client.connection import Connection
from epoka.client.errors import ClientError
from epoka.client.settings import ClientSettings
from epoka.cluster.cluster import Cluster
from epoka.cluster.ports import HOST
from epoka.coordination.zookeeper import paths
from epoka.coordination.zookeeper.election import Election, Mandate
from epoka.coordination.zookeeper.registry import RegisteredBroker, Registry
from epoka.coordination.zookeeper.server import ZooKeeperServer
from epoka.coordination.zookeeper.session import Session
from epoka.coordination.zookeeper.state import ZooKeeperState
from epoka.coordination.zookeeper.znodes import ControllerZnode
from epoka.model.levels import FEATURE_NAME, HIGHEST, FeatureLevel
from epoka.model.records import encode_record
from epoka.model.registrations import Endpoint, Feature
from epoka.wire.error_codes import ErrorCode
from epoka.wire.frame import FrameReader, decode_request_header, encode_response
from epoka.wire.messages import leader_and_isr, stop_replica, update_metadata
from epoka.wire.messages import metadata_records as m
from epoka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.faults.load import QUICK, create_assigned_topic
from tests.waiting import wait_until

SIZES = (1_000, 10_000, 50_000)
PARTITIONS_A_TOPIC = 1_000
LISTENERS = (101, 102, 103)
TAKEOVERS = 3
BOUNCES = 5
SESSION_MS = 2_000
CONFIG = {**QUICK, "zookeeper.session.timeout.ms": SESSION_MS, "epoka.ledger.replication.factor": 0}
LONG_S = 60.0
ANSWERS: dict[int, Any] = {
    4: leader_and_isr.LeaderAndIsrResponse(),
    5: stop_replica.StopReplicaResponse(),
    6: update_metadata.UpdateMetadataResponse(),
}


class Takeover(msgspec.Struct, frozen=True):
    all_s: float
    """From the kill to everybody being told everything."""
    elected_s: float
    """Of these, until the next one was elected."""


# Brokers that only listen.


class Listeners:
    """The control doors of some brokers, in a thread of their own."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.told: dict[tuple[int, int], float] = {}
        """Controller epoch and broker to the time of the first UpdateMetadata."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Listeners:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(LONG_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _open(self) -> None:
        for broker in LISTENERS:
            server = await self._loop.create_server(lambda b=broker: _Door(self, b), HOST, 0)  # type: ignore[misc]
            self.ports[broker] = server.sockets[0].getsockname()[1]

    def all_told(self, epoch: int) -> bool:
        return all((epoch, broker) in self.told for broker in LISTENERS)

    def last_told(self, epoch: int) -> float:
        return max(self.told[epoch, broker] for broker in LISTENERS)


class _Door(asyncio.Protocol):
    def __init__(self, listeners: Listeners, broker: int) -> None:
        self._listeners = listeners
        self._broker = broker
        self._reader = FrameReader(100_000_000)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            header, position = decode_request_header(frame)
            if header.api_key == 6:
                (epoch,) = struct.unpack_from(">i", frame, position + 4)
                self._listeners.told.setdefault((epoch, self._broker), time.perf_counter())
            answer = encode_response(
                header.api_key, header.api_version, header.correlation_id, ANSWERS[header.api_key]
            )
            self._transport.writelines(answer)


# What is in ZooKeeper before anybody starts.


@contextmanager
def a_session(connect: str) -> Iterator[Session]:
    with Session(connect, session_timeout_ms=30_000) as session:
        yield session


def found(session: Session, partitions: int) -> None:
    """Topics with so many partitions of three replicas, on brokers that only listen."""
    session.ensure(paths.PERSISTENT)
    election = Election(session, ControllerZnode(0))
    mandate = election.stand(time.time_ns() // 1_000_000)
    assert isinstance(mandate, Mandate)
    state = ZooKeeperState(session, mandate)
    state.load()
    state.append([encode_record(m.FeatureLevelRecord(name=FEATURE_NAME, feature_level=HIGHEST))])
    for number in range(partitions // PARTITIONS_A_TOPIC):
        topic_id = UUID(int=number + 1)
        records: list[Any] = [m.TopicRecord(name=f"topic-{number:03d}", topic_id=topic_id)]
        for index in range(PARTITIONS_A_TOPIC):
            replicas = tuple(LISTENERS[(index + place) % 3] for place in range(3))
            records.append(
                m.PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=replicas,
                    leader=replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                )
            )
        state.append([encode_record(each) for each in records])
    election.resign(mandate)


def register(session: Session, listeners: Listeners) -> None:
    for broker, port in listeners.ports.items():
        registered = Registry(session).register(
            broker,
            endpoints=(Endpoint("CONTROL", HOST, port),),
            # A registration without heartbeats: active as long as it is there.
            level=FeatureLevel.GENERATIONS,
            now_ms=time.time_ns() // 1_000_000,
            features=(Feature(FEATURE_NAME, min(FeatureLevel), max(FeatureLevel)),),
        )
        assert isinstance(registered, RegisteredBroker), registered


# A controller dies.


def takeovers(connect: str, partitions: int) -> list[Takeover]:
    with a_session(connect) as session, Listeners() as listeners:
        found(session, partitions)
        register(session, listeners)
        config = {**CONFIG, "zookeeper.connect": connect}
        with Cluster(brokers=1, mode="zookeeper", controllers=2, config=config) as cluster:
            return [one_takeover(cluster, session, listeners) for _ in range(TAKEOVERS)]


def one_takeover(cluster: Cluster, session: Session, listeners: Listeners) -> Takeover:
    node = session.get(paths.CONTROLLER_EPOCH)
    assert node is not None
    epoch = int(node.data)
    wait_until(lambda: listeners.all_told(epoch), "everybody to be told", within_s=LONG_S)
    cluster.image()
    first = cluster.controller_id
    killed = time.perf_counter()
    cluster.kill(first)
    while int(session.get(paths.CONTROLLER_EPOCH).data) == epoch:  # type: ignore[union-attr]
        time.sleep(0.002)
    elected = time.perf_counter()
    wait_until(lambda: listeners.all_told(epoch + 1), "everybody to be told again", within_s=LONG_S)
    told = listeners.last_told(epoch + 1)
    cluster.image()
    cluster.start(first)
    return Takeover(told - killed, elected - killed)


# A broker bounces.


def bounces(connect: str) -> list[float]:
    config = {**CONFIG, "zookeeper.connect": connect}
    with (
        a_session(connect) as session,
        Cluster(brokers=3, mode="zookeeper", controllers=2, config=config) as cluster,
    ):
        create_assigned_topic(cluster, "bounce", [[3]], min_insync_replicas="1")
        wait_until(lambda: serves(cluster, 3), "broker 3 to lead")
        return [one_bounce(cluster, session) for _ in range(BOUNCES)]


def one_bounce(cluster: Cluster, session: Session) -> float:
    before = session.get(paths.broker(3))
    assert before is not None
    bouncing = threading.Thread(target=cluster.bounce, args=(3, "fast"))
    bouncing.start()
    while True:
        node = session.get(paths.broker(3))
        if node is not None and node.stat.created_zxid != before.stat.created_zxid:
            break
        time.sleep(0.001)
    while not serves(cluster, 3):
        time.sleep(0.001)
    served_ms = time.time_ns() / 1e6
    bouncing.join()
    return (served_ms - node.stat.created_ms) / 1000


def serves(cluster: Cluster, broker: int) -> bool:
    """Whether it answers as the leader of the partition that nobody else has."""
    topic = ListOffsetsTopic("bounce", (ListOffsetsPartition(partition_index=0, timestamp=-1),))
    try:
        address = (HOST, cluster.layout.place(broker).client_port)
        with Connection(address, ClientSettings((address,), request_timeout_ms=1_000)) as connection:
            answer = connection.ask(ListOffsetsRequest(replica_id=-1, topics=(topic,)))
    except ClientError:
        return False
    return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)


def run() -> list[Figure]:
    figures = []
    with (
        tempfile.TemporaryDirectory(prefix="epoka-benchmark-") as folder,
        ZooKeeperServer(Path(folder), 3) as ensemble,
    ):
        for size in SIZES:
            taken = takeovers(f"{ensemble.connect}/takeover-{size}", size)
            name = f"zookeeper mode, controller killed, {size:,} partitions"
            all_s = median(each.all_s for each in taken)
            since = median(each.all_s - each.elected_s for each in taken)
            figures += [
                beside(f"{name}, until all are told", "s", all_s, "session timeout", SESSION_MS / 1000),
                beside(f"{name}, from the election on", "s", since, "session timeout", SESSION_MS / 1000),
            ]
        took = median(bounces(f"{ensemble.connect}/bounce"))
        heartbeat_s = QUICK["broker.heartbeat.interval.ms"] / 1000
        name = "zookeeper mode, bounce, from registration to serving"
        figures.append(beside(name, "s", took, "heartbeat interval", heartbeat_s))
    return figures

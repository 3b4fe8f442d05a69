"""A consumer group whose coordinator dies, again and again: no commit that was acknowledged is lost.

Commits live in a replicated topic, and the coordinator moves with the leader of its partition. A member that
reads, commits and goes on sees every record; a stranger who asks later finds the last commit, never an older.
"""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from epoka.client.connection import Connection
from epoka.cluster.cluster import Cluster
from epoka.cluster.ports import HOST
from epoka.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.faults.load import CLIENT, QUICK, Load, create_topic, read_everything, settled
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster-faults")

TOPIC = "load"
GROUP = "readers"
PARTITIONS = 3
DEATHS = 3
OFFSETS = "__consumer_offsets"
OFFSETS_PARTITIONS = 3


def consumer(cluster: Cluster, group: str = GROUP) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
            "fetch.wait.max.ms": 50,
            **CLIENT,
        }
    )


def committed(cluster: Cluster, group: str) -> dict[int, int]:
    """What a client that has never heard of the group before finds."""
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    stranger = consumer(cluster, group)
    try:
        return {each.partition: each.offset for each in stranger.committed(places, timeout=30)}
    finally:
        stranger.close()


def commit_once(cluster: Cluster, group: str, offset: int) -> dict[int, int]:
    """Commit the same offset for every partition, outside of any membership."""
    places = [TopicPartition(TOPIC, number, offset) for number in range(PARTITIONS)]
    outsider = consumer(cluster, group)
    try:
        for answer in outsider.commit(offsets=places, asynchronous=False):
            assert answer.error is None, answer.error
    finally:
        outsider.close()
    return dict.fromkeys(range(PARTITIONS), offset)


def coordinator(cluster: Cluster, group: str) -> int:
    """Who coordinates a group, as any broker tells."""
    request = FindCoordinatorRequest(coordinator_keys=(group,))
    for broker_id in cluster.broker_ids:
        if cluster.state(broker_id) != "running":
            continue
        with Connection((HOST, cluster.layout.place(broker_id).client_port)) as connection:
            (found,) = connection.ask(request, version=4).coordinators
        if found.error_code == 0:
            return int(found.node_id)
    return -1


class Member(threading.Thread):
    """Reads, commits what it has read, goes on; notes what it saw and what was acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(name="member", daemon=True)
        self.seen: list[tuple[int, int, str]] = []
        self.committed: dict[int, int] = {}
        self.commits = 0
        self.crash: BaseException | None = None
        self._consumer = consumer(cluster)
        self._stop_reading = threading.Event()

    def run(self) -> None:
        try:
            self._consumer.subscribe([TOPIC])
            while not self._stop_reading.is_set():
                self._read_on()
        except BaseException as error:
            self.crash = error
        finally:
            self._consumer.close()

    def stop(self) -> None:
        self._stop_reading.set()
        self.join(60)
        assert not self.is_alive()
        if self.crash is not None:
            raise self.crash

    def commits_again(self, more: int = 3) -> None:
        wanted = self.commits + more

        def done() -> bool:
            if self.crash is not None:
                raise self.crash
            return self.commits >= wanted

        wait_until(done, lambda: f"{wanted} commits; there are {self.commits}")

    def _read_on(self) -> None:
        next_offsets: dict[int, int] = {}
        for arrived in self._consumer.consume(500, timeout=0.2):
            if arrived.error() is not None:
                raise KafkaException(arrived.error())
            self.seen.append((arrived.partition(), arrived.offset(), arrived.value().decode()))
            next_offsets[arrived.partition()] = arrived.offset() + 1
        if next_offsets and self._commit(next_offsets):
            self.committed.update(next_offsets)
            self.commits += 1

    def _commit(self, offsets: dict[int, int]) -> bool:
        """Whether the coordinator has acknowledged; one that is gone or new says so, and is asked again."""
        places = [TopicPartition(TOPIC, number, offset) for number, offset in offsets.items()]
        while not self._stop_reading.is_set():
            try:
                answers = self._consumer.commit(offsets=places, asynchronous=False)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.code() in LOST_MEMBERSHIP:
                    return False
                continue
            return all(answer.error is None for answer in answers)
        return False


LOST_MEMBERSHIP = frozenset(
    {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}
)


def kill_coordinator(cluster: Cluster, group: str) -> int:
    """Kill -9, and wait until somebody else coordinates; returns who it was."""
    settled(cluster, OFFSETS, OFFSETS_PARTITIONS)
    dead = coordinator(cluster, group)
    cluster.kill(dead)
    wait_until(lambda: coordinator(cluster, group) not in (-1, dead), f"another coordinator of {group}")
    return dead


def test_a_member_goes_on_when_its_coordinator_dies() -> None:
    with Cluster(brokers=3, processes=True, config=QUICK) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS)
        with Load(cluster, TOPIC, PARTITIONS) as load:
            member = Member(cluster)
            member.start()
            member.commits_again()
            for _ in range(DEATHS):
                dead = kill_coordinator(cluster, GROUP)
                member.commits_again()
                cluster.start(dead)
                member.commits_again()
            member.stop()
        found = committed(cluster, GROUP)
        assert found.keys() == member.committed.keys()
        # A commit whose acknowledgement was lost may be there as well; an older one may not.
        assert all(found[number] >= offset for number, offset in member.committed.items()), (
            found,
            member.committed,
        )
        everything = read_everything(cluster, TOPIC, PARTITIONS)
        passed = {each for each in everything if each[1] < found[each[0]]}
        assert passed <= set(member.seen), "the member has committed what it never read"
        load.check()


def test_the_next_coordinator_knows_the_last_commit() -> None:
    with Cluster(brokers=3, processes=True, config=QUICK) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS)
        for death in range(DEATHS):
            wanted = commit_once(cluster, GROUP, offset=1000 + death)
            dead = kill_coordinator(cluster, GROUP)
            assert committed(cluster, GROUP) == wanted
            cluster.start(dead)
            assert committed(cluster, GROUP) == wanted

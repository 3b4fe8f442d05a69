"""The fixture `epoka_cluster`, used as tests of applications use it."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epoka.cluster.errors import BadCluster, ClusterError
from epoka.testing import TestedCluster, clients, places
from epoka.testing.pool import Pool, Wish
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("tested cluster")


def values(consumer, count: int) -> list[bytes]:
    """What a consumer of confluent-kafka reads."""
    found: list[bytes] = []

    def enough() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
        return len(found) >= count

    wait_until(enough, "all records")
    return found


class TestOwnThings:
    """Topics, groups and clients of one test."""

    seen: set[str] = set()  # noqa: RUF012

    @pytest.mark.parametrize("turn", [1, 2])
    def test_every_test_has_topics_of_its_own(self, epoka_cluster: TestedCluster, turn: int) -> None:
        there = {topic.name for topic in epoka_cluster.cluster.image().topics()}
        assert not self.seen & there, "the topics of the test before are still there"
        topic = epoka_cluster.topic("orders", partitions=2, config={"retention.ms": 1000})
        assert topic.startswith("orders-") and topic not in self.seen
        assert epoka_cluster.topic("orders") != topic
        self.seen.add(topic)

    def test_a_topic_can_be_used_at_once_through_every_broker(self, epoka_cluster: TestedCluster) -> None:
        topic = epoka_cluster.topic(replication_factor=3)
        for address in epoka_cluster.bootstrap.split(","):
            producer = epoka_cluster.producer({"bootstrap.servers": address, "acks": "all"})
            producer.produce(topic, address.encode())
            assert producer.flush(30) == 0
        assert sorted(values(epoka_cluster.consumer(topic), 3)) == sorted(
            address.encode() for address in epoka_cluster.bootstrap.split(",")
        )

    def test_a_topic_that_cannot_be_is_refused_with_a_reason(self, epoka_cluster: TestedCluster) -> None:
        with pytest.raises(BadCluster, match="INVALID_REPLICATION_FACTOR"):
            epoka_cluster.topic(replication_factor=9)

    def test_groups_have_names_of_their_own(self, epoka_cluster: TestedCluster) -> None:
        assert epoka_cluster.group("readers") != epoka_cluster.group("readers")

    def test_clients_are_those_of_confluent_kafka_if_it_is_there(self, epoka_cluster: TestedCluster) -> None:
        assert type(epoka_cluster.producer()).__module__.startswith("cimpl")
        topic = epoka_cluster.topic()
        assert topic in epoka_cluster.admin().list_topics(timeout=30).topics

    def test_consumers_in_no_group_each_read_everything(self, epoka_cluster: TestedCluster) -> None:
        topic = epoka_cluster.topic(partitions=2)
        producer = epoka_cluster.producer({"acks": "all"})
        for partition in (0, 1):
            producer.produce(topic, b"%d" % partition, partition=partition)
        assert producer.flush(30) == 0
        for _ in range(2):
            consumer = epoka_cluster.consumer(topic, group=None)
            assert {each.value() for each in consumer.consume(2, 30)} == {b"0", b"1"}

    def test_kafka_python(self, epoka_cluster: TestedCluster) -> None:
        topic = epoka_cluster.topic()
        producer = epoka_cluster.producer({"acks": "all", "linger.ms": 0}, library="kafka-python")
        assert producer.send(topic, b"x").get(30).offset == 0
        settings = {"consumer.timeout.ms": 30_000}
        consumer = epoka_cluster.consumer(topic, settings=settings, library="kafka-python")
        assert next(consumer).value == b"x"
        assert topic in epoka_cluster.admin(library="kafka-python").list_topics()

    def test_aiokafka(self, epoka_cluster: TestedCluster) -> None:
        topic = epoka_cluster.topic()

        async def roundtrip() -> bytes | None:
            async with epoka_cluster.producer(library="aiokafka") as producer:
                await producer.send_and_wait(topic, b"x")
            async with epoka_cluster.consumer(topic, library="aiokafka") as consumer:
                message = await asyncio.wait_for(consumer.getone(), 30)
                return message.value

        assert asyncio.run(roundtrip()) == b"x"

    def test_a_library_that_nobody_knows(self, epoka_cluster: TestedCluster) -> None:
        with pytest.raises(clients.NoClient, match="confluent-kafka, kafka-python, aiokafka"):
            epoka_cluster.producer(library="kafkajs")


class TestFaults:
    def test_a_bounce_tells_both_generations_and_harms_nobody_after(
        self, epoka_cluster: TestedCluster
    ) -> None:
        topic = epoka_cluster.topic(replication_factor=3)
        leader = epoka_cluster.eventually_leader(topic)
        old, new = epoka_cluster.bounce(leader, how="fast")
        assert new > old and epoka_cluster.generation(leader) == new
        assert epoka_cluster.eventually_isr(topic, isr=3)
        assert any(event.kind == "registered" for event in epoka_cluster.ledger())
        assert "fast bounce" in epoka_cluster.why_broker(leader).steps[-1].text

    def test_a_killed_leader_is_replaced(self, epoka_cluster: TestedCluster) -> None:
        topic = epoka_cluster.topic(replication_factor=3)
        leader = epoka_cluster.leader(topic)
        epoka_cluster.kill(leader)
        other = epoka_cluster.eventually_leader(topic, other_than=leader)
        assert other != leader
        rest = set(epoka_cluster.broker_ids) - {leader}
        assert set(epoka_cluster.eventually_isr(topic, isr=rest)) == rest

    def test_the_next_test_finds_everybody_alive(self, epoka_cluster: TestedCluster) -> None:
        assert [broker.node for broker in epoka_cluster.status().brokers] == ["running"] * 3
        assert all(broker.healthy for broker in epoka_cluster.status().brokers)
        epoka_cluster.pause(1)
        epoka_cluster.isolate(2, from_="controller")
        epoka_cluster.hold("AlterPartition")
        epoka_cluster.stop(3)

    def test_also_after_worse(self, epoka_cluster: TestedCluster) -> None:
        assert all(broker.healthy for broker in epoka_cluster.status().brokers)
        topic = epoka_cluster.topic(replication_factor=3)
        assert epoka_cluster.eventually_isr(topic)

    def test_waiting_in_vain_says_for_what(self, epoka_cluster: TestedCluster) -> None:
        topic = epoka_cluster.topic(replication_factor=1)
        leader = epoka_cluster.leader(topic)
        with pytest.raises(AssertionError, match=rf"ISR of {topic}-0 to be \[7\]; it is \[{leader}\]"):
            epoka_cluster.eventually_isr(topic, isr={7}, within_s=0.05)
        with pytest.raises(AssertionError, match=f"to be led by 9; it is led by {leader}"):
            epoka_cluster.eventually_leader(topic, leader=9, within_s=0.05)
        with pytest.raises(BadCluster, match="there is no partition nowhere-0"):
            epoka_cluster.leader("nowhere")


@pytest.mark.epoka(brokers=1, level="eligible-isr", config={"num.partitions": 7})
def test_the_marker_says_which_cluster(epoka_cluster: TestedCluster) -> None:
    assert epoka_cluster.broker_ids == (1,)
    assert epoka_cluster.status().level == "eligible-isr"
    topic = epoka_cluster.topic(partitions=-1)
    assert epoka_cluster.leader(topic, 6) == 1


@pytest.mark.epoka(brokers=1)
@pytest.mark.parametrize("how", ["clean", "fast"])
def test_a_cluster_whose_every_broker_was_bounced_answers_at_once(
    epoka_cluster: TestedCluster, how: str
) -> None:
    before = epoka_cluster.topic()
    epoka_cluster.bounce(1, how=how)
    after = epoka_cluster.topic()
    epoka_cluster.bounce(1, how=how)
    epoka_cluster.forget_topics()
    there = {topic.name for topic in epoka_cluster.cluster.image().topics()}
    assert not there & {before, after}


class TestEndingClients:
    """Clients whose cluster is away; ends that wait for it would wait for minutes."""

    pytestmark = pytest.mark.epoka(brokers=1)

    def ended(self, epoka_cluster: TestedCluster) -> bool:
        ending = threading.Thread(target=epoka_cluster.end_clients, daemon=True)
        ending.start()
        ending.join(60)
        return not ending.is_alive()

    def test_a_record_of_confluent_kafka_that_was_not_delivered(self, epoka_cluster: TestedCluster) -> None:
        topic, producer = epoka_cluster.topic(), epoka_cluster.producer()
        producer.produce(topic, b"delivered")
        assert producer.flush(30) == 0
        epoka_cluster.kill(1)
        producer.produce(topic, b"not delivered")
        assert self.ended(epoka_cluster)

    def test_a_record_of_kafka_python_that_was_not_delivered(self, epoka_cluster: TestedCluster) -> None:
        topic, producer = epoka_cluster.topic(), epoka_cluster.producer(library="kafka-python")
        producer.send(topic, b"delivered").get(30)
        epoka_cluster.kill(1)
        producer.send(topic, b"not delivered")
        assert self.ended(epoka_cluster)
        wait_until(lambda: not producer._sender.is_alive(), "its thread to be gone")

    def test_a_group_of_kafka_python_that_nobody_coordinates(self, epoka_cluster: TestedCluster) -> None:
        topic, producer = epoka_cluster.topic(), epoka_cluster.producer()
        producer.produce(topic, b"x")
        assert producer.flush(30) == 0
        settings = {"consumer.timeout.ms": 30_000, "request.timeout.ms": 300_000}
        consumer = epoka_cluster.consumer(topic, settings=settings, library="kafka-python")
        assert next(consumer).value == b"x"
        epoka_cluster.kill(1)
        unknown = consumer._coordinator.coordinator_unknown
        wait_until(lambda: not consumer.poll(100) and unknown(), "the death to be noticed")
        assert self.ended(epoka_cluster)


def test_a_client_is_ended_once() -> None:
    tested, ended = TestedCluster(SimpleNamespace()), []  # type: ignore[arg-type]
    tested._ends += [lambda: ended.append("first"), lambda: ended.append("second")]
    tested.end_clients()
    tested.end_clients()
    assert ended == ["second", "first"]


def test_equal_wishes_share_a_cluster_and_few_are_kept(epoka_clusters: Pool) -> None:
    assert Wish.of(config={"num.partitions": 7}) == Wish.of(3, config={"num.partitions": "7"})
    pool = Pool()
    try:
        one = pool.cluster(Wish.of(1))
        assert pool.cluster(Wish.of(1)) is one
        pool.cluster(Wish.of(1, config={"num.partitions": 2}))
        pool.cluster(Wish.of(1, config={"num.partitions": 3}))
        assert not one.is_open
    finally:
        pool.close()


def test_a_cluster_beyond_repair_is_replaced() -> None:
    pool = Pool()
    try:
        cluster = pool.cluster(Wish.of(1))
        folder = cluster.data
        cluster.kill(1)
        (folder / "broker-1" / "node.properties").write_text("nonsense")
        pool.mend(cluster)
        assert not cluster.is_open and not folder.exists()
        assert pool.cluster(Wish.of(1)) is not cluster
    finally:
        pool.close()


def test_what_was_waited_for_is_told_whatever_comes_after() -> None:
    states: list[Any] = []
    image = SimpleNamespace(partition=lambda *_: states.pop(0))
    tested = TestedCluster(SimpleNamespace(image=lambda: image))  # type: ignore[arg-type]
    seen, after = (SimpleNamespace(leader=id, isr=isr, replicas=(1, 2)) for id, isr in ((2, (2,)), (-1, ())))
    states += [seen, after]
    assert tested.eventually_leader("orders", other_than=1) == 2
    states[:] = [seen, after]
    assert tested.eventually_isr("orders", isr=1) == (2,)


def test_a_controller_that_is_away_is_waited_for() -> None:
    state = SimpleNamespace(leader=2, isr=(2,), replicas=(2,))
    away = ClusterError("the controller does not answer")
    answers: list[Any] = []

    def image() -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    tested = TestedCluster(SimpleNamespace(image=image))  # type: ignore[arg-type]
    here = SimpleNamespace(partition=lambda *_: state)
    answers[:] = [away, away, here]
    assert tested.eventually_leader("orders") == 2
    answers[:] = [away, away, here]
    assert tested.eventually_isr("orders") == (2,)
    answers[:] = [away]
    for wait in (tested.eventually_leader, tested.eventually_isr):
        with pytest.raises(
            AssertionError, match=r"for .*orders-0 to be [\w ]+; the controller does not answer$"
        ):
            wait("orders", within_s=0.05)
    answers[:] = [BadCluster("the cluster is not running")]
    with pytest.raises(BadCluster, match="is not running"):
        tested.eventually_leader("orders")


class TestPlaces:
    def test_memory_is_taken_if_there_is_room(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("EPOKA_TEST_DATA", raising=False)
        assert places.new_folder(memory=tmp_path).parent == tmp_path
        monkeypatch.setattr(places, "ENOUGH_BYTES", 1 << 62)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr("tempfile.tempdir", None)
        assert places.new_folder(memory=tmp_path / "none").parent == tmp_path

    def test_the_environment_has_the_last_word(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EPOKA_TEST_DATA", str(tmp_path))
        assert places.new_folder().parent == tmp_path

    def test_what_dead_sessions_left_is_swept_away(self, tmp_path: Path) -> None:
        dead, alive = tmp_path / "epoka-tests-999999999-x", places.new_folder(memory=tmp_path)
        other = tmp_path / "something"
        for folder in (dead, other):
            folder.mkdir()
        places.sweep(tmp_path)
        assert (dead.exists(), alive.exists(), other.exists()) == (False, True, True)

    def test_who_is_alive_is_a_matter_of_locks_and_not_of_process_ids(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("EPOKA_TEST_DATA", raising=False)
        left = tmp_path / f"epoka-tests-{os.getpid()}-x"
        left.mkdir()
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(os, "getpid", lambda: 999999999)
            alive = places.new_folder(memory=tmp_path)
        places.sweep(tmp_path)
        assert (left.exists(), alive.exists()) == (False, True)
        places.remove(alive)
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_a_sweep_has_taken_is_not_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[Path] = []

        def swept(**about: Any) -> str:
            made.append(tmp_path / f"epoka-tests-1-{len(made)}")
            made[-1].mkdir()
            if len(made) < 3:
                places.sweep(tmp_path)
            return str(made[-1])

        monkeypatch.delenv("EPOKA_TEST_DATA", raising=False)
        monkeypatch.setattr("tempfile.mkdtemp", swept)
        folder = places.new_folder(memory=tmp_path)
        assert folder == made[2] and folder.is_dir()
        places.remove(folder)

    def test_what_another_worker_sweeps_away_meanwhile_is_left_to_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dead = tmp_path / "epoka-tests-999999999-x"
        dead.mkdir()

        def swept(path: Path) -> bool:
            if path == dead:
                path.rmdir()
            return True

        monkeypatch.setattr(Path, "is_dir", swept)
        places.sweep(tmp_path)

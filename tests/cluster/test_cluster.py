"""What every cluster must do, in one process and with real processes: the same tests for both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from epoka import Cluster
from epoka.cluster import fault_ledger
from epoka.cluster.errors import BadCluster, ClusterError, NodeFailed
from epoka.cluster.faults import Faulty
from epoka.cluster.layout import plan
from epoka.ledger import file as ledger_file
from epoka.ledger.why import History
from epoka.model.partitions import PartitionState
from tests.cluster.records import create_topic, read, write
from tests.waiting import wait_until

IMPATIENT = {
    "broker.heartbeat.interval.ms": 200,
    "controller.heartbeat.timeout.ms": 3000,
    "broker.heartbeat.timeout.ms": 4500,
    "replica.lag.time.max.ms": 3000,
}

topics = count(1)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(False, id="in one process", marks=pytest.mark.xdist_group("cluster in one process")),
        pytest.param(True, id="with processes", marks=pytest.mark.xdist_group("cluster with processes")),
    ],
)
def shared(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(brokers=3, processes=request.param, config=IMPATIENT) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """The shared cluster, whole and healthy before and after each test."""
    yield shared
    shared.heal()
    for node_id in (shared.controller_id, *shared.broker_ids):
        if shared.state(node_id) == "paused":
            shared.resume(node_id)
        elif shared.state(node_id) != "running":
            shared.start(node_id)
    wait_until(lambda: shared.status().healthy, lambda: f"a healthy cluster: {shared.status()}")


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"topic-{next(topics)}"
    create_topic(cluster.bootstrap, name, replication_factor=3)
    return name


def partition(cluster: Cluster, topic: str) -> PartitionState:
    state = cluster.image().partition(topic, 0)
    assert state is not None
    return state


def follower(cluster: Cluster, topic: str) -> int:
    leader = partition(cluster, topic).leader
    return next(each for each in cluster.broker_ids if each != leader)


def is_fenced(cluster: Cluster, broker_id: int) -> bool:
    known = cluster.image().broker(broker_id)
    assert known is not None
    return known.fenced


def wait_fenced(cluster: Cluster, broker_id: int) -> None:
    wait_until(lambda: is_fenced(cluster, broker_id), f"broker {broker_id} to be fenced")


def wait_whole(cluster: Cluster, topic: str) -> None:
    wait_until(
        lambda: len(partition(cluster, topic).isr) == 3,
        lambda: f"a whole ISR, not {partition(cluster, topic)}",
    )


def test_a_fresh_cluster_is_healthy_and_says_who_it_is(cluster: Cluster) -> None:
    status = cluster.status()
    assert status.healthy
    assert status.mode == "log"
    assert status.level == "fetch-epochs"
    assert status.controller == cluster.controller_id
    assert [broker.id for broker in status.brokers] == [1, 2, 3]
    generations = [broker.generation for broker in status.brokers]
    assert len(set(generations)) == 3 and None not in generations
    addresses = [f"PLAINTEXT://{address}" for address in cluster.bootstrap.split(",")]
    assert [broker.endpoints[0] for broker in status.brokers] == addresses


def test_records_come_back_in_order(cluster: Cluster, topic: str) -> None:
    values = [b"%d" % number for number in range(1000)]
    write(cluster.bootstrap, topic, values)
    assert read(cluster.bootstrap, topic, 1000) == values


@pytest.mark.parametrize("how", ["clean", "fast", "unclean", "wiped"])
def test_a_bounce_gives_a_higher_generation_and_loses_nothing(cluster: Cluster, topic: str, how: str) -> None:
    values = [b"%s %d" % (how.encode(), number) for number in range(100)]
    write(cluster.bootstrap, topic, values)
    leader = partition(cluster, topic).leader
    old, new = cluster.bounce(leader, how=how)
    assert new > old
    assert cluster.generation(leader) == new
    wait_whole(cluster, topic)
    # With the others gone, the records can only come from the broker that was bounced.
    others = [each for each in cluster.broker_ids if each != leader]
    for other in others:
        cluster.kill(other)
    for other in others:
        wait_fenced(cluster, other)
    assert read(cluster.bootstrap, topic, 100) == values


def test_a_killed_broker_is_fenced_and_comes_back(cluster: Cluster, topic: str) -> None:
    victim = follower(cluster, topic)
    before = cluster.generation(victim)
    cluster.kill(victim)
    assert cluster.state(victim) == "stopped"
    assert cluster.pid(victim) is None
    wait_fenced(cluster, victim)
    assert not cluster.status().healthy
    write(cluster.bootstrap, topic, [b"while it was away"])
    cluster.start(victim)
    assert cluster.generation(victim) > before
    wait_whole(cluster, topic)


def test_a_paused_broker_keeps_its_generation(cluster: Cluster, topic: str) -> None:
    victim = follower(cluster, topic)
    before = cluster.generation(victim)
    cluster.pause(victim)
    assert cluster.state(victim) == "paused"
    wait_fenced(cluster, victim)
    cluster.resume(victim)
    wait_until(lambda: not is_fenced(cluster, victim), "the broker to be unfenced")
    assert cluster.generation(victim) == before
    wait_whole(cluster, topic)


def test_a_broker_cut_off_from_the_controller_is_fenced_until_it_is_healed(
    cluster: Cluster, topic: str
) -> None:
    victim = follower(cluster, topic)
    before = cluster.generation(victim)
    cluster.isolate(victim, from_="controller")
    wait_fenced(cluster, victim)
    write(cluster.bootstrap, topic, [b"without it"])
    cluster.heal()
    wait_until(lambda: not is_fenced(cluster, victim), "the broker to be unfenced")
    assert cluster.generation(victim) == before
    wait_whole(cluster, topic)


def test_a_broker_cut_off_from_the_others_alone_leaves_the_isr_but_is_not_fenced(
    cluster: Cluster, topic: str
) -> None:
    victim = follower(cluster, topic)
    write(cluster.bootstrap, topic, [b"with it"])
    cluster.isolate(victim, from_="brokers")
    # acks=all waits until the leader has given the follower up.
    write(cluster.bootstrap, topic, [b"without it"])
    assert victim not in partition(cluster, topic).isr
    assert not is_fenced(cluster, victim)
    cluster.heal()
    wait_whole(cluster, topic)


def test_an_isolation_lasts_over_a_restart(cluster: Cluster, topic: str) -> None:
    victim = follower(cluster, topic)
    cluster.stop(victim)
    cluster.isolate(victim, from_="brokers")
    cluster.start(victim)
    assert victim not in partition(cluster, topic).isr
    write(cluster.bootstrap, topic, [b"not for everybody"])
    assert victim not in partition(cluster, topic).isr
    cluster.heal()
    wait_whole(cluster, topic)


def test_held_messages_arrive_when_they_are_released(cluster: Cluster, topic: str) -> None:
    victim = follower(cluster, topic)
    cluster.stop(victim)
    write(cluster.bootstrap, topic, [b"while it was away"])
    with cluster.hold(api="AlterPartition", to="controller") as held:
        cluster.start(victim)
        held.wait()
        assert victim not in partition(cluster, topic).isr
    wait_whole(cluster, topic)


def test_the_controller_comes_back_to_the_same_cluster(cluster: Cluster, topic: str) -> None:
    before = [(broker.id, broker.generation) for broker in cluster.status().brokers]
    cluster.kill(cluster.controller_id)
    # Without a new producer id: those are the controller's to give.
    write(cluster.bootstrap, topic, [b"nobody needed it"], **{"enable.idempotence": False})
    cluster.start(cluster.controller_id)
    assert [(broker.id, broker.generation) for broker in cluster.status().brokers] == before


def test_the_ledger_tells_of_both_lives(cluster: Cluster) -> None:
    old, new = cluster.bounce(1)
    told = {event.broker_epoch for event in cluster.ledger() if event.broker == 1}
    assert {old, new} <= told


def test_verbs_refuse_what_cannot_be(cluster: Cluster) -> None:
    with pytest.raises(BadCluster, match="there is no node 9"):
        cluster.kill(9)
    with pytest.raises(BadCluster, match="is the controller"):
        cluster.bounce(cluster.controller_id)
    with pytest.raises(BadCluster, match="not 'sideways'"):
        cluster.bounce(1, how="sideways")
    with pytest.raises(BadCluster, match="running already"):
        cluster.start(1)
    with pytest.raises(BadCluster, match="is running; a disk is only wiped"):
        cluster.wipe(1)
    with pytest.raises(BadCluster, match="no API called 'Nonsense'"):
        cluster.hold(api="Nonsense")
    with pytest.raises(BadCluster, match="not 'moon'"):
        cluster.isolate(1, from_="moon")
    cluster.stop(3)
    with pytest.raises(BadCluster, match="node 3 is not running"):
        cluster.pause(3)


@pytest.mark.parametrize("processes", [False, True], ids=["in one process", "with processes"])
def test_a_cluster_goes_on_where_it_was(tmp_path: Path, processes: bool) -> None:
    with Cluster(brokers=1, processes=processes, data=tmp_path / "kept") as cluster:
        create_topic(cluster.bootstrap, "kept", replication_factor=1)
        write(cluster.bootstrap, "kept", [b"a", b"b"])
        bootstrap, generation = cluster.bootstrap, cluster.generation(1)
    with Cluster(processes=processes, data=tmp_path / "kept") as cluster:
        assert cluster.bootstrap == bootstrap
        assert cluster.generation(1) > generation
        assert read(cluster.bootstrap, "kept", 2) == [b"a", b"b"]


def test_a_cluster_that_needs_processes_is_not_begun_in_one(tmp_path: Path) -> None:
    plan(brokers=1, mode="zookeeper", data=tmp_path, config={"zookeeper.connect": "a:1"}).close()
    cluster = Cluster(processes=False, data=tmp_path, config={"zookeeper.connect": "a:1"})
    with pytest.raises(BadCluster, match="zookeeper mode has a process a node"):
        cluster.open()
    assert not cluster.is_open


def test_a_temporary_cluster_leaves_nothing_behind() -> None:
    with Cluster(brokers=1) as cluster:
        folder = cluster.data
        assert folder.is_dir()
    assert not folder.exists()
    with pytest.raises(BadCluster, match="not running"):
        cluster.bootstrap  # noqa: B018


def test_two_clusters_live_side_by_side() -> None:
    with Cluster(brokers=1) as one, Cluster(brokers=1) as other:
        create_topic(one.bootstrap, "mine", replication_factor=1)
        write(one.bootstrap, "mine", [b"x"])
        assert one.image().topic("mine") is not None
        assert other.image().topic("mine") is None
        assert one.status().cluster_id != other.status().cluster_id


def test_a_cluster_starts_on_the_level_that_was_asked_for() -> None:
    with Cluster(brokers=1, level="eligible-isr") as cluster:
        assert cluster.status().level == "eligible-isr"


def test_a_cluster_that_cannot_start_says_why_and_goes_at_once(tmp_path: Path) -> None:
    for name in ("one", "other"):
        with Cluster(brokers=1, data=tmp_path / name):
            pass
    ours, theirs = (tmp_path / name / "broker-1" / "data" for name in ("one", "other"))
    ours.rename(tmp_path / "aside")
    theirs.rename(ours)
    cluster = Cluster(brokers=2, data=tmp_path / "one")
    with pytest.raises(NodeFailed, match=r"broker 1 cannot start: .*cluster"):
        cluster.open()
    assert not cluster.is_open
    # Nothing holds the folder any more.
    ours.rename(theirs)
    (tmp_path / "aside").rename(ours)
    with cluster:
        assert len(cluster.status().brokers) == 2


def test_a_cluster_in_any_state_ends_quickly(tmp_path: Path) -> None:
    with Cluster(brokers=3, data=tmp_path / "kept") as cluster:
        cluster.pause(1)
        cluster.isolate(2)
        cluster.kill(3)
        cluster.pause(cluster.controller_id)
        began = time.monotonic()
    assert time.monotonic() - began < 20
    with Cluster(brokers=2) as cluster:
        cluster.kill(cluster.controller_id)
        began = time.monotonic()
    assert time.monotonic() - began < 20


def test_a_verb_that_was_refused_is_not_told() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.isolate(1, from_=2)
        for nobody in (1, "1", [], [1]):
            with pytest.raises(BadCluster, match="broker 1 can be cut off from others only"):
                cluster.isolate(1, from_=nobody)
        for nonsense in ("--5", "-", "\u00b2"):
            with pytest.raises(BadCluster, match="nodes are all, controller, brokers or an id"):
                cluster.isolate(1, from_=nonsense)
        cluster.resume(1)
        with pytest.raises(BadCluster, match="broker 1 is running already"):
            cluster.start(1)
        cluster.kill(2)
        cluster.kill(2)
        for verb in (cluster.stop, cluster.pause, cluster.resume):
            with pytest.raises(BadCluster, match="node 2 is not running"):
                verb(2)
        assert [(each.given, each.broker) for each in cluster.ledger() if each.kind == "fault"] == [
            ("isolate", 1),
            ("kill", 2),
        ]


def test_a_disk_that_was_not_emptied_is_not_told() -> None:
    with Cluster(brokers=1) as cluster:
        cluster.kill(1)
        disk = cluster.layout.place(1).data_path
        disk.rename(disk.with_name("aside"))
        disk.write_text("no folder")
        with pytest.raises(
            ClusterError, match=rf"the disk of broker 1 was not emptied: {disk}: Not a directory"
        ):
            cluster.wipe(1)
        disk.unlink()
        cluster.wipe(1)
        verbs = [each.given for each in cluster.ledger() if each.kind == "fault"]
        assert verbs == ["kill", "wipe"]


def test_verbs_of_one_millisecond_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(brokers=2) as cluster:
        with monkeypatch.context() as standing_still:
            now = time.time()
            standing_still.setattr(fault_ledger, "time", SimpleNamespace(time=lambda: now))
            cluster.isolate(1, from_=2)
            cluster.isolate(2, from_=1)
        told = History(cluster.ledger()).events
    assert [each.broker for each in told if each.given == "isolate"] == [1, 2]


def test_one_that_does_not_answer_keeps_no_other_from_its_controlled_shutdown(tmp_path: Path) -> None:
    cluster = Cluster(brokers=2, data=tmp_path / "kept").open()

    def silent(faults: Faulty) -> None:
        raise NodeFailed("broker 2 has not answered its cluster for 10 s")

    ledgers = [cluster.layout.place(each).ledger_path for each in (1, 2)]
    cluster._nodes.set_faults = silent  # type: ignore[method-assign]
    with pytest.raises(NodeFailed, match="broker 2 has not answered"):
        cluster.close()
    for ledger in ledgers:
        assert "ended" in [event.kind for event in ledger_file.read(ledger)]

"""What a cluster leaves on disk, and what it refuses to touch."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from epoka.cluster.errors import BadCluster, ClusterError
from epoka.cluster.layout import Layout, as_before, plan, read_cluster_file
from epoka.node.config import load

Plan = Callable[..., Layout]


@pytest.fixture
def planned() -> Iterator[Plan]:
    """Plans clusters and lets go of them in the end."""
    layouts: list[Layout] = []

    def make(brokers: int = 2, **about: Any) -> Layout:
        layouts.append(plan(brokers=brokers, **about))
        return layouts[-1]

    yield make
    for layout in layouts:
        layout.close()


def test_every_node_gets_a_file_that_it_can_start_with(planned: Plan, tmp_path: Path) -> None:
    layout = planned(data=tmp_path / "c", config={"num.partitions": 7, "auto.create.topics.enable": False})
    controller = load(layout.controller.properties_path)
    assert controller.is_controller and not controller.is_broker
    for broker_id, place in layout.brokers.items():
        config = load(place.properties_path)
        assert config.node_id == broker_id
        assert config.is_broker and not config.is_controller
        assert config.integer("num.partitions") == 7
        assert not config.flag("auto.create.topics.enable")
        assert config.controller_addresses == (("127.0.0.1", layout.controller.control_port),)
        assert [endpoint.port for endpoint in config.listeners] == [place.client_port, place.control_port]


def test_replication_fits_the_number_of_brokers(planned: Plan) -> None:
    for brokers, replicas in ((1, 1), (2, 2), (3, 3), (5, 3)):
        config = load(planned(brokers=brokers).brokers[1].properties_path)
        assert config.integer("default.replication.factor") == replicas
        assert config.integer("offsets.topic.replication.factor") == replicas


def test_odd_folder_names_survive_the_property_file(planned: Plan, tmp_path: Path) -> None:
    layout = planned(data=tmp_path / "with space\\and #signs=é")
    place = layout.brokers[1]
    assert load(place.properties_path).log_dirs == (place.data_path,)


def test_a_second_start_finds_the_same_cluster(planned: Plan, tmp_path: Path) -> None:
    first = planned(data=tmp_path / "c", level="eligible-isr")
    first.close()
    second = planned(data=tmp_path / "c")
    assert second.cluster_id == first.cluster_id
    assert second.bootstrap == first.bootstrap
    assert second.level == first.level


def test_a_cluster_may_grow_but_not_shrink(planned: Plan, tmp_path: Path) -> None:
    planned(brokers=2, data=tmp_path / "c").close()
    grown = planned(brokers=3, data=tmp_path / "c")
    assert list(grown.brokers) == [1, 2, 3]
    grown.close()
    with pytest.raises(BadCluster, match="has 3 brokers, not 1"):
        planned(brokers=1, data=tmp_path / "c")


@pytest.mark.parametrize("brokers", [1, 5])
def test_what_is_left_open_is_as_before(planned: Plan, tmp_path: Path, brokers: int) -> None:
    open_ = (None, None, None, {})
    assert as_before(None, *open_) == as_before(tmp_path / "none", *open_) == (3, "log", 1)
    planned(brokers=brokers, data=tmp_path / "c").close()
    assert as_before(tmp_path / "c", *open_) == (brokers, "log", 1)
    assert as_before(str(tmp_path / "c"), 7, "zookeeper", 2, {}) == (7, "zookeeper", 2)


def test_a_cluster_in_an_ensemble_finds_it_again_or_says_that_it_does_not(
    planned: Plan, tmp_path: Path
) -> None:
    planned(data=tmp_path / "own", mode="zookeeper", controllers=3, ensemble=unused_ensemble).close()
    assert as_before(tmp_path / "own", None, None, None, {}) == (2, "zookeeper", 3)
    connect = {"zookeeper.connect": "a:1"}
    planned(data=tmp_path / "c", mode="zookeeper", config=connect).close()
    assert as_before(tmp_path / "c", None, None, None, connect) == (2, "zookeeper", 1)
    with pytest.raises(BadCluster, match=r"lives in the ensemble at a:1: say so with zookeeper\.connect"):
        as_before(tmp_path / "c", None, None, None, {})


def test_two_cannot_run_one_cluster(planned: Plan, tmp_path: Path) -> None:
    planned(data=tmp_path / "c")
    with pytest.raises(ClusterError, match="is running already"):
        planned(data=tmp_path / "c")


def test_a_folder_with_something_else_is_left_alone(planned: Plan, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(BadCluster, match="holds something that is not a cluster"):
        planned(data=tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["precious.txt"]


def fails(folder: Path) -> str:
    raise ClusterError("ZooKeeper needs Java")


def unused_ensemble(folder: Path) -> str:
    """Leaves what an ensemble leaves that served and was asked for nothing."""
    for number in (1, 2, 3):
        data = folder / f"node-{number}" / "data"
        (data / "version-2").mkdir(parents=True, exist_ok=True)
        for name in (
            "myid",
            "version-2/snapshot.0",
            "version-2/snapshot.200000000",
            "version-2/currentEpoch",
        ):
            (data / name).write_text("1")
        for name in ("zoo.cfg", "log4j2.properties", "zookeeper.log"):
            (folder / f"node-{number}" / name).write_text("x")
    return "127.0.0.1:1"


def port_taken(planned: Plan, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        planned(data=folder, port=other.getsockname()[1])


@pytest.mark.parametrize(
    "fail",
    [
        port_taken,
        lambda planned, folder: planned(data=folder, config={"min.insync.replica": 1}),
        lambda planned, folder: planned(data=folder, config={"epoka.metrics.listener": "127.0.0.1:65535"}),
        lambda planned, folder: planned(data=folder, mode="zookeeper", ensemble=fails),
        lambda planned, folder: planned(
            data=folder, mode="zookeeper", ensemble=unused_ensemble, config={"min.insync.replica": 1}
        ),
    ],
    ids=["port taken", "misspelt key", "second node's settings", "no java", "misspelt key with ensemble"],
)
def test_a_start_that_fails_does_not_stand_in_the_way_of_the_next(
    planned: Plan, tmp_path: Path, fail: Callable[[Plan, Path], object]
) -> None:
    with pytest.raises(ClusterError):
        fail(planned, tmp_path / "c")
    assert (tmp_path / "c" / "lock").exists()
    for mode in ("log", "zookeeper"):
        layout = planned(data=tmp_path / "c", mode=mode, ensemble=unused_ensemble)
        assert read_cluster_file(tmp_path / "c") is not None
        layout.close()
        (tmp_path / "c" / "cluster.json").unlink()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("precious.txt", "mine"),
        ("lock", "mine"),
        ("zookeeper/node-1/data/version-2/log.1", "what a cluster knows"),
        ("zookeeper/notes.txt", "mine"),
        ("broker-1/data/orders-0/00000000000000000000.log", "records"),
        ("broker-1/ledger.jsonl", "{}"),
        ("brokers/node.properties", "node.id=1"),
        ("deep/broker-1/node.properties", "node.id=1"),
    ],
)
def test_a_folder_with_more_than_a_failed_start_leaves_is_left_alone(
    planned: Plan, tmp_path: Path, name: str, content: str
) -> None:
    with pytest.raises(ClusterError):
        planned(data=tmp_path, mode="zookeeper", ensemble=unused_ensemble, config={"min.insync.replica": 1})
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)
    with pytest.raises(BadCluster, match="holds something that is not a cluster"):
        planned(data=tmp_path)
    assert (tmp_path / name).read_text() == content


def test_a_link_to_another_cluster_s_folder_is_no_leftover(planned: Plan, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "data").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "lock").touch()
    (tmp_path / "c" / "broker-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadCluster, match="holds something that is not a cluster"):
        planned(data=tmp_path / "c")
    assert not (tmp_path / "elsewhere" / "node.properties").exists()


def test_without_our_lock_nothing_there_is_ours(planned: Plan, tmp_path: Path) -> None:
    unused_ensemble(tmp_path / "zookeeper")
    with pytest.raises(BadCluster, match="holds something that is not a cluster"):
        planned(data=tmp_path, mode="zookeeper", ensemble=unused_ensemble)
    assert [each.name for each in tmp_path.iterdir()] == ["zookeeper"]


def test_a_damaged_cluster_file_is_named_and_kept(planned: Plan, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{broken")
    with pytest.raises(BadCluster, match=r"cluster\.json is damaged"):
        planned(data=tmp_path)
    assert (tmp_path / "cluster.json").read_text() == "{broken"


def test_a_cluster_on_a_level_that_nobody_here_knows_is_refused(planned: Plan, tmp_path: Path) -> None:
    planned(data=tmp_path / "c").close()
    file = tmp_path / "c" / "cluster.json"
    newer = file.read_text().replace("fetch-epochs", "far-away")
    file.write_text(newer)
    with pytest.raises(BadCluster, match="there is no feature level 'far-away'"):
        planned(data=tmp_path / "c")
    assert file.read_text() == newer


def test_a_file_in_place_of_a_folder_is_refused(planned: Plan, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadCluster, match="holds something that is not a cluster"):
        planned(data=tmp_path / "file")
    with pytest.raises(ClusterError, match="cannot be used"):
        planned(data=tmp_path / "file" / "below")


def test_a_temporary_folder_goes_with_the_cluster(planned: Plan) -> None:
    layout = planned()
    assert layout.data.is_dir()
    layout.close()
    assert not layout.data.exists()


def test_the_file_is_on_disk_before_it_takes_the_place_of_the_last_one(
    planned: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = planned(data=tmp_path)
    before, synced = (tmp_path / "cluster.json").read_bytes(), []

    def fsync(descriptor: int) -> None:
        assert (tmp_path / "cluster.json").read_bytes() == before
        synced.append(Path(f"/proc/self/fd/{descriptor}").read_bytes())

    monkeypatch.setattr(os, "fsync", fsync)
    layout.write_file(running=False)
    assert synced == [(tmp_path / "cluster.json").read_bytes()]


def test_a_folder_that_is_gone_keeps_nobody_from_the_end(planned: Plan, tmp_path: Path) -> None:
    layout = planned(data=tmp_path / "c")
    (tmp_path / "c").rename(tmp_path / "moved")
    layout.close()
    # Nobody holds it any more.
    planned(data=tmp_path / "moved")


def test_a_wiped_disk_is_empty_also_where_a_link_leads(planned: Plan, tmp_path: Path) -> None:
    layout, disk = planned(data=tmp_path / "c"), tmp_path / "disk"
    place = layout.place(1)
    layout.wipe(1)
    (disk / "orders-0").mkdir(parents=True)
    for name in ("orders-0/0.log", "meta.properties"):
        (disk / name).write_text("x")
    (disk / "link").symlink_to(tmp_path / "c")
    place.data_path.symlink_to(disk)
    layout.wipe(1)
    assert list(place.data_path.iterdir()) == list(disk.iterdir()) == []
    assert place.data_path.is_symlink() and place.properties_path.exists()


def test_the_file_says_who_runs_the_cluster(planned: Plan, tmp_path: Path) -> None:
    layout = planned(data=tmp_path / "c")
    running = read_cluster_file(tmp_path / "c")
    assert running is not None and running.pid > 0
    layout.close()
    stopped = read_cluster_file(tmp_path / "c")
    assert stopped is not None and stopped.pid == 0


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ({"config": {"min.insync.replica": 1}}, r"min\.insync\.replica is not a known key; did you mean"),
        ({"config": {"num.partitions": "many"}}, r"num\.partitions"),
        ({"config": {"node.id": 5}}, r"node\.id follows from the cluster"),
        ({"config": {"broker.heartbeat.timeout.ms": 100}}, r"must be greater than controller\.heartbeat"),
        ({"controllers": 2}, "log mode has one controller, not 2"),
        ({"mode": "zookeeper", "controllers": 10}, "1 to 9 controllers, not 10"),
        ({"config": {"zookeeper.connect": "a:1"}}, r"zookeeper\.connect is for zookeeper mode"),
        ({"mode": "raft"}, "there is no mode 'raft'"),
        ({"level": "legacy"}, "log mode starts at level heartbeats"),
        ({"level": "magic"}, "there is no feature level 'magic'"),
        ({"brokers": 0}, "1 to 99 brokers, not 0"),
        ({"brokers": 100}, "1 to 99 brokers, not 100"),
    ],
)
def test_what_cannot_be_is_named(planned: Plan, about: dict[str, Any], text: str) -> None:
    with pytest.raises(BadCluster, match=text):
        planned(**about)

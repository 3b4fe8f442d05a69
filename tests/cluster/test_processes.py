"""Real processes: how their ends are told, and that none is left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from epoka import Cluster
from epoka.cluster.errors import NodeFailed
from tests.waiting import wait_until

ORPHANS = """
import sys, time
from epoka import Cluster
with Cluster(brokers=2, processes=True) as cluster:
    cluster.pause(2)
    print(*(cluster.pid(each) for each in (100, 1, 2)), flush=True)
    time.sleep(600)
"""


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_no_node_outlives_a_cluster_that_was_killed() -> None:
    """Not the controller, not a broker, and not even a broker that was paused."""
    parent = subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    nodes = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(nodes) == 3
    assert not any(is_gone(pid) for pid in nodes)
    parent.kill()
    parent.wait()
    wait_until(lambda: all(is_gone(pid) for pid in nodes), "the nodes to be gone")


def test_every_node_is_a_process_of_its_own() -> None:
    with Cluster(brokers=2, processes=True) as cluster:
        pids = [cluster.pid(each) for each in (cluster.controller_id, *cluster.broker_ids)]
        assert len({*pids, os.getpid()}) == 4
    assert all(pid is not None and is_gone(pid) for pid in pids)


def test_a_node_that_dies_by_itself_is_reported_with_its_exit_and_its_log() -> None:
    with Cluster(brokers=1, processes=True) as cluster:
        pid = cluster.pid(1)
        assert pid is not None
        os.kill(pid, signal.SIGABRT)
        wait_until(lambda: cluster.state(1) == "failed", "the death to be noticed")
        with pytest.raises(NodeFailed, match="broker 1 was killed by SIGABRT") as failure:
            cluster.check()
        assert "started as broker" in failure.value.log_tail
        cluster.start(1)
        cluster.check()


def test_a_cluster_with_a_paused_node_may_be_asked_again_and_again() -> None:
    with Cluster(brokers=1, processes=True) as cluster:
        cluster.pause(1)
        for _ in range(500):
            assert cluster.ledger()
        cluster.resume(1)
        cluster.check()


def test_a_data_directory_of_another_broker_is_refused(tmp_path: Path) -> None:
    with Cluster(brokers=2, processes=True, data=tmp_path / "c") as cluster:
        cluster.stop(1)
        cluster.stop(2)
        mine, others = (cluster.layout.place(each).data_path for each in (1, 2))
        before = (others / "meta.properties").read_bytes()
        mine.rename(tmp_path / "aside")
        others.rename(mine)
        with pytest.raises(NodeFailed, match="broker 1 ended with exit code 1") as failure:
            cluster.start(1)
        assert re.search(r"belongs to (node|broker) 2", failure.value.log_tail), failure.value.log_tail
        assert (mine / "meta.properties").read_bytes() == before


def test_a_data_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        with Cluster(brokers=1, processes=True, data=tmp_path / name):
            pass
    ours, theirs = (tmp_path / name / "broker-1" / "data" for name in ("one", "other"))
    ours.rename(tmp_path / "aside")
    theirs.rename(ours)
    with pytest.raises(NodeFailed, match="broker 1 ended with exit code 1") as failure:
        Cluster(brokers=1, processes=True, data=tmp_path / "one").open()
    assert "cluster" in failure.value.log_tail

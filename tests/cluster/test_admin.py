"""The door of a cluster: whoever asks may go away."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from epoka.cluster.admin import SOCKET_NAME, AdminDoor, AdminFailed, ask_admin
from epoka.cluster.cluster import Cluster
from tests.waiting import wait_until


class BusyCluster:
    """Does what it is asked when it is told that it may."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.asked, self.may_answer = threading.Event(), threading.Event()

    @property
    def node_ids(self) -> tuple[int, ...]:
        self.asked.set()
        self.may_answer.wait(30)
        return ()


class FailingCluster(BusyCluster):
    @property
    def node_ids(self) -> tuple[int, ...]:
        raise PermissionError(13, "Permission denied", "/somewhere")


def test_what_the_system_does_not_allow_is_told(tmp_path: Path) -> None:
    with (
        contextlib.closing(AdminDoor(cast(Cluster, FailingCluster(tmp_path)))),
        pytest.raises(AdminFailed, match=r"Permission denied: '/somewhere'"),
    ):
        ask_admin(tmp_path, "list", {})


def test_whoever_goes_before_the_answer_disturbs_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    cluster = BusyCluster(tmp_path)
    with contextlib.closing(AdminDoor(cast(Cluster, cluster))):
        before = threading.active_count()
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(tmp_path / SOCKET_NAME))
            peer.sendall(b'{"verb":"list"}\n')
            assert cluster.asked.wait(30)
        cluster.may_answer.set()
        wait_until(lambda: threading.active_count() == before, "the door to have answered")
    assert not failures

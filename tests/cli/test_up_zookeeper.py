"""`epoka up --mode zookeeper`: brokers, controllers and an ensemble from one command, gone with it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import psutil
import pytest

from epoka.cluster.layout import read_cluster_file
from tests.cli.commands import epoka, first_line, foreground, is_one_line
from tests.cluster.records import read, write
from tests.waiting import wait_until
from tests.zookeeper_missing import MISSING

pytestmark = [
    pytest.mark.xdist_group("epoka up"),
    pytest.mark.skipif(MISSING is not None, reason=MISSING or ""),
]


def servers(up: psutil.Process) -> list[psutil.Process]:
    """The Java processes of the ensemble."""
    return [each for each in up.children(recursive=True) if each.name() == "java"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_brokers_controllers_and_java(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with foreground("up", "--mode", "zookeeper", "--brokers", "1", "--port", "0") as process:
        line = first_line(process)
        found = re.fullmatch(
            r"ready bootstrap=(127\.0\.0\.1:\d+) zookeeper=127\.0\.0\.1:\d+(?: .*)?", line.strip()
        )
        assert found, line
        up = psutil.Process(process.pid)
        assert len(servers(up)) == 1
        everybody = up.children(recursive=True)
        write(found[1], "made-by-asking", [b"x"])
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert (out, err) == ("", "")
        assert not any(each.is_running() for each in everybody)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_status_says_when_the_ensemble_has_no_majority(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    arguments = ("--mode", "zookeeper", "--brokers", "1", "--zookeepers", "3", "--controllers", "2")
    # Without a majority nobody can let a broker go.
    impatient = ("--config", "controlled.shutdown.max.wait.ms=1000")
    with foreground("up", *arguments, *impatient, "--port", "0", "--data", data, "--json") as process:
        first_line(process)
        good = epoka("status", "--data", data)
        assert good.code == 0, good
        assert "zookeeper mode, level fetch-epochs, controller 10" in good.out
        for server in servers(psutil.Process(process.pid))[:2]:
            server.kill()
        wait_until(lambda: epoka("status", "--data", data).code == 1, "the status to be bad")
        bad = epoka("status", "--data", data)
        assert "1 of 3 nodes answer, so it has no majority" in bad.out + bad.err, bad
        assert bad.out or is_one_line(bad)
        everybody = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)
        assert not any(each.is_running() for each in everybody)


def test_a_kept_cluster_goes_on_as_it_was_with_its_ensemble(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    generations = []
    wanted = ("--mode", "zookeeper", "--brokers", "1", "--controllers", "2", "--zookeepers", "3")
    for count, said in enumerate((wanted, ())):
        with foreground("up", *said, "--port", "0", "--data", data) as process:
            found = re.match(r"ready bootstrap=(\S+)", first_line(process))
            assert found
            assert len(servers(psutil.Process(process.pid))) == 3
            known = read_cluster_file(Path(data))
            assert known is not None and sorted(known.controllers) == [100, 101]
            generations.append(epoka("status", "--data", data, "--json").json["brokers"][0]["generation"])
            if count:
                assert read(found[1], "kept", 1) == [b"a"]
            else:
                write(found[1], "kept", [b"a"])
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
    assert generations[1] > generations[0]
